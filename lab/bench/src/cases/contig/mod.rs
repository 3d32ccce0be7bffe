//! `contig`: freeing neighbouring pages one by one, against preparing all of them and freeing them as the largest
//! blocks that fit.
//!
//! ```text
//! ranges      allocates ranges and times their frees     floor       the minimum work of a free
//! cma         a complete iteration on a CMA area         placement   where the free pages are afterwards
//! workloads   the cases                                  bulk        pages of a vmalloc area, as a slice
//! cold        evicts everything from the caches
//! ```

mod bulk;
mod cma;
mod cold;
mod floor;
mod placement;
mod ranges;
mod workloads;

use cma::{CmaSubject, TimedPart};
use freehold::policy::ContigPolicy;
use freehold_policies::{BASELINE, NamedPolicy};
use freehold_report::number;
use ranges::MadeOf;

use workloads::{AUTHOR_LOOP, CMA_LOOP, FROZEN_512, FROZEN_PAGES, FROZEN_RANGE, Floor, PAGES, WORKLOADS};

use crate::bar::Bar;
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::comparison::Comparison;
use crate::engine::Workload;
use crate::error::Error;
use crate::report::{ComparisonRow, Note};
use crate::settings::Method;
use crate::subject::{Case, Subject};

/// Number of loops in the author's first test.
const AUTHOR_LOOPS: u64 = 100_000;
/// Maximum nanoseconds for freeing a frozen range of 512 pages.
const HUGE_BAR: f64 = 1200.0;

pub(crate) const BENCH: Bench = Bench {
    name: "contig",
    asks: "What is gained by freeing a range as a batch instead of page by page?",
    a: BASELINE,
    b: "linux-6.12,contig=batched",
    unit: "ns",
    method: Method::Comparisons,
    beside: None,
    cases: || workloads().map(|workload| &workload.case).chain([&CMA_LOOP, &CMA_SHARE]).collect(),
    make_plan: plan,
    epilogue,
};

/// Share of the release in an iteration, for comparison with the author's profile.
static CMA_SHARE: Case = Case {
    name: "cma-share",
    about: "the release of such an iteration (B) compared with the whole iteration (A) under one policy; the ratio is the \
        share of the release",
    ..CMA_LOOP
};

/// Returns all cases that run on a whole machine.
fn workloads() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().chain(&bulk::WORKLOADS)
}

static FLOORS: [Floor; 5] = [
    Floor {
        name: "lower bound: check and store each page",
        check: Workload { sample: |engine, ranges| floor::check_and_store(engine, ranges, MadeOf::Pages), ..PAGES },
        free: PAGES,
        bar: Some(Bar::RatioAtMost(1.5)),
    },
    Floor {
        name: "lower bound: check each page",
        check: Workload { sample: floor::check_pages, ..FROZEN_PAGES },
        free: FROZEN_PAGES,
        bar: Some(Bar::RatioAtMost(1.3)),
    },
    Floor {
        name: "lower bound: check each page",
        check: Workload { sample: floor::check_pages, ..FROZEN_RANGE },
        free: FROZEN_RANGE,
        bar: None,
    },
    Floor {
        name: "lower bound: check and store each page",
        check: Workload {
            sample: |engine, ranges| floor::check_and_store(engine, ranges, MadeOf::FrozenPages),
            ..FROZEN_PAGES
        },
        free: FROZEN_PAGES,
        bar: Some(Bar::RatioAtMost(1.5)),
    },
    Floor {
        name: "lower bound: check the head of each block",
        check: Workload { sample: floor::check_heads, ..FROZEN_RANGE },
        free: FROZEN_RANGE,
        bar: None,
    },
];

fn plan(request: &Request) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for b in &request.rivals {
        for workload in workloads() {
            let comparison = workload.compare(&request.a, b);
            let has_bar = workload.case.name == FROZEN_512.case.name && is_batched(b);
            plan.comparisons.push(if has_bar {
                comparison.with_bar(Bar::NanosecondsAtMost(HUGE_BAR))
            } else {
                comparison
            });
        }
        plan.comparisons.push(Comparison {
            case: &CMA_LOOP,
            a: Box::new(CmaSubject::new(&request.a)),
            b: Box::new(CmaSubject::new(b)),
            bar: None,
        });
    }
    for b in request.rivals.iter().filter(|b| is_batched(b)) {
        plan.comparisons.extend(FLOORS.iter().chain(&bulk::FLOORS).map(|floor| Comparison {
            case: &floor.free.case,
            a: Box::new(floor.check.under(b).named(floor.name)),
            b: Box::new(floor.free.under(b)),
            bar: floor.bar,
        }));
    }
    plan.comparisons.extend([&request.a].into_iter().chain(&request.rivals).map(share_of_release));
    Ok(plan)
}

fn share_of_release(policy: &NamedPolicy) -> Comparison {
    Comparison {
        case: &CMA_SHARE,
        a: Box::new(CmaSubject::part(policy, TimedPart::Whole)),
        b: Box::new(CmaSubject::part(policy, TimedPart::Release)),
        bar: None,
    }
}

fn is_batched(policy: &NamedPolicy) -> bool {
    policy.policy.contig == ContigPolicy::Batched
}

fn epilogue(request: &Request, compared: &[ComparisonRow]) -> Result<Epilogue, Error> {
    let mut epilogue = Epilogue::default();
    for b in &request.rivals {
        epilogue.exact.extend(placement::compare_placement(&request.a, b, &workloads().collect::<Vec<_>>())?);
        epilogue.notes.push(beside_the_author(&request.a, b, compared));
    }
    Ok(epilogue)
}

/// Returns the author's figures beside those measured here.
fn beside_the_author(a: &NamedPolicy, b: &NamedPolicy, compared: &[ComparisonRow]) -> Note {
    let ours: Vec<&ComparisonRow> = compared.iter().filter(|row| row.a == a.name && row.b == b.name).collect();
    let mut lines = Vec::new();
    for (what, case) in [("an iteration on a CMA area", &CMA_LOOP), ("the free only", &PAGES.case)] {
        lines.extend(ours.iter().find(|row| row.case == case.name).map(|found| {
            let [before, after] = [found.outcome.a_ns, found.outcome.b_ns].map(|ns| ns / 1000.0);
            let times = found.outcome.estimate.ratio.recip();
            format!("16384 pages, {what}, here: {before:.1} -> {after:.1} us, {times:.1} times as fast")
        }));
    }
    lines.push("16384 pages, an iteration on a CMA area, the author's: 1406 -> 402 us, 3.5 times as fast".to_owned());
    if let Some(loops) = ours.iter().find(|row| row.case == AUTHOR_LOOP.case.name) {
        let [before, after] = loops.totals(AUTHOR_LOOPS);
        let [before_us, after_us] = [before, after].map(|total| number::count(total.nanoseconds / 1000));
        let count = number::count(before.operations);
        lines.push(format!("{count} loops of order 9, split, range free, here: {before_us} -> {after_us} us"));
        lines.push("100,000 loops of order 9, split, range free, the author's: 4,097,358 us before".to_owned());
    }
    lines.extend(
        share_text(a, compared)
            .zip(share_text(b, compared))
            .map(|(a, b)| format!("share of the release in an iteration, here: {a} -> {b}")),
    );
    lines.push(
        "share of the free in the author's profile: 70.9 % -> 23.6 %, of which 17.8 % in preparing pages".to_owned(),
    );
    Note { title: format!("The author's figures, from a kernel on another machine ({})", b.name), lines }
}

/// Formats the share of the release under a policy, with its interval.
fn share_text(policy: &NamedPolicy, compared: &[ComparisonRow]) -> Option<String> {
    let whole = CmaSubject::part(policy, TimedPart::Whole);
    let found = compared.iter().find(|compared| compared.case == CMA_SHARE.name && compared.a == whole.name())?;
    let estimate = found.outcome.estimate;
    let [ratio, low, high] = [estimate.ratio, estimate.low, estimate.high].map(number::percent);
    Some(format!("{ratio} ({low} to {high})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, GIB, with_engine};

    fn free_pages(engine: &Engine<'_>) -> u64 {
        engine.drain_all_pages();
        engine.zones().iter().map(|zone| zone.free_pages()).sum()
    }

    #[test]
    fn samples_and_lower_bounds_restore_the_machine() {
        let floors = FLOORS.iter().chain(&bulk::FLOORS).map(|floor| &floor.check);
        let all: Vec<&Workload> = workloads().chain(floors).collect();
        for policy in [BENCH.a, BENCH.b] {
            with_engine(&freehold_policies::parse(policy).unwrap(), GIB, |engine| {
                let before = free_pages(engine);
                for workload in &all {
                    assert_eq!((workload.sample)(engine, 2).operations, 2);
                    assert_eq!(free_pages(engine), before, "{} under {policy}", workload.case.name);
                }
                engine.check().expect("the state is consistent");
            })
            .unwrap();
        }
    }

    #[test]
    fn iteration_returns_all_pages_to_the_area() {
        cma::with_area(&freehold_policies::parse(BENCH.b).unwrap(), |engine, area| {
            let before = free_pages(engine);
            assert_eq!(cma::iterate(engine, area, 2, TimedPart::Whole).operations, 2);
            assert_eq!(cma::iterate(engine, area, 2, TimedPart::Release).operations, 2);
            assert_eq!((free_pages(engine), area.allocated()), (before, 0));
            engine.check().expect("the state is consistent");
        })
        .unwrap();
    }
}
