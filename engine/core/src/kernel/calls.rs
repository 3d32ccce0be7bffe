//! What each CPU has of the kernel module, and how CPUs wait for each other.
//!
//! A call is a number: who calls takes the next one of the called CPU, interrupts that CPU, and waits until it has
//! answered that number. The called CPU answers all numbers that it has seen, in its interrupt handler or wherever it
//! waits itself with interrupts off. It is in no section then, so whoever waited knows that each section that had begun
//! is over. Who waits answers meanwhile, so CPUs that wait for each other do not do so for ever.
//!
//! linux: kernel/smp.c:smp_call_function_single

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use super::{Cpu, Kernel};
use crate::base::{CpuId, Rank};
use crate::slab::cpu::FenceOutcome;

/// One CPU's part of the kernel module, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Part {
    /// Number of the last call of this CPU, and of the last one that it answered.
    asked: AtomicU64,
    answered: AtomicU64,
    /// The last call of it that was given up, or 0: before that is answered, no other is waited for.
    given_up: AtomicU64,
    /// It has used the allocator, so sections may run on it.
    is_up: AtomicBool,
    /// A callback that reclaims began on it and has not ended; not used where the kernel keeps this in its tasks.
    is_reclaiming: AtomicBool,
    /// Locks that it holds. This and what follows is its own, and touched with interrupts off only.
    locks: AtomicU32,
    /// Its interrupts as they were before the first of these.
    flags: AtomicUsize,
    /// Ranks of these, a bit each, in debug builds.
    ranks: AtomicU8,
    /// A section runs on it; kept in debug builds.
    is_in_section: AtomicBool,
}

impl Part {
    /// Answers whoever waits for this CPU.
    pub(super) fn answer(&self) {
        let asked = self.asked.load(Acquire);
        if self.answered.load(Relaxed) != asked {
            // An interrupt may have answered a later call since the load.
            self.answered.fetch_max(asked, Release);
        }
    }

    /// Marks the CPU as one on which a callback reclaims; `false` if it was marked already.
    pub(super) fn begin_reclaim(&self) -> bool {
        !self.is_reclaiming.swap(true, Relaxed)
    }

    /// Clears the mark of [`begin_reclaim`](Self::begin_reclaim), from whichever CPU.
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

    /// It takes one more lock, having turned interrupts off.
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

    /// It has opened one; what its interrupts were before the first, if that was the last.
    #[inline]
    pub(super) fn leave(&self, rank: Rank) -> Option<usize> {
        let locks = self.locks.load(Relaxed) - 1;
        self.locks.store(locks, Relaxed);
        if cfg!(debug_assertions) {
            self.ranks.store(self.ranks.load(Relaxed) & !(1 << rank as u8), Relaxed);
        }
        (locks == 0).then(|| self.flags.load(Relaxed))
    }

    /// Refuses to wait for a lock against the order of ranks, in debug builds: an interrupt handler that runs while
    /// this CPU holds one is found out by that.
    #[inline]
    pub(super) fn expect_order(&self, rank: Rank) {
        if cfg!(debug_assertions) {
            let ranks = self.ranks.load(Relaxed);
            assert!(
                ranks >> rank as u8 == 0,
                "a lock of rank {rank:?} is awaited on a CPU that holds ranks {ranks:#b}: take locks in their order, and none \
                 in an NMI or where an interrupt came while they were off"
            );
        }
    }

    /// A section begins here; in debug builds, none may be under way.
    #[inline(always)]
    pub(super) fn enter_section(&self) {
        let was_in = self.is_in_section.load(Relaxed);
        self.is_in_section.store(true, Relaxed);
        assert!(!was_in, "a section was interrupted: interrupts were not off in it, or an NMI's handler allocates");
    }

    /// It ends.
    #[inline(always)]
    pub(super) fn leave_section(&self) {
        self.is_in_section.store(false, Relaxed);
    }

    /// No section runs on it any more, until it takes a lock again.
    pub(super) fn go_down(&self) {
        self.given_up.store(0, Relaxed);
        self.is_up.store(false, Release);
    }
}

/// How long a CPU waits for an answer.
struct Bound {
    rounds: u64,
    started: Option<u64>,
}

impl Bound {
    fn new<H: Cpu>() -> Bound {
        Bound { rounds: 0, started: H::time() }
    }

    /// Counts a round; whether there may be another.
    fn lasts<H: Cpu>(&mut self) -> bool {
        self.rounds += 1;
        match self.started.zip(H::time()) {
            Some((started, now)) => now.wrapping_sub(started) <= H::CALL_NANOS_MAX,
            None => self.rounds <= H::CALL_ROUNDS_MAX,
        }
    }
}

impl<H: Cpu> Kernel<H> {
    /// Answers those who wait for this CPU: what the interrupt handler that [`Cpu::call`] ends in does. Also for loops
    /// in which a CPU waits with interrupts off for something that another CPU has while it allocates or frees: a spin
    /// lock of the kernel's own. Costs two loads if nobody waits.
    pub fn answer(&self) {
        let flags = H::irq_save();
        if let Some(part) = self.part(this_cpu::<H>()) {
            part.answer();
        }
        H::irq_restore(flags);
    }

    /// Whether a call of another CPU was given up, and it has not answered since. It is called once more, so that it
    /// may.
    pub(super) fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        let Some(part) = self.part(cpu) else { return false };
        let is_silent = !part.has_answered(part.given_up.load(Relaxed)) && cpu != this_cpu::<H>();
        if is_silent {
            H::call(cpu.0);
        }
        is_silent
    }

    /// Waits until each section that had begun on a CPU is over.
    pub(super) fn fence(&self, cpu: CpuId) -> FenceOutcome {
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

/// The CPU that runs the caller; a number that it said no CPU has is refused.
#[inline(always)]
pub(super) fn this_cpu<H: Cpu>() -> CpuId {
    let cpu = H::id();
    if cpu >= H::CPUS {
        refuse(cpu, H::CPUS);
    }
    CpuId(cpu)
}

#[cold]
#[inline(never)]
fn refuse(cpu: u16, cpus: u16) -> ! {
    panic!("CPU {cpu} is running, and `Cpu::CPUS` says that there are {cpus}, numbered from 0: raise it")
}
