//! The executor on real threads: memory accesses, locks and waits take their real time.
//!
//! A CPU's clock is the CPU time of its thread, so other programs do not count. A CPU that waits spins, so waiting
//! counts. Reading that clock takes longer than an allocation. The clock is therefore read only every few dozen
//! microseconds; events between two readings have the time of the earlier one, and single allocations are not timed.
//! Charges are ignored, and nothing is reclaimed.
//!
//! The engine's events are counted separately for each CPU, since shared counters would add contention.

mod clock;
pub(crate) mod run;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use clock::{HERE, Here, READ_EVERY, SPIN};
use freehold::base::{CpuId, Pfn};
use freehold::platform::host::CheckedSpinLock;
use freehold::platform::{Event, Patience, Platform, Probe};
use freehold::stats::{Counter, Counters, Counts};

use super::cpu::PS_PER_NS;
use super::executor::{Executor, Step};
use super::memory::Model;
use super::window::Window;

/// Polls of a waiting CPU between two readings of the clock.
const LOOKS: u32 = 64;
/// Readings of a waiting CPU before it yields to other threads, one of which may be the one it waits for.
const READINGS: u32 = 64;
/// A counter that one thread increments and others may read.
#[derive(Debug, Default)]
pub(crate) struct OwnCounter(AtomicU64);

impl Counter for OwnCounter {
    #[inline]
    fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters and clocks of one CPU at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    counts: Counts,
    /// CPU's own clock, in picoseconds.
    own: u64,
    /// Wall-clock time.
    wall: Instant,
}

/// State of one CPU, which only that CPU writes, except for `is_woken`.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PerCpu {
    counters: Counters<OwnCounter>,
    /// Begin and end of its measured time.
    measured: Mutex<[Option<Moment>; 2]>,
    /// Whether another CPU ended its wait.
    is_woken: AtomicBool,
}

impl PerCpu {
    fn lock_moments(&self) -> MutexGuard<'_, [Option<Moment>; 2]> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Probe with separate counters for each CPU.
#[derive(Debug)]
pub(crate) struct Listeners(Box<[PerCpu]>);

impl Probe for Listeners {
    #[inline]
    fn report(&self, event: Event) {
        self.0[HERE.with(|here| usize::from(here.cpu.get()))].counters.report(event);
    }
}

/// Measured time of one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuMeasurement {
    /// Counters of the engine on that CPU.
    pub counts: Counts,
    /// Length of the measured time by the CPU's own clock, in picoseconds.
    pub span: u64,
    /// Ratio of wall-clock time to the CPU's own time; 1 on a CPU that ran nothing else.
    pub stretch: f64,
}

/// CPUs that are threads.
#[derive(Debug)]
pub(crate) struct Threads {
    window: Window,
    cpus: Listeners,
}

impl Threads {
    /// Creates the platform for `cpus` CPUs. Each is measured in this window of its own clock.
    pub(crate) fn new(cpus: u16, window: Window) -> Threads {
        LazyLock::force(&SPIN);
        Threads { window, cpus: Listeners((0..cpus).map(|_| PerCpu::default()).collect()) }
    }

    /// Makes the calling thread run as this CPU, whose clock starts now.
    pub(crate) fn start(&self, cpu: u16) {
        HERE.with(|here| here.start(cpu));
    }

    /// Returns the counters of the engine on a CPU so far.
    pub(crate) fn counts(&self, cpu: u16) -> Counts {
        self.cpus.0[usize::from(cpu)].counters.counts()
    }

    /// Returns the measured time of a CPU; `None` if the CPU stopped before the end of its window.
    pub(crate) fn measurement(&self, cpu: u16) -> Option<CpuMeasurement> {
        let [Some(begin), Some(end)] = *self.cpus.0[usize::from(cpu)].lock_moments() else { return None };
        let span = end.own - begin.own;
        let wall = end.wall.duration_since(begin.wall).as_nanos() as f64 * PS_PER_NS as f64;
        Some(CpuMeasurement { counts: end.counts.since(&begin.counts), span, stretch: wall / span as f64 })
    }

    #[inline]
    fn step(&self) {
        HERE.with(|here| {
            if here.step() {
                self.read(here);
            }
        });
    }

    /// Reads the clock, and records the moments at which the measured time begins and ends.
    #[cold]
    fn read(&self, here: &Here) -> u64 {
        let before = here.now.get();
        let now = here.read();
        for (at, edge) in [self.window.begin, self.window.end].into_iter().enumerate() {
            if before < edge && edge <= now || edge == 0 && before == 0 {
                let own = &self.cpus.0[usize::from(here.cpu.get())];
                let moment = Moment { counts: own.counters.counts(), own: now, wall: Instant::now() };
                own.lock_moments()[at].get_or_insert(moment);
            }
        }
        now
    }
}

impl Platform for Threads {
    type Lock = CheckedSpinLock;
    type Probe = Listeners;

    #[inline]
    fn probe(&self) -> &Listeners {
        &self.cpus
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(HERE.with(|here| here.cpu.get()))
    }

    fn relax(&self) -> Patience {
        thread::yield_now();
        Patience::GiveUp
    }
}

impl Executor for Threads {
    #[inline]
    fn now(&self) -> u64 {
        HERE.with(|here| here.now.get())
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.step();
        self.now() >= self.window.end
    }

    fn work(&self, picoseconds: u64) {
        SPIN.spin(picoseconds);
        if picoseconds >= READ_EVERY {
            HERE.with(|here| self.read(here));
        }
    }

    fn wait(&self) {
        let own = &self.cpus.0[usize::from(self.cpu().0)];
        for reading in 1.. {
            for _ in 0..LOOKS {
                if own.is_woken.swap(false, Ordering::Acquire) {
                    return;
                }
                spin_loop();
            }
            if HERE.with(|here| self.read(here)) >= self.window.end {
                return;
            }
            if reading % READINGS == 0 {
                thread::yield_now();
            }
        }
    }

    fn wake(&self, cpu: CpuId) {
        self.cpus.0[cpu.index()].is_woken.store(true, Ordering::Release);
    }

    fn take_turn(&self) {}

    #[inline]
    fn touch(&self, _pfn: Pfn) {}

    #[inline]
    fn charge_times(&self, _step: Step, _times: u64) {
        self.step();
    }

    fn stopwatch(&self) -> Option<u64> {
        None
    }

    fn memory(&self) -> Option<&Model> {
        None
    }
}
