//! `pages`: how long the common paths take, from the per-CPU list and past it, under rival policies and beside other
//! allocators of page frames.

use std::hint::black_box;

use fastrand::Rng;
use freehold::base::{Gfp, Order, Pfn};

use crate::bench::clock::time;
use crate::bench::engine::{Engine, GIB, Workload};
use crate::bench::peers::Peers;
use crate::bench::subject::{Case, Comparison, Sample};
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::error::Error;
use crate::registry::{BASELINE, BEST};

pub const BENCH: Bench = Bench {
    name: "pages",
    asks: "What does an allocation and free of each kind cost, under rival policies and in other allocators?",
    question: "An allocator is judged by its common paths first: a page from the per-CPU list, a block of a few pages, \
        a huge page, a block that bypasses the lists, and a gibibyte of single pages that come back in random order. \
        Each is timed under both policies, and in page-frame allocators that others have published, where these can do \
        it at all.",
    reading: "A pair is an allocation and a free. Orders 0, 3 and 9 are served by the per-CPU list, order 4 takes the \
        zone lock twice. The fill goes through refills and drains. Peers run in a program of their own, in the same \
        turns on the same CPU; they know no zones, watermarks, types or reserves, so they show what those cost, not \
        who is better. Two programs also differ by where their code happens to lie, which building machines anew does \
        not average out: a few percent to a peer may come out the other way next time, and only factors count. The two \
        floors are not allocators but the least that a per-CPU list can cost. The times of one side may be compared \
        within a table only: both sides take turns on one CPU and its caches, and the fill, which walks the metadata \
        of a gibibyte, takes more or less time by who is the other side.",
    a: BASELINE,
    b: BEST,
    cases: || WORKLOADS.iter().map(|workload| &workload.case).collect(),
    plan,
    epilogue: |_, _| Ok(Epilogue::default()),
};

const ORDER_0: Workload = Workload {
    case: Case {
        name: "order-0-pair",
        about: "allocate and free a page",
        operation: "a pair",
        operations: 20_000,
        pairs: 5,
    },
    // Half of it is to spare in every case.
    pages: 2 * GIB,
    arrange: |_| {},
    sample: |engine, pairs| pair(engine, Gfp::KERNEL, 0, pairs),
};

static WORKLOADS: [Workload; 5] = [
    ORDER_0,
    Workload {
        case: Case { name: "order-3-pair", about: "allocate and free a block of 8 pages", ..ORDER_0.case },
        sample: |engine, pairs| pair(engine, Gfp::KERNEL, 3, pairs),
        ..ORDER_0
    },
    Workload {
        case: Case {
            name: "order-4-pair",
            about: "allocate and free a block of 16 pages, past the per-CPU lists",
            operations: 5000,
            ..ORDER_0.case
        },
        sample: |engine, pairs| pair(engine, Gfp::KERNEL, 4, pairs),
        ..ORDER_0
    },
    Workload {
        case: Case { name: "order-9-pair", about: "allocate and free a huge page", ..ORDER_0.case },
        sample: |engine, pairs| pair(engine, Gfp::TRANSHUGE, 9, pairs),
        ..ORDER_0
    },
    Workload {
        case: Case {
            name: "order-0-fill-free-random",
            about: "allocate a gibibyte of single pages and free them in random order, again and again",
            operation: "an operation",
            operations: 2 * GIB as u64,
            pairs: 1,
        },
        sample: fill,
        ..ORDER_0
    },
];

fn plan(request: &Request) -> Result<Plan, Error> {
    let against = |b| WORKLOADS.iter().map(move |workload| workload.compare(&request.a, b));
    let mut comparisons: Vec<Comparison> = request.rivals.iter().flat_map(against).collect();
    let ours = request.rivals.first().unwrap_or(&request.a);
    let Some(peers) = Peers::find(request.settings.peers.as_deref(), request.settings.cpu)? else {
        return Ok(Plan { comparisons, notes: vec![Peers::how_to_build()] });
    };
    for peer in peers.list()? {
        let can = WORKLOADS.iter().filter(|workload| peer.can(workload.case.name));
        comparisons.extend(can.map(|workload| Comparison {
            case: &workload.case,
            a: Box::new(workload.under(ours)),
            b: Box::new(peers.subject(&peer, workload.case.name)),
            bar: None,
        }));
    }
    Ok(Plan { comparisons, notes: Vec::new() })
}

fn pair(engine: &Engine<'_>, gfp: Gfp, order: u8, pairs: u64) -> Sample {
    // Not known to the compiler, so that nothing is worked out ahead.
    let (gfp, order) = (black_box(gfp), black_box(Order::new(order)));
    time(pairs, || {
        for _ in 0..pairs {
            let pfn = engine.alloc_pages(gfp, order).expect("memory is plenty");
            engine.free_pages(pfn, order).expect("the block is ours");
        }
    })
}

/// Every page once, then back in random order. An allocation and a free are two operations; the shuffling in between
/// does not count.
fn fill(engine: &Engine<'_>, operations: u64) -> Sample {
    let mut pages = vec![Pfn::new(0); operations as usize / 2];
    let count = pages.len() as u64;
    let filled = time(count, || {
        for page in &mut pages {
            *page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("memory is plenty");
        }
    });
    Rng::with_seed(1).shuffle(&mut pages);
    let freed = time(count, || {
        for &page in &pages {
            engine.free_pages(page, Order::ZERO).expect("the page is ours");
        }
    });
    filled + freed
}
