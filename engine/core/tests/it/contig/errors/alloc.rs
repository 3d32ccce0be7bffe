//! Ranges that cannot be allocated.

use freehold::base::{CpuId, Gfp, Order, Pfn, State, ZoneKind};
use freehold::page::{ContigError, MinFree, RangeError};

use crate::common::picture::Picture;
use crate::common::{self, Memory, range};
use crate::contig::errors::{empty_at, out_of_range};
use crate::contig::scene::{BOTH, Engine, MOVABLE, Mover, config, page, state, take};
use crate::contig::span;
use freehold::policy::ContigPolicy;

/// A request for a range: its start, its end and its flags.
type Wrong = (u32, u32, Gfp);

/// Runs `run` on a machine with a zone, a second zone that contains an unreleased hole, and a third zone after a
/// missing section. Frames 8192 to 32767 have metadata but belong to no zone.
fn with_machine(contig: ContigPolicy, run: impl FnOnce(&Engine<'_, '_>)) {
    let mover = Mover::default();
    let config = config(contig);
    let ranges = [
        range(ZoneKind::Dma32, 0, 0, 4096),
        range(ZoneKind::Normal, 0, 4096, 8192),
        range(ZoneKind::Movable, 0, 3 << 15, (3 << 15) + 4096),
    ];
    let mut memory = Memory::new(&config, &ranges);
    let engine = common::build(&config, &ranges, &mut memory);
    for (start, end) in [(0, 4096), (4096, 7000), (7010, 8192), (3 << 15, (3 << 15) + 4096)] {
        engine.release(Pfn::new(start), Pfn::new(end)).expect("the frames must be online");
    }
    engine.set_up_watermarks(MinFree::Pages(64));
    engine.platform().answer_with(&mover);
    furnish(&engine);
    run(&engine);
}

/// Allocates blocks of every kind that can obstruct a range.
fn furnish(engine: &Engine<'_, '_>) {
    take(engine, 1000, 0, Gfp::KERNEL);
    take(engine, 1024, 3, Gfp::KERNEL);
    take(engine, 5120, 10, Gfp::KERNEL);
    // Movable but broken pages stay in place.
    take(engine, 1500, 0, MOVABLE);
    engine.poison(Pfn::new(1500)).expect("the pages must be allocated");
    engine.poison(Pfn::new(2000)).expect("the frames must be online");
    // A frozen, unmovable range.
    engine.alloc_contig_frozen_range(span(3000, 3008), Gfp::KERNEL).expect("the range must be free");
    // Pages on the lists of both CPUs; a drain would change them.
    for cpu in [1, 0] {
        engine.platform().run_on(cpu);
        let pages: Vec<Pfn> = (0..20).filter_map(|_| engine.alloc_pages(Gfp::KERNEL, Order::ZERO).ok()).collect();
        pages.iter().for_each(|&pfn| engine.free_pages(pfn, Order::ZERO).expect("the pages must be allocated"));
    }
    for cpu in [0, 1] {
        let mut pcps = engine.zones().iter().map(|zone| engine.pcp(CpuId(cpu), zone));
        assert!(pcps.any(|pcp| pcp.inspect(|lists| lists.count() > 0)), "CPU {cpu} has pages on its lists");
    }
}

#[track_caller]
fn expect_refusals(refusals: impl Fn(&Engine<'_, '_>) -> Vec<(Wrong, ContigError)>) {
    for contig in BOTH {
        with_machine(contig, |engine| {
            let before = Picture::take(engine);
            for ((start, end, gfp), error) in refusals(engine) {
                let range = span(start, end);
                assert_eq!(engine.alloc_contig_range(range.clone(), gfp), Err(error), "{start:#x}..{end:#x}");
                before.expect(engine, &format!("{start:#x}..{end:#x}: {error}"));
                assert_eq!(engine.alloc_contig_frozen_range(range, gfp), Err(error), "{start:#x}..{end:#x}, frozen");
                before.expect(engine, &format!("{start:#x}..{end:#x}, frozen: {error}"));
            }
        });
    }
}

const K: Gfp = Gfp::KERNEL;

#[test]
fn empty_range_or_contradictory_flags_is_an_error() {
    let both = K | Gfp::MOVABLE | Gfp::RECLAIMABLE;
    expect_refusals(|_| {
        vec![
            ((2048, 2048, K), ContigError::Range(empty_at(2048))),
            ((2049, 2048, K), ContigError::Range(empty_at(2049))),
            ((u32::MAX, 0, K), ContigError::Range(empty_at(u32::MAX))),
            ((1 << 20, 1 << 20, K), ContigError::Range(empty_at(1 << 20))),
            ((2048, 2049, both), ContigError::Flags),
            ((2048, 2049, K | Gfp::DMA | Gfp::DMA32), ContigError::Flags),
        ]
    });
}

#[test]
fn range_outside_memory_is_an_error() {
    expect_refusals(|_| {
        let refusals = [
            ((8000, 8193, K), 8192),
            ((8192, 8200, K), 8192),
            ((9000, 9001, K), 9000),
            ((1 << 15, (1 << 15) + 1, K), 1 << 15),
            ((3 << 15, 4 << 15, MOVABLE), (3 << 15) + 4096),
            (((3 << 15) - 8, (3 << 15) + 8, MOVABLE), (3 << 15) - 8),
            ((7000, 3 << 15, K), 8192),
            ((1 << 22, (1 << 22) + 1, K), 1 << 22),
            ((u32::MAX - 1, u32::MAX, K), u32::MAX - 1),
        ];
        refusals.into_iter().map(|(wrong, pfn)| (wrong, ContigError::Range(out_of_range(pfn)))).collect()
    });
}

#[test]
fn range_across_zones_is_an_error() {
    expect_refusals(|engine| {
        let crosses = RangeError::CrossesZone { pfn: Pfn::new(4096), state: state(engine, 4096) };
        let ranges = [(4095, 4097, K), (2100, 8192, K), (0, 8300, K)];
        ranges.map(|range| (range, ContigError::Range(crosses))).to_vec()
    });
}

#[test]
fn first_unmovable_frame_is_reported() {
    expect_refusals(|engine| {
        let cases = [
            // Pages and blocks: ranges that contain them, start inside them, or end inside them.
            (960, 1030, 1000),
            (1000, 1001, 1000),
            (1001, 1100, 1024),
            (1027, 1100, 1024),
            (1001, 1025, 1024),
            (5000, 5500, 5120),
            (5500, 5600, 5120),
            (6100, 6200, 5120),
            // Broken pages: one that is allocated, and one that was free.
            (1400, 1600, 1500),
            (1999, 2001, 2000),
            (1501, 2048, 2000),
            // Frozen pages.
            (3001, 3002, 3000),
            (2900, 3200, 3000),
            // Frames that were never released.
            (6990, 7020, 7000),
            (7005, 7006, 7005),
        ];
        let fixed = cases.map(|(.., pfn)| ContigError::Unmovable { pfn: Pfn::new(pfn), state: state(engine, pfn) });
        cases.into_iter().zip(fixed).map(|((start, end, _), error)| ((start, end, K), error)).collect()
    });
}

#[test]
fn scene_has_the_described_states() {
    with_machine(BOTH[0], |engine| {
        assert_eq!(state(engine, 1000), page(K));
        assert_eq!(state(engine, 2000), State::Withheld);
        assert_eq!((state(engine, 7000), state(engine, 5500)), (State::Reserved, State::Interior));
        assert!(matches!(state(engine, 1500), State::Allocated { movable: true, poisoned: true, .. }));
        assert!(matches!(state(engine, 3000), State::Allocated { refs: 0, movable: false, .. }));
    });
}
