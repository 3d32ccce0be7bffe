//! The executor on real threads: memory is touched, locks are taken and time passes as they really do.
//!
//! A CPU's clock is the CPU time of its thread, so that other programs do not count; and whoever waits spins, so that
//! waiting does. Reading that clock takes longer than an allocation. So it is read now and then, every few dozen
//! microseconds, and what happens in between happens at the time of the last reading; single allocations are not timed.
//! Charges are not for this executor, and nothing is reclaimed.
//!
//! The engine's events are counted for each CPU by itself: counters that CPUs share would be contention that was not
//! there before.

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

/// Looks of a CPU that waits, between two readings of the clock.
const LOOKS: u32 = 64;
/// Readings of a CPU that waits, before it lets another thread run: perhaps the one that it waits for.
const READINGS: u32 = 64;
/// A counter that one thread raises and others may read.
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

/// A moment of one CPU: what its counters said, and what other clocks did.
#[derive(Clone, Copy, Debug)]
struct Moment {
    counts: Counts,
    /// By the CPU's own clock, in picoseconds.
    own: u64,
    /// By the clock on the wall.
    wall: Instant,
}

/// What one CPU has to itself.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PerCpu {
    counters: Counters<OwnCounter>,
    /// When its measured time began and ended.
    measured: Mutex<[Option<Moment>; 2]>,
    /// Somebody ended its wait.
    is_woken: AtomicBool,
}

impl PerCpu {
    fn lock_moments(&self) -> MutexGuard<'_, [Option<Moment>; 2]> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens to each CPU by itself.
#[derive(Debug)]
pub(crate) struct Listeners(Box<[PerCpu]>);

impl Probe for Listeners {
    #[inline]
    fn report(&self, event: Event) {
        self.0[HERE.with(|here| usize::from(here.cpu.get()))].counters.report(event);
    }
}

/// What one CPU's measured time was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuMeasurement {
    /// What the engine did on it.
    pub counts: Counts,
    /// How long it was by the CPU's own clock, in picoseconds.
    pub span: u64,
    /// How many times as long it was by the clock on the wall: 1 on a CPU that did nothing else.
    pub stretch: f64,
}

/// CPUs that are threads.
#[derive(Debug)]
pub(crate) struct Threads {
    window: Window,
    cpus: Listeners,
}

impl Threads {
    /// So many CPUs, measured in this window of their own clocks.
    pub(crate) fn new(cpus: u16, window: Window) -> Threads {
        LazyLock::force(&SPIN);
        Threads { window, cpus: Listeners((0..cpus).map(|_| PerCpu::default()).collect()) }
    }

    /// Makes the calling thread stand for this CPU, whose clock starts now.
    pub(crate) fn start(&self, cpu: u16) {
        HERE.with(|here| here.start(cpu));
    }

    /// What the engine did on a CPU so far.
    pub(crate) fn counts(&self, cpu: u16) -> Counts {
        self.cpus.0[usize::from(cpu)].counters.counts()
    }

    /// What a CPU's measured time was like; nothing if it ended before that.
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

    /// Reads the clock, and notes when the measured time begins and ends.
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
