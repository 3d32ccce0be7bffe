//! Memory that goes back to the system.
//!
//! What is free beyond 12 MiB and three times what is in use goes back by the frees themselves, as it grows, 2 MiB a
//! free at least. So a program that frees all it has keeps little, and one that frees and allocates the same keeps what
//! it needs. What is free beyond 8 MiB and a quarter of what is in use goes back when it has been free for two seconds,
//! some of it with a free now and then; or all of it by a helper ([`helper`]), if the options say so and the program has
//! created a thread.
//!
//! When the limit of the control group is near, or the helper sees that memory is short
//! ([`pressure`](super::pressure)), all that is free goes back. What CPUs have cached is given back by those on which
//! nobody asks ([`cpu_activity`](super::cpu_activity)).
//!
//! Runs go back one by one, the largest first; the heap's memory in whole free blocks of 2 MiB. So no mapping is split,
//! and no huge page.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::AnyHeap;
use super::helper;
use super::options::GiveBack;
use super::pressure::{self, Limit};
use super::start::Malloc;
use super::with_heap;

/// What is in use is divided by this for what may be free beside it for long.
const KEPT_SHARE: usize = 4;
/// What is in use is multiplied by this for what may be free beside it for the moment.
const KEPT_BRIEFLY: usize = 3;
/// Bytes that one free gives back at least; and at most, unless it frees more itself.
const STEP: usize = 2 << 20;
const STEP_MAX: usize = 32 << 20;
/// Bytes that a free gives back of what is old: less than a millisecond's work.
const STEP_OLD: usize = 8 << 20;
/// Bytes in use up to which nobody looks whether a limit is near.
const LITTLE_USED: usize = 8 << 20;
/// Bytes more in use, after which somebody looks again; never, if there is no limit.
const GROWTH: usize = 1 << 20;
const NEVER: usize = usize::MAX / 2;
/// A program has not said how much to keep.
const UNSAID: usize = usize::MAX;
/// Milliseconds that are told apart.
pub(super) const TICK: u32 = 250;

/// What is known of giving back.
#[derive(Debug)]
pub(super) struct Returns {
    /// The moment of the last look at what is old, or for a helper.
    last: AtomicU32,
    /// Bytes that must be free in the heap before it is asked again, after it had no whole block to give; forgotten
    /// with the moment.
    ask_heap_at: AtomicUsize,
    /// Bytes in use at the last look whether a limit is near.
    looked_at: AtomicUsize,
    /// Bytes that are kept, if the program has said so since it began.
    keep: AtomicUsize,
}

impl Returns {
    pub(super) const fn new() -> Returns {
        Returns {
            last: AtomicU32::new(0),
            ask_heap_at: AtomicUsize::new(0),
            looked_at: AtomicUsize::new(LITTLE_USED),
            keep: AtomicUsize::new(UNSAID),
        }
    }

    /// Gives back what is more than should be kept, after so many bytes were freed, and some of what is old.
    #[inline]
    pub(super) fn after_free(&self, malloc: &Malloc, freed: usize, now: u32) {
        if malloc.options.give_back == GiveBack::Never {
            return;
        }
        let MemoryUse { used, free } = malloc.measure();
        let has_helper = malloc.options.give_back == GiveBack::Helper && helper::is_running();
        let keep = self.keep(malloc);
        let most = keep + keep / 2 + KEPT_BRIEFLY * used;
        if free > most {
            // What is too much grows by so much with each free. A helper does more of it, and holds nobody up.
            let wanted = if has_helper { STEP } else { ((1 + KEPT_BRIEFLY) * freed).clamp(STEP, STEP_MAX.max(freed)) };
            self.step(malloc, wanted.min(free - most), now);
        }
        if free > STEP && !has_helper {
            self.look_for_old(malloc, now);
        }
    }

    /// Gives back all that is free, if more is in use than at the last look and the limit of the control group is near.
    #[inline]
    pub(super) fn after_growth(&self, malloc: &Malloc) {
        let looked_at = self.looked_at.load(Relaxed);
        if looked_at == NEVER {
            return;
        }
        let used = malloc.measure().used;
        if used > looked_at + GROWTH {
            self.look_at_limit(malloc, used);
        } else if used + GROWTH < looked_at {
            self.looked_at.store(used.max(LITTLE_USED), Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_limit(&self, malloc: &Malloc, used: usize) {
        let limit = pressure::limit();
        self.looked_at.store(if limit == Limit::None { NEVER } else { used }, Relaxed);
        if limit == Limit::Near {
            malloc.give_all_back();
        }
    }

    /// From now on so many bytes are kept when they are free.
    pub(super) fn set_keep(&self, bytes: usize) {
        self.keep.store(bytes, Relaxed);
    }

    fn keep(&self, malloc: &Malloc) -> usize {
        match self.keep.load(Relaxed) {
            UNSAID => malloc.options.keep,
            said => said,
        }
    }

    /// Says that somebody looks at a moment, and whether nobody did before.
    pub(super) fn begin_moment(&self, now: u32) -> bool {
        self.last.swap(now, Relaxed) != now
    }

    /// Gives back some of what is old, once a moment.
    #[inline(never)]
    fn look_for_old(&self, malloc: &Malloc, now: u32) {
        if self.begin_moment(now) {
            self.give_old_back(malloc, now);
        }
    }

    /// Gives back some of what is old; all, if the limit of the control group is near.
    fn give_old_back(&self, malloc: &Malloc, now: u32) {
        if self.looked_at.load(Relaxed) != NEVER && pressure::limit() == Limit::Near {
            return malloc.give_all_back();
        }
        malloc.drain_idle(now);
        let MemoryUse { used, free } = malloc.measure();
        if free > self.keep(malloc) + used / KEPT_SHARE {
            malloc.runs.drain(now);
            self.ask_heap_at.store(0, Relaxed);
            self.step(malloc, STEP_OLD, now.saturating_sub(malloc.options.age / TICK));
        }
    }

    /// Gives so much back, of runs what was freed until then.
    fn step(&self, malloc: &Malloc, bytes: usize, until: u32) {
        let given = malloc.runs.give_back(bytes, until);
        let wanted = bytes - given.min(bytes);
        if wanted > 0 && with_heap!(&malloc.heap, heap => heap.usage().free) >= self.ask_heap_at.load(Relaxed) {
            let has_less = with_heap!(&malloc.heap, heap => heap.give_back(wanted)) < wanted;
            let ask_at = if has_less { with_heap!(&malloc.heap, heap => heap.usage().free) + STEP } else { 0 };
            self.ask_heap_at.store(ask_at, Relaxed);
        }
    }
}

/// Bytes in use, and bytes that are free and may have memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryUse {
    pub used: usize,
    pub free: usize,
}

impl Malloc {
    /// Takes no lock.
    #[inline]
    pub(super) fn measure(&self) -> MemoryUse {
        let heap = with_heap!(&self.heap, heap => heap.usage());
        let runs = self.runs.usage();
        let used = heap.online.saturating_sub(heap.free + heap.returned) + runs.used;
        MemoryUse { used, free: heap.free + runs.backed }
    }

    /// Whether what other CPUs have cached can be taken from them: a sandbox may have taken the system call away.
    pub(super) fn can_fence(&self) -> bool {
        match &self.heap {
            AnyHeap::Rseq(heap) => heap.slab().local().can_fence(),
            AnyHeap::Locks(_) => true,
        }
    }

    /// Gives back all that is free.
    pub(super) fn give_all_back(&self) {
        let now = now();
        self.runs.drain(now);
        self.runs.give_back(usize::MAX, now);
        let can_fence = self.can_fence();
        with_heap!(&self.heap, heap => {
            if can_fence {
                heap.slab().shrink();
            }
            heap.give_back(usize::MAX)
        });
    }
}

/// The time, in quarters of a second since some moment.
pub(super) fn now() -> u32 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a time there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.tv_sec as u32) * (1000 / TICK) + time.tv_nsec as u32 / (TICK * 1_000_000)
}
