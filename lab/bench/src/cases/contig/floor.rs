//! Floors: the measured minimum cost of a free that checks its pages.
//!
//! Each floor is a loop over the same frames as the free that it is compared with. It reads groups of frames and takes
//! one branch per group, as the engine does. The compiled form of such a loop depends on the size of a group, so three
//! sizes are timed each time, and the fastest is the floor.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use freehold::base::{Order, Pfn};
use freehold_timing::clock::Sample;
use freehold_timing::clock::time;

use super::ranges::{LARGE_PAGES, MadeOf};
use crate::engine::Engine;

/// Times only the checks of frozen single pages: one load per page.
pub(super) fn check_pages(engine: &Engine<'_>, ranges: u64) -> Sample {
    on_large(engine, ranges, MadeOf::FrozenPages, |range| fastest(engine, range, 0))
}

/// Times the checks of single pages and a store to each page, which is sufficient where a lock excludes other threads.
/// The loop works in groups, as the engine does. It uses words of its own, laid out like the engine's, because only the
/// engine may write the engine's words.
pub(super) fn check_and_store(engine: &Engine<'_>, ranges: u64, made_of: MadeOf) -> Sample {
    on_large(engine, ranges, made_of, |range| {
        let words: Vec<Words> = (range.start.raw()..range.end.raw()).map(|_| Words::held()).collect();
        time_check(|| store_all(black_box(&words)))
    })
}

/// Times the checks of the heads of frozen blocks: one load per block.
pub(super) fn check_heads(engine: &Engine<'_>, ranges: u64) -> Sample {
    on_large(engine, ranges, MadeOf::FrozenBlocks, |range| {
        time_check(|| {
            let mut blocks = black_box(range).start.blocks_up_to(range.end, Order::MAX);
            blocks.all(|(pfn, order)| engine.map().frame(pfn).word().is_held_of(order, 0))
        })
    })
}

fn on_large(engine: &Engine<'_>, ranges: u64, made_of: MadeOf, look: impl Fn(&Range<Pfn>) -> Sample) -> Sample {
    (0..ranges)
        .map(|_| {
            let range = made_of.allocate(engine, LARGE_PAGES);
            let sample = look(&range);
            made_of.free(engine, range);
            sample
        })
        .sum()
}

/// Metadata of a frame, laid out as in the engine.
#[repr(align(16))]
pub(super) struct Words(AtomicU64);

impl Words {
    const HELD: u64 = 3;
    const CLAIMED: u64 = 4;

    /// Returns the word of an allocated page.
    pub(super) fn held() -> Words {
        Words(AtomicU64::new(Words::HELD))
    }

    fn is_held(&self) -> bool {
        self.0.load(Relaxed) & 0xff == Words::HELD
    }

    fn store(&self) {
        self.0.store(Words::CLAIMED, Relaxed);
    }

    /// Claims the page with the minimum that excludes other threads: a load, and a compare-exchange.
    #[inline(always)]
    pub(super) fn claim(&self) -> bool {
        let seen = self.0.load(Relaxed);
        seen & 0xff == Words::HELD && self.0.compare_exchange(seen, Words::CLAIMED, AcqRel, Relaxed).is_ok()
    }
}

/// Checks that all words are held and stores to them. Returns false at the first group with a word that is not held.
#[inline(never)]
fn store_all(words: &[Words]) -> bool {
    let (groups, rest) = words.as_chunks::<8>();
    assert!(rest.is_empty(), "a large range consists of whole groups");
    groups.iter().all(|group| {
        let held = group.iter().fold(true, |all, word| all & word.is_held());
        if held {
            group.iter().for_each(Words::store);
        }
        held
    })
}

/// Times the check of a range of single pages in each group size, and returns the fastest.
fn fastest(engine: &Engine<'_>, range: &Range<Pfn>, refs: u32) -> Sample {
    let passes: [&dyn Fn() -> bool; 3] =
        [&|| pass::<4>(engine, range, refs), &|| pass::<8>(engine, range, refs), &|| pass::<16>(engine, range, refs)];
    let timed = passes.map(time_check);
    timed.into_iter().min_by_key(|sample| sample.nanoseconds).expect("three passes were timed")
}

/// Times a check, which must return true.
pub(super) fn time_check(check: impl FnOnce() -> bool) -> Sample {
    let mut held = false;
    let sample = time(1, || held = check());
    assert!(held, "the range is allocated");
    sample
}

/// Returns whether all frames are single pages with `refs` references. A separate function, so that the compiler
/// generates the same loop for each caller.
#[inline(never)]
fn pass<const N: usize>(engine: &Engine<'_>, range: &Range<Pfn>, refs: u32) -> bool {
    engine.map().frames(black_box(range)).all(|frames| {
        let (groups, rest) = frames.as_chunks::<N>();
        assert!(rest.is_empty(), "a large range consists of whole groups");
        groups.iter().all(|group| group.iter().fold(true, |all, frame| all & frame.word().is_page_of(refs)))
    })
}
