//! Return of free memory to the system.
//!
//! Two limits apply to frees, which depend on the bytes in use and on the options. By default the short-term limit is 6
//! MiB plus three times the bytes in use, or five times while large blocks are freed. When free memory exceeds it,
//! frees return memory at once: each free at least 2 MiB, or the whole excess if that is less. So a program that frees
//! all its memory keeps little, and a program that repeatedly frees and allocates the same amount keeps what it needs.
//! The long-term limit is 4 MiB plus a sixteenth of the bytes in use. Free memory beyond it is returned a quarter of a
//! second after its free: frees do this now and then, a part at a time. If the options enable a helper thread
//! ([`helper`]) and the program has created a thread, the helper does this instead of frees, and without the long-term
//! limit: it returns all runs that have been free for two seconds, and the heap's free blocks of any age until the
//! malloc has at most 1 MiB of free memory. The short-term limit applies to frees as before.
//!
//! Objects and runs have address ranges of their own, so free memory of one kind cannot serve requests of the other.
//! When one kind has grown, as much free memory of the other is returned, down to 1 MiB ([`Growth`]). Otherwise a
//! program that frees large blocks and then allocates small ones would have both.
//!
//! All free memory is returned when the limit of the control group is near, or when the helper detects memory pressure
//! ([`pressure`](super::pressure)). Objects in a CPU's cache are returned when the CPU has been inactive for a while
//! ([`cpu_activity`](super::cpu_activity)).
//!
//! Caches that are not used any more give back the objects and slabs that they keep, when the memory in use has grown,
//! and every two seconds. Without this, each size that a program has ever used keeps its own objects, and these keep
//! most pages of its slabs. Every two seconds, the caches in use that keep most also give back all that they keep,
//! until all caches together keep at most 2 MiB plus a sixteenth of the bytes in use. A reap after growth does not
//! apply this limit: a program that uses many sizes in parallel would refill its caches immediately after each reap.
//!
//! Runs are returned one by one, largest first, and memory of the heap in wholly free blocks of 2 MiB. Free pieces of
//! other blocks, of at least 32 KiB, are returned as well while free memory exceeds the long-term limit, as many bytes
//! as were free at two checks in different ticks of 250 ms. Where huge pages back the heap, a piece has at least 1 MiB,
//! since its return splits a huge page, unless less than a quarter of the huge page is in use. No mapping is split.
//!
//! # Design
//!
//! The limits are a guess about the next request. Frees alone cannot detect that a program has become idle, so they use
//! amounts. A program that replaces large blocks needs the memory that it has just freed, and a program that frees
//! everything needs none. The limit is therefore a multiple of the bytes in use. A helper thread can wait, so it
//! returns memory by age.
//!
//! The helper starts after the program has created a thread and never within a free, because the C library frees memory
//! while it holds locks that `pthread_create` takes.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::AnyHeap;
use super::growth::{Growth, Part};
use super::helper;
use super::low_water::LowWater;
use super::options::GiveBack;
use super::parts::Malloc;
use super::pressure::{self, Limit};
use super::sandbox;
use super::ticks::{TICK, now};
use super::with_heap;
use crate::heap::PieceSize;
use crate::os::mmap::{
    HugePages, PartOfHugePage, huge_pages_are_default, is_part_of_huge_page_set, set_part_of_huge_page,
};

/// Divisor of the bytes in use, for the long-term limits of free memory and of what caches keep.
const KEPT_SHARE: usize = 16;
/// Factor of the bytes in use, for the short-term limit of free memory.
const KEPT_BRIEFLY: usize = 3;
/// Least bytes that one free returns, if the excess is as large.
const STEP: usize = 2 << 20;
/// Multiple of a freed run by which free memory may exceed the short-term limit before memory is returned, but not by
/// more than [`SLACK_OF_USED`] times the bytes in use. A program that replaces large blocks uses more and less memory
/// in turns, and each change of its use changes the limit by several times as much.
const SLACK: usize = 16;
const SLACK_OF_USED: usize = 2;
/// Divisor of the excess that one free returns.
const EXCESS_SHARE: usize = 8;
/// Bytes of old memory that frees return per tick, and as many bytes of pieces of blocks: some milliseconds of work,
/// and as much when the program uses the memory again.
const STEP_OLD: usize = 8 << 20;
/// Divisor of [`Options::age`](super::options::Options::age) for memory that frees return. They return little at a
/// time, so they need not wait for long.
const AGE_SHARE: u32 = 8;
/// Bytes up to which growth does not lead to a check of the control group's limit.
const LITTLE: usize = 8 << 20;
/// Divisor of [`Options::keep`](super::options::Options::keep): when one kind of memory has grown, this share of it
/// stays free in the other kind.
const KEPT_OF_OTHER: usize = 4;
/// Divisor of [`Options::keep`](super::options::Options::keep): the reap every two seconds limits all caches together to
/// this share of it plus a share of the bytes in use.
const KEPT_BY_CACHES: usize = 2;
/// Growth of the bytes in use after which caches that are not used any more are reaped: at least this much, and at
/// least this share of the bytes in use.
const REAP_GROWTH: usize = 4 << 20;
const REAP_SHARE: usize = 8;
/// Least growth after which the limit is checked again, and divisor of what was left of it for that growth. `NEVER`
/// disables the check if there is no limit.
const GROWTH: usize = 1 << 20;
const LEFT_SHARE: usize = 4;
/// Most growth between two checks while the limit is near and there is little to return.
const STEP_MAX: usize = 16 << 20;
const NEVER: usize = usize::MAX / 2;
/// Value of `Returns::keep` if the program has not set one.
const UNSAID: usize = usize::MAX;

/// State of returning memory.
#[derive(Debug)]
pub(super) struct Returns {
    /// Tick of the last check for old memory by a free, or of the helper's last pass.
    last: AtomicU32,
    /// Bytes that must be free in the heap before it is searched again, after it had no whole block to return. Reset
    /// with each check for old memory.
    ask_heap_at: AtomicUsize,
    /// Bytes in use and free from which growth is counted: the control group's limit is checked when they have grown by
    /// `step`. Set by each check, and lowered when they fall, but not below [`LITTLE`]. [`NEVER`] if there is no limit.
    looked_at: AtomicUsize,
    step: AtomicUsize,
    /// Fewest bytes that were in use since caches were last reaped, and the tick in which that was.
    fewest: AtomicUsize,
    reaped: AtomicU32,
    /// Bytes of the heap that have been free for a while.
    free_for_a_while: LowWater,
    /// Memory of the heap and of the runs when their growth was last counted.
    heap: Growth,
    runs: Growth,
    /// Bytes that are kept, if the program has set them at run time.
    keep: AtomicUsize,
}

impl Returns {
    pub(super) const fn new() -> Returns {
        Returns {
            last: AtomicU32::new(0),
            ask_heap_at: AtomicUsize::new(0),
            looked_at: AtomicUsize::new(LITTLE),
            step: AtomicUsize::new(GROWTH),
            fewest: AtomicUsize::new(0),
            reaped: AtomicU32::new(0),
            free_for_a_while: LowWater::new(),
            heap: Growth::new(),
            runs: Growth::new(),
            keep: AtomicUsize::new(UNSAID),
        }
    }

    /// Returns memory beyond the short-term limit after a run of `freed` bytes, or an object if that is 0, was freed.
    /// Also returns some old memory.
    #[inline]
    pub(super) fn after_free(&self, malloc: &Malloc, freed: usize, now: u32) {
        if malloc.options.give_back == GiveBack::Never {
            return;
        }
        let MemoryUse { used, free } = malloc.measure();
        let has_helper = malloc.options.give_back == GiveBack::Helper && helper::is_running();
        let keep = self.keep(malloc);
        let most = keep + keep / 2 + KEPT_BRIEFLY * used;
        if free > most + (SLACK_OF_USED * used).min(SLACK * freed) {
            // A free of a run increases the excess by at most this much. A free of an object may empty many slabs, so a
            // share of the excess is returned. A helper will return more, so a free need not wait for it.
            let excess = free - most;
            let by_free = ((1 + KEPT_BRIEFLY) * freed).max(excess / EXCESS_SHARE).max(STEP);
            let wanted = if has_helper { STEP } else { by_free };
            self.step(malloc, wanted.min(excess), now);
        }
        if free > STEP && !has_helper {
            self.look_for_old(malloc, now);
        }
    }

    /// Reaps caches if the bytes in use have grown much. Checks the control group's limit if the malloc's memory has
    /// grown, and returns all free memory if the limit is near.
    #[inline]
    pub(super) fn after_growth(&self, malloc: &Malloc) {
        let parts = malloc.measure_parts();
        self.exchange(malloc, parts);
        let MemoryUse { used, free } = MemoryUse::of(parts);
        self.reap_if_grown(malloc, used);
        let looked_at = self.looked_at.load(Relaxed);
        if looked_at == NEVER {
            return;
        }
        let all = used + free;
        if all > looked_at + self.step.load(Relaxed) {
            self.look_at_limit(malloc, all - looked_at);
        } else if all + GROWTH < looked_at {
            self.looked_at.store(all.max(LITTLE), Relaxed);
        }
    }

    /// Returns free memory of the runs if the heap has grown, and of the heap if the runs have.
    #[inline]
    fn exchange(&self, malloc: &Malloc, [heap, runs]: [Part; 2]) {
        if malloc.options.give_back == GiveBack::Never {
            return;
        }
        let (by_heap, by_runs) = (self.heap.take(heap), self.runs.take(runs));
        let kept = self.keep(malloc) / KEPT_OF_OTHER;
        let (of_runs, of_heap) =
            (by_heap.min(runs.free.saturating_sub(kept)), by_runs.min(heap.free.saturating_sub(kept)));
        if of_runs > 0 {
            self.look_at_huge_pages(malloc);
            malloc.runs.give_back(of_runs, now());
        }
        if of_heap > 0 {
            self.give_back_of_heap(malloc, of_heap);
        }
    }

    #[inline]
    fn reap_if_grown(&self, malloc: &Malloc, used: usize) {
        let fewest = self.fewest.load(Relaxed);
        if used < fewest {
            self.fewest.store(used, Relaxed);
        } else if used - fewest > REAP_GROWTH.max(used / REAP_SHARE) {
            self.fewest.store(used, Relaxed);
            self.reap(malloc, usize::MAX);
        }
    }

    /// Reaps caches if that was not done in the last `age` milliseconds. Called in a slow path, at most once per tick.
    pub(super) fn reap_if_old(&self, malloc: &Malloc, now: u32) {
        if now.wrapping_sub(self.reaped.load(Relaxed)) >= malloc.options.age / TICK {
            self.reaped.store(now, Relaxed);
            self.reap(malloc, self.keep(malloc) / KEPT_BY_CACHES + malloc.measure().used / KEPT_SHARE);
        }
    }

    /// Empties caches that are not used any more. If the others together keep more than `most` bytes, also empties the
    /// largest ones, until the rest keeps at most `most` bytes. Does nothing if the process cannot fence CPUs.
    fn reap(&self, malloc: &Malloc, most: usize) {
        if malloc.can_fence() {
            with_heap!(&malloc.heap, heap => heap.slab().reap(most as u64));
        }
    }

    /// Returns pieces of partly used blocks that have been free for a while, at most about `most` bytes of them, until
    /// at most `kept` bytes are free. Called in a slow path, at most once per tick.
    pub(super) fn give_back_pieces(&self, malloc: &Malloc, kept: usize, most: usize, now: u32) {
        let free = with_heap!(&malloc.heap, heap => heap.usage().free);
        let old = self.free_for_a_while.observe(free, now, malloc.options.age / TICK / AGE_SHARE);
        let surplus = old.min(malloc.measure().free.saturating_sub(kept)).min(most);
        if surplus > 0 {
            let least = choose_piece_size(malloc.options.huge_pages);
            with_heap!(&malloc.heap, heap => heap.give_back_pieces(surplus, least));
        }
    }

    /// Returns all free memory if the limit is near after a growth by `grown` bytes. The kernel charges memory when it
    /// is touched, so these bytes count as still to come.
    #[cold]
    #[inline(never)]
    fn look_at_limit(&self, malloc: &Malloc, grown: usize) {
        let step = match pressure::limit(grown) {
            Limit::None => return self.looked_at.store(NEVER, Relaxed),
            Limit::Far { left } => GROWTH.max(left / LEFT_SHARE),
            Limit::Near => self.give_all_back(malloc),
        };
        let MemoryUse { used, free } = malloc.measure();
        self.step.store(step, Relaxed);
        self.looked_at.store(used + free, Relaxed);
    }

    /// Returns all free memory, and returns the growth after which to check the limit again: twice as much as before if
    /// there was little to return.
    fn give_all_back(&self, malloc: &Malloc) -> usize {
        let before = malloc.measure().free;
        malloc.give_all_back();
        let given = before.saturating_sub(malloc.measure().free);
        if given < GROWTH { (2 * self.step.load(Relaxed)).min(STEP_MAX) } else { GROWTH }
    }

    /// Sets the number of free bytes that are kept.
    pub(super) fn set_keep(&self, bytes: usize) {
        self.keep.store(bytes, Relaxed);
    }

    fn keep(&self, malloc: &Malloc) -> usize {
        match self.keep.load(Relaxed) {
            UNSAID => malloc.options.keep,
            said => said,
        }
    }

    /// Records that tick `now` has been handled, and returns whether it was not handled before.
    pub(super) fn begin_moment(&self, now: u32) -> bool {
        self.last.swap(now, Relaxed) != now
    }

    /// Returns some old memory, at most once per tick.
    #[inline(never)]
    fn look_for_old(&self, malloc: &Malloc, now: u32) {
        if self.begin_moment(now) {
            self.give_old_back(malloc, now);
        }
    }

    /// Returns some old memory; all free memory if the control group's limit is near.
    fn give_old_back(&self, malloc: &Malloc, now: u32) {
        if self.looked_at.load(Relaxed) != NEVER && pressure::limit(0) == Limit::Near {
            return malloc.give_all_back();
        }
        malloc.drain_idle(now);
        self.reap_if_old(malloc, now);
        let MemoryUse { used, free } = malloc.measure();
        let kept = self.keep(malloc) + used / KEPT_SHARE;
        if free > kept {
            malloc.runs.drain(now);
            self.ask_heap_at.store(0, Relaxed);
            self.step(malloc, STEP_OLD.min(free - kept), now.saturating_sub(malloc.options.age / TICK / AGE_SHARE));
        }
        self.give_back_pieces(malloc, kept, STEP_OLD, now);
    }

    /// Finds out once whether huge pages may back memory, before memory is returned.
    #[inline]
    pub(super) fn look_at_huge_pages(&self, malloc: &Malloc) {
        if !is_part_of_huge_page_set() {
            choose_piece_size(malloc.options.huge_pages);
        }
    }

    /// Returns at least `bytes` bytes to the system, or all free bytes if there are fewer: first runs that were freed
    /// no later than `until`, then blocks of the heap.
    fn step(&self, malloc: &Malloc, bytes: usize, until: u32) {
        self.look_at_huge_pages(malloc);
        let given = malloc.runs.give_back(bytes, until);
        let wanted = bytes - given.min(bytes);
        if wanted > 0 {
            self.give_back_of_heap(malloc, wanted);
        }
    }

    /// Returns at least `bytes` bytes of blocks of the heap to the system, if it has them.
    fn give_back_of_heap(&self, malloc: &Malloc, bytes: usize) {
        if with_heap!(&malloc.heap, heap => heap.usage().free) >= self.ask_heap_at.load(Relaxed) {
            let has_less = with_heap!(&malloc.heap, heap => heap.give_back(bytes)) < bytes;
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

impl MemoryUse {
    fn of(parts: [Part; 2]) -> MemoryUse {
        let free = parts.iter().map(|part| part.free).sum();
        MemoryUse { used: parts.iter().map(|part| part.all).sum::<usize>().saturating_sub(free), free }
    }
}

impl Malloc {
    /// Measures the memory of the malloc. Takes no lock.
    #[inline]
    pub(super) fn measure(&self) -> MemoryUse {
        MemoryUse::of(self.measure_parts())
    }

    /// Measures the memory of the heap and that of the runs. Takes no lock.
    #[inline]
    fn measure_parts(&self) -> [Part; 2] {
        let heap = with_heap!(&self.heap, heap => heap.usage());
        let runs = self.runs.usage();
        let heap = Part { all: heap.online.saturating_sub(heap.returned), free: heap.free };
        [heap, Part { all: runs.used + runs.backed, free: runs.backed }]
    }

    /// Returns whether caches of other CPUs can be drained. A sandbox may forbid the system call that is needed.
    pub(super) fn can_fence(&self) -> bool {
        match &self.heap {
            AnyHeap::Rseq(heap) => !sandbox::is_restricted() && heap.slab().local().can_fence(),
            AnyHeap::Locks(_) => true,
        }
    }

    /// Returns all free memory to the system and unmaps most of it, for a request that would fail otherwise: the limit
    /// of the address space may be reached.
    #[cold]
    pub(super) fn unmap_free(&self) {
        self.give_all_back();
        self.runs.unmap_end();
        with_heap!(&self.heap, heap => heap.unmap_returned());
    }

    /// Returns all free memory to the system, including that of objects in CPUs' caches if the process can fence CPUs.
    pub(super) fn give_all_back(&self) {
        let (now, least) = (now(), choose_piece_size(self.options.huge_pages));
        self.runs.drain(now);
        self.runs.give_back(usize::MAX, now);
        let can_fence = self.can_fence();
        with_heap!(&self.heap, heap => {
            if can_fence {
                heap.slab().shrink();
            }
            heap.give_back_pieces(usize::MAX, least)
        });
    }
}

/// Determines whether huge pages may back the heap. Sets the treatment of huge pages of which a part is returned, and
/// returns the size of the smallest piece that is returned. Under a filter the system's setting is unknown, so huge
/// pages are assumed.
fn choose_piece_size(wanted: HugePages) -> PieceSize {
    let may_be_huge = wanted == HugePages::Wanted || sandbox::is_restricted() || huge_pages_are_default();
    let (treatment, size) = match may_be_huge {
        true => (PartOfHugePage::Split, PieceSize::HalfHuge),
        false => (PartOfHugePage::Lazy, PieceSize::Small),
    };
    set_part_of_huge_page(treatment);
    size
}
