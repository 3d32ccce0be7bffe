//! Blocks that are not freed with the rest of their range: broken, bad and shared ones. Each ends a run of frames that
//! are freed together.

use fastrand::Rng;
use freehold::base::{Gfp, MigrateType, Order, Pfn, State};
use freehold::page::{ContigError, FreeError};
use freehold::policy::ContigPolicy::Batched;

use crate::common::picture::Picture;
use crate::common::repetitions;
use crate::contig::scene::{BOTH, Engine, bare, config, held, is_free, page, state, with_frames};
use crate::contig::{chunks, span};

const FRAMES: u32 = 8192;
const START: u32 = 1024;
const END: u32 = 1024 + 200;

/// Checks that the runs between the frames left out were freed as chunks. Requires a machine without per-CPU lists on
/// which everything around the range is allocated.
#[track_caller]
fn expect_runs(engine: &Engine<'_, '_>, left_out: &[u32]) {
    let mut start = START;
    for &end in left_out.iter().chain([&END]) {
        for (pfn, order) in chunks(start, end) {
            let free = State::ZoneFree { order, migratetype: MigrateType::Movable };
            assert_eq!(state(engine, pfn), free, "chunk {pfn:#x} of the run {start:#x}..{end:#x}");
        }
        start = end + 1;
    }
    engine.check().expect("the check must find no error");
}

#[test]
fn broken_pages_split_a_run_and_stay_withheld() {
    for contig in BOTH {
        with_frames(&bare(contig), FRAMES, |engine| {
            engine.alloc_contig_range(span(0, FRAMES), Gfp::KERNEL).expect("the range must be free");
            let broken = [START, START + 20, START + 21, START + 64, END - 1];
            broken.iter().for_each(|&pfn| engine.poison(Pfn::new(pfn)).expect("the frames must be online"));
            engine.free_contig_range(span(START, END)).expect("the pages must be allocated");
            expect_runs(engine, &broken);
            assert!(broken.iter().all(|&pfn| state(engine, pfn) == State::Withheld));
            let refusal = ContigError::Unmovable { pfn: Pfn::new(START + 20), state: State::Withheld };
            assert_eq!(engine.alloc_contig_range(span(START + 1, END), Gfp::KERNEL), Err(refusal));
            assert_eq!(engine.alloc_contig_range(span(START + 1, START + 20), Gfp::KERNEL), Ok(()));
            let atomic = Gfp::ATOMIC | Gfp::MEMALLOC;
            while let Ok(pfn) = engine.alloc_pages(atomic, Order::ZERO) {
                assert!(!broken.contains(&pfn.raw()), "broken frame {pfn} was given out again");
            }
            let census = engine.check().expect("the check must find no error");
            assert_eq!((census.withheld, census.free), (broken.len() as u64, 0));
        });
    }
}

#[test]
fn bad_page_splits_a_run_and_is_withheld() {
    for contig in BOTH {
        with_frames(&bare(contig), FRAMES, |engine| {
            engine.alloc_contig_range(span(0, START), Gfp::KERNEL).expect("the range must be free");
            engine.alloc_contig_range(span(END, FRAMES), Gfp::KERNEL).expect("the range must be free");
            engine.alloc_contig_frozen_range(span(START, END), Gfp::KERNEL).expect("the range must be free");
            let bad = [START + 31, START + 100];
            for pfn in bad {
                engine.free_contig_frozen_range(span(pfn, pfn + 1)).expect("the pages must have no references");
                engine.alloc_contig_range(span(pfn, pfn + 1), Gfp::KERNEL).expect("the range must be free");
            }
            let error = FreeError::Bad { pfn: Pfn::new(bad[0]), state: page(Gfp::KERNEL) };
            assert_eq!(engine.free_contig_frozen_range(span(START, END)), Err(error));
            expect_runs(engine, &bad);
            assert!(bad.iter().all(|&pfn| state(engine, pfn) == State::Withheld));
        });
    }
}

#[test]
fn shared_page_splits_a_run_and_is_freed_at_the_last_put() {
    for contig in BOTH {
        with_frames(&bare(contig), FRAMES, |engine| {
            engine.alloc_contig_range(span(0, FRAMES), Gfp::KERNEL).expect("the range must be free");
            let shared = [START + 7, START + 8, START + 150];
            shared.iter().for_each(|&pfn| engine.get_page(Pfn::new(pfn)).expect("the pages must be allocated"));
            engine.free_contig_range(span(START, END)).expect("the pages must be allocated");
            expect_runs(engine, &shared);
            assert!(shared.iter().all(|&pfn| state(engine, pfn) == page(Gfp::KERNEL)), "one reference is left");
            shared.iter().for_each(|&pfn| engine.put_page(Pfn::new(pfn)).expect("the pages must be allocated"));
            expect_runs(engine, &[]);
        });
    }
}

/// In a shared block that is not compound, only the head is shared.
#[test]
fn tail_pages_of_a_shared_block_are_freed_immediately() {
    for contig in BOTH {
        with_frames(&bare(contig), FRAMES, |engine| {
            engine.alloc_contig_range(span(0, FRAMES), Gfp::KERNEL).expect("the range must be free");
            engine.free_contig_range(span(START, START + 8)).expect("the pages must be allocated");
            let (block, order) = (Pfn::new(START), Order::new(3));
            assert_eq!(engine.isolate_free_page(block, order, Gfp::KERNEL), Ok(true));
            engine.get_page(block).expect("the pages must be allocated");
            engine.free_contig_range(span(START, END)).expect("the pages must be allocated");
            assert_eq!(state(engine, START), page(Gfp::KERNEL));
            assert!((START + 1..END).all(|pfn| is_free(engine, pfn)));
            engine.put_page(block).expect("the pages must be allocated");
            expect_runs(engine, &[]);
        });
    }
}

#[test]
fn shared_compound_block_stays_allocated() {
    for contig in BOTH {
        with_frames(&bare(contig), FRAMES, |engine| {
            let gfp = Gfp::KERNEL | Gfp::COMP;
            engine.alloc_contig_range(span(START, START + 64), gfp).expect("the range must be free");
            engine.get_page(Pfn::new(START)).expect("the pages must be allocated");
            engine.free_contig_range(span(START, START + 64)).expect("the pages must be allocated");
            assert_eq!(state(engine, START), held(Order::new(6), 1, gfp));
            engine.put_page(Pfn::new(START)).expect("the pages must be allocated");
            assert_eq!(engine.check().expect("the check must find no error").allocated, 0);
        });
    }
}

/// State of a page when its range is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Freed,
    Broken,
    Shared,
}

/// Random mixtures of pages, under both policies.
#[test]
fn random_page_mixtures_free_alike_under_both_policies() {
    for seed in 0..repetitions(30) {
        let mut rng = Rng::with_seed(seed);
        let spoiled = rng.u32(1..20);
        let luck = (START..END).map(|_| rng.u32(0..100));
        let drawn =
            luck.map(|odd| if odd < spoiled { [Fate::Broken, Fate::Shared][odd as usize % 2] } else { Fate::Freed });
        let fates: Vec<Fate> = drawn.collect();
        let after = BOTH.map(|contig| with_frames(&config(contig), FRAMES, |engine| sort_out(engine, &fates)));
        assert_eq!(after[0].difference_but_tuning(&after[1]), None, "seed {seed}");
    }
}

fn sort_out(engine: &Engine<'_, '_>, fates: &[Fate]) -> Picture {
    engine.alloc_contig_range(span(START, END), Gfp::KERNEL).expect("the range must be free");
    for (pfn, fate) in (START..).zip(fates) {
        match fate {
            Fate::Freed => {}
            Fate::Broken => engine.poison(Pfn::new(pfn)).expect("the pages must be allocated"),
            Fate::Shared => engine.get_page(Pfn::new(pfn)).expect("the pages must be allocated"),
        }
    }
    engine.free_contig_range(span(START, END)).expect("the pages must be allocated");
    engine.drain_all_pages();
    for (pfn, fate) in (START..).zip(fates) {
        let as_expected = match fate {
            Fate::Freed => is_free(engine, pfn),
            Fate::Broken => state(engine, pfn) == State::Withheld,
            Fate::Shared => state(engine, pfn) == page(Gfp::KERNEL),
        };
        assert!(as_expected, "page {pfn:#x} with fate {fate:?} has state {:?}", state(engine, pfn));
    }
    Picture::take(engine)
}

/// Confirms that the expected chunks are those of whole runs: a page that is neither broken nor shared does not end a
/// run.
#[test]
fn movable_page_does_not_split_a_run() {
    with_frames(&bare(Batched), FRAMES, |engine| {
        engine.alloc_contig_range(span(0, START), Gfp::KERNEL).expect("the range must be free");
        engine.alloc_contig_range(span(END, FRAMES), Gfp::KERNEL).expect("the range must be free");
        engine.alloc_contig_range(span(START, START + 77), Gfp::HIGHUSER_MOVABLE).expect("the range must be free");
        engine.alloc_contig_range(span(START + 77, END), Gfp::KERNEL).expect("the range must be free");
        engine.free_contig_range(span(START, END)).expect("the pages must be allocated");
        expect_runs(engine, &[]);
    });
}
