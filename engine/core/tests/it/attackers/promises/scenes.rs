//! Scenes in which every callback is called, and the tests that play them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::base::{Gfp, Order};

use super::{
    ANSWERS, CALLBACKS, Callback, DEEDS, DEEDS_MAX, DONE, Deed, LEFT, PLAN, Plan, Planned, RANDOM, WAITS, alloc,
    take_range, use_cache,
};
use crate::common::panic_hook;
use crate::kernel::liars::{
    CPUS, FreesByNumber, Held, Liar, Lying, LyingAtOnce, LyingTasks, MovesHandles, retire_others, run_in_background,
    set_up,
};
use crate::kernel::machine::{CPU, audit, stand_for};

/// Runs a step that a planned panic may end; any other panic is a fault.
fn attempt<H: Liar>(step: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(step))
        && !panic.is::<Planned>()
    {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        H::state().note_fault(format!("a panic: {}", said.unwrap_or_default()));
    }
}

/// Handles of all kinds, and blocks that may move between them.
fn fill<H: Liar>() {
    let state = H::state();
    for at in 0..60 {
        attempt::<H>(|| {
            let gfp = if at % 2 == 0 { Gfp::KERNEL } else { Gfp::KERNEL | Gfp::MOVABLE };
            let order = Order::new([0, 0, 0, 1, 3][at % 5]);
            alloc::<H>(gfp, order).into_iter().for_each(|held| state.keep(held));
        });
    }
    for at in 0..150 {
        attempt::<H>(|| {
            let Some(held) = alloc::<H>(Gfp::KERNEL | Gfp::MOVABLE, Order::ZERO) else { return };
            if at % 3 == 0 { state.keep(held) } else { held.into_raw() }
        });
    }
    attempt::<H>(|| {
        let range = H::kernel().alloc_contig_pages(Gfp::KERNEL | Gfp::MOVABLE, 20);
        range.ok().map(Held::contig).into_iter().for_each(|held| state.keep(held));
    });
    attempt::<H>(|| state.alloc_cma(5, Gfp::KERNEL | Gfp::MOVABLE).into_iter().for_each(|held| state.keep(held)));
}

/// A scene in which every callback is called.
fn play<H: Liar>() {
    let state = H::state();
    fill::<H>();
    for _ in 0..4 {
        attempt::<H>(|| take_range::<H>(Gfp::KERNEL));
    }
    attempt::<H>(|| drop(state.alloc_cma(300, Gfp::KERNEL)));
    // Every page, some of which may move, and every second of which goes back: large blocks have to be made.
    let mut all = Vec::new();
    let mut count = 0;
    while count < 6000 {
        let before = all.len();
        attempt::<H>(|| all.extend(alloc::<H>(Gfp::KERNEL | Gfp::MOVABLE | Gfp::NORETRY, Order::ZERO)));
        if all.len() == before {
            break;
        }
        count += 1;
    }
    attempt::<H>(|| drop(alloc::<H>(Gfp::KERNEL, Order::ZERO)));
    attempt::<H>(|| drop(alloc::<H>(Gfp::KERNEL | Gfp::NOFAIL, Order::ZERO)));
    for (at, held) in all.into_iter().enumerate() {
        match at % 4 {
            0 => attempt::<H>(|| drop(held)),
            1 => attempt::<H>(|| held.into_raw()),
            _ if at < 600 => state.keep(held),
            _ => attempt::<H>(|| drop(held)),
        }
    }
    for order in [2, 5, 9, 9].map(Order::new) {
        attempt::<H>(|| drop(alloc::<H>(Gfp::KERNEL, order)));
    }
    attempt::<H>(|| use_cache::<H>(Gfp::KERNEL));
    attempt::<H>(run_in_background::<H>);
}

/// Everything that this CPU has is looked at and goes back.
fn clear_away<H: Liar>() {
    PLAN.set(Plan::Honest);
    let state = H::state();
    while state.raw_count() > 0 {
        attempt::<H>(|| drop(state.retake(0)));
    }
    while state.count() > 0 {
        attempt::<H>(|| drop(state.take(0)));
    }
}

/// Plays a scene under a plan; what was found, if anything was.
fn play_with<H: Liar>(plan: Plan, seed: u64) -> Result<(), String> {
    RANDOM.with_borrow_mut(|random| random.seed(seed));
    LEFT.set(DEEDS_MAX);
    WAITS.set(50);
    PLAN.set(plan);
    play::<H>();
    clear_away::<H>();
    match H::state().faults().first() {
        Some(fault) => Err(format!("{plan:?}: {fault}")),
        None => Ok(()),
    }
}

/// Every lie of every callback, with every deed, one by one.
fn tell_every_lie<H: Liar>() {
    panic_hook::silence_payload::<Planned>();
    set_up::<H>();
    let mut seed = 0;
    for callback in CALLBACKS {
        for deed in DEEDS {
            for answer in 0..ANSWERS {
                seed += 1;
                let plan = Plan::One(callback, deed, answer);
                play_with::<H>(plan, seed).unwrap_or_else(|fault| panic!("{fault}"));
            }
            audit::<H>();
        }
    }
    assert_eq!(H::state().reports.load(SeqCst), 0, "no free is refused");
    let idle: Vec<_> = CALLBACKS.into_iter().filter(|&callback| DONE[callback as usize].load(SeqCst) == 0).collect();
    assert_eq!(idle, [], "each callback had its turn");
}

#[test]
fn no_lie_gives_a_frame_to_two() {
    tell_every_lie::<Lying>();
}

/// A kernel that keeps the mark in its tasks.
#[test]
fn no_lie_gives_a_frame_to_two_where_tasks_have_the_mark() {
    tell_every_lie::<LyingTasks>();
}

#[test]
fn no_lies_of_three_cpus_at_once_give_a_frame_to_two() {
    const SCENES: u64 = if cfg!(miri) { 1 } else { 12 };
    panic_hook::silence_payload::<Planned>();
    set_up::<LyingAtOnce>();
    let running = AtomicU32::new(CPUS.into());
    let work = |cpu: u16| {
        for scene in 0..SCENES {
            let found = play_with::<LyingAtOnce>(Plan::Anything, scene * 100 + u64::from(cpu));
            if found.is_err() {
                break;
            }
        }
        running.fetch_sub(1, SeqCst);
    };
    std::thread::scope(|scope| {
        for cpu in 1..CPUS {
            let (work, running) = (&work, &running);
            scope.spawn(move || stand_for::<LyingAtOnce>(cpu, || running.load(SeqCst) == 0, || work(cpu)));
        }
        stand_for::<LyingAtOnce>(0, || running.load(SeqCst) == 0, || work(0));
    });
    CPU.set(0);
    retire_others::<LyingAtOnce>();
    clear_away::<LyingAtOnce>();
    assert_eq!(LyingAtOnce::state().faults(), [""; 0]);
    audit::<LyingAtOnce>();
}

/// What a callback could do that got a way to free by number: the harness sees it.
#[test]
fn a_live_block_that_is_freed_by_number_is_noticed() {
    panic_hook::silence(|panic| panic.location().is_some_and(|place| place.file().ends_with("kernel/pages.rs")));
    set_up::<FreesByNumber>();
    let plan = Plan::One(Callback::Reclaim, Deed::FreeByNumber, 3);
    let found = (0..4).find_map(|seed| play_with::<FreesByNumber>(plan, seed).err());
    assert!(found.is_some(), "the planted fault was not noticed");
}

/// What a `Moved` without a move does to a handle that does not pin its block: the harness sees it.
#[test]
fn a_handle_that_does_not_pin_its_block_is_noticed() {
    panic_hook::silence(|panic| panic.location().is_some_and(|place| place.file().ends_with("kernel/pages.rs")));
    set_up::<MovesHandles>();
    let state = MovesHandles::state();
    RANDOM.with_borrow_mut(|random| random.seed(1));
    for _ in 0..100 {
        alloc::<MovesHandles>(Gfp::KERNEL | Gfp::MOVABLE, Order::ZERO)
            .into_iter()
            .for_each(|held| state.keep(held.unpin()));
    }
    let found =
        (0..4).find_map(|seed| play_with::<MovesHandles>(Plan::One(Callback::Migrate, Deed::Nothing, 0), seed).err());
    assert!(found.is_some(), "the planted fault was not noticed");
}
