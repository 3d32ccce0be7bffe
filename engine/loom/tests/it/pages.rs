//! Model checks of pages that return to their owner CPU, under every order of steps that the memory model allows.
//!
//! A build with `--cfg loom` has a small machine: 64 frames, and pageblocks of eight. In each scene two or three CPUs
//! access one pageblock. Loom repeats the scene until every interleaving with a bounded number of preemptions was
//! tried. Afterwards no page is lost, and no CPU owns a whole pageblock that is free.
use std::sync::atomic::Ordering::Relaxed;

use freehold::base::fault::Fault;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::PcpLists;
use freehold::policy::PcpPolicy::{self, Linux, Owned, OwnedRemote};
use freehold::policy::{Numbers, Policy};

use crate::world::{self, CPU, Engine, FRAMES, finds, in_every_order};

/// Maximum number of orders of a scene; the scenes with ranges have too many to try all.
const ORDERS_MAX: usize = 20_000;

/// Creates a machine with two CPUs.
fn engine(pcp: PcpPolicy) -> &'static Engine {
    let numbers = Numbers { pcp_batch: Some(8), ..Numbers::default() };
    world::engine(Policy { pcp, numbers, ..Policy::FREEHOLD }, &[NodeId(0); 2])
}

/// Flags with which a request may use all reserves.
const LAST: Gfp = Gfp::HIGHUSER_MOVABLE.union(Gfp::MEMALLOC);

/// Allocates a page of a pageblock that this CPU owns.
fn page(engine: &Engine) -> Pfn {
    let pfn = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("there is memory");
    assert_eq!(engine.map().pageblock(pfn).owner(), Some(CpuId(0)));
    pfn
}

fn two_pages(engine: &Engine) -> (Pfn, Pfn) {
    (page(engine), page(engine))
}

fn free(engine: &Engine, pfn: Pfn) {
    engine.free_pages(pfn, Order::ZERO).expect("it is ours");
}

/// Frees on CPU 1 a page that CPU 0 owns, without a separate thread.
fn free_away(engine: &Engine, pfn: Pfn) {
    CPU.with(|cpu| cpu.set(1));
    free(engine, pfn);
    CPU.with(|cpu| cpu.set(0));
}

/// Frees two pages as [`free_away`] does.
fn free_both_away(engine: &Engine, (one, two): (Pfn, Pfn)) {
    free_away(engine, one);
    free_away(engine, two);
}

/// Runs `set_up` on CPU 0, then `here` on CPU 0 and `there` on CPU 1 concurrently, in every order with at most two
/// preemptions. Fails if there are fewer than `least` orders.
#[track_caller]
fn run_both<S: Copy + Send + 'static>(
    pcp: PcpPolicy,
    least: usize,
    set_up: impl Fn(&Engine) -> S + Send + Sync + Copy + 'static,
    here: impl Fn(&Engine, S) + Send + Sync + Copy + 'static,
    there: impl Fn(&Engine, S) + Send + Sync + Copy + 'static,
) {
    run_both_then(pcp, least, set_up, here, there, |_| ());
}

/// Runs a scene as [`run_both`] does, followed by `then`, which checks the result.
#[track_caller]
fn run_both_then<S: Copy + Send + 'static>(
    pcp: PcpPolicy,
    least: usize,
    set_up: impl Fn(&Engine) -> S + Send + Sync + Copy + 'static,
    here: impl Fn(&Engine, S) + Send + Sync + Copy + 'static,
    there: impl Fn(&Engine, S) + Send + Sync + Copy + 'static,
    then: impl Fn(&Engine) + Send + Sync + Copy + 'static,
) {
    let orders = in_every_order(2, ORDERS_MAX, move || {
        let engine = engine(pcp);
        let state = set_up(engine);
        let other = loom::thread::spawn(move || {
            CPU.with(|cpu| cpu.set(1));
            there(engine, state);
        });
        here(engine, state);
        other.join().expect("it does not panic");
        then(engine);
        engine.drain_all_pages();
        let census = engine.check().expect("nothing is lost");
        assert_eq!((census.free, census.cached, census.allocated), (u64::from(FRAMES), 0, 0));
    });
    assert!(orders >= least, "only {orders} orders: the scene does not meet");
}

fn drain(engine: &Engine, _: Pfn) {
    engine.drain_pages_zone(CpuId(0), engine.zone(NodeId(0), ZoneKind::Normal));
}

/// Allocates all pages of a pageblock and returns the first, so that the next request looks at the stack.
fn whole_pageblock(engine: &Engine) -> Pfn {
    let first = page(engine);
    (1..8).for_each(|_| _ = page(engine));
    first
}

#[test]
fn remote_free_during_an_allocation_by_the_owner() {
    home_while_allocated(Owned, 10);
    home_while_allocated(OwnedRemote, 2);
}

/// The CPU that gets the page sees the data that was written to it before the free.
fn home_while_allocated(pcp: PcpPolicy, least: usize) {
    run_both(pcp, least, |engine| (whole_pageblock(engine), mark()), alloc_and_free_pageblock, write_and_free);
}

/// Allocates a page, asserts that it was written if it is the first one, and frees the whole pageblock.
fn alloc_and_free_pageblock(engine: &Engine, (first, mark): (Pfn, Mark)) {
    let again = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("there is memory");
    expect_written(again != first, mark);
    free(engine, again);
    (1..8).for_each(|page| free(engine, first.offset(page)));
}

/// Writes to a page, and frees it.
fn write_and_free(engine: &Engine, (page, mark): (Pfn, Mark)) {
    mark.store(1, Relaxed);
    free(engine, page);
}

/// A value that is accessed with Relaxed ordering only, like the contents of pages.
type Mark = &'static loom::sync::atomic::AtomicU32;

fn mark() -> Mark {
    Box::leak(Box::new(loom::sync::atomic::AtomicU32::new(0)))
}

/// Asserts that data written before the free is visible, unless the page is another one.
fn expect_written(is_another: bool, mark: Mark) {
    assert!(is_another || mark.load(Relaxed) == 1, "what was written before the free is not seen");
}

#[test]
fn concurrent_puts_of_the_last_two_references() {
    last_two_dropped(|engine, page| engine.put_page(page).expect("one reference is ours"));
    last_two_dropped(free);
}

/// The CPU that drops the last reference frees the page and sees the other CPU's writes.
fn last_two_dropped(drop_one: fn(&Engine, Pfn)) {
    run_both(Linux, 2, alloc_shared, write_and_put, move |engine, (page, mark)| {
        drop_one(engine, page);
        let again = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("there is memory");
        expect_written(again != page, mark);
        free(engine, again);
    });
}

/// Allocates a page with two references.
fn alloc_shared(engine: &Engine) -> (Pfn, Mark) {
    let page = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("there is memory");
    engine.get_page(page).expect("it is ours");
    (page, mark())
}

/// Writes to a page, and drops a reference to it.
fn write_and_put(engine: &Engine, (page, mark): (Pfn, Mark)) {
    mark.store(1, Relaxed);
    engine.put_page(page).expect("the other one is ours");
}

#[test]
fn remote_free_during_a_drain_by_the_owner() {
    run_both(Owned, 10, page, drain, free);
    home_while_drained();
}

fn home_while_drained() {
    run_both(OwnedRemote, 2, page, drain, free);
}

#[test]
fn two_remote_frees_during_a_drain_by_the_owner() {
    two_home_while_drained();
}

/// Runs the pushes on CPU 0's thread, which leaves one preemption for the steps of the drain.
fn two_home_while_drained() {
    run_both(OwnedRemote, 4, two_pages, free_both_away, |engine, (one, _)| drain(engine, one));
}

#[test]
fn remote_free_during_offline_of_the_owner() {
    [Owned, OwnedRemote].into_iter().for_each(home_while_offline);
}

fn home_while_offline(pcp: PcpPolicy) {
    // No CPU looks at those lists again, so they must be empty.
    run_both_then(pcp, 10, page, cpu_0_dead, free, |engine| {
        let dead = engine.pcp(CpuId(0), engine.zone(NodeId(0), ZoneKind::Normal));
        assert_eq!((dead.inspect(|lists| lists.count()), dead.waiting()), (0, 0));
    });
}

#[test]
fn remote_free_during_a_range_allocation() {
    [Owned, OwnedRemote].into_iter().for_each(home_while_wanted);
}

fn home_while_wanted(pcp: PcpPolicy) {
    run_both(pcp, 10, page, alloc_and_free_range, free);
}

/// Allocates the pageblock around a page as a range, if possible, and frees it.
fn alloc_and_free_range(engine: &Engine, page: Pfn) {
    let block = page.align_down(Order::new(3));
    let range = block..block.offset(8);
    if engine.alloc_contig_range(range.clone(), Gfp::KERNEL).is_ok() {
        engine.free_contig_range(range).expect("it is ours");
    }
}

/// Allocates a page and frees it; ignores the state of the scene.
fn alloc_and_free<S>(engine: &Engine, _: S) {
    let page = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("there is memory");
    free(engine, page);
}

#[test]
fn concurrent_claims_of_pageblocks() {
    [Owned, OwnedRemote].into_iter().for_each(|pcp| run_both(pcp, 5, |_| (), alloc_and_free, alloc_and_free));
}

#[test]
fn pageblock_claim_during_a_range_allocation() {
    for pcp in [Owned, OwnedRemote] {
        run_both(pcp, 10, find_next_pageblock, alloc_and_free, alloc_and_free_range);
    }
}

/// Returns the pageblock that the next request claims.
fn find_next_pageblock(engine: &Engine) -> Pfn {
    let block = page(engine).align_down(Order::new(3));
    free(engine, block);
    engine.drain_all_pages();
    block
}

/// Pages are missing from one thread's view because the other thread has pushed them, having seen plenty of memory, or
/// has put them on its own CPU's list, having seen too little.
#[test]
fn last_remote_frees_during_a_failing_request() {
    // Loom runs `here` first and thereby learns that both threads access the same list, since reading the zone's flags
    // is not a step of the model.
    [Owned, OwnedRemote].into_iter().for_each(|pcp| {
        run_both_then(pcp, 2, page, free_away, use_up, |engine| {
            if engine.alloc_pages(LAST, Order::ZERO).is_err() {
                let zone = engine.zone(NodeId(0), ZoneKind::Normal);
                let pcp = engine.pcp(CpuId(0), zone);
                let left = (zone.free_pages(), pcp.inspect(PcpLists::count), pcp.waiting());
                assert_eq!(left, (0, 0, 0), "free or pending pages were not found");
            }
            (0..FRAMES).for_each(|pfn| _ = engine.free_pages(Pfn::new(pfn), Order::ZERO));
        });
    });
}

/// Allocates every page that is left, on CPU 0.
fn use_up(engine: &Engine, _: Pfn) {
    CPU.with(|cpu| cpu.set(0));
    while engine.alloc_pages(LAST, Order::ZERO).is_ok() {}
}

#[test]
fn two_concurrent_remote_frees() {
    [Owned, OwnedRemote].into_iter().for_each(two_home_at_once);
}

fn two_home_at_once(pcp: PcpPolicy) {
    run_both(pcp, 2, two_pages, |engine, (one, _)| free_away(engine, one), |engine, (_, two)| free(engine, two));
}

/// Action of one of three threads; all of them get the first page of the same pageblock.
type Act = fn(&Engine, Pfn);

/// Maximum number of orders of a scene with three threads.
const ORDERS_OF_THREE: usize = 2_000;

/// Creates a pageblock of CPU 0 that is half in the zone and half in use.
fn half_in_the_zone(engine: &Engine) -> Pfn {
    let first = whole_pageblock(engine);
    give_half(engine, first);
    first
}

/// Creates a pageblock as [`half_in_the_zone`] does, while no other page is free.
fn half_is_all(engine: &Engine) -> Pfn {
    let first = whole_pageblock(engine);
    while engine.alloc_pages(LAST, Order::ZERO).is_ok() {}
    give_half(engine, first);
    first
}

fn give_half(engine: &Engine, first: Pfn) {
    (4..8).for_each(|page| free(engine, first.offset(page)));
    drain(engine, first);
    assert_eq!(engine.map().pageblock(first).owner(), Some(CpuId(0)), "the pageblock lost its owner");
}

/// Runs three acts, each on its CPU, while CPU 0 owns a half-free pageblock. At the end no CPU owns a whole pageblock
/// that is free.
#[track_caller]
fn three(pcp: PcpPolicy, set_up: fn(&Engine) -> Pfn, acts: [(u16, Act); 3]) {
    let orders = in_every_order(2, ORDERS_OF_THREE, move || {
        let engine = engine(pcp);
        let first = set_up(engine);
        let [here, others @ ..] = acts.map(|(cpu, act)| {
            move || {
                CPU.with(|current| current.set(cpu));
                act(engine, first);
            }
        });
        let others = others.map(loom::thread::spawn);
        here();
        others.into_iter().for_each(|other| other.join().expect("it does not panic"));
        CPU.with(|current| current.set(0));
        (0..FRAMES).for_each(|pfn| _ = engine.free_pages(Pfn::new(pfn), Order::ZERO));
        engine.drain_all_pages();
        assert_eq!(engine.check().expect("nothing is lost").free, u64::from(FRAMES));
    });
    println!("{orders} orders");
    assert!(orders >= 10, "only {orders} orders: the scene does not meet");
}

/// Refills on the owner, which recalls the pages in the zone or finds that it no longer owns the pageblock.
fn refill(engine: &Engine, _: Pfn) {
    if let Ok(page) = engine.alloc_pages(LAST, Order::ZERO) {
        free(engine, page);
    }
}

/// Isolates the pageblock and fails, because some of its pages are in use.
fn isolate(engine: &Engine, first: Pfn) {
    engine.alloc_contig_range(first..first.offset(8), Gfp::KERNEL).expect_err("it is in use");
}

/// Makes a request of another type, which must claim the pageblock because there is no other. The request fails if all
/// free pages are on the other CPU's list.
fn claim(engine: &Engine, first: Pfn) {
    let Ok(page) = engine.alloc_pages(Gfp::KERNEL | Gfp::MEMALLOC, Order::ZERO) else { return };
    assert_eq!(page.align_down(Order::new(3)), first);
    free(engine, page);
}

fn cpu_0_dead(engine: &Engine, _: Pfn) {
    engine.cpu_dead(CpuId(0));
}

#[test]
fn isolation_during_free_and_recall_by_the_owner() {
    [Owned, OwnedRemote].into_iter().for_each(isolated_while_called_back);
}

fn isolated_while_called_back(pcp: PcpPolicy) {
    three(pcp, half_in_the_zone, [(1, isolate), (0, free), (0, refill)]);
}

#[test]
fn type_change_during_free_and_recall_by_the_owner() {
    [Owned, OwnedRemote].into_iter().for_each(changed_while_called_back);
}

fn changed_while_called_back(pcp: PcpPolicy) {
    three(pcp, half_is_all, [(1, claim), (0, free), (0, refill)]);
}

/// The free is the last action of the CPU that goes offline.
#[test]
fn cpu_offline_during_its_free_and_a_remote_refill() {
    [Owned, OwnedRemote].into_iter().for_each(offline_while_refilled);
}

fn offline_while_refilled(pcp: PcpPolicy) {
    three(pcp, half_in_the_zone, [(1, cpu_0_dead), (0, free), (1, refill)]);
}

/// A frame is on one stack at a time: pages that two CPUs push while a third thread takes the stack are found exactly
/// once.
#[test]
fn concurrent_pushes_during_a_stack_take() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 100_000;
    model.check(|| {
        let engine = engine(OwnedRemote);
        let (one, two) = (page(engine), page(engine));
        let pushers = [one, two].map(|pfn| {
            loom::thread::spawn(move || {
                CPU.with(|cpu| cpu.set(1));
                free(engine, pfn);
            })
        });
        drain(engine, one);
        pushers.into_iter().for_each(|pusher| pusher.join().expect("it does not panic"));
        engine.drain_all_pages();
        assert_eq!(engine.check().expect("nothing is lost").free, u64::from(FRAMES));
    });
}

/// CPU 1 finds a part of a pageblock in the zone and opens no whole one, regardless of the pages that CPU 0 frees
/// meanwhile.
#[test]
fn whole_pageblock_is_split_only_without_smaller_blocks() {
    opened_while_freed();
}

fn opened_while_freed() {
    run_both_then(OwnedRemote, 2, alloc_and_drain, free_and_drain, alloc_and_free, |engine| {
        _ = engine.check().expect("nothing is opened early")
    });
}

/// Allocates a page, and drains all lists.
fn alloc_and_drain(engine: &Engine) -> Pfn {
    let page = page(engine);
    engine.drain_all_pages();
    page
}

/// Frees a page, and drains the list that it joined.
fn free_and_drain(engine: &Engine, page: Pfn) {
    free(engine, page);
    drain(engine, page);
}

#[test]
fn planted_stack_faults_are_found() {
    finds(Fault::PushOverwrites, || two_home_at_once(OwnedRemote));
    finds(Fault::TakeInTwoSteps, two_home_while_drained);
    finds(Fault::DrainLeavesStack, home_while_drained);
}

#[test]
fn planted_ordering_faults_are_found() {
    finds(Fault::PushUnreleased, || home_while_allocated(OwnedRemote, 2));
    finds(Fault::TakeUnacquired, || home_while_allocated(OwnedRemote, 2));
    finds(Fault::CountsUnordered, || last_two_dropped(|engine, page| engine.put_page(page).expect("one is ours")));
    finds(Fault::ClaimUnordered, || last_two_dropped(free));
}

#[test]
fn planted_closing_faults_are_found() {
    finds(Fault::PushForgetsClosed, || home_while_offline(OwnedRemote));
    finds(Fault::OfflineStaysOpen, || home_while_offline(OwnedRemote));
    finds(Fault::OfflineStaysOpen, || home_while_offline(Owned));
    finds(Fault::FreeLooksEarly, || home_while_offline(Owned));
}

#[test]
fn planted_ownership_faults_are_found() {
    finds(Fault::OwnerStays, home_while_drained);
    finds(Fault::OwnerStays, || home_while_wanted(Owned));
    for scene in [isolated_while_called_back, changed_while_called_back, offline_while_refilled] {
        finds(Fault::OwnerStays, || scene(OwnedRemote));
        finds(Fault::FragmentStays, || scene(OwnedRemote));
    }
    finds(Fault::DrainTrustsList, || home_while_wanted(Owned));
    finds(Fault::OpensEarly, opened_while_freed);
}
