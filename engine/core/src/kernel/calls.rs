//! Per-CPU data of the kernel module, and calls by which CPUs wait for each other.
//!
//! A call is a number. The calling CPU takes the next number of the called CPU, interrupts that CPU, and waits until it
//! has answered the number. The called CPU answers all numbers that it has seen, in its interrupt handler or in a loop
//! in which it waits with interrupts off. At that point it is in no section, so every section that had begun there
//! before the call has ended. A waiting CPU also answers, so CPUs that wait for each other do not deadlock.
//!
//! linux: kernel/smp.c:smp_call_function_single
//!
//! # Design
//!
//! Calls are numbers and not messages. If two calls arrive at once, no call is lost, because the called CPU answers the
//! higher number. A second answer to the same number has no effect.
//!
//! A CPU counts as up from the first lock that it takes. Before that its slots are empty, and a section on it has
//! nothing to change. So the kernel does not have to report that a CPU came up.
//!
//! A CPU that does not answer within the limit is reported to the kernel. `CpuLocal::fence` returns this outcome, and
//! the slab never uses the slabs and sheaves again that this CPU may be using. Such a CPU is waited for once, and not
//! once by each cache.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use super::{Cpu, Kernel};
use crate::base::{CpuId, Rank};
use crate::slab::cpu::FenceOutcome;

/// One CPU's data of the kernel module, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Part {
    /// Number of the last call to this CPU. `answered` is the last number that it answered.
    asked: AtomicU64,
    answered: AtomicU64,
    /// Last call to this CPU that timed out, or 0. Until it is answered, no other call is waited for.
    given_up: AtomicU64,
    /// Whether the CPU has used the allocator, so that sections may run on it.
    is_up: AtomicBool,
    /// Whether a callback that reclaims is in progress on the CPU; unused if the kernel keeps this mark in its tasks.
    is_reclaiming: AtomicBool,
    /// Number of locks that the CPU holds. This field and the following ones are accessed only by the CPU itself, with
    /// interrupts off.
    locks: AtomicU32,
    /// Interrupt state before the CPU took the first of its locks.
    flags: AtomicUsize,
    /// Ranks of the held locks, one bit per rank; debug builds only.
    ranks: AtomicU8,
    /// Whether a section is in progress on the CPU; debug builds only.
    is_in_section: AtomicBool,
}

impl Part {
    /// Answers all CPUs that wait for this CPU.
    pub(super) fn answer(&self) {
        let asked = self.asked.load(Acquire);
        if self.answered.load(Relaxed) != asked {
            // An interrupt may have answered a later call since the load.
            self.answered.fetch_max(asked, Release);
        }
    }

    /// Marks the CPU as one on which a callback reclaims; returns `false` if it already was marked.
    pub(super) fn begin_reclaim(&self) -> bool {
        !self.is_reclaiming.swap(true, Relaxed)
    }

    /// Clears the mark of [`begin_reclaim`](Self::begin_reclaim); may be called on any CPU.
    pub(super) fn end_reclaim(&self) {
        self.is_reclaiming.store(false, Relaxed);
    }

    pub(super) fn is_reclaiming(&self) -> bool {
        self.is_reclaiming.load(Relaxed)
    }

    fn ask(&self) -> u64 {
        self.asked.fetch_add(1, AcqRel) + 1
    }

    fn has_answered(&self, call: u64) -> bool {
        self.answered.load(Acquire) >= call
    }

    /// Records that the CPU has taken a lock. `flags` is its interrupt state before that.
    #[inline]
    pub(super) fn hold(&self, rank: Rank, flags: usize) {
        let locks = self.locks.load(Relaxed);
        if locks == 0 {
            self.flags.store(flags, Relaxed);
            if !self.is_up.load(Relaxed) {
                self.is_up.store(true, Release);
            }
        }
        self.locks.store(locks + 1, Relaxed);
        if cfg!(debug_assertions) {
            self.ranks.store(self.ranks.load(Relaxed) | 1 << rank as u8, Relaxed);
        }
    }

    /// Records that the CPU has released a lock. If the CPU holds no other lock, returns the interrupt state before its
    /// first lock; otherwise `None`.
    #[inline]
    pub(super) fn leave(&self, rank: Rank) -> Option<usize> {
        let locks = self.locks.load(Relaxed) - 1;
        self.locks.store(locks, Relaxed);
        if cfg!(debug_assertions) {
            self.ranks.store(self.ranks.load(Relaxed) & !(1 << rank as u8), Relaxed);
        }
        (locks == 0).then(|| self.flags.load(Relaxed))
    }

    /// Panics in debug builds if waiting for a lock would violate the order of ranks. This also detects an interrupt
    /// handler that runs while its CPU holds a lock.
    #[inline]
    pub(super) fn expect_order(&self, rank: Rank) {
        if cfg!(debug_assertions) {
            let ranks = self.ranks.load(Relaxed);
            assert!(
                ranks >> rank as u8 == 0,
                "a CPU that holds locks of ranks {ranks:#b} waits for a lock of rank {rank:?}; take locks in the order \
                 of their ranks, and none in an NMI or in an interrupt that arrives while interrupts are off"
            );
        }
    }

    /// Records the start of a section; panics if one is in progress. Called in debug builds only.
    #[inline(always)]
    pub(super) fn enter_section(&self) {
        let was_in = self.is_in_section.load(Relaxed);
        self.is_in_section.store(true, Relaxed);
        assert!(!was_in, "a section was interrupted: interrupts were on in it, or the handler of an NMI allocates");
    }

    /// Records the end of a section.
    #[inline(always)]
    pub(super) fn leave_section(&self) {
        self.is_in_section.store(false, Relaxed);
    }

    /// Records that the CPU has stopped: no section runs on it until it takes a lock again.
    pub(super) fn go_down(&self) {
        self.given_up.store(0, Relaxed);
        self.is_up.store(false, Release);
    }
}

/// Time limit of a wait for an answer.
struct Bound {
    started: Option<u64>,
    /// Latest time that the clock has shown.
    latest: Option<u64>,
    /// Rounds since the clock has advanced.
    rounds: u64,
}

impl Bound {
    fn new<H: Cpu>() -> Bound {
        let started = H::time();
        Bound { started, latest: started, rounds: 0 }
    }

    /// Counts a round and returns whether another is allowed. Rounds are limited while the clock does not advance, so a
    /// clock that stops or goes backwards does not make the wait endless.
    fn lasts<H: Cpu>(&mut self) -> bool {
        let now = H::time();
        self.rounds = if now > self.latest { 0 } else { self.rounds + 1 };
        self.latest = self.latest.max(now);
        let nanos = self.started.zip(self.latest).map_or(0, |(started, latest)| latest - started);
        nanos <= H::CALL_NANOS_MAX && self.rounds <= H::CALL_ROUNDS_MAX
    }
}

impl<H: Cpu> Kernel<H> {
    /// Answers the CPUs that wait for this CPU. The interrupt handler of [`Cpu::call`] calls this function. So do loops
    /// in which a CPU waits with interrupts off for another CPU that may allocate or free meanwhile, such as a spin
    /// lock of the kernel's own. Costs two loads if no CPU waits.
    pub fn answer(&self) {
        let flags = H::irq_save();
        if let Some(part) = self.part(this_cpu::<H>()) {
            part.answer();
        }
        H::irq_restore(flags);
    }

    /// Returns whether a call to another CPU has timed out and is still unanswered. Calls that CPU once more in this
    /// case, so that it can answer. Panics if there is no such CPU.
    pub(super) fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        expect_cpu::<H>(cpu);
        let Some(part) = self.part(cpu) else { return false };
        let is_silent = !part.has_answered(part.given_up.load(Relaxed)) && cpu != this_cpu::<H>();
        if is_silent {
            H::call(cpu.0);
        }
        is_silent
    }

    /// Waits until every section that had begun on a CPU has ended. Returns `Unanswered` if the CPU does not answer in
    /// time, which is reported to the kernel, or if it has not answered an earlier call that timed out. Panics if there
    /// is no such CPU.
    pub(super) fn fence(&self, cpu: CpuId) -> FenceOutcome {
        expect_cpu::<H>(cpu);
        let Some(part) = self.part(cpu) else { return FenceOutcome::Ended };
        if H::CPUS == 1 || !part.is_up.load(Acquire) || cpu == this_cpu::<H>() {
            return FenceOutcome::Ended;
        }
        if self.is_out_of_reach(cpu) {
            return FenceOutcome::Unanswered;
        }
        let call = part.ask();
        H::call(cpu.0);
        let mut bound = Bound::new::<H>();
        while !part.has_answered(call) {
            if !bound.lasts::<H>() {
                part.given_up.store(call, Relaxed);
                H::unanswered(cpu);
                return FenceOutcome::Unanswered;
            }
            self.answer();
            H::wait();
        }
        FenceOutcome::Ended
    }
}

/// Returns the running CPU. Panics if its number is not below [`Cpu::CPUS`].
#[inline(always)]
pub(super) fn this_cpu<H: Cpu>() -> CpuId {
    let cpu = H::id();
    if cpu >= H::CPUS {
        refuse(cpu, H::CPUS);
    }
    CpuId(cpu)
}

/// Panics if there is no such CPU. Safe code can pass any number to a fence.
fn expect_cpu<H: Cpu>(cpu: CpuId) {
    assert!(cpu.0 < H::CPUS, "there is no CPU {}; CPUs are numbered from 0 to {}", cpu.0, H::CPUS - 1);
}

#[cold]
#[inline(never)]
fn refuse(cpu: u16, cpus: u16) -> ! {
    panic!("CPU {cpu} runs, but `Cpu::CPUS` is {cpus}, and CPUs are numbered from 0; raise `Cpu::CPUS`")
}
