//! Model checks of concurrent frees of one block, under every order of steps that the memory model allows: one
//! succeeds, and the others get an error.
//!
//! In each scene two calls on two CPUs try to take a block from its owner. At least one of them is an error of the
//! caller, so the engine must not accept both. Afterwards no page is lost or present twice.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use freehold::base::fault::Fault;
use freehold::base::{Gfp, NodeId, Order, Pfn};
use freehold::policy::PcpPolicy::{self, Linux, Merge, Off, Owned, OwnedRemote};
use freehold::policy::{ContigPolicy, Numbers, Policy};

use crate::world::{self, CPU, Engine, FRAMES, finds, in_every_order};

/// Maximum number of orders of a scene.
const ORDERS_MAX: usize = 20_000;
/// Order of a block of two pages.
const PAIR: Order = Order::new(1);

/// A call that takes a block from its owner if it may; returns the number of pages taken.
type Take = fn(&Engine, Pfn) -> u32;

/// Frees the pair by its head.
const BY_HEAD: Take = |engine, pfn| if engine.free_pages(pfn, PAIR).is_ok() { 2 } else { 0 };
/// Drops the reference; the order is not given.
const BY_PUT: Take = |engine, pfn| if engine.put_page(pfn).is_ok() { 2 } else { 0 };
/// Frees the range that consists of the pair.
const BY_RANGE: Take = |engine, pfn| if engine.free_contig_range(pfn..pfn.offset(2)).is_ok() { 2 } else { 0 };
/// Splits the pair into two pages, and frees both.
const BY_PAGES: Take = |engine, pfn| {
    if engine.split_page(pfn, PAIR).is_err() {
        return 0;
    }
    [pfn, pfn.offset(1)].into_iter().filter(|&page| engine.free_pages(page, Order::ZERO).is_ok()).count() as u32
};
/// Frees two pages in one call; one of them, or both, may already be free.
const IN_BULK: Take = |engine, pfn| if engine.free_pages_bulk(&[pfn, pfn.offset(1)]).is_ok() { 2 } else { 0 };
/// Frees the first of two pages.
const FIRST: Take = |engine, pfn| u32::from(engine.free_pages(pfn, Order::ZERO).is_ok());
/// Frees a frozen pair by its head.
const FROZEN: Take = |engine, pfn| if engine.free_frozen_pages(pfn, PAIR).is_ok() { 2 } else { 0 };
/// Frees the second page of a frozen pair, which is split for that.
const FROZEN_HALF: Take =
    |engine, pfn| u32::from(engine.free_contig_frozen_range(pfn.offset(1)..pfn.offset(2)).is_ok());

/// State in which the pair is allocated.
#[derive(Clone, Copy)]
enum PairKind {
    Referenced,
    Frozen,
    /// As two pages.
    Split,
    /// As two pages of a range.
    Ranged,
}

fn make(engine: &Engine, kind: PairKind) -> Pfn {
    let gfp = if let PairKind::Ranged = kind { Gfp::KERNEL } else { Gfp::HIGHUSER_MOVABLE };
    let allocated = match kind {
        PairKind::Frozen => engine.alloc_frozen_pages(gfp, PAIR),
        PairKind::Referenced | PairKind::Split | PairKind::Ranged => engine.alloc_pages(gfp, PAIR),
    };
    let pfn = allocated.expect("there is memory");
    if let PairKind::Split | PairKind::Ranged = kind {
        engine.split_page(pfn, PAIR).expect("it is ours");
    }
    pfn
}

/// Runs two calls on a pair of pages under a policy, in every order with at most two preemptions. The number of pages
/// that left their owner agrees with the calls' results, and no page left twice.
#[track_caller]
fn meet(pcp: PcpPolicy, contig: ContigPolicy, kind: PairKind, here: Take, there: Take) {
    in_every_order(2, ORDERS_MAX, move || {
        let numbers = Numbers { pcp_batch: Some(8), ..Numbers::default() };
        let engine = world::engine(Policy { pcp, contig, numbers, ..Policy::FREEHOLD }, &[NodeId(0); 2]);
        let pfn = make(engine, kind);
        let taken = Arc::new(AtomicU32::new(0));
        let count = taken.clone();
        let other = loom::thread::spawn(move || {
            CPU.with(|cpu| cpu.set(1));
            count.fetch_add(there(engine, pfn), Relaxed);
        });
        taken.fetch_add(here(engine, pfn), Relaxed);
        other.join().expect("it does not panic");
        let census = engine.check().expect("no page is lost or in two places");
        let gone = 2 - census.allocated as u32;
        assert!(taken.load(Relaxed) <= gone, "{taken:?} pages were taken from their owner, but {gone} are gone");
        assert!(gone > 0, "no thread was first");
        engine.drain_all_pages();
        let census = engine.check().expect("no page is lost or in two places");
        assert_eq!(census.free + census.allocated, u64::from(FRAMES));
    });
}

/// Runs [`meet`] under every policy of lists.
#[track_caller]
fn meet_everywhere(contig: ContigPolicy, kind: PairKind, here: Take, there: Take) {
    [Off, Linux, Merge, Owned, OwnedRemote].into_iter().for_each(|pcp| meet(pcp, contig, kind, here, there));
}

#[test]
fn two_frees_by_head() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Referenced, BY_HEAD, BY_HEAD);
}

#[test]
fn free_and_put() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Referenced, BY_HEAD, BY_PUT);
}

#[test]
fn free_and_range_free() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Referenced, BY_HEAD, BY_RANGE);
    meet(OwnedRemote, ContigPolicy::OneByOne, PairKind::Referenced, BY_HEAD, BY_RANGE);
}

#[test]
fn two_ranges_of_single_pages() {
    for contig in [ContigPolicy::Batched, ContigPolicy::OneByOne] {
        meet(OwnedRemote, contig, PairKind::Split, BY_RANGE, BY_RANGE);
    }
}

#[test]
fn page_free_and_enclosing_range_free() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Split, FIRST, BY_RANGE);
}

#[test]
fn ranged_page_free_and_range_free() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Ranged, FIRST, BY_RANGE);
    meet(OwnedRemote, ContigPolicy::Batched, PairKind::Ranged, BY_RANGE, BY_RANGE);
    meet(OwnedRemote, ContigPolicy::Batched, PairKind::Ranged, FIRST, IN_BULK);
}

#[test]
fn two_frees_of_a_ranged_page() {
    meet(OwnedRemote, ContigPolicy::Batched, PairKind::Ranged, FIRST, FIRST);
}

#[test]
fn range_mark_cleared_without_the_lock_is_found() {
    finds(Fault::LeavesRangeUnlocked, || meet(Linux, ContigPolicy::Batched, PairKind::Ranged, FIRST, BY_RANGE));
}

#[test]
fn page_free_and_bulk_free() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Split, FIRST, IN_BULK);
}

#[test]
fn free_and_split() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Referenced, BY_HEAD, BY_PAGES);
}

#[test]
fn two_frees_of_a_frozen_block() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Frozen, FROZEN, FROZEN);
}

#[test]
fn free_of_a_frozen_block_and_of_its_half() {
    meet_everywhere(ContigPolicy::Batched, PairKind::Frozen, FROZEN, FROZEN_HALF);
}

#[test]
fn claim_in_two_steps_is_found() {
    finds(Fault::ClaimInTwoSteps, || meet(Linux, ContigPolicy::Batched, PairKind::Referenced, BY_HEAD, BY_HEAD));
    finds(Fault::ClaimInTwoSteps, || meet(OwnedRemote, ContigPolicy::Batched, PairKind::Split, FIRST, BY_RANGE));
    finds(Fault::ClaimInTwoSteps, || meet(Off, ContigPolicy::Batched, PairKind::Frozen, FROZEN, FROZEN));
}
