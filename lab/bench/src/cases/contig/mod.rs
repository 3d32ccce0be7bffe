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
    question: "When a range of neighbouring pages is given back (a CMA buffer, the pages of a vmalloc area), Linux \
        6.12 frees each page by itself, through the CPU's list of single pages. The change (Muhammad Usama Anjum, v3, \
        2026-03-24) prepares every page first and then frees runs of prepared pages as the largest blocks that fit. \
        The author's figures are 1406 -> 402 us an iteration for a CMA area of 16384 pages, 3.5 times as fast, and \
        4,097,358 us before for 100,000 rounds of allocating a block of order 9, splitting it, and freeing the range. \
        Two things are to be judged: time, and where the pages are afterwards.",
    reading: "The ratio to one-by-one says what the change is worth; the ratio to a floor says what is left to gain. A \
        floor is a loop that frees nothing: over the same frames where it only looks, over words of its own, laid out as \
        the engine's are, where it writes. Pages of a range are claimed under a lock, so that of two frees of one page \
        one is refused; so are those of a large block that was split. Their floor checks and stores to each: the gap \
        between it and the floor that only checks is the price of that. `frozen-range` is what this engine's own \
        allocation of a frozen range gives, the largest blocks that fit: the checks require a look at their heads \
        alone, so the floor of heads is a handful of loads, and what lies above it is merging and lists, which \
        `frozen-pages` pays too; the floor of single pages stands beside it for information. What reading the clock \
        takes by itself is taken off every sample.\n\n\
        The factor between the policies is larger here than the author's 3.5, and it should not be read as a better \
        result. One difference is what is timed: his is an iteration, as in `cma-iteration`, of which the allocation \
        is most of what is left here with batches; `pages` is the free alone. The other is what a page is. His kernel \
        prepares every page with all that it carries there (its cgroup, its flags and poison, its owner and tags where \
        these are configured; 64 bytes of metadata), which in his profile is 17.8 of the remaining 23.6 % of the time. \
        Here a page is one word of 4 bytes, and claiming it is a load, a comparison and a store. `pages` finds \
        that metadata in the cache, where the allocation left it; `pages-cold` does not, and the gap between the two is \
        what the cache is worth.\n\n\
        The cases that begin with `vfree` free a slice of page numbers instead of a range (`free_pages_bulk`), as vfree does \
        with the pages of an area. Neighbours have to be found first: pages that follow each other in the slice and in memory \
        go back together. Where none do, a batch is the look for them and then one page after the other. In three of \
        these cases the pages were allocated as a range, which a real area's are not: then B also pays for taking each \
        page out of its range, which A does not have. `vfree-as-allocated` has pages as an area gets them. Their floor \
        claims each page of the same slice.\n\n\
        `cma-share` is no contest. Its two sides are a whole iteration and a part of it, under one policy on two machines, \
        timed in turns like all else; their ratio is the share of the time that goes to the free. A release is more than the \
        free of its range: it also looks through the area's bitmap, bit by bit, and clears it. The author's shares are \
        samples of a profile, with whatever else his kernel did; these are times, with nothing else.\n\n\
        Placement is exact: how many huge pages can be had at once after a case has run once on a fresh gibibyte, \
        without waiting for a drain of the CPUs' lists.",
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
    about: "the release of such an iteration (B) held against all of it (A) under one policy, so that the ratio is the \
        share of the time that goes to the free",
    ..CMA_LOOP
};

/// Returns all cases that run on a whole machine.
fn workloads() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().chain(&bulk::WORKLOADS)
}

static FLOORS: [Floor; 5] = [
    Floor {
        name: "the floor: check and store, a page",
        check: Workload { sample: |engine, ranges| floor::check_and_store(engine, ranges, MadeOf::Pages), ..PAGES },
        free: PAGES,
        bar: Some(Bar::RatioAtMost(1.5)),
    },
    Floor {
        name: "the floor: check, a page",
        check: Workload { sample: floor::check_pages, ..FROZEN_PAGES },
        free: FROZEN_PAGES,
        bar: Some(Bar::RatioAtMost(1.3)),
    },
    Floor {
        name: "the floor: check, a page",
        check: Workload { sample: floor::check_pages, ..FROZEN_RANGE },
        free: FROZEN_RANGE,
        bar: None,
    },
    Floor {
        name: "the floor: check and store, a page",
        check: Workload {
            sample: |engine, ranges| floor::check_and_store(engine, ranges, MadeOf::FrozenPages),
            ..FROZEN_PAGES
        },
        free: FROZEN_PAGES,
        bar: Some(Bar::RatioAtMost(1.5)),
    },
    Floor {
        name: "the floor: check, a block's head",
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
            let promised = workload.case.name == FROZEN_512.case.name && is_batched(b);
            plan.comparisons.push(if promised {
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
    for (what, case) in [("an iteration on a CMA area", &CMA_LOOP), ("the free alone", &PAGES.case)] {
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
        lines.push("100,000 loops of the same, the author's: 4,097,358 us before".to_owned());
    }
    lines.extend(share_text(a, compared).zip(share_text(b, compared)).map(|(a, b)| {
        format!(
            "share of the iteration's time in the release, here: {a} -> {b}, each timed beside the whole (cma-share)"
        )
    }));
    lines.push(
        "share of the author's profile in the free: 70.9 % -> 23.6 %, of which 17.8 % in preparing pages".to_owned(),
    );
    Note { title: format!("Beside the author's own figures, made on his machine with a kernel ({})", b.name), lines }
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
    fn samples_and_floors_leave_the_machine_as_it_was() {
        let floors = FLOORS.iter().chain(&bulk::FLOORS).map(|floor| &floor.check);
        let all: Vec<&Workload> = workloads().chain(floors).collect();
        for policy in [BENCH.a, BENCH.b] {
            with_engine(&freehold_policies::parse(policy).unwrap(), GIB, |engine| {
                let before = free_pages(engine);
                for workload in &all {
                    assert_eq!((workload.sample)(engine, 2).operations, 2);
                    assert_eq!(free_pages(engine), before, "{} under {policy}", workload.case.name);
                }
                engine.check().expect("nothing is lost or broken");
            })
            .unwrap();
        }
    }

    #[test]
    fn an_iteration_gives_the_area_everything_back() {
        cma::with_area(&freehold_policies::parse(BENCH.b).unwrap(), |engine, area| {
            let before = free_pages(engine);
            assert_eq!(cma::iterate(engine, area, 2, TimedPart::Whole).operations, 2);
            assert_eq!(cma::iterate(engine, area, 2, TimedPart::Release).operations, 2);
            assert_eq!((free_pages(engine), area.allocated()), (before, 0));
            engine.check().expect("nothing is lost or broken");
        })
        .unwrap();
    }
}
