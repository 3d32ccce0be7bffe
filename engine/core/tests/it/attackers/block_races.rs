//! More races between two threads: two splits, a split against a free, poison against a free, references against the
//! last free, and two threads that bring the same memory online, take it offline, or reserve it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use freehold::base::{Gfp, Order, Pfn, State, ZoneKind};
use freehold::page::{MinFree, Mobility};
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::attackers::machine::{Engine, Memory, build, range, with_frames};
use crate::attackers::races::{PCP, config, load_pfn, race};

const ROUNDS: u32 = if cfg!(miri) { 3 } else { 1000 };
const FRAMES: u32 = 4096;

/// Allocates a block, and stores its first frame.
fn alloc_into(engine: &Engine<'_, '_>, order: Order, block: &AtomicU32) {
    let pfn = engine.alloc_pages(Gfp::KERNEL, order).expect("enough memory must be free");
    block.store(pfn.raw(), SeqCst);
}

/// Runs two operations on a block that one of the threads allocated. `after` undoes the outcome.
fn over_a_block(order: Order, deeds: [Way; 2], after: fn(&Engine<'_, '_>, Pfn, Order, u32)) {
    for pcp in PCP {
        with_frames(&config(pcp, ContigPolicy::Batched), FRAMES, |engine| {
            let block = AtomicU32::new(0);
            let [first, second] = deeds;
            race(
                ROUNDS,
                &|_| alloc_into(engine, order, &block),
                [&|_| first(engine, load_pfn(&block), order), &|_| second(engine, load_pfn(&block), order)],
                &|_, successes| after(engine, load_pfn(&block), order, successes),
            );
            engine.drain_all_pages();
            let census = engine.check().unwrap_or_else(|violation| panic!("{pcp:?}: {violation}"));
            assert_eq!(census.free + census.withheld, u64::from(FRAMES), "{pcp:?}: {census:?}");
        });
    }
}

type Way = fn(&Engine<'_, '_>, Pfn, Order) -> bool;

const SPLIT: Way = |engine, pfn, order| engine.split_page(pfn, order).is_ok();
const FREE: Way = |engine, pfn, order| engine.free_pages(pfn, order).is_ok();
const GET: Way = |engine, pfn, _| engine.get_page(pfn).is_ok();
const PUT: Way = |engine, pfn, _| engine.put_page(pfn).is_ok();
const GET_AND_PUT: Way = |engine, pfn, _| {
    engine.get_page(pfn).expect("the block must have a reference");
    engine.put_page(pfn).is_ok()
};

/// Frees the parts of a block that are still allocated.
fn free_what_is_left(engine: &Engine<'_, '_>, pfn: Pfn, order: Order) {
    for page in pfn.up_to(pfn.offset(order.pages())) {
        if let Some(State::Allocated { order, refs, .. }) = engine.state(page) {
            (0..refs).for_each(|_| engine.put_page(page).unwrap_or_else(|error| panic!("{page}, {order}: {error}")));
        }
    }
}

#[test]
fn concurrent_split_succeeds_once() {
    over_a_block(Order::new(4), [SPLIT, SPLIT], |engine, pfn, order, successes| {
        assert_eq!(successes, 1);
        free_what_is_left(engine, pfn, order);
    });
}

#[test]
fn concurrent_split_and_free_succeed_once() {
    over_a_block(Order::new(4), [SPLIT, FREE], |engine, pfn, order, successes| {
        assert_eq!(successes, 1);
        free_what_is_left(engine, pfn, order);
    });
}

#[test]
fn concurrent_get_and_put_keep_the_block_valid() {
    over_a_block(Order::new(3), [GET, PUT], |engine, pfn, order, successes| {
        assert!(successes >= 1, "the block's first reference can always be dropped");
        free_what_is_left(engine, pfn, order);
    });
}

/// One thread splits the block into pages of a range, while the other drops a reference to its first page.
#[test]
fn concurrent_split_and_put_both_succeed() {
    over_a_block(Order::new(6), [SPLIT, GET_AND_PUT], |engine, pfn, order, successes| {
        assert_eq!(successes, 2, "both the split and the put must succeed");
        free_what_is_left(engine, pfn, order);
    });
}

/// Poisons a frame, and records it if it was online. Returns whether it was.
fn poison_and_note(engine: &Engine<'_, '_>, frame: Pfn, poisoned: &Mutex<Vec<Pfn>>) -> bool {
    let is_poisoned = engine.poison(frame).is_ok();
    if is_poisoned {
        poisoned.lock().expect("no thread panicked while it held the lock").push(frame);
    }
    is_poisoned
}

/// Frames break while their block is freed. In the end each broken frame is withheld, and no other frame is.
#[test]
fn frames_poisoned_during_a_free_are_withheld() {
    let rounds = if cfg!(miri) { 2 } else { 300 };
    for pcp in PCP {
        with_frames(&config(pcp, ContigPolicy::Batched), FRAMES, |engine| {
            let (block, poisoned, order) = (AtomicU32::new(0), Mutex::new(Vec::new()), Order::new(2));
            race(
                rounds,
                &|_| alloc_into(engine, order, &block),
                [&|_| engine.free_pages(load_pfn(&block), order).is_ok(), &|round| {
                    poison_and_note(engine, load_pfn(&block).offset(round % 4), &poisoned)
                }],
                &|_, _| (),
            );
            engine.drain_all_pages();
            let broken = poisoned.into_inner().expect("no thread panicked while it held the lock");
            let census = engine.check().expect("the check must find no error");
            assert!(broken.iter().all(|&frame| engine.state(frame) == Some(State::Withheld)));
            assert_eq!((census.withheld, census.free), (broken.len() as u64, u64::from(FRAMES) - census.withheld));
        });
    }
}

/// Runs two operations on the same frames, which are online but not released yet.
fn over_memory(deeds: [fn(&Engine<'_, '_>) -> bool; 2], one_wins: bool, reset: fn(&Engine<'_, '_>)) {
    let rounds = if cfg!(miri) { 2 } else { 400 };
    let config = config(PcpPolicy::Linux, ContigPolicy::Batched);
    let ranges = [range(ZoneKind::Normal, 0, 0, FRAMES)];
    let mut memory = Memory::new(&config, &ranges);
    let (engine, _) = build(&config, &ranges, &mut memory);
    let engine = &engine;
    engine.release(Pfn::new(2048), Pfn::new(FRAMES)).expect("the frames must be Reserved");
    engine.set_up_watermarks(MinFree::Pages(64));
    race(rounds, &|_| (), [&|_| deeds[0](engine), &|_| deeds[1](engine)], &|round, successes| {
        assert!(!one_wins || successes == 1, "{successes} succeeded in round {round}");
        engine.check().unwrap_or_else(|violation| panic!("round {round}: {violation}"));
        reset(engine);
    });
    engine.check().expect("the check must find no error");
}

const START: Pfn = Pfn::new(512);
const END: Pfn = Pfn::new(1536);

fn come_back(engine: &Engine<'_, '_>) {
    let whole = range(ZoneKind::Normal, 0, START.raw(), END.raw());
    if engine.state(START).is_some() {
        engine.offline(START..END).expect("the range must be free to be taken offline");
    }
    engine.online(&whole, &mut []).expect("the range is offline, so it can be onlined");
}

const RELEASE: fn(&Engine<'_, '_>) -> bool = |engine| engine.release(START, END).is_ok();
const OFFLINE: fn(&Engine<'_, '_>) -> bool = |engine| engine.offline(START..END).is_ok();

#[test]
fn concurrent_release_succeeds_once() {
    over_memory([RELEASE, RELEASE], true, come_back);
}

#[test]
fn concurrent_offline_keeps_the_state_valid() {
    over_memory([OFFLINE, OFFLINE], false, come_back);
}

#[test]
fn concurrent_release_and_offline_keep_the_state_valid() {
    over_memory([RELEASE, OFFLINE], false, come_back);
}

/// Frees pages that may already have been freed and gone offline.
fn free_late(engine: &Engine<'_, '_>) -> bool {
    (0..200).fold(false, |any, _| {
        any | engine.free_contig_range(START..END).is_ok()
            | engine.free_contig_frozen_range(START..END).is_ok()
            | engine.free_pages(START, Order::ZERO).is_ok()
            | engine.put_page(START).is_ok()
    })
}

/// Releases the memory, allocates and frees it as a range, and takes it offline. Returns whether it went offline.
fn come_and_go(engine: &Engine<'_, '_>) -> bool {
    engine.release(START, END).expect("the frames must be Reserved");
    engine.alloc_contig_range(START..END, Gfp::KERNEL).is_ok_and(|()| engine.free_contig_range(START..END).is_ok())
        && engine.offline(START..END).is_ok()
}

#[test]
fn concurrent_offline_and_free_keep_the_state_valid() {
    over_memory([come_and_go, free_late], false, |engine| {
        if engine.state(START).is_some() {
            free_what_is_left(engine, START, Order::new(10));
            engine.drain_all_pages();
        }
        come_back(engine);
    });
}

#[test]
fn concurrent_adopt_and_release_keep_the_state_valid() {
    over_memory(
        [|engine| engine.adopt(Pfn::new(1024), Order::new(9), Mobility::Fixed).is_ok(), RELEASE],
        true,
        |engine| {
            free_what_is_left(engine, Pfn::new(1024), Order::new(9));
            come_back(engine);
        },
    );
}

#[test]
fn concurrent_online_keeps_the_state_valid() {
    over_memory(
        [
            |engine| engine.online(&range(ZoneKind::Normal, 0, 512, 1536), &mut []).is_ok(),
            |engine| engine.online(&range(ZoneKind::Movable, 0, 1024, 2048), &mut []).is_ok(),
        ],
        false,
        |engine| {
            for (start, end) in [(512, 1024), (1024, 1536), (1536, 2048)] {
                if engine.state(Pfn::new(start)).is_some() {
                    engine.offline(Pfn::new(start)..Pfn::new(end)).expect("the range must be free to be taken offline");
                }
            }
        },
    );
}

/// Two threads reserve overlapping pageblocks as a CMA area. One of them gets all of its pageblocks, all of type CMA,
/// and the other gets none.
#[test]
fn concurrent_overlapping_cma_areas_reserve_one() {
    let rounds = if cfg!(miri) { 2 } else { 400 };
    let config = config(PcpPolicy::Linux, ContigPolicy::Batched);
    let ranges = [range(ZoneKind::Normal, 0, 0, FRAMES)];
    let mut memory = Memory::new(&config, &ranges);
    memory.spare = (0..2 * rounds).map(|_| Box::new_uninit_slice(512)).collect();
    let (engine, spare) = build(&config, &ranges, &mut memory);
    engine.release(Pfn::new(2048), Pfn::new(FRAMES)).expect("the frames must be Reserved");
    let (engine, spare) = (&engine, &Mutex::new(spare));
    let deeds = [(512, 1536), (0, 1024)].map(|(start, end)| {
        move |_| {
            let bitmap = spare
                .lock()
                .expect("no thread panicked while it held the lock")
                .next()
                .expect("enough spare memory must be left");
            let reserved = engine.reserve_cma(Pfn::new(start)..Pfn::new(end), Order::ZERO, bitmap);
            let Ok(area) = reserved else { return false };
            let page = engine.cma_alloc(&area, end - start, 1, Gfp::KERNEL).expect("the area must be free");
            engine.cma_release(&area, page, end - start).expect("the test holds these pages");
            true
        }
    });
    race(rounds, &|_| (), [&deeds[0], &deeds[1]], &|round, successes| {
        assert_eq!(successes, 1, "round {round}");
        engine.check().unwrap_or_else(|violation| panic!("round {round}: {violation}"));
        for block in (0..1536).step_by(512) {
            give_up(engine, block);
        }
    });
}

/// Returns the pageblocks of an area to the Reserved state.
fn give_up(engine: &Engine<'_, '_>, block: u32) {
    use freehold::base::MigrateType;
    let frames = Pfn::new(block)..Pfn::new(block + 512);
    if engine.state(frames.start) != Some(State::Reserved) {
        let taken = engine.isolate_free_page(frames.start, Order::new(9), Gfp::KERNEL);
        assert_eq!(taken, Ok(true), "the frames of a released area must be free");
        engine.damage().retype(frames.start, MigrateType::Movable);
        engine.free_pages(frames.start, Order::new(9)).expect("the test holds these pages");
        engine.drain_all_pages();
        engine.offline(frames.clone()).expect("the range must be free to be taken offline");
        engine
            .online(&range(ZoneKind::Normal, 0, block, block + 512), &mut [])
            .expect("the range is offline, so it can be onlined");
    }
}
