//! Memory that goes back to the system.
//!
//! Free memory is kept for later requests: 16 MiB, and a quarter of what is in use. What is free beyond that goes back by
//! the frees themselves, as much as each frees and 2 MiB at least. So a program that frees all it has keeps 16 MiB, and
//! one that frees and allocates the same keeps what it needs. What is kept goes back when it has been free for two
//! seconds, 2 MiB a free; or all of it by a helper ([`helper`](super::helper)), if the options say so.
//!
//! Runs go back one by one, the largest first; the heap's memory in whole free blocks of 2 MiB. So no mapping is split,
//! and no huge page.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use super::AnyHeap;
use super::helper;
use super::options::GiveBack;
use super::start::Malloc;
use super::with_heap;

/// What is in use is divided by this for what may be free beside it.
const KEPT_SHARE: usize = 4;
/// Bytes that one free gives back, at least and at most.
const STEP: usize = 2 << 20;
const STEP_MAX: usize = 16 << 20;
/// Milliseconds that are told apart.
const TICK: u32 = 250;

/// What is known of giving back.
#[derive(Debug)]
pub(super) struct Returns {
    /// The moment of the last look at what is old.
    last: AtomicU32,
    /// The moment in which the heap had no whole block to give.
    nothing_whole: AtomicU32,
    has_helper: AtomicBool,
    /// Bytes that are kept, if the program has said so since it began.
    keep: AtomicUsize,
}

/// It has said nothing.
const UNSAID: usize = usize::MAX;

impl Returns {
    pub const fn new() -> Returns {
        Returns {
            last: AtomicU32::new(0),
            nothing_whole: AtomicU32::new(u32::MAX),
            has_helper: AtomicBool::new(false),
            keep: AtomicUsize::new(UNSAID),
        }
    }

    /// Gives back what is more than should be kept, after so many bytes were freed, and some of what is old.
    #[inline]
    pub fn after_free(&self, malloc: &Malloc, freed: usize) {
        if malloc.options.give_back == GiveBack::Never {
            return;
        }
        let Free { used, free } = malloc.measure();
        let kept = self.keep(malloc) + used / KEPT_SHARE;
        if free > kept {
            let now = now();
            self.step(malloc, freed.clamp(STEP, STEP_MAX).min(free - kept), now, now);
        } else if free > STEP {
            self.look_for_old(malloc);
        }
    }

    /// From now on so many bytes are kept when they are free.
    pub fn set_keep(&self, bytes: usize) {
        self.keep.store(bytes, Relaxed);
    }

    fn keep(&self, malloc: &Malloc) -> usize {
        match self.keep.load(Relaxed) {
            UNSAID => malloc.options.keep,
            said => said,
        }
    }

    #[inline(never)]
    fn look_for_old(&self, malloc: &Malloc) {
        let now = now();
        if self.last.swap(now, Relaxed) == now {
            return;
        }
        let wants_helper = malloc.options.give_back == GiveBack::Helper;
        if wants_helper && !self.has_helper.swap(true, Relaxed) && !helper::start() {
            self.has_helper.store(false, Relaxed);
        }
        malloc.runs.drain(now);
        self.step(malloc, STEP, now.saturating_sub(malloc.options.age / TICK), now);
    }

    /// Gives so much back, of runs what was freed until then.
    fn step(&self, malloc: &Malloc, bytes: usize, until: u32, now: u32) {
        let given = malloc.runs.give_back(bytes, until);
        if given < bytes && self.nothing_whole.load(Relaxed) != now {
            let wanted = bytes - given;
            if with_heap!(&malloc.heap, heap => heap.give_back(wanted)) < wanted {
                self.nothing_whole.store(now, Relaxed);
            }
        }
    }

    /// In a child, which has one thread.
    pub fn has_no_helper(&self) {
        self.has_helper.store(false, Relaxed);
    }
}

/// Bytes in use, and bytes that are free and may have memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    pub used: usize,
    pub free: usize,
}

impl Malloc {
    /// Takes no lock.
    #[inline]
    pub fn measure(&self) -> Free {
        let heap = with_heap!(&self.heap, heap => heap.usage());
        let runs = self.runs.usage();
        let used = heap.online.saturating_sub(heap.free + heap.returned) + runs.used;
        Free { used, free: heap.free + runs.backed }
    }

    /// Gives back all that is free.
    pub fn give_all_back(&self) {
        let now = now();
        self.runs.drain(now);
        self.runs.give_back(usize::MAX, now);
        with_heap!(&self.heap, heap => {
            heap.slab().shrink();
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
