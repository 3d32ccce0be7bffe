//! A kernel whose callbacks lie. Each callback in turn performs each deed and gives each answer, while handles of all
//! kinds exist. Then all callbacks do random deeds, on three CPUs. All of this is safe code; the unsafe parts are in
//! `kernel::false_callbacks`.
//!
//! The worst permitted outcome is lost memory. Handles keep their contents, no frame gets two owners, no callback is
//! nested in another, and the allocator's own check finds nothing. Two planted faults show that a violation would be
//! detected: a callback that frees a live block by its number, and a handle that does not pin its block.

mod scenarios;

use std::cell::{Cell, RefCell};
use std::panic::panic_any;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::kernel::{Cpu, PageSink};
use freehold::platform::{Context, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, Task};

use crate::kernel::false_callbacks::{CPUS, Held, Liar, State, run_in_background};
use crate::kernel::machine::{Equipped, Hooks};

/// Payload of a planned panic.
struct Planned;

/// Callback that follows a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callback {
    Reclaim,
    Migrate,
    OutOfMemory,
    Reclaimable,
    Relax,
    Task,
}

const CALLBACKS: [Callback; 6] = [
    Callback::Reclaim,
    Callback::Migrate,
    Callback::OutOfMemory,
    Callback::Reclaimable,
    Callback::Relax,
    Callback::Task,
];

/// Action of a callback before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Nothing,
    FreeOne,
    FreeAll,
    DropOne,
    Forget,
    Panic,
    AllocAndKeep,
    AllocUntilFailure,
    AllocLarge,
    IntoRaw,
    Retake,
    Shrink,
    TakeRange,
    TakeArea,
    UseCache,
    BringCpuOnline,
    RunBackground,
    /// A planted fault: frees a live block by its number.
    FreeByNumber,
}

const DEEDS: [Deed; 17] = [
    Deed::Nothing,
    Deed::FreeOne,
    Deed::FreeAll,
    Deed::DropOne,
    Deed::Forget,
    Deed::Panic,
    Deed::AllocAndKeep,
    Deed::AllocUntilFailure,
    Deed::AllocLarge,
    Deed::IntoRaw,
    Deed::Retake,
    Deed::Shrink,
    Deed::TakeRange,
    Deed::TakeArea,
    Deed::UseCache,
    Deed::BringCpuOnline,
    Deed::RunBackground,
];

/// Number of answers that each callback has.
const ANSWERS: u8 = 4;

/// Plan for the callbacks on this thread.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// All callbacks are honest and perform no deed.
    Honest,
    /// One callback performs this deed and gives this answer; the others are honest.
    One(Callback, Deed, u8),
    /// Each callback performs a random deed in one of four calls.
    Anything,
}

/// Maximum number of planned deeds in one scene.
const DEEDS_MAX: u32 = 40;
/// Maximum number of blocks that are leaked on purpose.
const FORGOTTEN_MAX: usize = 60;

thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(Plan::Honest) };
    static RANDOM: RefCell<fastrand::Rng> = const { RefCell::new(fastrand::Rng::with_seed(0)) };
    /// Deeds left in this scene.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// Nesting depth of this thread: `NESTED` in callbacks that find memory, `INSIDE` in deeds of any callback.
    static NESTED: Cell<u32> = const { Cell::new(0) };
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    /// Reclaim mark of a kernel that keeps the mark in its tasks.
    static IS_RECLAIMING: Cell<bool> = const { Cell::new(false) };
    /// Rounds of waiting left in this scene.
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// Deeds performed by each callback, on all machines.
static DONE: [AtomicU32; CALLBACKS.len()] = [const { AtomicU32::new(0) }; CALLBACKS.len()];

fn random(below: usize) -> usize {
    RANDOM.with_borrow_mut(|random| random.usize(0..below))
}

/// Returns the deed and the answer of a callback, if the plan has one for this call.
fn turn(callback: Callback) -> Option<(Deed, u8)> {
    match PLAN.get() {
        Plan::One(planned, deed, answer) if planned == callback && LEFT.get() > 0 => {
            LEFT.set(LEFT.get() - 1);
            Some((deed, answer))
        }
        Plan::Anything if random(4) == 0 => Some((DEEDS[random(DEEDS.len())], random(ANSWERS.into()) as u8)),
        Plan::Honest | Plan::One(..) | Plan::Anything => None,
    }
}

/// Counts one level of nesting until it is dropped, also by a panic.
struct Level(&'static std::thread::LocalKey<Cell<u32>>);

impl Level {
    fn enter(level: &'static std::thread::LocalKey<Cell<u32>>) -> Level {
        level.set(level.get() + 1);
        Level(level)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Enters a callback that finds memory. Records a fault if the thread is already inside such a callback.
fn enter(callback: Callback) -> Level {
    let level = Level::enter(&NESTED);
    if NESTED.get() > 1 {
        State::current().note_fault(format!("{callback:?} is nested in another callback"));
    }
    level
}

/// Performs the planned deed of a callback. Returns the planned answer.
fn act(callback: Callback, sink: Option<&PageSink<'_, Liar>>) -> Option<u8> {
    if INSIDE.get() > 0 && sink.is_none() && callback != Callback::Migrate {
        // A request made inside a deed calls this callback again. The nested call is honest.
        return None;
    }
    let (deed, answer) = turn(callback)?;
    DONE[callback as usize].fetch_add(1, SeqCst);
    let _inside = Level::enter(&INSIDE);
    // These callbacks must not reclaim, so their requests are atomic.
    let may_reclaim = !matches!(callback, Callback::Reclaimable | Callback::Relax | Callback::Task);
    perform(deed, if may_reclaim { Gfp::KERNEL } else { Gfp::ATOMIC }, sink);
    Some(answer)
}

fn perform(deed: Deed, gfp: Gfp, sink: Option<&PageSink<'_, Liar>>) {
    let (kernel, state) = (Liar::kernel(), State::current());
    match deed {
        Deed::Nothing => {}
        Deed::FreeOne => free_one(sink),
        Deed::FreeAll => (0..state.count()).for_each(|_| free_one(sink)),
        Deed::DropOne => drop(state.take(random(1000))),
        Deed::Forget if state.forgotten.load(SeqCst) < FORGOTTEN_MAX => {
            state.take(random(1000)).into_iter().for_each(Held::forget);
        }
        Deed::Forget => {}
        // A second panic during unwinding would abort the program.
        Deed::Panic if std::thread::panicking() => {}
        Deed::Panic => panic_any(Planned),
        Deed::AllocAndKeep => {
            for gfp in [gfp, gfp | Gfp::MOVABLE] {
                alloc(gfp, Order::ZERO).into_iter().for_each(|held| state.keep(held));
            }
        }
        Deed::AllocUntilFailure => {
            let all: Vec<Held> = core::iter::from_fn(|| alloc(gfp | Gfp::MOVABLE, Order::ZERO)).collect();
            drop(all);
        }
        Deed::AllocLarge => {
            for order in [1, 4, 9].map(Order::new) {
                drop(alloc(gfp | Gfp::NOMEMALLOC, order));
            }
        }
        Deed::IntoRaw => state.take(random(1000)).into_iter().for_each(Held::into_raw),
        Deed::Retake => state.retake(random(1000)).into_iter().for_each(|held| state.keep(held)),
        Deed::Shrink => kernel.shrink(),
        Deed::TakeRange => take_range(gfp),
        Deed::TakeArea => drop(state.alloc_cma(7, gfp)),
        Deed::UseCache => use_cache(gfp),
        Deed::BringCpuOnline => kernel.cpu_online(CpuId(random(CPUS.into()) as u16)),
        Deed::RunBackground => run_in_background(),
        Deed::FreeByNumber => {
            let Some(held) = state.take(random(1000)) else { return };
            held.free_by_number();
            state.keep(held);
        }
    }
}

fn free_one(sink: Option<&PageSink<'_, Liar>>) {
    let Some(pages) = State::current().take(random(1000)).and_then(Held::into_pages) else { return };
    match sink {
        Some(sink) => sink.free(pages),
        None => drop(pages),
    }
}

fn alloc(gfp: Gfp, order: Order) -> Option<Held> {
    Liar::kernel().alloc_pages(gfp | Gfp::NOWARN, order).ok().map(Held::pages)
}

/// Allocates a range around a movable block, and frees the range.
fn take_range(gfp: Gfp) {
    let Some(frame) = State::current().raw_frame(random(1000)) else { return };
    let start = Pfn::new(frame.raw() & !15);
    let range = Liar::kernel().alloc_contig_range(start..start.offset(16), gfp | Gfp::MOVABLE);
    drop(range.ok().map(Held::contig));
}

fn use_cache(gfp: Gfp) {
    let Ok(cache) = Liar::kernel().cache::<[u64; 20]>("lies") else { return };
    let objects: Vec<_> = (0..30).map_while(|at| cache.alloc([at; 20], gfp | Gfp::MOVABLE).ok()).collect();
    let intact = objects.iter().zip(0..).all(|(object, at)| object.iter().all(|&word| word == at));
    if !intact {
        State::current().note_fault("an object holds what another was given".to_owned());
    }
}

/// Returns the callbacks that lie as planned.
fn lying() -> Hooks<Equipped> {
    Hooks {
        task,
        reclaim,
        reclaimable,
        migrate,
        out_of_memory,
        relax,
        slab_error: |_| _ = State::current().reports.fetch_add(1, SeqCst),
        ..Hooks::default()
    }
}

/// See [`freehold::kernel::Promises::task`].
fn task() -> Task {
    let context = Context::ALL[random(Context::ALL.len())];
    match act(Callback::Task, None) {
        Some(0) => Task { memalloc: true, ..Task::default() },
        Some(1) => Task { oom_victim: true, realtime: true, ..Task::default() },
        Some(2) => Task { context, ..Task::default() },
        Some(_) => Task { context, memalloc: true, oom_victim: true, realtime: true },
        None => Task::default(),
    }
}

/// See [`freehold::kernel::Promises::reclaim`].
fn reclaim(sink: &PageSink<'_, Liar>, _: &Reclaim) -> Reclaimed {
    let _level = enter(Callback::Reclaim);
    let pages = match act(Callback::Reclaim, Some(sink)) {
        Some(0) => 0,
        Some(1) => 1,
        Some(2) => 32,
        Some(_) => u64::MAX,
        None => {
            free_one(Some(sink));
            1
        }
    };
    Reclaimed { pages, scanned: if sink.has_enough() { 0 } else { pages } }
}

/// See [`freehold::kernel::Promises::migrate`].
fn migrate(migration: &Migration) -> Migrated {
    let _level = enter(Callback::Migrate);
    let state = State::current();
    match act(Callback::Migrate, None) {
        // With a handle, `Moved` is a lie and nothing has happened. Without one, the owner is updated but the contents
        // are not copied.
        Some(0) => {
            state.migrate(migration, false);
            Migrated::Moved
        }
        Some(1) => {
            state.retake_source(migration);
            Migrated::Moved
        }
        Some(2) => state.copy_and_refuse(migration),
        Some(_) => Migrated::Refused,
        None => state.migrate(migration, true),
    }
}

/// See [`freehold::kernel::Promises::out_of_memory`].
fn out_of_memory(sink: &PageSink<'_, Liar>, _: &Request) -> OutOfMemory {
    let _level = enter(Callback::OutOfMemory);
    match act(Callback::OutOfMemory, Some(sink)) {
        Some(0 | 1) => OutOfMemory::Freed,
        Some(_) => OutOfMemory::NothingFreed,
        None => {
            free_one(Some(sink));
            OutOfMemory::Freed
        }
    }
}

/// See [`freehold::kernel::Promises::reclaimable`].
fn reclaimable(_: NodeId, _: ZoneKind) -> u64 {
    match act(Callback::Reclaimable, None) {
        Some(0) => u64::MAX,
        Some(1) => 1 << 40,
        Some(2) => 1,
        Some(_) | None => 0,
    }
}

/// See [`freehold::kernel::Promises::relax`].
fn relax() -> Patience {
    let answer = act(Callback::Relax, None);
    WAITS.set(WAITS.get().saturating_sub(1));
    if WAITS.get() > 0 && answer.is_some_and(|answer| answer > 0) { Patience::Wait } else { Patience::GiveUp }
}

/// See [`freehold::kernel::Promises::is_reclaiming`].
fn is_reclaiming() -> Option<bool> {
    Some(IS_RECLAIMING.get())
}

/// See [`freehold::kernel::Promises::set_reclaiming`].
fn set_reclaiming(is_reclaiming: bool) {
    IS_RECLAIMING.set(is_reclaiming);
}
