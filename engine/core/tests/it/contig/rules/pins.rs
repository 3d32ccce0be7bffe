//! Pins: blocks that an owner prevents from moving.

use freehold::base::{Gfp, MigrateType, Order, Pfn};
use freehold::page::{ContigError, PinError};
use freehold::policy::ContigPolicy::Batched;

use crate::contig::scene::{MOVABLE, Mover, bare, config, held, state, take, type_at, with_area, with_frames};
use crate::contig::span;

const FRAMES: u32 = 8192;
const AREA: (u32, u32, u8) = (4096, 5120, 0);

#[test]
fn ranges_pass_over_pinned_blocks_without_a_question() {
    let mover = Mover::default();
    with_frames(&bare(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        let owner = mover.own(engine, 1030, 1, MOVABLE);
        let (pfn, order) = (Pfn::new(1030), Order::new(1));
        assert_eq!(engine.pin(pfn, order), Ok(()));
        let expected = ContigError::Unmovable { pfn, state: state(engine, 1030) };
        assert_eq!(engine.alloc_contig_range(span(1024, 2048), Gfp::KERNEL), Err(expected));
        assert!(mover.asked.borrow().is_empty(), "the platform was asked about a pinned block");
        assert_eq!(engine.unpin(pfn, order), Ok(()));
        assert_eq!(engine.alloc_contig_range(span(1024, 2048), Gfp::KERNEL), Ok(()));
        assert_ne!(mover.place(owner), 1030);
    });
}

/// A block that was borrowed from a CMA area goes to a pageblock of unmovable blocks, and the area is whole again.
#[test]
fn long_pin_moves_a_block_out_of_an_area() {
    let mover = Mover::default();
    with_area(&config(Batched), FRAMES, AREA, |engine, area| {
        engine.platform().answer_with(&mover);
        let owner = mover.own(engine, AREA.0 + 8, 2, MOVABLE);
        let (from, order) = (Pfn::new(AREA.0 + 8), Order::new(2));
        let to = engine.pin_longterm(from, order, Gfp::KERNEL).expect("the block can be moved");
        assert_eq!((mover.place(owner), type_at(engine, to.raw())), (to.raw(), MigrateType::Unmovable));
        assert_eq!(state(engine, to.raw()), held(order, 1, Gfp::KERNEL));
        assert_eq!(engine.pin_longterm(to, order, Gfp::KERNEL), Ok(to), "it is there already");
        assert_eq!(engine.unpin(to, order), Ok(()));
        assert_eq!(state(engine, to.raw()), held(order, 1, Gfp::KERNEL), "it stays unmovable");
        assert_eq!(engine.cma_alloc(area, 1024, 1, Gfp::KERNEL), Ok(Pfn::new(AREA.0)));
        mover.free(engine, owner);
        engine.check().expect("the check must find no error");
    });
}

#[test]
fn pins_that_are_not_possible_are_refused() {
    let mover = Mover::default();
    with_frames(&bare(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        mover.own(engine, 1024, 0, MOVABLE);
        mover.pinned.borrow_mut().push(1024);
        take(engine, 2048, 0, Gfp::KERNEL);
        let frozen = engine.alloc_frozen_pages(MOVABLE, Order::ZERO).expect("memory is free");
        let (pfn, order) = (Pfn::new(1024), Order::ZERO);
        assert_eq!(engine.pin_longterm(pfn, order, Gfp::KERNEL), Err(PinError::Refused));
        assert_eq!(state(engine, 1024), held(order, 1, MOVABLE), "the block stays as it was");
        for pfn in [Pfn::new(1025), frozen, Pfn::new(FRAMES), Pfn::new(u32::MAX)] {
            let answers = [engine.pin(pfn, order), engine.unpin(pfn, order)];
            assert_eq!(answers, [Err(PinError::NotAllocated); 2], "{pfn}");
            assert_eq!(engine.pin_longterm(pfn, order, Gfp::KERNEL), Err(PinError::NotAllocated), "{pfn}");
        }
        assert_eq!(engine.pin(pfn, Order::new(1)), Err(PinError::NotAllocated), "the block has another order");
        assert_eq!(engine.pin(Pfn::new(2048), order), Ok(()), "an unmovable block never moves");
        engine.pin(pfn, order).expect("the block is allocated");
        assert_eq!(engine.pin_longterm(pfn, order, Gfp::KERNEL), Err(PinError::Pinned));
        engine.check().expect("the check must find no error");
    });
}
