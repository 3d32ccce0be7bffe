//! Interference with owned pageblocks and with pages on stacks: drains of all CPUs, changes of type, broken frames,
//! offline CPUs, and lack of memory. Also the bound on the pages of a list and a stack: less than twice the list's
//! limit plus the largest part of a pageblock.

use freehold::base::{CpuId, Gfp, MigrateType, Order, Pfn, State, ZoneKind};
use freehold::page::ZoneFlag;
use freehold::platform::{FreePages, OutOfMemory, Patience, Request};
use freehold::policy::PcpPolicy::{Owned, OwnedRemote};

use super::owned::{MOVABLE, PAGEBLOCK, count, fragments, owner, scene, scene_of, stacked};
use crate::common::Hooks;
use crate::rules::{Engine, alloc, exhaust, free, free_list, type_at, zone};

fn high(engine: &Engine<'_, '_>) -> u32 {
    engine.pcp(CpuId(0), zone(engine, ZoneKind::Normal)).inspect(|lists| lists.high())
}

/// Returns the number of pages on CPU 0's lists and on its stack.
fn waiting(engine: &Engine<'_, '_>) -> u32 {
    count(engine, 0) + stacked(engine, 0)
}

fn block_of(page: u32) -> u32 {
    page / PAGEBLOCK * PAGEBLOCK
}

/// Allocates every page that is free in the zone or on the lists of `cpu`, which is the calling CPU. Stops before a
/// request has to take pages from elsewhere.
pub(super) fn use_up(engine: &Engine<'_, '_>, cpu: u16, gfp: Gfp) {
    while zone(engine, ZoneKind::Normal).free_pages() > 0 || count(engine, cpu) > 0 {
        alloc(engine, gfp | Gfp::MEMALLOC, 0);
    }
}

/// Allocates a page on each CPU, from a pageblock that the CPU owns.
fn one_each(engine: &Engine<'_, '_>) -> [u32; 2] {
    [0, 1].map(|cpu| {
        engine.platform().run_on(cpu);
        let page = alloc(engine, MOVABLE, 0);
        assert_eq!(owner(engine, page), Some(cpu));
        page
    })
}

#[test]
fn drain_all_empties_lists_and_stacks() {
    scene(|engine| {
        let pages = one_each(engine);
        // Each CPU's page is freed on the other CPU.
        free(engine, pages[0], 0);
        engine.platform().run_on(0);
        free(engine, pages[1], 0);
        engine.drain_all_pages();
        let census = engine.check().expect("the check must find no error");
        assert_eq!((census.cached, census.allocated), (0, 0));
        assert_eq!(
            pages.map(|page| owner(engine, page)),
            [None, None],
            "both pageblocks must be free and have no owner"
        );
    });
}

#[test]
fn drain_all_keeps_owners_of_used_pageblocks() {
    scene(|engine| {
        let pages = one_each(engine);
        engine.drain_all_pages();
        for (cpu, page) in [(0, pages[0]), (1, pages[1])] {
            assert_eq!(owner(engine, page), Some(cpu));
            assert_eq!(fragments(engine, cpu, MigrateType::Movable), [block_of(page)]);
        }
    });
}

#[test]
fn pages_of_owned_pageblocks_join_the_tail() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        let block = block_of(page);
        // Half of a pageblock without an owner.
        let whole = alloc(engine, MOVABLE, 9);
        assert_eq!(owner(engine, whole), None);
        engine.split_page(Pfn::new(whole), Order::new(9)).expect("the test holds these pages");
        engine.free_contig_range(Pfn::new(whole)..Pfn::new(whole + 256)).expect("the test holds these pages");
        engine.drain_all_pages();
        let halves = free_list(engine, zone(engine, ZoneKind::Normal), 8, MigrateType::Movable);
        assert_eq!(halves, [whole, block + 256]);
        engine.free_contig_range(Pfn::new(whole + 256)..Pfn::new(whole + 512)).expect("the test holds these pages");
    });
}

#[test]
fn claim_ends_ownership() {
    scene(|engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.drain_all_pages();
        engine.platform().run_on(1);
        exhaust(engine, Gfp::ATOMIC | Gfp::MEMALLOC, 0);
        assert_eq!(type_at(engine, page), MigrateType::Unmovable, "the claiming type must become the pageblock's type");
        assert_eq!((owner(engine, page), fragments(engine, 0, MigrateType::Movable)), (None, vec![]));
        free(engine, page, 0);
        assert_eq!((waiting(engine), count(engine, 1)), (0, 1), "the page must not be freed to its former owner");
    });
}

#[test]
fn isolation_collects_pages_from_stacks() {
    scene_of(OwnedRemote, |engine| {
        let page = alloc(engine, MOVABLE, 0);
        let block = Pfn::new(block_of(page));
        engine.platform().run_on(1);
        free(engine, page, 0);
        assert_eq!(stacked(engine, 0), 1);
        engine.alloc_contig_range(block..block.offset(PAGEBLOCK), Gfp::KERNEL).expect("all of it is free or cached");
        assert_eq!((waiting(engine), owner(engine, page)), (0, None));
        engine.free_contig_range(block..block.offset(PAGEBLOCK)).expect("the test holds these pages");
        assert_eq!(type_at(engine, page), MigrateType::Movable);
    });
}

#[test]
fn broken_frame_is_withheld_from_its_owner() {
    scene(|engine| {
        let (page, block) = (alloc(engine, MOVABLE, 0), alloc(engine, MOVABLE, 4));
        engine.poison(Pfn::new(block + 5)).expect("the frame must be online");
        engine.platform().run_on(1);
        free(engine, block, 4);
        free(engine, page, 0);
        engine.drain_all_pages();
        assert_eq!(engine.state(Pfn::new(block + 5)), Some(State::Withheld));
        assert_eq!(engine.check().expect("the check must find no error").withheld, 1);
        // The pageblock can never be whole again, so it keeps its owner until its type changes or its CPU goes offline.
        assert_eq!((owner(engine, page), fragments(engine, 0, MigrateType::Movable)), (Some(0), vec![block_of(page)]));
        engine.cpu_dead(CpuId(0));
        assert_eq!((owner(engine, page), fragments(engine, 0, MigrateType::Movable)), (None, vec![]));
    });
}

#[test]
fn push_to_an_offline_cpu_frees_to_the_zone() {
    scene_of(OwnedRemote, |engine| {
        let (one, two) = (alloc(engine, MOVABLE, 0), alloc(engine, MOVABLE, 0));
        engine.platform().run_on(1);
        free(engine, one, 0);
        engine.cpu_dead(CpuId(0));
        // Restores the owner, to simulate a free that read it before the CPU went offline.
        engine.damage().set_owner(Pfn::new(two), Some(CpuId(0)));
        free(engine, two, 0);
        assert_eq!((waiting(engine), count(engine, 1)), (0, 0));
        assert_eq!(owner(engine, two), None, "the pageblock is free, so it must have no owner");
    });
}

#[test]
fn exhausted_request_collects_pages_from_all_stacks() {
    scene_of(OwnedRemote, |engine| {
        let pages = one_each(engine);
        free(engine, pages[0], 0);
        engine.platform().run_on(0);
        free(engine, pages[1], 0);
        assert_eq!([stacked(engine, 0), stacked(engine, 1)], [1, 1]);
        let found = exhaust(engine, MOVABLE | Gfp::MEMALLOC, 0);
        assert!(
            pages.iter().all(|&page| found.contains(&Pfn::new(page))),
            "the request must find the pages on all stacks"
        );
    });
}

#[test]
fn remote_frees_keep_the_list_below_its_limit() {
    scene_of(Owned, |engine| {
        let pages: Vec<u32> = (0..8 * PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        engine.platform().run_on(1);
        for &page in &pages {
            free(engine, page, 0);
            assert!(waiting(engine) < high(engine));
        }
    });
}

#[test]
fn list_and_stack_stay_below_twice_the_limit() {
    scene_of(OwnedRemote, |engine| {
        let mut held: Vec<u32> = (0..8 * PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        for turn in 0..8 {
            engine.platform().run_on(1);
            for page in held.split_off(held.len() - (2 * PAGEBLOCK + turn) as usize) {
                free(engine, page, 0);
                assert!(waiting(engine) < 2 * high(engine));
            }
            engine.platform().run_on(0);
            held.extend((0..2 * PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)));
            free(engine, held.pop().expect("the test must hold pages"), 0);
            assert!(waiting(engine) < 2 * high(engine));
        }
    });
}

/// Pages that return to their owner need not be of an order that the owner requests.
#[test]
fn unrequested_remote_frees_are_bounded() {
    scene_of(OwnedRemote, |engine| {
        let pages: Vec<u32> = (0..20 * PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
        let every_other: Vec<u32> = pages.into_iter().step_by(2).collect();
        let mut most = 0;
        for some in every_other.chunks(high(engine) as usize - 1) {
            engine.platform().run_on(1);
            some.iter().for_each(|&page| free(engine, page, 0));
            engine.platform().run_on(0);
            (0..128).for_each(|_| _ = alloc(engine, MOVABLE, 3));
            most = most.max(waiting(engine));
        }
        assert!(most < 2 * high(engine) + PAGEBLOCK / 2, "{most} pages wait, with a limit of {}", high(engine));
    });
}

/// A platform that panics when the last resort is called.
struct NotYet;

impl Hooks for NotYet {
    fn out_of_memory(&self, _: &dyn FreePages, _: &Request) -> OutOfMemory {
        panic!("the OOM killer was called while pages waited for their owner")
    }

    fn relax(&self) -> Patience {
        Patience::Wait
    }
}

#[test]
fn request_uses_stacked_pages_before_oom() {
    for insisting in [Gfp::empty(), Gfp::NOFAIL] {
        scene_of(OwnedRemote, |engine| {
            let page = alloc(engine, MOVABLE, 0);
            engine.platform().run_on(1);
            free(engine, page, 0);
            assert_eq!(stacked(engine, 0), 1);
            use_up(engine, 1, MOVABLE);
            engine.platform().answer_with(&NotYet);
            assert_eq!(alloc(engine, MOVABLE | Gfp::MEMALLOC | insisting, 0), page);
        });
    }
}

#[test]
fn stacked_page_without_an_owner_is_freed_to_the_zone() {
    scene_of(OwnedRemote, |engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.platform().run_on(1);
        free(engine, page, 0);
        assert_eq!(stacked(engine, 0), 1);
        // Removes the owner, to simulate that the ownership ended after the free had read it.
        engine.damage().set_owner(Pfn::new(page), None);
        engine.decay_pcp(CpuId(0), zone(engine, ZoneKind::Normal));
        assert!(matches!(engine.state(Pfn::new(page)), Some(State::ZoneFree { .. })));
    });
}

/// A CPU takes the pages on its stack before it refills a list. They may be of another type than the request. Then the
/// request is served from the zone, to which they are finally freed.
#[test]
fn stacked_pages_of_another_type_serve_a_request() {
    scene_of(OwnedRemote, |engine| {
        let page = alloc(engine, MOVABLE, 0);
        engine.platform().run_on(1);
        free(engine, page, 0);
        use_up(engine, 1, MOVABLE);
        engine.platform().run_on(0);
        (0..PAGEBLOCK - 1).for_each(|_| _ = alloc(engine, MOVABLE | Gfp::MEMALLOC, 0));
        assert_eq!((count(engine, 0), stacked(engine, 0)), (0, 1));
        assert_eq!(alloc(engine, Gfp::NOWAIT | Gfp::MEMALLOC, 0), page);
    });
}

/// A free that is in progress while its CPU goes offline leaves its block on the list until the next drain.
#[test]
fn free_during_cpu_offline_stays_on_the_list() {
    for (order, pages) in [(0, 1), (3, 8)] {
        scene(|engine| {
            let block = alloc(engine, MOVABLE, order);
            engine.cpu_dead(CpuId(0));
            // Restores the owner, to simulate a free that read it before the CPU went offline.
            engine.damage().set_owner(Pfn::new(block), Some(CpuId(0)));
            free(engine, block, order);
            assert_eq!(count(engine, 0), pages);
            engine.drain_all_pages();
            assert_eq!((count(engine, 0), owner(engine, block)), (0, None));
        });
    }
}

/// Leaves `pageblocks` pageblocks free as a whole, and halves of many more, so that memory is not short.
fn leave_whole(engine: &Engine<'_, '_>, pageblocks: u32) {
    engine.platform().run_on(0);
    let mut halves: Vec<u32> = exhaust(engine, MOVABLE, 8).iter().map(|pfn| pfn.raw()).collect();
    halves.sort_unstable();
    let both: Vec<u32> = halves
        .iter()
        .copied()
        .filter(|half| half.is_multiple_of(PAGEBLOCK) && halves.contains(&(half + PAGEBLOCK / 2)))
        .collect();
    both.iter().for_each(|&lower| free(engine, lower, 8));
    // Only a free to a list above its limit clears the flag of low memory.
    let pages: Vec<u32> = (0..8 * PAGEBLOCK).map(|_| alloc(engine, MOVABLE, 0)).collect();
    pages.iter().for_each(|&page| free(engine, page, 0));
    both[..pageblocks as usize].iter().for_each(|&lower| free(engine, lower + PAGEBLOCK / 2, 8));
    engine.drain_all_pages();
}

#[test]
fn frees_return_to_owners_with_enough_whole_pageblocks() {
    const CPUS: u32 = 2;
    for (left, is_home) in [(CPUS, true), (CPUS - 1, false)] {
        scene_of(OwnedRemote, |engine| {
            let [page, _] = one_each(engine);
            leave_whole(engine, left);
            let zone = zone(engine, ZoneKind::Normal);
            assert_eq!((zone.has(ZoneFlag::FewWhole), zone.has(ZoneFlag::NearHigh)), (!is_home, false));
            engine.platform().run_on(1);
            free(engine, page, 0);
            assert_eq!(stacked(engine, 0) > 0, is_home, "{left} whole pageblocks are free");
            assert_eq!(count(engine, 1) > 0, !is_home, "{left} whole pageblocks are free");
        });
    }
}

/// An order for which Linux has no list.
const LARGE: u8 = 6;

#[test]
fn large_parts_return_to_owners_without_whole_pageblocks() {
    scene_of(OwnedRemote, |engine| {
        one_each(engine);
        engine.platform().run_on(0);
        let part = alloc(engine, MOVABLE, LARGE);
        assert_eq!(owner(engine, part), Some(0), "the block must be split from the CPU's pageblock");
        leave_whole(engine, 0);
        engine.platform().run_on(1);
        free(engine, part, LARGE);
        assert_eq!((stacked(engine, 0), count(engine, 1)), (1 << LARGE, 0));
    });
}

#[test]
fn unowned_parts_are_freed_to_the_zone_if_memory_is_short() {
    scene_of(OwnedRemote, |engine| {
        // A whole pageblock in parts, so that no CPU owns it for later requests.
        let parts: Vec<u32> = (0..PAGEBLOCK >> LARGE).map(|_| alloc(engine, MOVABLE, LARGE)).collect();
        use_up(engine, 0, MOVABLE);
        let zone = zone(engine, ZoneKind::Normal);
        assert_eq!((zone.free_pages(), owner(engine, parts[0])), (0, None));
        free(engine, parts[0], LARGE);
        assert_eq!((zone.free_pages(), count(engine, 0)), (1 << LARGE, 0));
    });
}

#[test]
fn block_of_a_cheap_order_is_only_halved() {
    scene_of(OwnedRemote, |engine| {
        let block = alloc(engine, MOVABLE, 3);
        engine.drain_all_pages();
        free(engine, block, 3);
        assert_eq!(alloc(engine, MOVABLE, 0), block);
        for (page, order) in [(1, 0), (2, 1), (4, 2)] {
            assert_eq!(engine.map().frame(Pfn::new(block + page)).word().order().get(), order, "page {page}");
        }
    });
}
