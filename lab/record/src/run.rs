//! The live part of a recording: from the first look at the machine to the last page of the rings.
//!
//! In order: make everything that needs memory (spool, instance, rings, buffers); switch tracing on; scan
//! the page flags and read the texts of `/proc` (the *start moment* is the end of that scan); run the
//! command, or wait; scan and read again; switch tracing off; empty the rings; remove the instance. What is left is a
//! [`Run`]: raw bytes and times, decoded by [`assemble`](crate::assemble) when nothing runs any more.

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

/// Time between two questions for the command's heaps.
const HEAPS_INTERVAL: Duration = Duration::from_millis(250);

/// What the live part leaves behind.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where the raw bytes lie.
    pub spool: Arc<Spool>,
    /// The raw pages of each CPU's ring.
    pub pages: Vec<CpuPages>,
    /// How to read them.
    pub formats: Arc<Formats>,
    /// Memory at the start.
    pub start: Opening,
    /// Memory at the end.
    pub end: State,
    /// Readings of vmstat and buddyinfo.
    pub samples: Readings,
    /// Heaps of the command, and of processes below it.
    pub heaps: Heaps,
    /// Settings at the start.
    pub settings: BTreeMap<String, String>,
    /// Tasks that existed at the start.
    pub tasks: Tasks,
    /// The command's file name.
    pub command: Option<String>,
    /// How the command ended; `None` if there was none or it does not end.
    pub status: Option<ExitStatus>,
    /// Events that the kernel dropped.
    pub lost: u64,
    /// What made a flight recorder keep it.
    pub flight: Option<FlightFacts>,
    /// What the reader of the recording should know.
    pub notes: Vec<String>,
}

/// How memory at the start is known.
#[derive(Debug)]
pub(crate) enum Opening {
    /// It was read, before the first event that counts.
    Scanned(State),
    /// It was not looked at: the events since lead back to it from the state at the end.
    Unseen {
        /// The clock when the recording starts.
        moment: u64,
        /// Zones at that moment; pageblock types of the end.
        texts: Texts,
    },
}

impl Opening {
    /// The clock at the moment that the start state describes.
    pub(crate) fn moment(&self) -> u64 {
        match self {
            Opening::Scanned(state) => state.scan.end,
            Opening::Unseen { moment, .. } => *moment,
        }
    }

    /// What `/proc` said then.
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
/// Whatever goes wrong; the instance and the spool are gone then.
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
    stage.wait(plan.duration, command.as_ref(), interrupts, watch)?;
    interrupts.obey();
    watch.finishing();
    let after_run = clock::own_cpu_time();
    let end = stage.observer.observe(interrupts)?;
    stage.instance.stop()?;
    let between_scans = after_run - before_run;
    stage.notes.push(format!(
        "the recorder itself used {} ms of CPU time between the scans, and {} ms in them",
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
        lost: counts.lost(),
        flight: None,
        notes: stage.notes,
    })
}

/// Everything that is needed while events come in, made beforehand.
struct Stage {
    // The drain holds files below the instance, and so must be dropped before it.
    drain: Drain,
    instance: Instance,
    // Unmounts what it mounted, when the instance is gone.
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
        // A new instance is switched on already.
        instance.stop()?;
        instance.write("trace_clock", "mono")?;
        // The names that ftrace would collect at each context switch come with the task events.
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
        // Our buffers must not be swapped or reclaimed while we record memory pressure.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
        let mut notes = Vec::new();
        if ring_kib < wanted {
            notes.push(format!("the kernel granted a ring of {ring_kib} KiB a CPU instead of {wanted}"));
        }
        if !spool.is_direct() {
            notes.push(
                "the spool went through the page cache, so the recorder's writes add to the page cache".to_owned(),
            );
        }
        notes.extend(formats.notes.iter().cloned());
        if observer.sampler.readings.pressure_names.is_empty() {
            notes.push("this kernel tells no pressure (PSI)".to_owned());
        }
        let cpus = machine.cpus.clone();
        Ok(Stage { drain, instance, tracefs, observer, formats, settings, tasks, cpus, heaps: Heaps::default(), notes })
    }

    /// Waits for the command, the time, or a signal, whichever comes first; takes samples meanwhile.
    fn wait(
        &mut self,
        duration: Option<Duration>,
        command: Option<&Running>,
        interrupts: &Interrupts,
        watch: &mut dyn Watch,
    ) -> Result<(), CaptureError> {
        let start = clock::now();
        let end = duration.map(|duration| start.saturating_add(nanoseconds(duration)));
        let mut next = start + nanoseconds(SAMPLE_INTERVAL);
        let mut ask = command.map_or(u64::MAX, |_| start);
        loop {
            let until = end.unwrap_or(u64::MAX).min(next).min(ask);
            let fds = [Some(interrupts.readable()), command.map(Running::ended)];
            if wait::until(until, fds)?.contains(&true) || self.drain.has_failed() {
                return Ok(());
            }
            let now = clock::now();
            if end.is_some_and(|end| now >= end) {
                return Ok(());
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

/// What the kernel counted in the rings of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingCounts {
    /// Events that were read.
    events: u64,
    /// Events that were written over before somebody read them.
    overwritten: u64,
    /// Events that never got into a ring.
    pub dropped: u64,
}

/// Reads the counts of all CPUs.
///
/// # Errors
/// When the instance is gone.
pub(crate) fn ring_counts(instance: &Instance, cpus: &[u16]) -> Result<RingCounts, CaptureError> {
    let mut counts = RingCounts::default();
    for cpu in cpus {
        counts.add(&instance.read(&format!("per_cpu/cpu{cpu}/stats"))?);
    }
    Ok(counts)
}

impl RingCounts {
    /// Events that nobody has read.
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

/// The ids of this process's threads.
pub(crate) fn own_threads() -> Vec<u32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return vec![std::process::id()] };
    threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_what_the_kernel_counted() {
        let stats = "entries: 3\noverrun: 2\ncommit overrun: 1\nbytes: 9\noldest event ts:  1.5\ndropped events: 4\nread events: 10\n";
        let mut counts = RingCounts::default();
        counts.add(stats);
        counts.add(stats);
        assert_eq!(counts, RingCounts { events: 20, overwritten: 4, dropped: 10 });
    }

    #[test]
    fn this_thread_is_one_of_ours() {
        assert!(own_threads().contains(&std::process::id()));
    }
}
