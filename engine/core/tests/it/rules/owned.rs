//! Owned pageblocks: a list takes large parts, frees go to the owner, and merged blocks are drained as one.

use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::platform::Event;
use freehold::policy::PcpPolicy::{self, Owned, OwnedRemote};
use freehold::policy::{Numbers, Policy};

use crate::common::{range, with_machine};
use crate::rules::owner_returns::use_up;
use crate::rules::{Engine, alloc, exhaust, free, free_list, zone};

pub(super) const PAGEBLOCK: u32 = 512;

/// Runs `run` on a machine with two CPUs and 64 MiB, where a CPU's lists hold four pageblocks.
pub(super) fn scene_of(pcp: PcpPolicy, run: impl Fn(&Engine<'_, '_>)) {
    let numbers = Numbers { pcp_batch: Some(PAGEBLOCK), ..Numbers::default() };
    let policy = Policy { pcp, numbers, ..Policy::LINUX_6_12 };
    let config = Config { cpu_nodes: &[NodeId(0); 2], policy, ..Config::default() };
    with_machine(&config, &[range(ZoneKind::Normal, 0, 0, 1 << 14)], MinFree::Pages(64), |engine| {
        engine.platform().events.take();
        run(engine);
        engine.check().expect("the check must find no error");
    });
}

/// Runs a scene under both policies that own pageblocks.
pub(super) fn scene(run: impl Fn(&Engine<'_, '_>)) {
    [Owned, OwnedRemote].into_iter().for_each(|pcp| scene_of(pcp, &run));
}

pub(super) fn count(engine: &Engine<'_, '_>, cpu: u16) -> u32 {
    engine.pcp(CpuId(cpu), zone(engine, ZoneKind::Normal)).inspect(|lists| lists.count())
}

pub(super) fn stacked(engine: &Engine<'_, '_>, cpu: u16) -> u32 {
    engine.pcp(CpuId(cpu), zone(engine, ZoneKind::Normal)).waiting()
}

pub(super) fn owner(engine: &Engine<'_, '_>, pfn: u32) -> Option<u16> {
    engine.map().pageblock(Pfn::new(pfn)).owner().map(|cpu| cpu.0)
}

pub(super) fn fragments(engine: &Engine<'_, '_>, cpu: u16, migratetype: MigrateType) -> Vec<u32> {
    let fragments = engine.fragments(CpuId(cpu), zone(engine, ZoneKind::Normal));
    fragments.list(migratetype).iter(engine.map()).map(Pfn::raw).collect()
}

fn lock_holds(engine: &Engine<'_, '_>) -> usize {
    let events = engine.platform().events.take();
    events.iter().filter(|event| matches!(event, Event::ZoneLockReleased { .. })).count()
}

/// Flags of movable pages, which come from pageblocks of their own type.
pub(super) const MOVABLE: Gfp = Gfp::HIGHUSER_MOVABLE;

#[test]
fn refill_takes_a_pageblock_under_one_lock_hold() {
    scene(|engine| {
        let first = alloc(engine, MOVABLE, 0);
        assert_eq!((owner(engine, first), count(engine, 0)), (Some(0), PAGEBLOCK - 1));
        let pages: Vec<u32> = (1..PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        assert!(pages.iter().all(|&page| page / PAGEBLOCK == first / PAGEBLOCK), "all pages must be in one pageblock");
        assert_eq!((count(engine, 0), lock_holds(engine)), (0, 1));
    });
}

/// Returns the number of zone lock acquisitions by two requests for single pages whose preferred zone has none of their
/// type. The zone's only free pages are every second page of movable pageblocks, which the requests avoid mixing.
fn holds_beside_an_empty_zone(pcp: PcpPolicy) -> usize {
    const BORDER: u32 = 1 << 14;
    let policy = Policy { pcp, ..Policy::LINUX_6_12 };
    let config = Config { cpu_nodes: &[NodeId(0)], policy, ..Config::default() };
    let memory = [range(ZoneKind::Dma32, 0, 0, BORDER), range(ZoneKind::Normal, 0, BORDER, 2 * BORDER)];
    let mut holds = 0;
    with_machine(&config, &memory, MinFree::Pages(64), |engine| {
        let pages: Vec<u32> =
            std::iter::repeat_with(|| alloc(engine, MOVABLE, 0)).take_while(|&page| page >= BORDER).collect();
        pages.iter().filter(|&page| page % 2 == 0).for_each(|&page| free(engine, page, 0));
        engine.drain_all_pages();
        engine.platform().events.take();
        assert!([0; 2].iter().all(|_| alloc(engine, Gfp::KERNEL, 0) < BORDER), "the pages must be in the other zone");
        holds = lock_holds(engine);
        engine.check().expect("the check must find no error");
    });
    holds
}

#[test]
fn zone_without_usable_blocks_is_not_locked() {
    assert_eq!(
        holds_beside_an_empty_zone(PcpPolicy::Linux),
        5,
        "two holds of the empty zone for each request, and one refill"
    );
    assert_eq!([Owned, OwnedRemote].map(holds_beside_an_empty_zone), [1, 1], "one hold for the refill");
}

#[test]
fn pages_are_allocated_by_ascending_address() {
    scene(|engine| {
        let first = alloc(engine, MOVABLE, 0);
        assert!((1..PAGEBLOCK).all(|page| alloc(engine, MOVABLE, 0) == first + page));
    });
}

#[test]
fn larger_blocks_are_split_from_the_owned_pageblock() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        for order in [1, 2, 3, 4, 5, 8] {
            let block = alloc(engine, MOVABLE, order);
            assert_eq!(block / PAGEBLOCK, page / PAGEBLOCK, "order {order}");
        }
        assert_eq!(lock_holds(engine), 1);
    });
}

#[test]
fn remote_free_returns_to_the_owners_list() {
    scene_of(Owned, |engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.platform().run_on(1);
        free(engine, page, 0);
        assert_eq!((count(engine, 0), count(engine, 1)), (PAGEBLOCK, 0));
    });
}

#[test]
fn remote_free_is_pushed_to_the_owners_stack() {
    scene_of(OwnedRemote, |engine| {
        let (page, block) = (alloc(engine, MOVABLE, 0), alloc(engine, MOVABLE, 5));
        let before = count(engine, 0);
        engine.platform().run_on(1);
        free(engine, page, 0);
        free(engine, block, 5);
        assert_eq!((count(engine, 0), count(engine, 1), stacked(engine, 0)), (before, 0, 33));
        assert_eq!(engine.state(Pfn::new(block)), Some(State::RemotePending { order: Order::new(5) }));
        assert!(
            engine.free_pages(Pfn::new(page), Order::ZERO).is_err(),
            "a double free must also be detected on the stack"
        );
    });
}

#[test]
fn owner_uses_its_stack_before_the_zone() {
    scene_of(OwnedRemote, |engine| {
        let pages: Vec<u32> = (0..PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        engine.platform().run_on(1);
        pages.iter().for_each(|&page| free(engine, page, 0));
        engine.platform().run_on(0);
        lock_holds(engine);
        let again: Vec<u32> = (0..PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        assert_eq!((lock_holds(engine), stacked(engine, 0)), (0, 0));
        assert!(again.iter().all(|page| pages.contains(page)));
    });
}

#[test]
fn stack_above_the_limit_is_freed_to_the_zone() {
    scene_of(OwnedRemote, |engine| {
        let pages: Vec<u32> = (0..8 * PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        let high = engine.pcp(CpuId(0), zone(engine, ZoneKind::Normal)).inspect(|lists| lists.high());
        engine.platform().run_on(1);
        for &page in &pages {
            free(engine, page, 0);
            assert!(stacked(engine, 0) <= high);
        }
        let whole = pages.iter().filter(|&&page| page % PAGEBLOCK == 0 && owner(engine, page).is_none()).count();
        assert!(whole > 0, "pageblocks that became free in the zone must have no owner");
    });
}

#[test]
fn drain_of_a_whole_pageblock_ends_ownership() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        free(engine, page, 0);
        engine.platform().events.take();
        engine.drain_all_pages();
        let drained: Vec<(u32, u8)> = engine.platform().events.take().into_iter().filter_map(drained_block).collect();
        assert_eq!(drained, [(page / PAGEBLOCK * PAGEBLOCK, 9)]);
        assert_eq!((owner(engine, page), engine.check().expect("the check must find no error").cached), (None, 0));
    });
}

fn drained_block(event: Event) -> Option<(u32, u8)> {
    if let Event::PcpuDrain { pfn, order, .. } = event { Some((pfn.raw(), order.get())) } else { None }
}

#[test]
fn partly_drained_pageblock_is_recalled_first() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        let block = page / PAGEBLOCK * PAGEBLOCK;
        engine.drain_all_pages();
        assert_eq!((owner(engine, page), fragments(engine, 0, MigrateType::Movable)), (Some(0), vec![block]));
        assert_eq!(free_list(engine, zone(engine, ZoneKind::Normal), 8, MigrateType::Movable), [block + 256]);
        let again = alloc(engine, MOVABLE, 0);
        assert_eq!(again / PAGEBLOCK, block / PAGEBLOCK);
        assert!(fragments(engine, 0, MigrateType::Movable).is_empty());
    });
}

#[test]
fn pageblock_merged_in_the_zone_has_no_owner() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.drain_all_pages();
        free(engine, page, 0);
        engine.drain_all_pages();
        assert_eq!((owner(engine, page), fragments(engine, 0, MigrateType::Movable)), (None, vec![]));
    });
}

#[test]
fn small_list_owns_a_partly_taken_pageblock() {
    for pcp in [Owned, OwnedRemote] {
        let config =
            Config { cpu_nodes: &[NodeId(0); 2], policy: Policy { pcp, ..Policy::LINUX_6_12 }, ..Config::default() };
        with_machine(&config, &[range(ZoneKind::Normal, 0, 0, 1 << 14)], MinFree::Pages(64), |engine| {
            let page = alloc(engine, MOVABLE, 0);
            assert!(count(engine, 0) < PAGEBLOCK / 2, "a list of a zone of 64 MiB starts with less than a pageblock");
            let block = page / PAGEBLOCK * PAGEBLOCK;
            assert_eq!((owner(engine, page), fragments(engine, 0, MigrateType::Movable)), (Some(0), vec![block]));
            engine.platform().run_on(1);
            free(engine, page, 0);
            assert_eq!(count(engine, 1), 0, "the page must be freed to its owner");
        });
    }
}

#[test]
fn offline_cpu_owns_no_pageblocks() {
    scene(|engine| {
        let pages: Vec<u32> = (0..4).map(|_| alloc(engine, MOVABLE, 0)).collect();
        engine.platform().run_on(1);
        free(engine, pages[0], 0);
        engine.cpu_dead(CpuId(0));
        assert_eq!((owner(engine, pages[1]), count(engine, 0), stacked(engine, 0)), (None, 0, 0));
        pages[1..].iter().for_each(|&page| free(engine, page, 0));
        assert_eq!((count(engine, 0), stacked(engine, 0), count(engine, 1)), (0, 0, 3));
        engine.cpu_online(CpuId(0));
        engine.platform().run_on(0);
        let page = alloc(engine, MOVABLE, 0);
        assert_eq!(owner(engine, page), Some(0));
    });
}

#[test]
fn type_change_ends_ownership() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.drain_all_pages();
        // Unmovable requests claim the rest of the memory.
        engine.platform().run_on(1);
        let taken = exhaust(engine, Gfp::ATOMIC, 0);
        assert!(!taken.is_empty());
        let (now, owner) = (engine.map().pageblock(Pfn::new(page)).migratetype(), owner(engine, page));
        assert!(now == MigrateType::Movable || owner != Some(0), "{now:?} {owner:?}");
    });
}

#[test]
fn range_in_an_owned_pageblock_returns_to_the_owner() {
    scene(|engine| {
        alloc(engine, MOVABLE, 0);
        let block = alloc(engine, MOVABLE, 6);
        engine.split_page(Pfn::new(block), Order::new(6)).expect("the test holds these pages");
        let before = count(engine, 0);
        engine.free_contig_range(Pfn::new(block)..Pfn::new(block + 64)).expect("the test holds these pages");
        assert_eq!(count(engine, 0), before + 64);
        assert_eq!(owner(engine, block), Some(0));
    });
}

#[test]
fn owned_pageblock_can_be_isolated_and_poisoned() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        let block = Pfn::new(page / PAGEBLOCK * PAGEBLOCK);
        engine
            .alloc_contig_range(block.offset(256)..block.offset(512), Gfp::KERNEL)
            .expect("the range must be on the owner's lists");
        assert_eq!(owner(engine, page), None, "the isolation must end the ownership");
        engine.free_contig_range(block.offset(256)..block.offset(512)).expect("the test holds these pages");
        engine.poison(block.offset(100)).expect("the frame must be online");
        free(engine, page, 0);
        assert_eq!(engine.state(block.offset(100)), Some(State::Withheld));
    });
}

#[test]
fn exhausted_request_uses_stacked_pages() {
    scene_of(OwnedRemote, |engine| {
        let pages: Vec<u32> = (0..PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        engine.platform().run_on(1);
        pages.iter().for_each(|&page| free(engine, page, 0));
        use_up(engine, 1, Gfp::ATOMIC);
        assert!(stacked(engine, 0) > 0);
        assert!(engine.alloc_pages(Gfp::ATOMIC | Gfp::MEMALLOC, Order::ZERO).is_ok());
    });
}

/// Allocates a range of pageblocks, given by their numbers.
fn take_pageblocks(engine: &Engine<'_, '_>, start: u32, end: u32) {
    let range = Pfn::new(start * PAGEBLOCK)..Pfn::new(end * PAGEBLOCK);
    engine.alloc_contig_range(range, Gfp::KERNEL).expect("the range must be free");
}

/// Leaves 20 pageblocks whole, and `blocks` others of which every second page is allocated.
fn cut_up(engine: &Engine<'_, '_>, blocks: u32) {
    take_pageblocks(engine, 0, blocks);
    take_pageblocks(engine, blocks + 20, 32);
    (0..blocks * PAGEBLOCK).step_by(2).for_each(|page| free(engine, page, 0));
    engine.drain_all_pages();
}

#[test]
fn whole_pageblock_is_split_only_without_smaller_blocks() {
    for (order, opens) in [(0, false), (3, true)] {
        scene(|engine| {
            cut_up(engine, 1);
            let block = alloc(engine, MOVABLE, order);
            assert_eq!(block >= PAGEBLOCK, opens, "every second page of the first pageblock is free");
            assert_eq!(owner(engine, block), Some(0), "the pageblock must be owned in both cases");
        });
    }
}

#[test]
fn part_of_another_cpus_pageblock_stays_with_its_owner() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.drain_all_pages();
        engine.platform().run_on(1);
        let part = alloc(engine, MOVABLE, 0);
        assert_eq!((part / PAGEBLOCK, owner(engine, part)), (page / PAGEBLOCK, Some(0)));
    });
}

/// Returns the number of blocks on CPU 0's lists of movable parts, by order.
fn parts(engine: &Engine<'_, '_>) -> [usize; 9] {
    let lists = engine.pcp(CpuId(0), zone(engine, ZoneKind::Normal));
    core::array::from_fn(|order| {
        let index = if order <= 3 { 3 * order + 1 } else { 14 + 3 * (order - 4) + 1 };
        lists.inspect(|lists| lists.list(index).iter(engine.map()).count())
    })
}

/// Allocates a block, and returns how many blocks of the per-CPU list were split for it.
fn count_splits(engine: &Engine<'_, '_>, order: u8) -> u64 {
    let before = engine.platform().events.counts().pcp_split_blocks;
    alloc(engine, MOVABLE, order);
    engine.platform().events.counts().pcp_split_blocks - before
}

/// A split leaves 128 single pages, or sixteen pages in pieces of the requested order, and the rest in large parts.
#[test]
fn split_leaves_large_parts_and_a_few_of_the_order() {
    scene(|engine| {
        assert_eq!((count_splits(engine, 0), parts(engine)), (1 + 127, [127, 0, 0, 0, 0, 0, 0, 1, 1]));
        assert_eq!(
            (count_splits(engine, 2), parts(engine)),
            (3 + 3, [127, 0, 3, 0, 1, 1, 1, 0, 1]),
            "the smallest larger part must be split"
        );
        assert_eq!((count_splits(engine, 5), parts(engine)), (0, [127, 0, 3, 0, 1, 0, 1, 0, 1]));
        assert_eq!((count_splits(engine, 4), parts(engine)), (0, [127, 0, 3, 0, 0, 0, 1, 0, 1]));
        assert_eq!((count_splits(engine, 3), parts(engine)), (2 + 1, [127, 0, 3, 1, 1, 1, 0, 0, 1]));
    });
}

/// Returns the number of unmovable blocks of two pages on CPU 0's list.
fn pairs(engine: &Engine<'_, '_>) -> usize {
    engine.pcp(CpuId(0), zone(engine, ZoneKind::Normal)).inspect(|lists| lists.list(3).iter(engine.map()).count())
}

/// Leaves no pageblock whole: allocates one page of each.
fn break_all(engine: &Engine<'_, '_>) {
    for start in (0..1 << 14).step_by(PAGEBLOCK as usize).map(Pfn::new) {
        let _of_a_pageblock_in_use = engine.alloc_contig_range(start..start.offset(1), Gfp::KERNEL);
    }
}

#[test]
fn last_blocks_of_an_order_stay_when_pageblocks_are_few() {
    for (few, left) in [(true, 2), (false, 0)] {
        scene(|engine| {
            let blocks: [u32; 4] = core::array::from_fn(|_| alloc(engine, Gfp::KERNEL, 1));
            engine.drain_all_pages();
            if few {
                break_all(engine);
            }
            blocks.into_iter().for_each(|pfn| free(engine, pfn, 1));
            assert_eq!(pairs(engine), 4);
            (0..8).for_each(|_| {
                alloc(engine, Gfp::KERNEL, 0);
            });
            assert_eq!(pairs(engine), left);
        });
    }
}
