//! Tests of runs: random operations with checks of contents and invariants, and single cases.

extern crate std;

use std::vec::Vec;

use fastrand::Rng;

use super::*;
use crate::os::holes::HOLES_MAX;

const CPU: CpuId = CpuId(0);
const MIB: usize = 1 << 20;

impl Runs {
    fn give(&self, start: NonNull<u8>, now: u32) {
        match self.free_cached(CPU, start).expect("it is in use") {
            FreeOutcome::Cached => {}
            FreeOutcome::Uncached(claimed) => self.free(claimed, now),
        }
    }

    /// Writes the first and the last word of each page. That suffices to detect a page that belongs to two runs.
    fn fill(&self, start: NonNull<u8>, pages: u32, with: u64) {
        for page in 0..pages as usize {
            // SAFETY: callers pass a run of at least `pages` pages that belongs to the test.
            unsafe {
                start.add(page * PAGE).cast::<u64>().write(with);
                start.add(page * PAGE + PAGE - 8).cast::<u64>().write(with);
            }
        }
    }

    fn holds(&self, start: NonNull<u8>, pages: u32, what: u64) -> bool {
        // SAFETY: callers pass a run of at least `pages` pages that belongs to the test.
        (0..pages as usize).all(|page| unsafe {
            start.add(page * PAGE).cast::<u64>().read() == what
                && start.add(page * PAGE + PAGE - 8).cast::<u64>().read() == what
        })
    }
}

#[test]
fn random_runs_do_not_overlap() {
    let runs = Runs::new(256 * MIB, 2).unwrap();
    let mut chance = Rng::with_seed(7);
    let mut live: Vec<(NonNull<u8>, u32, u64)> = Vec::new();
    for round in 0..6000_u64 {
        let now = (round / 100) as u32;
        match chance.u8(..10) {
            0..5 => {
                let order = chance.u32(0..10);
                let pages = chance.u32(1..=1 << order);
                let align = 1 << (chance.u32(0..4) * 3);
                let cpu = CpuId(chance.u16(..2));
                let cached = if align == 1 { runs.alloc_cached(cpu, pages) } else { None };
                let Ok(run) = cached.map_or_else(|| runs.alloc(pages, align), Ok) else { continue };
                assert!(run.start.as_ptr().addr().is_multiple_of(align as usize * PAGE));
                let usable = runs.usable(run.start).unwrap() / PAGE;
                assert!((pages as usize..=pages as usize * 9 / 8).contains(&usable));
                assert!(!run.is_zero || runs.holds(run.start, pages, 0), "round {round}: not zero");
                runs.fill(run.start, pages, round);
                live.push((run.start, pages, round));
            }
            5..8 if !live.is_empty() => {
                let (start, pages, what) = live.swap_remove(chance.usize(..live.len()));
                assert!(runs.holds(start, pages, what), "round {round}: two have a page");
                runs.give(start, now);
            }
            8 if !live.is_empty() => {
                let (start, pages, what) = live.swap_remove(chance.usize(..live.len()));
                let wanted = chance.u32(1..=2 * pages);
                let kept = if runs.resize(start, wanted, now) { wanted } else { pages };
                assert!(runs.holds(start, pages.min(kept), what), "round {round}: a page was lost");
                runs.fill(start, kept, what);
                live.push((start, kept, what));
            }
            _ => _ = runs.give_back(chance.usize(..8 * MIB), now.saturating_sub(3)),
        }
        if round % 50 == 0 {
            assert_eq!(runs.check(), Ok(()));
        }
    }
    live.into_iter().for_each(|(start, ..)| runs.give(start, 99));
    runs.drain(99);
    assert_eq!(runs.check(), Ok(()));
    assert_eq!(runs.usage().used, 0);
    runs.give_back(usize::MAX, 99);
    assert_eq!((runs.usage().used, runs.usage().backed), (0, 0));
    assert_eq!(runs.check(), Ok(()));
}

fn interior(start: NonNull<u8>) -> RunError {
    RunError::Interior { address: start.as_ptr().addr() }
}

#[test]
fn free_of_an_invalid_run_is_an_error() {
    let runs = Runs::new(64 * MIB, 1).unwrap();
    let start = runs.alloc(20, 1).unwrap().start;
    let [second, last, outside] =
        [1, 19, 20_000].map(|pages: usize| start.map_addr(|address| address.saturating_add(pages * PAGE)));
    for wrong in [second, last, outside, start.map_addr(|address| address.saturating_add(8))] {
        assert_eq!(runs.free_cached(CPU, wrong).unwrap_err(), interior(wrong));
    }
    let double = RunError::DoubleFree { address: start.as_ptr().addr() };
    runs.give(start, 0);
    assert_eq!(runs.free_cached(CPU, start).unwrap_err(), double, "a CPU has cached it");
    runs.drain(0);
    assert_eq!(runs.free_cached(CPU, start).unwrap_err(), double, "it is free");
    // The page is now inside of a larger run.
    let other = runs.alloc(400, 1).unwrap();
    assert_eq!(runs.free_cached(CPU, second).unwrap_err(), interior(second));
    runs.give(other.start, 0);
    assert_eq!(runs.alloc(usize::MAX as u32 - 1, 1), Err(Errno::NOMEM));
    assert_eq!(runs.check(), Ok(()));
}

#[test]
fn oldest_runs_are_purged_first_and_read_as_zero() {
    let runs = Runs::new(64 * MIB, 1).unwrap();
    let [old, between, new] = [3000, 1, 3000].map(|pages| runs.alloc(pages, 1).unwrap().start);
    runs.fill(old, 3000, 1);
    runs.fill(new, 3000, 1);
    runs.give(old, 1);
    runs.give(new, 5);
    assert_eq!(runs.give_back(usize::MAX, 4), 3000 * PAGE);
    let usage = runs.usage();
    assert_eq!((usage.used, usage.backed), (PAGE, 3000 * PAGE));
    let again = runs.alloc(3000, 1).unwrap();
    assert_eq!(again, Run { start: new, is_zero: false }, "what has memory is used first");
    let empty = runs.alloc(3000, 1).unwrap();
    assert_eq!(empty, Run { start: old, is_zero: true });
    assert!(runs.holds(old, 3000, 0));
    [between, old, new].into_iter().for_each(|start| runs.give(start, 9));
    assert_eq!(runs.check(), Ok(()));
}

#[test]
fn pages_move_between_runs_by_remapping() {
    let runs = Runs::new(64 * MIB, 1).unwrap();
    let from = runs.alloc(2000, 1).unwrap().start;
    runs.fill(from, 2000, 42);
    let to = runs.alloc(4000, 1).unwrap().start;
    // SAFETY: the test allocated both runs, and no other thread uses them.
    if unsafe { runs.move_pages(from, to, 2000) }.is_ok() {
        assert!(runs.holds(to, 2000, 42));
        assert!(runs.holds(from, 2000, 0), "what was moved away is empty, and can be used");
        runs.fill(from, 2000, 1);
    }
    [from, to].into_iter().for_each(|start| runs.give(start, 0));
    assert_eq!(runs.check(), Ok(()));
}

#[test]
fn threads_share_runs() {
    let runs = Runs::new(512 * MIB, 4).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4_u16 {
            let runs = &runs;
            scope.spawn(move || {
                let mut chance = Rng::with_seed(number.into());
                let mut live: Vec<(NonNull<u8>, u32, u64)> = Vec::new();
                for round in 0..4000 {
                    let what = u64::from(number) << 32 | round;
                    // All threads use one CPU's slots now and then.
                    let cpu = CpuId(number % chance.u16(1..4));
                    let pages = chance.u32(1..=40);
                    let cached = runs.alloc_cached(cpu, pages).map_or_else(|| runs.alloc(pages, 1), Ok);
                    let start = cached.unwrap().start;
                    runs.fill(start, pages, what);
                    live.push((start, pages, what));
                    if live.len() > 20 {
                        let (start, pages, what) = live.swap_remove(chance.usize(..20));
                        assert!(runs.holds(start, pages, what));
                        if let FreeOutcome::Uncached(claimed) = runs.free_cached(cpu, start).unwrap() {
                            runs.free(claimed, 0);
                        }
                    }
                }
                live.into_iter().for_each(|(start, ..)| runs.give(start, 0));
            });
        }
    });
    runs.drain(0);
    assert_eq!(runs.check(), Ok(()));
    assert_eq!(runs.usage().used, 0);
}

/// Only pages that have memory are charged: those of runs in use, and of free runs whose memory was not returned.
#[test]
fn runs_are_charged_to_their_budget() {
    static BUDGET: MemoryBudget = MemoryBudget::unlimited();
    BUDGET.set_limit(8 * MIB);
    let runs = Runs::with_budget(64 * MIB, 1, &BUDGET).unwrap();
    let large = runs.alloc(1024, 1).unwrap();
    let small = runs.alloc(512, 1).unwrap();
    assert_eq!(runs.alloc(512, 1), Err(Errno::NOMEM), "the table needs a part of the budget");
    assert!(!runs.resize(small.start, 1024, 0), "a run must not grow beyond the budget");
    runs.give(large.start, 0);
    assert!(runs.alloc(1200, 1).is_err() && runs.usage().backed > 0, "a free run with memory is charged");
    runs.give_back(usize::MAX, u32::MAX);
    assert_eq!((runs.usage().used, runs.usage().backed), (512 * PAGE, 0));
    let again = runs.alloc(1200, 1).unwrap();
    assert!(again.is_zero);
    runs.give(again.start, 0);
    runs.give(small.start, 0);
    assert_eq!(runs.check(), Ok(()));
}

/// Mapping of the program in the way of a range: inaccessible pages, which are unmapped when the value is dropped.
pub(crate) struct Obstacle {
    start: *mut u8,
    bytes: usize,
}

impl Obstacle {
    /// Maps `bytes` bytes at an offset of a range; returns `None` if the addresses are in use.
    pub(crate) fn new(range: &Reservation, offset: usize, bytes: usize) -> Option<Obstacle> {
        let start = range.start().as_ptr().wrapping_add(offset);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: the flag makes the kernel refuse addresses that are mapped.
        let mapped = unsafe { libc::mmap(start.cast(), bytes, libc::PROT_NONE, flags, -1, 0) };
        (mapped.cast() == start).then(|| Obstacle { start, bytes })
    }

    /// Maps `bytes` bytes directly behind the mapped part of a range.
    pub(crate) fn behind(range: &Reservation, bytes: usize) -> Obstacle {
        Obstacle::new(range, range.mapped(), bytes).expect("nothing is mapped there")
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        // SAFETY: the pages belong to this value, and are not accessible.
        assert_eq!(unsafe { libc::munmap(self.start.cast(), self.bytes) }, 0, "the pages cannot be unmapped");
    }
}

#[test]
fn range_goes_on_behind_other_mappings() {
    let runs = Runs::new(1 << 40, 1).unwrap();
    let mut obstacles = Vec::new();
    let mut live = Vec::new();
    for round in 0..12_usize {
        let bytes = [PAGE, MIB, 1 << 30][round % 3];
        obstacles.push(Obstacle::behind(if round % 4 == 3 { runs.table.edges() } else { &runs.range }, bytes));
        for pages in [600, 20, 5000] {
            let start = runs.alloc(pages, 1).unwrap().start;
            runs.fill(start, pages, round as u64);
            assert!(runs.resize(start, pages - 7, 0));
            live.push((start, pages - 7, round as u64));
        }
        assert_eq!(runs.check(), Ok(()));
    }
    for &(start, pages, what) in &live {
        assert!(runs.holds(start, pages, what), "a page belongs to two runs");
        assert_eq!(runs.usable(start), Ok(pages as usize * PAGE));
        let inside = start.as_ptr().addr() + 5 * PAGE + 1;
        let extent = RunExtent { start, bytes: pages as usize * PAGE, is_used: true };
        assert_eq!(runs.run_around(inside), Some(extent));
    }
    assert!(runs.range.holes().iter().count() > 2);
    for hole in runs.range.holes().iter() {
        for page in [hole.start, hole.start + 300, hole.end - 1] {
            let start = runs.address(page);
            assert!(runs.free_cached(CPU, start).is_err() && runs.run_around(start.as_ptr().addr()).is_none());
        }
    }
    live.into_iter().for_each(|(start, ..)| runs.give(start, 0));
    runs.drain(0);
    assert_eq!(runs.check(), Ok(()));
    assert_eq!(runs.usage().used, 0);
}

#[test]
fn range_grows_again_after_the_part_behind_a_hole_was_unmapped() {
    let runs = Runs::new(1 << 40, 1).unwrap();
    let first = runs.alloc(100, 1).unwrap().start;
    let mut obstacles = std::vec![Obstacle::behind(&runs.range, PAGE)];
    for _ in 0..4 {
        let behind = runs.alloc(50_000, 1).unwrap().start;
        runs.fill(behind, 50_000, 1);
        runs.give(behind, 1);
        runs.drain(1);
        runs.give_back(usize::MAX, 1);
        let end = runs.range.mapped();
        runs.unmap_end();
        runs.unmap_end();
        assert!(runs.range.mapped() < end);
        assert_eq!(runs.check(), Ok(()));
        obstacles.push(Obstacle::behind(&runs.range, PAGE));
    }
    assert_eq!(runs.range.holes().iter().count(), 1, "adjacent holes are one");
    assert!(runs.holds(first, 100, 0));
}

#[test]
fn run_in_use_is_not_extended_over_a_hole() {
    let runs = Runs::new(1 << 30, 1).unwrap();
    let [first, last] = [500, 12].map(|pages| runs.alloc(pages, 1).unwrap().start);
    let _obstacle = Obstacle::behind(&runs.range, PAGE);
    assert!(!runs.resize(last, 600, 0));
    let behind = runs.alloc(100, 1).unwrap().start;
    assert!(!runs.resize(last, 13, 0) && runs.resize(behind, 200, 0));
    [first, last, behind].into_iter().for_each(|start| runs.give(start, 0));
    assert_eq!(runs.check(), Ok(()));
}

#[test]
fn blocked_range_without_room_fails() {
    let runs = Runs::new(64 * MIB, 1).unwrap();
    let first = runs.alloc(100, 1).unwrap().start;
    let rest = Obstacle::behind(&runs.range, 64 * MIB - runs.range.mapped());
    assert!(runs.alloc(1000, 1).is_err());
    assert_eq!(runs.check(), Ok(()));
    drop(rest);
    let second = runs.alloc(1000, 1).unwrap().start;
    [first, second].into_iter().for_each(|start| runs.give(start, 0));
    assert_eq!(runs.check(), Ok(()));
}

#[test]
fn range_with_too_many_holes_fails_and_stays_usable() {
    let runs = Runs::new(1 << 40, 1).unwrap();
    let mut obstacles = Vec::new();
    let mut live = Vec::new();
    while let Ok(run) = runs.alloc(512, 1) {
        runs.fill(run.start, 1, live.len() as u64);
        live.push(run.start);
        // The range has not grown since the last time if the addresses are in use.
        obstacles.extend(Obstacle::new(&runs.range, runs.range.mapped(), PAGE));
    }
    assert_eq!(runs.range.holes().iter().count(), HOLES_MAX);
    for (number, &start) in live.iter().enumerate() {
        assert!(runs.holds(start, 1, number as u64));
        runs.give(start, 0);
    }
    assert_eq!(runs.check(), Ok(()));
    assert!(runs.alloc(512, 1).is_ok());
}
