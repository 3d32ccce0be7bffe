//! `alloc_contig_pages`: returns the first range that is available, starting with the preferred zone.

use freehold::base::{Gfp, Order, Pfn, ZoneKind};
use freehold::page::{ContigError, MinFree, Placement, RangeError};
use freehold::policy::ContigPolicy::Batched;

use crate::common::picture::Picture;
use crate::common::{range, with_machine};
use crate::contig::scene::{MOVABLE, Mover, bare, config, held, page, state, take, with_area, with_frames};

const FRAMES: u32 = 8192;

#[test]
fn search_finds_the_first_range_at_the_requested_place() {
    let below = |frames| Placement::ANYWHERE.below(Pfn::new(frames));
    with_frames(&config(Batched), FRAMES, |engine| {
        // The obstacle is a block of frames 0..8, so frame 8 is the first free frame.
        take(engine, 0, 3, Gfp::KERNEL);
        for (pages, place, expected) in [
            (1, Placement::ANYWHERE, Ok(8)),
            (2, Placement::ANYWHERE, Ok(9)),
            (3, Placement::aligned(4), Ok(12)),
            (7, Placement::ANYWHERE, Ok(15)),
            (1000, Placement::aligned(512), Ok(512)),
            (1, below(11), Err(ContigError::NoRange)),
            (1, below(12), Ok(11)),
            (490, below(512), Ok(22)),
            (1, below(512), Err(ContigError::NoRange)),
            (6680, Placement::ANYWHERE, Ok(1512)),
            (1, Placement::ANYWHERE, Err(ContigError::NoRange)),
            (1, Placement::aligned(0), Err(ContigError::Range(RangeError::PowerOfTwo { pages: 0 }))),
            (1, Placement::aligned(3), Err(ContigError::Range(RangeError::PowerOfTwo { pages: 3 }))),
            (1, Placement::aligned(1 << 31), Err(ContigError::NoRange)),
            (1, below(0), Err(ContigError::NoRange)),
        ] {
            let found = engine.alloc_contig_pages(Gfp::KERNEL, pages, place);
            assert_eq!(found, expected.map(Pfn::new), "{pages} pages at {place:?}");
        }
        assert_eq!(engine.check().expect("the check must find no error").allocated, u64::from(FRAMES));
    });
}

/// A range may begin in the middle of a pageblock and of a free block, so all but the frames beside an obstacle are of
/// use.
#[test]
fn search_uses_all_frames_between_two_obstacles() {
    for (first, pages) in [(1, 6), (511, 514), (700, 5000), (1, 8189)] {
        with_frames(&config(Batched), FRAMES, |engine| {
            [first - 1, first + pages].into_iter().for_each(|pfn| take(engine, pfn, 0, Gfp::KERNEL));
            let place = Placement::ANYWHERE.below(Pfn::new(first + pages));
            assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, pages, place), Ok(Pfn::new(first)), "{pages} pages");
        });
    }
}

#[test]
fn search_migrates_movable_pages_and_skips_pinned_pages() {
    let mover = Mover::default();
    with_frames(&bare(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        let moved = mover.own(engine, 100, 0, MOVABLE);
        let pinned = mover.own(engine, 1030, 0, MOVABLE);
        mover.pinned.borrow_mut().push(1030);
        take(engine, 2048, 10, Gfp::KERNEL);
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 1024, Placement::aligned(1024)), Ok(Pfn::new(0)));
        assert!(mover.place(moved) >= 1024);
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 1024, Placement::aligned(1024)), Ok(Pfn::new(3072)));
        assert_eq!(mover.place(pinned), 1030);
        assert_eq!(state(engine, 1030), page(MOVABLE));
    });
}

/// Pageblocks that the search has passed are in use again: the only free place for a block is in one of them.
#[test]
fn search_releases_the_pageblocks_that_it_has_passed() {
    let mover = Mover::default();
    with_frames(&bare(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        mover.own(engine, 1023, 0, MOVABLE);
        mover.isolated_never.borrow_mut().push(1023);
        let moved = mover.own(engine, 1030, 0, MOVABLE);
        take(engine, 0, 9, Gfp::KERNEL);
        (1536..FRAMES).step_by(512).for_each(|pfn| take(engine, pfn, 9, Gfp::KERNEL));
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 512, Placement::ANYWHERE), Ok(Pfn::new(1024)));
        assert!((512..1023).contains(&mover.place(moved)));
        assert_eq!(mover.asked.borrow().len(), 1, "the block that cannot be isolated was asked for");
    });
}

/// A large block for which there is no new place stays, and smaller blocks are moved nevertheless.
#[test]
fn search_moves_small_blocks_past_a_large_one_without_a_place() {
    let mover = Mover::default();
    with_frames(&bare(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        let large = mover.own(engine, 0, 9, MOVABLE);
        let small = mover.own(engine, 1030, 0, MOVABLE);
        (1024..FRAMES).step_by(512).skip(2).for_each(|pfn| take(engine, pfn, 0, Gfp::KERNEL));
        take(engine, 512, 9, Gfp::KERNEL);
        let place = Placement::ANYWHERE.below(Pfn::new(2048));
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 1000, place), Ok(Pfn::new(1024)));
        assert_eq!(mover.place(large), 0);
        assert!(mover.place(small) >= 2048);
    });
}

#[test]
fn search_tries_zones_from_the_highest_allowed() {
    let zones = [
        range(ZoneKind::Dma32, 0, 0, 4096),
        range(ZoneKind::Normal, 0, 4096, 6144),
        range(ZoneKind::Movable, 0, 6144, 8192),
    ];
    with_machine(&config(Batched), &zones, MinFree::Pages(64), |engine| {
        for (gfp, pages, expected) in [
            (Gfp::HIGHUSER_MOVABLE, 2048, Some(6144)),
            (Gfp::KERNEL, 4096, Some(0)),
            (Gfp::KERNEL, 1024, Some(4096)),
            (Gfp::KERNEL | Gfp::DMA32, 1, None),
            (Gfp::HIGHUSER_MOVABLE, 1024, Some(5120)),
            (Gfp::HIGHUSER_MOVABLE, 1, None),
        ] {
            let found = engine.alloc_contig_frozen_pages(gfp, pages, Placement::aligned(1024));
            assert_eq!(found, expected.map(Pfn::new).ok_or(ContigError::NoRange), "{pages} pages for {gfp:?}");
        }
        assert_eq!(
            state(engine, 4096),
            held(Order::MAX, 0, Gfp::KERNEL),
            "the pages of the range must have no references"
        );
        assert_eq!(engine.check().expect("the check must find no error").free, 0);
    });
}

#[test]
fn search_skips_cma_areas() {
    with_area(&config(Batched), FRAMES, (0, 4096, 0), |engine, _| {
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 64, Placement::ANYWHERE), Ok(Pfn::new(4096)));
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 4096, Placement::ANYWHERE), Err(ContigError::NoRange));
    });
}

#[test]
fn failed_search_changes_nothing() {
    with_frames(&config(Batched), FRAMES, |engine| {
        (0..FRAMES).step_by(64).for_each(|pfn| take(engine, pfn, 0, Gfp::KERNEL));
        let before = Picture::take(engine);
        for (gfp, pages, error) in [
            (Gfp::KERNEL, 64, ContigError::NoRange),
            (Gfp::KERNEL, FRAMES + 1, ContigError::NoRange),
            (Gfp::KERNEL, u32::MAX, ContigError::NoRange),
            (Gfp::KERNEL, 0, ContigError::Range(RangeError::Empty { start: Pfn::new(0) })),
            (Gfp::KERNEL | Gfp::MOVABLE | Gfp::RECLAIMABLE, 1, ContigError::Flags),
        ] {
            assert_eq!(engine.alloc_contig_pages(gfp, pages, Placement::ANYWHERE), Err(error), "{pages} pages");
            before.expect(engine, "a search without success");
        }
        assert_eq!(engine.alloc_contig_pages(Gfp::KERNEL, 63, Placement::ANYWHERE), Ok(Pfn::new(1)));
    });
}
