//! Live part of a recording: from the setup to the last page of the rings.
//!
//! The steps, in order:
//!
//! 1. Create everything that needs memory (spool, instance, rings, buffers).
//! 2. Switch tracing on.
//! 3. Scan the page flags and read the texts of `/proc`. The *start moment* is the end of this scan.
//! 4. Run the command, or wait.
//! 5. Scan and read again.
//! 6. Switch tracing off, empty the rings, and remove the instance.
//!
//! The result is a [`Run`]: raw bytes and times, which [`assemble`](crate::assemble) decodes after the run.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use freehold_trace::facts::FlightFacts;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use crate::clock::{self, nanoseconds};
use crate::command::{Program, Running};
use crate::drain::{CpuPages, Drain, Rings};
use crate::error::CaptureError;
use crate::events::{self, Formats};
use crate::heaps::Heaps;
use crate::interrupt::Interrupts;
use crate::machine::Machine;
use crate::observe::{Observer, State, Texts};
use crate::plan::{Plan, Watch};
use crate::sample::Readings;
use crate::settings;
use crate::spool::Spool;
use crate::tasks::Tasks;
use crate::tracefs::{Instance, Tracefs};
use crate::wait;

/// Time between two readings of vmstat and buddyinfo.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two readings of the command's heaps.
const HEAPS_INTERVAL: Duration = Duration::from_millis(250);

/// Results of the live part.
#[derive(Debug)]
pub(crate) struct Run {
    /// Spool with the raw bytes.
    pub spool: Arc<Spool>,
    /// Raw pages of each CPU's ring.
    pub pages: Vec<CpuPages>,
    /// Formats of the pages and events.
    pub formats: Arc<Formats>,
    /// Memory at the start.
    pub start: Opening,
    /// Memory at the end.
    pub end: State,
    /// Readings of vmstat and buddyinfo.
    pub samples: Readings,
    /// Heaps of the command and its child processes.
    pub heaps: Heaps,
    /// Settings at the start.
    pub settings: BTreeMap<String, String>,
    /// Tasks that existed at the start.
    pub tasks: Tasks,
    /// File name of the command.
    pub command: Option<String>,
    /// Exit status of the command; `None` if there was none or it did not end.
    pub status: Option<ExitStatus>,
    /// Whether the command ended by itself, and not after the time limit or an interrupt.
    pub ended_by_itself: bool,
    /// Events that the kernel dropped.
    pub lost: u64,
    /// Triggers of a flight recorder.
    pub flight: Option<FlightFacts>,
    /// Notes for the reader of the recording.
    pub notes: Vec<String>,
}

/// State of memory at the start.
#[derive(Debug)]
pub(crate) enum Opening {
    /// The state was scanned, before the first event that counts.
    Scanned(State),
    /// The state was not scanned. It is rebuilt from the state at the end and the events.
    Unseen {
        /// Time of the clock at which the recording starts.
        moment: u64,
        /// Zones at that time, and pageblock types at the end.
        texts: Texts,
    },
}

impl Opening {
    /// Returns the time of the clock that the start state describes.
    pub(crate) fn moment(&self) -> u64 {
        match self {
            Opening::Scanned(state) => state.scan.end,
            Opening::Unseen { moment, .. } => *moment,
        }
    }

    /// Returns the texts of `/proc` at that time.
    pub(crate) fn texts(&self) -> &Texts {
        match self {
            Opening::Scanned(state) => &state.texts,
            Opening::Unseen { texts, .. } => texts,
        }
    }
}

/// Runs the live part of `plan`.
///
/// # Errors
/// If a step fails. The instance and the spool are gone then.
pub(crate) fn run(
    plan: &Plan,
    program: Option<&Program>,
    machine: &Machine,
    ram: &[(u64, u64)],
    interrupts: &Interrupts,
    watch: &mut dyn Watch,
) -> Result<Run, CaptureError> {
    let mut stage = Stage::prepare(plan, machine, ram)?;
    stage.instance.start()?;
    watch.scanning();
    let at_start = clock::own_cpu_time();
    let start = stage.observer.observe(interrupts)?;
    let before_run = clock::own_cpu_time();
    let command = program.map(Program::start).transpose()?;
    if let Some(command) = &command {
        stage.tasks.set_command(command.pid());
    }
    let ended_by_itself = stage.wait(plan.duration, command.as_ref(), interrupts, watch)?;
    interrupts.obey();
    watch.finishing();
    let after_run = clock::own_cpu_time();
    let end = stage.observer.observe(interrupts)?;
    stage.instance.stop()?;
    let between_scans = after_run - before_run;
    stage.notes.push(format!(
        "CPU time of the recorder: {} ms between the scans, {} ms in the scans",
        between_scans / 1_000_000,
        (clock::own_cpu_time() - at_start - between_scans) / 1_000_000
    ));
    let pages = stage.drain.finish()?;
    let counts = ring_counts(&stage.instance, &machine.cpus)?;
    drop(stage.instance);
    drop(stage.tracefs);
    let _ = munlockall();
    let status = command.map(|command| command.end(interrupts)).transpose()?.flatten();
    Ok(Run {
        spool: stage.observer.spool,
        pages,
        formats: Arc::new(stage.formats),
        start: Opening::Scanned(start),
        end,
        samples: stage.observer.sampler.readings,
        heaps: stage.heaps,
        settings: stage.settings,
        tasks: stage.tasks,
        command: program.map(Program::name),
        status,
        ended_by_itself,
        lost: counts.lost(),
        flight: None,
        notes: stage.notes,
    })
}

/// Everything that is needed while events arrive, created beforehand.
struct Stage {
    // The drain holds files below the instance, and so must be dropped before it.
    drain: Drain,
    instance: Instance,
    // Unmounts tracefs if it was mounted here, after the instance is gone.
    tracefs: Tracefs,
    observer: Observer,
    formats: Formats,
    settings: BTreeMap<String, String>,
    tasks: Tasks,
    cpus: Vec<u16>,
    heaps: Heaps,
    notes: Vec<String>,
}

impl Stage {
    fn prepare(plan: &Plan, machine: &Machine, ram: &[(u64, u64)]) -> Result<Stage, CaptureError> {
        let spool = Arc::new(Spool::create(&plan.spool)?);
        let tracefs = Tracefs::find()?;
        let instance = Instance::create(&tracefs)?;
        // A new instance is switched on.
        instance.stop()?;
        instance.write("trace_clock", "mono")?;
        // The task events have the names that ftrace would collect at each context switch.
        let _ = instance.write("options/record-cmd", "0");
        let formats = events::enable(&instance, &plan.events, plan.stacks)?;
        let wanted = plan.ring_kib.unwrap_or_else(|| machine.ring_kib());
        let ring_kib = instance.size_ring(wanted)?;
        let rings = Rings {
            cpus: machine.cpus.clone(),
            layout: formats.page,
            ring_bytes: usize::try_from(ring_kib).unwrap_or(usize::MAX).saturating_mul(1024),
        };
        let observer = Observer::open(ram.to_vec(), Arc::clone(&spool))?;
        let settings = settings::read();
        let mut tasks = Tasks::survey();
        let drain = Drain::start(&instance, &rings, Arc::clone(&spool))?;
        for thread in own_threads() {
            tasks.add_recorder_thread(thread);
        }
        // The buffers must not be swapped or reclaimed while memory pressure is recorded.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
        let mut notes = Vec::new();
        if ring_kib < wanted {
            notes.push(format!(
                "the kernel allocated a ring buffer of {ring_kib} KiB for each CPU instead of {wanted} KiB"
            ));
        }
        if !spool.is_direct() {
            notes.push(
                "the spool was written through the page cache, so the recorder's writes add to the page cache"
                    .to_owned(),
            );
        }
        notes.extend(formats.notes.iter().cloned());
        if observer.sampler.readings.pressure_names.is_empty() {
            notes.push("this kernel has no pressure stall information (PSI)".to_owned());
        }
        let cpus = machine.cpus.clone();
        Ok(Stage { drain, instance, tracefs, observer, formats, settings, tasks, cpus, heaps: Heaps::default(), notes })
    }

    /// Waits for the command, the time limit, a signal, or a failure of the drain, whichever comes first. Takes samples
    /// in the meantime. Returns whether the command ended by itself.
    fn wait(
        &mut self,
        duration: Option<Duration>,
        command: Option<&Running>,
        interrupts: &Interrupts,
        watch: &mut dyn Watch,
    ) -> Result<bool, CaptureError> {
        let start = clock::now();
        let end = duration.map(|duration| start.saturating_add(nanoseconds(duration)));
        let mut next = start + nanoseconds(SAMPLE_INTERVAL);
        let mut ask = command.map_or(u64::MAX, |_| start);
        loop {
            let until = end.unwrap_or(u64::MAX).min(next).min(ask);
            let fds = [Some(interrupts.readable()), command.map(Running::ended)];
            let [is_interrupted, has_ended] = wait::until(until, fds)?;
            if is_interrupted || has_ended || self.drain.has_failed() {
                return Ok(has_ended && !is_interrupted);
            }
            let now = clock::now();
            if end.is_some_and(|end| now >= end) {
                return Ok(false);
            }
            if let Some(command) = command
                && now >= ask
            {
                self.heaps.note(now, watch.heaps(command.pid()));
                ask = now + nanoseconds(HEAPS_INTERVAL);
            }
            if now >= next {
                self.observer.sampler.take()?;
                next += nanoseconds(SAMPLE_INTERVAL);
                if watch.wants_progress() {
                    let counts = ring_counts(&self.instance, &self.cpus)?;
                    watch.running(Duration::from_nanos(now - start), counts.events, counts.lost());
                }
            }
        }
    }
}

/// Counts of the kernel for the rings of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingCounts {
    /// Events that were read.
    events: u64,
    /// Events that were overwritten before they were read.
    overwritten: u64,
    /// Events that were not written to a ring.
    pub dropped: u64,
}

/// Reads the counts of all CPUs.
///
/// # Errors
/// If the instance is gone.
pub(crate) fn ring_counts(instance: &Instance, cpus: &[u16]) -> Result<RingCounts, CaptureError> {
    let mut counts = RingCounts::default();
    for cpu in cpus {
        counts.add(&instance.read(&format!("per_cpu/cpu{cpu}/stats"))?);
    }
    Ok(counts)
}

impl RingCounts {
    /// Returns the number of events that were not read.
    fn lost(self) -> u64 {
        self.overwritten + self.dropped
    }

    /// Adds the text of one CPU's `stats`.
    fn add(&mut self, stats: &str) {
        for (name, value) in stats.lines().filter_map(|line| line.split_once(": ")) {
            let value = value.trim().parse::<u64>().unwrap_or(0);
            match name {
                "read events" => self.events += value,
                "overrun" => self.overwritten += value,
                "commit overrun" | "dropped events" => self.dropped += value,
                _ => {}
            }
        }
    }
}

/// Returns the ids of this process's threads.
pub(crate) fn own_threads() -> Vec<u32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return vec![std::process::id()] };
    threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_counters_are_summed() {
        let stats = "entries: 3\noverrun: 2\ncommit overrun: 1\nbytes: 9\noldest event ts:  1.5\ndropped events: 4\nread events: 10\n";
        let mut counts = RingCounts::default();
        counts.add(stats);
        counts.add(stats);
        assert_eq!(counts, RingCounts { events: 20, overwritten: 4, dropped: 10 });
    }

    #[test]
    fn own_thread_is_listed() {
        assert!(own_threads().contains(&std::process::id()));
    }
}
