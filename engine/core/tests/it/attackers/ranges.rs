//! Calls every function that takes a range, at every pair of limits: forwards, backwards, empty, across zones, holes,
//! areas and partial pageblocks, over allocated blocks, and to the limits of the number range.
//!
//! As in `ends`, a refused call has changed nothing, and no call panics.

use freehold::Policy;
use freehold::base::{Gfp, Order, Pfn, ZoneKind};
use freehold::platform::host::CheckedSpinLock;

use crate::attackers::attempts::{Spare, Way, describe, make_all};
use crate::attackers::machine::range;
use crate::attackers::sample_machine::{self, Town, with_town};
use crate::common::picture::Picture;

type Call = for<'m> fn(&Town<'_, 'm, '_>, Spare<'_, 'm>, Pfn, Pfn) -> Result<(), String>;

const CALLS: [(&str, Call); 11] = [
    ("alloc_contig_range", |town, _, start, end| describe(town.engine.alloc_contig_range(start..end, Gfp::KERNEL))),
    ("alloc_contig_range compound", |town, _, start, end| {
        describe(town.engine.alloc_contig_range(start..end, Gfp::KERNEL | Gfp::COMP))
    }),
    ("alloc_contig_frozen_range", |town, _, start, end| {
        describe(town.engine.alloc_contig_frozen_range(start..end, Gfp::KERNEL))
    }),
    ("alloc_contig_range of no type", |town, _, start, end| {
        describe(town.engine.alloc_contig_range(start..end, Gfp::MOVABLE | Gfp::RECLAIMABLE))
    }),
    ("free_contig_range", |town, _, start, end| describe(town.engine.free_contig_range(start..end))),
    ("release", |town, _, start, end| describe(town.engine.release(start, end))),
    ("offline", |town, _, start, end| describe(town.engine.offline(start..end))),
    ("online", |town, _, start, end| {
        describe(town.engine.online(&range(ZoneKind::Movable, 0, start.raw(), end.raw()), &mut []))
    }),
    ("online elsewhere", |town, _, start, end| {
        describe(town.engine.online(&range(ZoneKind::Normal, 2, start.raw(), end.raw()), &mut []))
    }),
    ("reserve_cma", |town, spare, start, end| {
        let bytes = spare.next().expect("enough spare memory must be left");
        describe(town.engine.reserve_cma(start..end, Order::ZERO, bytes))
    }),
    ("reserve_cma of large units", |town, _, start, end| {
        describe(town.engine.reserve_cma(start..end, Order::MAX, &mut []))
    }),
];

type Attempt = (&'static (&'static str, Call), (u32, u32));

/// Returns the limits of the ranges: the places of `sample_machine::places` with different surroundings on either side.
fn ends() -> Vec<u32> {
    let borders =
        [sample_machine::FIRST, 2304, 2336, 2400, 2560, 2600, 2688, 3072, 3100, 3104, 4000, 4010, 4096, 4128, 5120];
    let blocks = [
        6144,
        6145,
        sample_machine::FROZEN,
        sample_machine::FROZEN + 9,
        6240,
        sample_machine::COMPOUND,
        6300,
        sample_machine::SLAB,
        7168,
    ];
    let last = [34_816, 34_848, 34_880, sample_machine::END, 0, 2047, 1 << 31, u32::MAX - 1024, u32::MAX - 1, u32::MAX];
    borders.into_iter().chain(blocks).chain(last).collect()
}

#[test]
fn range_calls_with_any_bounds_keep_the_state_valid() {
    let mut attempts: Vec<Attempt> = Vec::new();
    for call in &CALLS {
        for start in ends() {
            attempts.extend(ends().into_iter().map(|end| (call, (start, end))));
        }
    }
    let way = Way {
        attempt: |&(&(_, call), (start, end)): &Attempt, town, spare| call(town, spare, Pfn::new(start), Pfn::new(end)),
        keeps: |_| true,
        name: |&(&(name, _), (start, end))| format!("{name} from {start:#x} to {end:#x}"),
    };
    for policy in [Policy::LINUX_6_12, Policy::FREEHOLD] {
        let (done, refused) = make_all(policy, &attempts, &way);
        assert!(refused > done && (done > 100 || cfg!(miri)), "{refused} were refused, {done} done");
    }
}

/// Frees frozen ranges that contain bad blocks, shared blocks, slab blocks and free frames. Blocks that do not belong
/// to the caller are not split.
#[test]
fn frozen_range_free_with_any_bounds_spares_slab_blocks() {
    let near: Vec<u32> = ends().into_iter().filter(|end| (6000..7200).contains(end)).collect();
    for &start in &near {
        for &end in &near {
            with_town(Policy::FREEHOLD, |town, _| {
                town.engine.drain_all_pages();
                let answer = town.engine.free_contig_frozen_range(Pfn::new(start)..Pfn::new(end));
                town.engine.check().unwrap_or_else(|violation| panic!("{start} to {end}, {answer:?}: {violation}"));
                let slab = town.engine.state(Pfn::new(sample_machine::SLAB));
                assert!(
                    format!("{slab:?}").contains("slab: true"),
                    "the free of {start} to {end} also freed a slab's block"
                );
            });
        }
    }
}

/// Areas with bitmaps that are too small, and layouts of impossible areas.
#[test]
fn cma_area_without_a_bitmap_is_an_error() {
    with_town(Policy::FREEHOLD, |town, _| {
        let before = Picture::take(town.engine);
        let (start, end) = (Pfn::new(2304), Pfn::new(2400));
        town.engine
            .reserve_cma(start..end, Order::ZERO, &mut [])
            .expect_err("the range is empty, so the call must fail");
        before.expect(town.engine, "an area without a bitmap");
        for pages in [0, 1, u32::MAX] {
            let layout = freehold::page::CmaArea::<CheckedSpinLock>::layout(pages, Order::MAX);
            assert!(layout.size() <= 1 << 20, "{layout:?}");
        }
    });
}
