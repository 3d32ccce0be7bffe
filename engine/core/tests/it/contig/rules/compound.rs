//! Compound ranges: one block up to order 10, several blocks of order 10 above. They can only be freed as a whole.

use freehold::base::{Gfp, Order, Pfn};
use freehold::page::{ContigError, FreeError, Placement, RangeError};
use freehold::policy::ContigPolicy::Batched;

use crate::common::picture::Picture;
use crate::contig::scene::{BOTH, MOVABLE, bare, config, held, state, with_frames};
use crate::contig::span;

/// Twice 64 Ki frames.
const FRAMES: u32 = 2 << 16;
const COMPOUND: Gfp = Gfp::KERNEL.union(Gfp::COMP);

#[test]
fn compound_range_is_one_block() {
    for contig in BOTH {
        with_frames(&config(contig), 8192, |engine| {
            let before = Picture::take(engine);
            for order in Order::all() {
                let range = span(3072, 3072 + order.pages());
                for gfp in [COMPOUND, MOVABLE | Gfp::COMP] {
                    engine.alloc_contig_range(range.clone(), gfp).expect("the range must be free");
                    assert_eq!(state(engine, 3072), held(order, 1, gfp));
                    engine.free_contig_range(range.clone()).expect("the pages must be allocated");
                    engine.alloc_contig_frozen_range(range.clone(), gfp).expect("the range must be free");
                    assert_eq!(state(engine, 3072), held(order, 0, gfp));
                    engine.free_contig_frozen_range(range.clone()).expect("the pages must be allocated");
                }
            }
            engine.drain_all_pages();
            assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None);
        });
    }
}

#[test]
fn gigantic_range_is_a_row_of_the_largest_blocks() {
    for contig in BOTH {
        with_frames(&bare(contig), FRAMES, |engine| {
            let before = Picture::take(engine);
            for exponent in 11..=16 {
                let pages = 1 << exponent;
                let pfn = engine
                    .alloc_contig_pages(COMPOUND, pages, Placement::ANYWHERE)
                    .expect("enough memory must be free")
                    .raw();
                assert!(pfn.is_multiple_of(pages), "{pages} pages at {pfn:#x}");
                for block in (pfn..pfn + pages).step_by(1 << 10) {
                    assert_eq!(state(engine, block), held(Order::MAX, 1, COMPOUND));
                }
                assert_eq!(engine.check().expect("the check must find no error").allocated, u64::from(pages));
                engine.free_contig_range(span(pfn, pfn + pages)).expect("the pages must be allocated");
                assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None, "{pages} pages");
            }
        });
    }
}

#[test]
fn partial_free_of_a_compound_block_is_an_error() {
    for contig in BOTH {
        with_frames(&config(contig), 8192, |engine| {
            let (block, order) = (Pfn::new(2048), Order::new(8));
            engine.alloc_contig_range(span(2048, 2304), COMPOUND).expect("the range must be free");
            engine.alloc_contig_frozen_range(span(2304, 2560), COMPOUND).expect("the range must be free");
            let before = Picture::take(engine);
            let sticks_out = FreeError::CrossesEnd { pfn: block, state: held(order, 1, COMPOUND) };
            assert_eq!(engine.free_contig_range(span(2048, 2300)), Err(sticks_out));
            let inside = engine.state(Pfn::new(2050)).expect("the frames must be online");
            let refusal = FreeError::NotAllocated { pfn: Pfn::new(2050), state: inside };
            assert_eq!(engine.free_contig_range(span(2050, 2304)), Err(refusal));
            let frozen = FreeError::CrossesEnd { pfn: Pfn::new(2304), state: held(order, 0, COMPOUND) };
            assert_eq!(engine.free_contig_frozen_range(span(2304, 2400)), Err(frozen));
            let refusal = FreeError::NotAllocated { pfn: Pfn::new(2400), state: inside };
            assert_eq!(engine.free_contig_frozen_range(span(2400, 2560)), Err(refusal));
            before.expect(engine, "parts of compound blocks");
        });
    }
}

#[test]
fn compound_range_must_be_aligned_to_a_power_of_two() {
    with_frames(&config(Batched), 8192, |engine| {
        let before = Picture::take(engine);
        for (start, end, error) in [
            (2048, 2148, RangeError::PowerOfTwo { pages: 100 }),
            (2048, 5120, RangeError::PowerOfTwo { pages: 3072 }),
            (2052, 2060, RangeError::Misaligned { pfn: Pfn::new(2052), pages: 8 }),
            (1024, 3072, RangeError::Misaligned { pfn: Pfn::new(1024), pages: 2048 }),
        ] {
            assert_eq!(engine.alloc_contig_range(span(start, end), COMPOUND), Err(ContigError::Range(error)));
        }
        assert_eq!(
            engine.alloc_contig_pages(COMPOUND, 96, Placement::ANYWHERE),
            Err(ContigError::Range(RangeError::PowerOfTwo { pages: 96 }))
        );
        let aligned = engine.alloc_contig_pages(COMPOUND, 96, Placement::aligned(128));
        assert_eq!(aligned, Err(ContigError::Range(RangeError::PowerOfTwo { pages: 96 })));
        before.expect(engine, "ranges that cannot be one block");
    });
}
