//! Arguments that belong to another allocator or do not exist: zones, areas and maps of a second allocator, and CPUs
//! and nodes outside the machine. Where the documentation announces a panic, the call panics with the documented
//! message and changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use freehold::Policy;
use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Background, Config, MinFree, Placement};
use freehold::platform::host::run_on_cpu;
use freehold::policy::PcpPolicy;
use freehold::policy::watermark::Watermarks;

use crate::attackers::machine::{Engine, Memory, build, range, with_frames};
use crate::attackers::sample_machine::{self, with_town};
use crate::common::picture::Picture;

type Attack = (&'static str, fn(&Engine<'_, '_>, &Engine<'_, '_>));

const NOBODY: NodeId = NodeId(2);
const NORMAL: ZoneKind = ZoneKind::Normal;

/// Calls that panic, by the start of the panic message.
const PANICS: [(&str, &[Attack]); 3] = [
    (
        "there is no CPU",
        &[
            ("pcp", |ours, _| _ = ours.pcp(CpuId(3), &ours.zones()[0])),
            ("drain_pages_zone", |ours, _| ours.drain_pages_zone(CpuId(u16::MAX), &ours.zones()[0])),
            ("decay_pcp", |ours, _| ours.decay_pcp(CpuId(3), &ours.zones()[0])),
            ("cpu_dead", |ours, _| ours.cpu_dead(CpuId(3))),
            ("cpu_online", |ours, _| ours.cpu_online(CpuId(u16::MAX))),
        ],
    ),
    (
        "there is no node",
        &[
            ("zone", |ours, _| _ = ours.zone(NOBODY, NORMAL)),
            ("run_kswapd", |ours, _| _ = ours.run_kswapd(NOBODY)),
            ("run_kcompactd", |ours, _| _ = ours.run_kcompactd(NOBODY)),
            ("tick_kcompactd", |ours, _| ours.tick_kcompactd(NodeId(u8::MAX))),
            ("note_kswapd", |ours, _| ours.note_kswapd(NOBODY, NORMAL, Background::Working)),
            ("note_boost_worked_off", |ours, _| ours.note_boost_worked_off(NOBODY, NORMAL, 1)),
        ],
    ),
    (
        "the zone must belong to this allocator",
        &[
            ("pcp", |ours, theirs| _ = ours.pcp(CpuId(0), &theirs.zones()[2])),
            ("drain_pages_zone", |ours, theirs| ours.drain_pages_zone(CpuId(0), &theirs.zones()[2])),
            ("decay_pcp", |ours, theirs| ours.decay_pcp(CpuId(0), &theirs.zones()[2])),
            ("set_watermarks", |ours, theirs| ours.set_watermarks(&theirs.zones()[2], Watermarks::given(1, 2, 3))),
            ("set_lowmem_reserve", |ours, theirs| ours.set_lowmem_reserve(&theirs.zones()[2], NORMAL, 5)),
        ],
    ),
];

#[test]
fn foreign_handles_panic_as_documented() {
    with_town(Policy::FREEHOLD, |theirs, _| {
        with_town(Policy::FREEHOLD, |ours, _| {
            let pictures = [Picture::take(ours.engine), Picture::take(theirs.engine)];
            for (sentence, attacks) in PANICS {
                for (name, attack) in attacks {
                    let panic = catch_unwind(AssertUnwindSafe(|| attack(ours.engine, theirs.engine)));
                    let panic = panic.expect_err(name);
                    let said = panic.downcast_ref::<String>().map(String::as_str);
                    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
                    assert!(said.starts_with(sentence), "{name}: {said}");
                    pictures[0].expect(ours.engine, name);
                    pictures[1].expect(theirs.engine, name);
                }
            }
        });
    });
}

#[test]
fn allocation_on_a_missing_node_fails() {
    with_town(Policy::FREEHOLD, |town, _| {
        let before = Picture::take(town.engine);
        for node in [NOBODY, NodeId(u8::MAX)] {
            for order in Order::all() {
                town.engine
                    .alloc_pages_node(node, Gfp::KERNEL, order)
                    .expect_err("the node does not exist, so the request must fail");
                town.engine
                    .alloc_frozen_pages_node(node, Gfp::KERNEL, order)
                    .expect_err("the node does not exist, so the request must fail");
            }
        }
        before.expect(town.engine, "pages of nobody's");
    });
}

/// A platform that returns a CPU number outside the machine. Every call that reads the CPU number panics, and no memory
/// is lost.
#[test]
fn call_from_a_missing_cpu_loses_no_memory() {
    type Call = fn(&Engine<'_, '_>, Pfn);
    let calls: [(&str, Call); 9] = [
        ("alloc_pages", |engine, _| _ = engine.alloc_pages(Gfp::KERNEL, Order::ZERO)),
        ("alloc_frozen_pages", |engine, _| _ = engine.alloc_frozen_pages(Gfp::KERNEL, Order::new(5))),
        ("alloc_pages_bulk", |engine, _| _ = engine.alloc_pages_bulk(Gfp::KERNEL, &mut [Pfn::new(0); 4])),
        ("free_pages", |engine, page| _ = engine.free_pages(page, Order::ZERO)),
        ("free_contig_range", |engine, page| _ = engine.free_contig_range(page..page.offset(1))),
        ("free_pages_bulk", |engine, page| _ = engine.free_pages_bulk(&[page])),
        ("alloc_contig_pages", |engine, _| _ = engine.alloc_contig_pages(Gfp::KERNEL, 4, Placement::ANYWHERE)),
        ("put_page", |engine, page| _ = engine.put_page(page)),
        ("free_frozen_pages", |engine, page| _ = engine.free_frozen_pages(page, Order::ZERO)),
    ];
    for (name, call) in calls {
        with_frames(&Config::default(), 4096, |engine| {
            run_on_cpu(CpuId(0));
            let page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
            for cpu in [1, 77, u16::MAX] {
                run_on_cpu(CpuId(cpu));
                _ = catch_unwind(AssertUnwindSafe(|| call(engine, page)));
            }
            run_on_cpu(CpuId(0));
            let census = engine.check().unwrap_or_else(|violation| panic!("{name}: {violation}"));
            assert_eq!(census.free + census.cached + census.allocated + census.claimed + census.withheld, 4096);
        });
    }
}

#[test]
fn foreign_cma_area_is_an_error() {
    with_two_areas(|ours, theirs| {
        let pictures = [Picture::take(ours.0), Picture::take(theirs.0)];
        theirs
            .0
            .cma_alloc(ours.1, 4, 1, Gfp::KERNEL)
            .expect_err("the area belongs to another allocator, so the call must fail");
        theirs
            .0
            .cma_release(ours.1, Pfn::new(sample_machine::LENT), 4)
            .expect_err("the area belongs to another allocator, so the call must fail");
        pictures[0].expect(ours.0, "our area, in their hands");
        pictures[1].expect(theirs.0, "their allocator, with our area");
    });
}

type Area<'m> = freehold::page::CmaArea<'m, freehold::platform::host::CheckedSpinLock>;

/// Runs `run` with two equal allocators whose metadata has the same lifetime, so that the compiler accepts an area of
/// one in calls of the other.
fn with_two_areas(run: impl for<'m> FnOnce((&Engine<'m, 'm>, &Area<'m>), (&Engine<'m, 'm>, &Area<'m>))) {
    let config = Config { pageblock_order: Order::new(5), ..Config::default() };
    let ranges = [range(NORMAL, 0, 2048, 4096)];
    let mut memories = [Memory::new(&config, &ranges), Memory::new(&config, &ranges)];
    let mut bitmaps = [[core::mem::MaybeUninit::uninit(); 128]; 2];
    let [first, second] = memories.each_mut().map(|memory| build(&config, &ranges, memory).0);
    let [one, other] = bitmaps.each_mut();
    let area = Pfn::new(2560)..Pfn::new(2688);
    let first_area = first.reserve_cma(area.clone(), Order::ZERO, one).expect("the frames must be Reserved");
    let second_area = second.reserve_cma(area, Order::ZERO, other).expect("the frames must be Reserved");
    run((&first, &first_area), (&second, &second_area));
}

/// Watermarks, lowmem reserves, boosts and limits at the limits of their number range.
#[test]
fn extreme_levels_keep_the_state_valid() {
    for level in [0, 1, u64::from(u32::MAX), 1 << 62, u64::MAX] {
        with_town(Policy::FREEHOLD, |town, _| {
            let engine = town.engine;
            for zone in engine.zones() {
                engine.set_watermarks(zone, Watermarks { min: level, low: level, high: level, promo: level });
                ZoneKind::ALL.iter().for_each(|&kind| engine.set_lowmem_reserve(zone, kind, level));
                engine.note_boost_worked_off(zone.node(), zone.kind(), level);
                let flags = freehold::policy::flags::AllocFlags::all();
                Order::all().for_each(|order| _ = zone.watermark_ok(order, level, NORMAL, flags));
            }
            for gfp in [Gfp::KERNEL, Gfp::ATOMIC, Gfp::all(), Gfp::empty(), Gfp::MOVABLE | Gfp::RECLAIMABLE] {
                for order in [0, 3, 10].map(Order::new) {
                    let Ok(block) = engine.alloc_pages(gfp, order) else { continue };
                    engine.put_page(block).expect("the test holds these pages");
                }
            }
            engine.check().expect("the check must find no error");
            engine.set_up_watermarks(MinFree::Pages(level));
            engine.set_up_watermarks(MinFree::BySize);
            engine.set_up_watermarks(MinFree::ForHugePages);
            _ = engine.run_kswapd(NodeId(0));
            engine.tick_kcompactd(NodeId(1));
            _ = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).map(|page| engine.put_page(page));
            engine.check().expect("the check must find no error");
        });
    }
}

/// Restores a state from a wrong recording, with missing blocks, broken blocks and lists of a type that does not exist
/// on a CPU.
#[test]
fn restore_ignores_invalid_recorded_blocks() {
    let config = Config { cpu_nodes: &[NodeId(0); 2], policy: Policy::LINUX_6_12, ..Config::default() };
    let ranges = [range(NORMAL, 0, 0, 4096)];
    let mut memory = Memory::new(&config, &ranges);
    let (mut engine, _) = build(&config, &ranges, &mut memory);
    engine.release(Pfn::new(0), Pfn::new(4096)).expect("the frames must be Reserved");
    let [page, broken] =
        [(); 2].map(|()| engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free"));
    engine.poison(broken).expect("the frames must be online");
    let before = Picture::take(&engine);
    let mut restoring = engine.restore();
    for pfn in [2048, 4096, u32::MAX].map(Pfn::new) {
        for order in Order::all() {
            restoring
                .put_on_pcp(CpuId(1), pfn, order, MigrateType::Movable)
                .expect_err("the block is not allocated, so the call must fail");
        }
    }
    let put = AssertUnwindSafe(|| restoring.put_on_pcp(CpuId(2), page, Order::ZERO, MigrateType::Movable));
    catch_unwind(put).expect_err("the CPU does not exist, so the call must panic");
    before.expect(&engine, "restored from a wrong recording");
    let mut restoring = engine.restore();
    restoring.put_on_pcp(CpuId(1), broken, Order::ZERO, MigrateType::Movable).expect("it was ours");
    restoring.put_on_pcp(CpuId(1), page, Order::ZERO, MigrateType::Isolate).expect("it was ours");
    restoring.set_pcp_high(CpuId(0), NodeId(0), NORMAL, Some(u32::MAX));
    restoring.set_boost(NodeId(0), NORMAL, u64::MAX);
    assert_eq!(engine.state(broken), Some(State::Withheld), "a broken frame stays withheld");
    engine.check().expect("the check must find no error");
}

/// A policy without per-CPU lists has no list for a restored block, which goes to its zone.
#[test]
fn restored_block_goes_to_the_zone_without_percpu_lists() {
    for (pcp, is_listed) in [(PcpPolicy::Off, false), (Policy::LINUX_6_12.pcp, true)] {
        let config = Config { policy: Policy { pcp, ..Policy::LINUX_6_12 }, ..Config::default() };
        let ranges = [range(NORMAL, 0, 0, 4096)];
        let mut memory = Memory::new(&config, &ranges);
        let (mut engine, _) = build(&config, &ranges, &mut memory);
        engine.release(Pfn::new(0), Pfn::new(4096)).expect("the frames must be Reserved");
        let page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
        engine.restore().put_on_pcp(CpuId(0), page, Order::ZERO, MigrateType::Movable).expect("the block is allocated");
        assert_eq!(matches!(engine.state(page), Some(State::PcpCached { .. })), is_listed, "{pcp:?}");
        engine.check().expect("the check must find no error");
    }
}
