//! Tests of runs: random operations with checks of contents and invariants, and single cases.

extern crate std;

use std::vec::Vec;

use fastrand::Rng;

use super::*;

const CPU: CpuId = CpuId(0);
const MIB: usize = 1 << 20;

impl Runs {
    fn check(&self) {
        assert_eq!(self.space.lock().check(&self.table), Ok(()));
    }

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
            runs.check();
        }
    }
    live.into_iter().for_each(|(start, ..)| runs.give(start, 99));
    runs.drain(99);
    runs.check();
    assert_eq!(runs.usage().used, 0);
    runs.give_back(usize::MAX, 99);
    assert_eq!((runs.usage().used, runs.usage().backed), (0, 0));
    runs.check();
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
    runs.check();
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
    runs.check();
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
    runs.check();
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
    runs.check();
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
    runs.check();
}
