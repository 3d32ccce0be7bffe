//! Scenes that call every callback, and the tests that play them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::base::{Gfp, Order};
use freehold::kernel::Cpu;

use super::{
    ANSWERS, CALLBACKS, Callback, DEEDS, DEEDS_MAX, DONE, Deed, LEFT, PLAN, Plan, Planned, RANDOM, WAITS, alloc,
    is_reclaiming, lying, set_reclaiming, take_range, use_cache,
};
use crate::common::panic_hook;
use crate::kernel::false_callbacks::{CPUS, Held, Liar, State, retire_others, run_in_background, set_up};
use crate::kernel::machine::{CPU, Equipped, Hooks, audit, spawn_cpu, stand_for};

/// Runs a step that may end in a planned panic. Any other panic is recorded as a fault.
fn attempt(step: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(step))
        && !panic.is::<Planned>()
    {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        State::current().note_fault(format!("a panic: {}", said.unwrap_or_default()));
    }
}

/// Creates handles of all kinds, with movable blocks between them.
fn fill() {
    let state = State::current();
    for at in 0..60 {
        attempt(|| {
            let gfp = if at % 2 == 0 { Gfp::KERNEL } else { Gfp::KERNEL | Gfp::MOVABLE };
            let order = Order::new([0, 0, 0, 1, 3][at % 5]);
            alloc(gfp, order).into_iter().for_each(|held| state.keep(held));
        });
    }
    for at in 0..150 {
        attempt(|| {
            let Some(held) = alloc(Gfp::KERNEL | Gfp::MOVABLE, Order::ZERO) else { return };
            if at % 3 == 0 { state.keep(held) } else { held.into_raw() }
        });
    }
    attempt(|| {
        let range = Liar::kernel().alloc_contig_pages(Gfp::KERNEL | Gfp::MOVABLE, 20);
        range.ok().map(Held::contig).into_iter().for_each(|held| state.keep(held));
    });
    attempt(|| state.alloc_cma(5, Gfp::KERNEL | Gfp::MOVABLE).into_iter().for_each(|held| state.keep(held)));
}

/// Plays a scene that calls every callback.
fn play() {
    let state = State::current();
    fill();
    for _ in 0..4 {
        attempt(|| take_range(Gfp::KERNEL));
    }
    attempt(|| drop(state.alloc_cma(300, Gfp::KERNEL)));
    // Allocates all memory and frees every second block. Some of the remaining pages are movable, so large blocks
    // require compaction.
    let mut all = Vec::new();
    let mut count = 0;
    while count < 6000 {
        let before = all.len();
        attempt(|| all.extend(alloc(Gfp::KERNEL | Gfp::MOVABLE | Gfp::NORETRY, Order::ZERO)));
        if all.len() == before {
            break;
        }
        count += 1;
    }
    attempt(|| drop(alloc(Gfp::KERNEL, Order::ZERO)));
    attempt(|| drop(alloc(Gfp::KERNEL | Gfp::NOFAIL, Order::ZERO)));
    for (at, held) in all.into_iter().enumerate() {
        match at % 4 {
            0 => attempt(|| drop(held)),
            1 => attempt(|| held.into_raw()),
            _ if at < 600 => state.keep(held),
            _ => attempt(|| drop(held)),
        }
    }
    for order in [2, 5, 9, 9].map(Order::new) {
        attempt(|| drop(alloc(Gfp::KERNEL, order)));
    }
    attempt(|| use_cache(Gfp::KERNEL));
    attempt(run_in_background);
}

/// Checks and frees everything that this CPU holds.
fn clear_away() {
    PLAN.set(Plan::Honest);
    let state = State::current();
    while state.raw_count() > 0 {
        attempt(|| drop(state.retake(0)));
    }
    while state.count() > 0 {
        attempt(|| drop(state.take(0)));
    }
}

/// Plays a scene under a plan. Returns the first fault that was found.
fn play_with(plan: Plan, seed: u64) -> Result<(), String> {
    RANDOM.with_borrow_mut(|random| random.seed(seed));
    LEFT.set(DEEDS_MAX);
    WAITS.set(50);
    PLAN.set(plan);
    play();
    clear_away();
    match State::current().faults().first() {
        Some(fault) => Err(format!("{plan:?}: {fault}")),
        None => Ok(()),
    }
}

/// Plays one scene for each combination of a callback, a deed and an answer.
fn tell_every_lie(callbacks: Hooks<Equipped>) {
    panic_hook::silence_payload::<Planned>();
    set_up(callbacks);
    let mut seed = 0;
    for callback in CALLBACKS {
        for deed in DEEDS {
            for answer in 0..ANSWERS {
                seed += 1;
                let plan = Plan::One(callback, deed, answer);
                play_with(plan, seed).unwrap_or_else(|fault| panic!("{fault}"));
            }
            audit::<Equipped>();
        }
    }
    assert_eq!(State::current().reports.load(SeqCst), 0, "no free may be reported as an error");
    let idle: Vec<_> = CALLBACKS.into_iter().filter(|&callback| DONE[callback as usize].load(SeqCst) == 0).collect();
    assert_eq!(idle, [], "each callback must be called");
}

#[test]
fn false_callback_answers_never_share_a_frame() {
    tell_every_lie(lying());
}

/// Plays all lies in a kernel that keeps the reclaim mark in its tasks.
#[test]
fn false_answers_with_task_marks_never_share_a_frame() {
    tell_every_lie(Hooks { is_reclaiming, set_reclaiming, ..lying() });
}

#[test]
fn concurrent_false_answers_never_share_a_frame() {
    const SCENES: u64 = if cfg!(miri) { 1 } else { 12 };
    panic_hook::silence_payload::<Planned>();
    set_up(lying());
    let running = AtomicU32::new(CPUS.into());
    let work = |cpu: u16| {
        for scene in 0..SCENES {
            let found = play_with(Plan::Anything, scene * 100 + u64::from(cpu));
            if found.is_err() {
                break;
            }
        }
        running.fetch_sub(1, SeqCst);
    };
    std::thread::scope(|scope| {
        for cpu in 1..CPUS {
            let (work, running) = (&work, &running);
            spawn_cpu(scope, cpu, move || stand_for::<Equipped>(|| running.load(SeqCst) == 0, || work(cpu)));
        }
        stand_for::<Equipped>(|| running.load(SeqCst) == 0, || work(0));
    });
    CPU.set(0);
    retire_others();
    clear_away();
    assert_eq!(State::current().faults(), [""; 0]);
    audit::<Equipped>();
}

/// Plants a callback that frees a live block by its number; the harness must detect this.
#[test]
fn planted_free_of_a_live_block_is_found() {
    panic_hook::silence(|panic| panic.location().is_some_and(|place| place.file().ends_with("kernel/pages.rs")));
    set_up(lying());
    let plan = Plan::One(Callback::Reclaim, Deed::FreeByNumber, 3);
    let found = (0..4).find_map(|seed| play_with(plan, seed).err());
    assert!(found.is_some(), "the planted fault was not noticed");
}

/// Plants a handle that does not pin its block, and a callback that answers `Moved` without a move; the harness must
/// detect this.
#[test]
fn planted_unpinned_handle_is_found() {
    panic_hook::silence(|panic| panic.location().is_some_and(|place| place.file().ends_with("kernel/pages.rs")));
    set_up(lying());
    let state = State::current();
    RANDOM.with_borrow_mut(|random| random.seed(1));
    for _ in 0..100 {
        alloc(Gfp::KERNEL | Gfp::MOVABLE, Order::ZERO).into_iter().for_each(|held| state.keep(held.unpin()));
    }
    let found = (0..4).find_map(|seed| play_with(Plan::One(Callback::Migrate, Deed::Nothing, 0), seed).err());
    assert!(found.is_some(), "the planted fault was not noticed");
}
