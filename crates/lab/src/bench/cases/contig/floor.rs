//! Floors: the least that a free which checks its pages must do, measured and not guessed.
//!
//! Each is a loop over the same frames as the free beside it. It reads groups of frames and takes one branch a group, as
//! the engine does; and since what a compiler makes of such a loop depends on the size of a group, three sizes are timed
//! every time, and the fastest of them is the floor.

use std::hint::black_box;
use std::ops::Range;

use freehold::base::frame::Word;
use freehold::base::{Frame, Order, Pfn};

use super::ranges::{LARGE_PAGES, MadeOf};
use crate::bench::clock::time;
use crate::bench::engine::Engine;
use crate::bench::subject::Sample;

/// Times the checks alone of frozen single pages: a load a page.
pub fn check_pages(engine: &Engine<'_>, ranges: u64) -> Sample {
    on_large(engine, ranges, MadeOf::FrozenPages, |range| fastest(engine, range, 0, |_, _| {}))
}

/// Times the checks of frozen single pages with a store to each, which a free needs to notice a page freed twice.
pub fn check_and_store(engine: &Engine<'_>, ranges: u64) -> Sample {
    on_large(engine, ranges, MadeOf::FrozenPages, |range| fastest(engine, range, 0, Frame::set))
}

/// Times the checks of pages with references, and the drop of one each.
pub fn check_and_drop(engine: &Engine<'_>, ranges: u64) -> Sample {
    on_large(engine, ranges, MadeOf::Pages, |range| {
        fastest(engine, range, 1, |frame, word| frame.set(word.with_refs(0)))
    })
}

/// Times the checks of the heads of frozen blocks: a load a block.
pub fn check_heads(engine: &Engine<'_>, ranges: u64) -> Sample {
    on_large(engine, ranges, MadeOf::FrozenBlocks, |range| {
        time_check(|| {
            let mut blocks = black_box(range).start.blocks_up_to(range.end, Order::MAX);
            blocks.all(|(pfn, order)| engine.map().frame(pfn).word().is_held_of(order, 0))
        })
    })
}

fn on_large(engine: &Engine<'_>, ranges: u64, made_of: MadeOf, look: impl Fn(&Range<Pfn>) -> Sample) -> Sample {
    let once = |_| {
        let range = made_of.allocate(engine, LARGE_PAGES);
        let sample = look(&range);
        made_of.free(engine, range);
        sample
    };
    (0..ranges).map(once).sum()
}

/// The fastest of the loops over a range of single pages. Leaves the range as it was.
fn fastest(engine: &Engine<'_>, range: &Range<Pfn>, refs: u32, store: impl Fn(&Frame, Word) + Copy) -> Sample {
    let passes: [&dyn Fn() -> bool; 3] =
        [&|| pass::<4>(engine, range, refs, store), &|| pass::<8>(engine, range, refs, store), &|| {
            pass::<16>(engine, range, refs, store)
        }];
    let timed = passes.map(|pass| {
        let sample = time_check(pass);
        let frames = engine.map().frames(range).flatten();
        frames.for_each(|frame| frame.set(frame.word().with_refs(refs)));
        sample
    });
    timed.into_iter().min_by_key(|sample| sample.nanoseconds).expect("there are three")
}

fn time_check(check: impl FnOnce() -> bool) -> Sample {
    let mut held = false;
    let sample = time(1, || held = check());
    assert!(held, "the range is ours");
    sample
}

/// Whether all frames are single pages with so many references; stores to each group that is, frame by frame. A
/// function of its own, so that the compiler makes the same loop of it wherever it stands.
#[inline(never)]
fn pass<const N: usize>(engine: &Engine<'_>, range: &Range<Pfn>, refs: u32, store: impl Fn(&Frame, Word)) -> bool {
    let group_holds = |group: &[Frame; N]| {
        let words = group.each_ref().map(Frame::word);
        let held = words.iter().fold(true, |all, word| all & word.is_held_of(Order::ZERO, refs));
        if held {
            group.iter().zip(words).for_each(|(frame, word)| store(frame, word));
        }
        held
    };
    engine.map().frames(black_box(range)).all(|frames| {
        let (groups, rest) = frames.as_chunks::<N>();
        assert!(rest.is_empty(), "a large range is made of whole groups");
        groups.iter().all(group_holds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::{GIB, with_engine};
    use crate::registry;

    #[test]
    fn a_floor_notices_a_page_that_is_not_the_callers() {
        with_engine(&registry::baseline(), GIB, |engine| {
            let range = MadeOf::Pages.allocate(engine, LARGE_PAGES);
            assert!(pass::<8>(engine, &range, 1, |_, _| {}));
            engine.get_page(range.start.offset(100)).unwrap();
            assert!(!pass::<8>(engine, &range, 1, |_, _| {}));
            let frozen = MadeOf::FrozenPages.allocate(engine, LARGE_PAGES);
            assert!(pass::<16>(engine, &frozen, 0, |_, _| {}));
            MadeOf::FrozenPages.free(engine, frozen.clone());
            assert!(!pass::<16>(engine, &frozen, 0, |_, _| {}));
        })
        .unwrap();
    }
}
