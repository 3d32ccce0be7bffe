//! `compaction`: the cost per migrated frame of compacting a fragmented zone, without copying the contents of frames.
//!
//! Every page of the zone is allocated as a movable page, and a random half of them is freed. Then kcompactd works at
//! full proactiveness until nothing is left to gain. The platform migrates a page by rewriting its owner's entry in a
//! table, which is the minimum that any owner has to do; the contents of the page are not copied. An operation is one
//! migrated frame and includes its share of the scans.

use std::cell::Cell;

use fastrand::Rng;
use freehold::base::lock::SpinLock;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn};
use freehold::page::{Background, Config, PageAllocator};
use freehold::platform::{Migrated, Migration, NoProbe, Platform};
use freehold::{Policy, machine};
use freehold_policies::{BASELINE, NamedPolicy};
use freehold_timing::clock::time;

use crate::bar::Bar;
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::comparison::Comparison;
use crate::engine::GIB;
use crate::error::Error;
use crate::settings::Method;
use crate::subject::{Case, Sample, Subject, Then};

/// Frames of the zone.
const PAGES: u32 = 4 * GIB;
/// Maximum nanoseconds per frame: a million frames per second.
const BAR_NS: f64 = 1000.0;
/// Entry of a frame without an owner, or of an owner without a frame.
const NONE: u32 = u32::MAX;
/// Seed that selects the pages to be freed.
const SEED: u64 = 4;

pub(crate) const BENCH: Bench = Bench {
    name: "compaction",
    asks: "What does the migration of a frame cost, without the copy of its contents?",
    a: BASELINE,
    b: "freehold",
    unit: "ns",
    method: Method::Comparisons,
    beside: None,
    cases: || vec![&CASE],
    make_plan: plan,
    epilogue: |_, _| Ok(Epilogue::default()),
};

static CASE: Case = Case {
    name: "half-free",
    about: "compact a zone of 4 GiB of which a random half of the pages is free",
    operation: "a migrated frame",
    operations: 1,
    pairs: 1,
};

fn plan(request: &Request) -> Result<Plan, Error> {
    let comparisons = request.rivals.iter().map(|rival| Comparison {
        case: &CASE,
        a: Box::new(Zone { policy: request.a.clone() }),
        b: Box::new(Zone { policy: rival.clone() }),
        bar: Some(Bar::NanosecondsAtMost(BAR_NS)),
    });
    Ok(Plan { comparisons: comparisons.collect(), ..Plan::default() })
}

/// The zone under a policy, as one side of a comparison.
struct Zone {
    policy: NamedPolicy,
}

impl Subject for Zone {
    fn name(&self) -> &str {
        &self.policy.name
    }

    fn open(&self, _operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        with_zone(self.policy.policy, PAGES, |engine| then(&mut || Ok(compact(engine))))
            .map_err(|error| Error::Input(format!("no machine can be built under `{}`: {error}", self.policy.name)))?
    }
}

fn with_zone<R>(
    policy: Policy,
    pages: u32,
    run: impl FnOnce(&PageAllocator<'_, Owners>) -> R,
) -> Result<R, machine::MachineError> {
    let numbers = freehold::policy::Numbers { compaction_proactiveness: Some(100), ..policy.numbers };
    let config = Config { policy: Policy { numbers, ..policy }, end: Pfn::new(pages), ..Config::default() };
    machine::with_memory(Owners::new(pages), &config, pages, run)
}

/// Fragments the zone, times kcompactd, and frees all pages.
fn compact(engine: &PageAllocator<'_, Owners>) -> Sample {
    let owners = engine.platform();
    while let Ok(pfn) = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE - Gfp::DIRECT_RECLAIM, Order::ZERO) {
        owners.add(pfn);
    }
    let mut rng = Rng::with_seed(SEED);
    owners.free(engine, |_| rng.bool());
    engine.drain_all_pages();
    // The shortage of memory has woken kswapd, and kcompactd does not work while kswapd runs.
    while engine.run_kswapd(NodeId(0)) == Background::Working {}
    owners.moved.set(0);
    let sample = time(1, || {
        engine.tick_kcompactd(NodeId(0));
        while engine.run_kcompactd(NodeId(0)) == Background::Working {}
    });
    let operations = owners.moved.get().max(1);
    owners.free(engine, |_| true);
    engine.drain_all_pages();
    Sample { operations, ..sample }
}

/// A platform in which each page has an owner.
struct Owners {
    /// Frame of each owner's page; [`NONE`] if the owner has no page.
    places: Vec<Cell<u32>>,
    /// Owner of the page at each frame.
    owners: Vec<Cell<u32>>,
    /// Number of owners so far.
    count: Cell<usize>,
    moved: Cell<u64>,
    probe: NoProbe,
}

impl Owners {
    fn new(pages: u32) -> Owners {
        let table = vec![Cell::new(NONE); pages as usize];
        Owners { places: table.clone(), owners: table, count: Cell::new(0), moved: Cell::new(0), probe: NoProbe }
    }

    fn add(&self, pfn: Pfn) {
        let owner = self.count.replace(self.count.get() + 1);
        self.places[owner].set(pfn.raw());
        self.owners[pfn.index()].set(owner as u32);
    }

    /// Frees the pages of all owners for which `is_chosen` returns true, at their current frames.
    fn free(&self, engine: &PageAllocator<'_, Owners>, mut is_chosen: impl FnMut(usize) -> bool) {
        for owner in 0..self.count.get() {
            let place = self.places[owner].get();
            if place != NONE && is_chosen(owner) {
                self.places[owner].set(NONE);
                self.owners[place as usize].set(NONE);
                engine.free_pages(Pfn::new(place), Order::ZERO).expect("the owner holds the page");
            }
        }
        if self.places[..self.count.get()].iter().all(|place| place.get() == NONE) {
            self.count.set(0);
        }
    }
}

impl Platform for Owners {
    type Lock = SpinLock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        &self.probe
    }

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn migrate(&self, &Migration { from, to, .. }: &Migration) -> Migrated {
        let owner = self.owners[from.index()].replace(NONE);
        if owner == NONE {
            return Migrated::Refused;
        }
        self.owners[to.index()].set(owner);
        self.places[owner as usize].set(to.raw());
        self.moved.set(self.moved.get() + 1);
        Migrated::Moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_migrates_a_large_part_and_restores_the_zone() {
        for name in [BENCH.a, BENCH.b] {
            let policy = freehold_policies::parse(name).unwrap().policy;
            with_zone(policy, GIB / 4, |engine| {
                for _ in 0..2 {
                    let moved = compact(engine).operations;
                    assert!(moved > u64::from(GIB / 32), "{moved} frames under {name}");
                    let census = engine.check().expect("the state is consistent");
                    assert_eq!(census.allocated, 0, "under {name}");
                }
            })
            .unwrap();
        }
    }
}
