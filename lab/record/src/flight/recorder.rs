//! The flight recorder itself: its rings, its readings of the kernel's counters, and the writing of a recording.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use freehold_trace::Writer;
use freehold_trace::facts::FlightFacts;
use rustix::fs::{FlockOperation, flock};
use rustix::mm::{MlockAllFlags, mlockall};

use super::klog::KernelLog;
use super::plan::{FlightPlan, SAMPLE_INTERVAL};
use super::trigger::{Gauges, Trigger, trigger_facts};
use crate::assemble::Assembler;
use crate::clock::{self, nanoseconds};
use crate::drain::{CpuPages, CpuRing, Rings};
use crate::error::CaptureError;
use crate::events::{self, Formats};
use crate::heaps::Heaps;
use crate::interrupt::Interrupts;
use crate::machine::Machine;
use crate::observe::{Observer, State, Texts};
use crate::plan::{Summary, Watch};
use crate::run::{Opening, Run, own_threads, ring_counts};
use crate::sample::{Reading, Readings};
use crate::settings;
use crate::spool::Spool;
use crate::tasks::Tasks;
use crate::tracefs::{Instance, Tracefs};
use crate::zones;

/// Default bytes of ring over all CPUs: at most [`MEMORY_MAX`], and at most one part in [`MEMORY_SHARE`] of the
/// machine's memory.
const MEMORY_MAX: u64 = 96 << 20;
const MEMORY_SHARE: u64 = 64;

/// Contents of `/proc` at one time.
#[derive(Debug)]
struct Past {
    reading: Reading,
    zoneinfo: String,
}

/// A flight recorder that is set up.
pub(super) struct Recorder<'a> {
    plan: &'a FlightPlan,
    machine: &'a Machine,
    // The rings are files below the instance, and so must be dropped before it.
    rings: Vec<CpuRing>,
    instance: Instance,
    // Unmounts tracefs if it was mounted here, after the instance is gone.
    _tracefs: Tracefs,
    // The lock that makes this the machine's only flight recorder.
    _claim: File,
    observer: Observer,
    formats: Arc<Formats>,
    gauges: Gauges,
    log: Option<KernelLog>,
    /// The last readings, over slightly more than the window.
    past: VecDeque<Past>,
    /// Time of the clock since which every event has been written to the rings.
    recording_since: u64,
    /// Number of events that were dropped (not overwritten) before that time.
    dropped: u64,
    started: u64,
    /// KiB of ring for each CPU.
    pub ring_kib: u64,
    /// The command that runs in the meantime: its process id and its name.
    pub command: Option<(u32, String)>,
    notes: Vec<String>,
}

impl<'a> Recorder<'a> {
    /// Creates everything that needs memory.
    ///
    /// # Errors
    /// If a part cannot be created, in particular if another flight recorder runs. Nothing remains then.
    pub(super) fn prepare(plan: &'a FlightPlan, machine: &'a Machine) -> Result<Recorder<'a>, CaptureError> {
        let spool = Arc::new(Spool::create(&plan.spool)?);
        let tracefs = Tracefs::find()?;
        let wanted_kib = ring_kib(plan.memory, machine)?;
        let claim = claim(&tracefs)?;
        let instance = Instance::create(&tracefs)?;
        // A new instance is switched on.
        instance.stop()?;
        instance.write("trace_clock", "mono")?;
        instance.write("options/overwrite", "1")?;
        let _ = instance.write("options/record-cmd", "0");
        let formats = events::enable(&instance, &plan.events, plan.stacks)?;
        let ring_kib = instance.size_ring(wanted_kib)?;
        let sizes = Rings {
            cpus: machine.cpus.clone(),
            layout: formats.page,
            ring_bytes: usize::try_from(ring_kib).unwrap_or(usize::MAX).saturating_mul(1024),
        };
        let rings = machine.cpus.iter().map(|&cpu| CpuRing::open(&instance, cpu, &sizes)).collect::<Result<_, _>>()?;
        let observer = Observer::open(zones::ram(machine)?, spool)?;
        let gauges = Gauges::find(&plan.triggers, &observer.sampler.readings)?;
        let log = plan.triggers.contains(&Trigger::Failure).then(KernelLog::open).transpose()?;
        let notes = formats.notes.clone();
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
        Ok(Recorder {
            plan,
            machine,
            rings,
            instance,
            _tracefs: tracefs,
            _claim: claim,
            observer,
            formats: Arc::new(formats),
            gauges,
            log,
            past: VecDeque::new(),
            recording_since: u64::MAX,
            dropped: 0,
            started: clock::now(),
            ring_kib,
            command: None,
            notes,
        })
    }

    /// Starts to keep events.
    ///
    /// # Errors
    /// If the instance is gone.
    pub(super) fn start(&mut self) -> Result<(), CaptureError> {
        self.dropped = ring_counts(&self.instance, &self.machine.cpus)?.dropped;
        self.instance.start()?;
        self.recording_since = clock::now();
        Ok(())
    }

    /// Reads the kernel's counters and its log. Returns the triggers that fired since the last call.
    ///
    /// # Errors
    /// If the counters can no longer be read.
    pub(super) fn look(&mut self) -> Result<Vec<Trigger>, CaptureError> {
        self.observer.sampler.take()?;
        let reading = self.observer.sampler.readings.all.pop().expect("a reading was just taken");
        let zoneinfo = self.observer.sampler.zoneinfo()?;
        let before = self.past.back().map(|past| &past.reading);
        let mut fired: Vec<_> = before.into_iter().flat_map(|before| self.gauges.between(before, &reading)).collect();
        if self.log.as_mut().is_some_and(KernelLog::tells_failure) {
            fired.push(Trigger::Failure);
        }
        let kept = nanoseconds(self.plan.window) + 2 * SAMPLE_INTERVAL;
        let oldest = reading.time.saturating_sub(kept);
        self.past.push_back(Past { reading, zoneinfo });
        while self.past.front().is_some_and(|past| past.reading.time < oldest) {
            self.past.pop_front();
        }
        Ok(fired)
    }

    /// Writes the kept events to `path`. Events are kept again from the time at which the rings were read.
    ///
    /// # Errors
    /// If a step fails. No file of this name remains then.
    pub(super) fn write(
        &mut self,
        path: &Path,
        triggers: &[(Trigger, u64)],
        interrupts: &Interrupts,
    ) -> Result<Summary, CaptureError> {
        let writer = Writer::create(path)?;
        let ram = zones::ram(self.machine)?;
        let mut run = self.cut(&ram, triggers, interrupts)?;
        let facts = self.machine.facts(ram);
        let mut watch = NoWatch;
        let assembler = Assembler::new(&mut run, interrupts, &mut watch)?;
        let written = assembler.write(writer, facts, self.plan.names, self.plan.identity);
        drop(run);
        give_memory_back();
        written
    }

    /// Starts to keep events again if tracing was switched off from outside, and returns whether it was. Earlier events
    /// are discarded then, since it is not known how long tracing was off.
    ///
    /// # Errors
    /// If the instance was removed from outside.
    pub(super) fn resume(&mut self) -> Result<bool, CaptureError> {
        let was_off = !self.is_recording()?;
        if was_off {
            self.start()?;
        }
        Ok(was_off)
    }

    fn is_recording(&self) -> Result<bool, CaptureError> {
        Ok(self.instance.read("tracing_on")?.trim() == "1")
    }

    /// Reads the rings, and the state of memory after them.
    fn cut(
        &mut self,
        ram: &[(u64, u64)],
        triggers: &[(Trigger, u64)],
        interrupts: &Interrupts,
    ) -> Result<Run, CaptureError> {
        let spool = Arc::new(Spool::create(&self.plan.spool)?);
        self.observer.look_at(ram.to_vec(), Arc::clone(&spool))?;
        let end = self.observer.observe_once(interrupts)?;
        let last = self.observer.sampler.readings.all.pop().expect("the observer takes a reading for each state");
        let was_off = !self.is_recording()?;
        self.instance.stop()?;
        let since = self.recording_since;
        let pages = self.empty(&spool);
        let lost = ring_counts(&self.instance, &self.machine.cpus).map(|counts| counts.dropped - self.dropped);
        self.start()?;
        let (pages, lost) = (pages?, lost?);
        let (start, samples) = self.opening(&end, since, &pages, last);
        let flight = FlightFacts {
            triggers: trigger_facts(triggers, start.moment()),
            asked: nanoseconds(self.plan.window),
            ..FlightFacts::default()
        };
        let mut notes = self.notes.clone();
        notes.push(self.window_note(&start, &end, &pages, triggers));
        if was_off {
            notes.push("events of the last second are missing: another program switched tracing off".to_owned());
        }
        notes.push(format!(
            "CPU time of the flight recorder: {} ms in {} s",
            clock::own_cpu_time() / 1_000_000,
            (clock::now() - self.started) / 1_000_000_000
        ));
        let mut tasks = Tasks::survey_below(self.command.as_ref().map(|(pid, _)| *pid));
        own_threads().into_iter().for_each(|thread| tasks.add_recorder_thread(thread));
        Ok(Run {
            spool,
            pages,
            formats: Arc::clone(&self.formats),
            start,
            end,
            samples,
            heaps: Heaps::default(),
            settings: settings::read(),
            tasks,
            command: self.command.as_ref().map(|(_, name)| name.clone()),
            status: None,
            ended_by_itself: false,
            lost,
            flight: Some(flight),
            notes,
        })
    }

    /// Reads all events in the rings, which must be stopped.
    fn empty(&mut self, spool: &Spool) -> Result<Vec<CpuPages>, CaptureError> {
        let pages = self.rings.iter_mut().map(|ring| ring.visit(spool).and_then(|_| ring.take(spool))).collect();
        self.rings.iter_mut().for_each(CpuRing::forget);
        pages
    }

    /// Returns the start of the recording, and the readings since. A recording starts at a reading, so that the zones
    /// are known at that time. It is the first reading from which on no event is missing, and which is not before the
    /// window.
    fn opening(&self, end: &State, since: u64, pages: &[CpuPages], last: Reading) -> (Opening, Readings) {
        let whole_from = pages.iter().map(|pages| pages.whole_from).max().unwrap_or(0);
        let asked = end.scan.end.saturating_sub(nanoseconds(self.plan.window));
        let bound = whole_from.max(asked).max(since);
        let first = self.past.partition_point(|past| past.reading.time < bound);
        let is_there = self.past.get(first).is_some_and(|past| past.reading.time < end.scan.end);
        let (moment, zoneinfo) = match self.past.get(first).filter(|_| is_there) {
            Some(past) => (past.reading.time, past.zoneinfo.clone()),
            // The rings hold less than the time between two readings.
            None => (bound.min(end.scan.end - 1), end.texts.zoneinfo.clone()),
        };
        let texts = Texts { zoneinfo, pagetypeinfo: end.texts.pagetypeinfo.clone(), slabinfo: String::new() };
        let readings = self.past.range(first.min(self.past.len())..).map(|past| past.reading.clone());
        let all = readings.filter(|reading| reading.time <= end.scan.end).chain([last]).collect();
        (Opening::Unseen { moment, texts }, Readings { all, ..self.observer.sampler.readings.clone() })
    }

    /// Returns a note on the kept time and its trigger.
    fn window_note(&self, start: &Opening, end: &State, pages: &[CpuPages], triggers: &[(Trigger, u64)]) -> String {
        let (trigger, time) = triggers[0];
        let moment = start.moment();
        let kept = seconds_between(moment, end.scan.end);
        let is_short = Duration::from_secs_f64(kept) + Duration::from_nanos(2 * SAMPLE_INTERVAL) < self.plan.window;
        let why = if pages.iter().any(|pages| pages.whole_from > moment.saturating_sub(2 * SAMPLE_INTERVAL)) {
            "; the window is short because older events were overwritten (--memory sets the size of the buffers)"
        } else {
            "; the window is short because the recorder had just started, written a recording, or found tracing \
             switched off"
        };
        format!(
            "flight recorder: trigger {trigger}, noticed {:.1} s after the start; all events since the start are \
             present, {kept:.1} s before the end{}",
            seconds_between(moment, time),
            if is_short { why } else { "" }
        )
    }
}

fn seconds_between(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

/// Makes this the machine's only flight recorder, as long as the returned file is open. The kernel releases the lock
/// when the process ends.
fn claim(tracefs: &Tracefs) -> Result<File, CaptureError> {
    let path = tracefs.root.join("instances");
    let folder = File::open(&path).map_err(CaptureError::kernel(&path))?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(CaptureError::Occupied),
        Err(errno) => Err(CaptureError::kernel(&path)(errno.into())),
    }
}

/// Returns the KiB of ring for each CPU.
fn ring_kib(memory: Option<u64>, machine: &Machine) -> Result<u64, CaptureError> {
    let memory = memory.unwrap_or(MEMORY_MAX.min(machine.memory_bytes / MEMORY_SHARE));
    // Rings are allocated at once and outside of control group limits, so a wrong number could exhaust the machine's
    // memory.
    if memory > machine.memory_bytes / 2 {
        return Err(CaptureError::TooMuchMemory { asked: memory >> 20, whole: machine.memory_bytes >> 20 });
    }
    Ok((memory / 1024 / machine.cpus.len().max(1) as u64).max(64))
}

/// Returns to the kernel the memory that writing a recording needed. The C library would keep most of it.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` has no preconditions: it takes no pointer, is thread-safe, and releases only free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Observer that ignores the progress while a flight recorder writes.
struct NoWatch;

impl Watch for NoWatch {
    fn wants_progress(&self) -> bool {
        false
    }

    fn scanning(&mut self) {}

    fn finishing(&mut self) {}

    fn running(&mut self, _elapsed: Duration, _events: u64, _lost: u64) {}

    fn writing(&mut self, _decoded: u64) {}
}
