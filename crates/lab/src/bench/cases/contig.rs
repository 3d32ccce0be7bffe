//! `contig`: giving neighbouring pages back one by one, against preparing all of them and giving them back as the
//! largest blocks that fit.
//!
//! Only the free is timed, except in the author's own loop, which is timed whole. Beside the rivals stands a floor,
//! measured in the same run: a loop over the same frames that checks each, and for pages with references drops one, and
//! frees nothing. No free that checks its pages can be faster.

use std::hint::black_box;
use std::ops::Range;

use freehold::base::frame::Word;
use freehold::base::{Frame, Gfp, Order, Pfn};
use freehold::policy::ContigPolicy;

use crate::bench::bar::Bar;
use crate::bench::clock::time;
use crate::bench::engine::{Engine, GIB, Workload, with_engine};
use crate::bench::report::{Compared, Exact, Note};
use crate::bench::subject::{Case, Comparison, Sample};
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::error::Error;
use crate::registry::{BASELINE, NamedPolicy};
use crate::report::table;
use crate::report::verdict::Verdict;

/// Pages of the large range: what the author's test frees at once.
const RANGE_PAGES: u32 = 16_384;
/// Pages of a small range: a huge page.
const HUGE: Order = Order::new(9);
/// Loops of the author's first test.
const AUTHOR_LOOPS: u64 = 100_000;
/// Most that a free may take of its floor.
const FROZEN_BAR: f64 = 1.3;
const REFERENCED_BAR: f64 = 1.5;
/// Most nanoseconds that freeing a frozen range of a huge page may take.
const HUGE_BAR: f64 = 1200.0;

pub const BENCH: Bench = Bench {
    name: "contig",
    asks: "What is gained by freeing a range as a batch instead of page by page?",
    question: "When a range of neighbouring pages is given back (a CMA buffer, the pages of a vmalloc area), Linux \
        6.12 frees each page by itself, through the CPU's list of single pages. The change (Muhammad Usama Anjum, v3, \
        2026-03-24) prepares every page first and then frees runs of prepared pages as the largest blocks that fit. \
        The author's figures are 1406 -> 402 us for a CMA area of 16384 pages, 3.5 times as fast, and 4,097,358 us \
        before for 100,000 rounds of allocating a block of order 9, splitting it, and freeing the range. Two things \
        are to be judged: time, and where the pages are afterwards.",
    reading: "The ratio to one-by-one says what the change is worth; the ratio to the floor says what is left to gain. \
        The floor is a loop over the same frames that only checks each page (and drops its reference, where it has \
        one), eight at a time as the engine does; in the author's profile the free was 23.6 % of the time after the \
        change, 17.8 of it in preparing pages, which is his floor. A ratio near 1 says that nothing is left; it may \
        even be a little below, since then the two are the same loop but for what the compiler made of it. \
        `frozen-pages` are single pages without references: freeing them writes every frame, so that a page freed \
        twice is noticed, and the checks alone write none. `frozen-range` is what this engine's own allocation of a \
        frozen range gives: the largest blocks that fit, of which only the heads are checked, so it lies below a floor \
        that looks at every page. As in the author's loops, the range was allocated just before, so its metadata (16 \
        bytes a page here, 64 in the kernel) is still in the cache; that, and how little a page costs here besides, is \
        why the factor is so much larger than his. Placement is exact: how many of the range's huge pages can be had \
        at once when it was freed, without waiting for a drain of the CPU's lists.",
    a: BASELINE,
    b: "linux-6.12,contig=batched",
    cases: || WORKLOADS.iter().map(|workload| &workload.case).collect(),
    plan,
    epilogue,
};

const PAGES: Workload = Workload {
    case: Case {
        name: "pages",
        about: "free a range of 16384 single pages, each with one reference",
        operation: "a range of 16384 pages",
        operations: 1,
        pairs: 5,
    },
    pages: GIB,
    arrange: |_| {},
    sample: |engine, ranges| free_large(engine, ranges, Gift::Pages),
};

const FROZEN_PAGES: Workload = Workload {
    case: Case { name: "frozen-pages", about: "the same without references", ..PAGES.case },
    sample: |engine, ranges| free_large(engine, ranges, Gift::FrozenPages),
    ..PAGES
};

const FROZEN_RANGE: Workload = Workload {
    case: Case {
        name: "frozen-range",
        about: "free a frozen range of 16384 pages as it was allocated, in the largest blocks that fit",
        ..PAGES.case
    },
    sample: |engine, ranges| free_large(engine, ranges, Gift::FrozenRange),
    ..PAGES
};

const FROZEN_HUGE: Workload = Workload {
    case: Case {
        name: "frozen-512",
        about: "free a range of 512 single pages without references",
        operation: "a range of 512 pages",
        operations: 256,
        ..PAGES.case
    },
    sample: free_huge,
    ..PAGES
};

const AUTHOR_LOOP: Workload = Workload {
    case: Case {
        name: "order-9-split-free",
        about: "the author's loop: allocate a block of order 9, split it, free the range; all of it is timed",
        operation: "a loop",
        operations: 500,
        ..PAGES.case
    },
    sample: author_loop,
    ..PAGES
};

static WORKLOADS: [Workload; 5] = [PAGES, FROZEN_PAGES, FROZEN_RANGE, FROZEN_HUGE, AUTHOR_LOOP];

/// A free held against the least that it must do.
struct Floor {
    check: Workload,
    free: Workload,
    bar: f64,
}

const CHECK_FROZEN: Workload =
    Workload { sample: |engine, ranges| check_large(engine, ranges, Gift::FrozenPages), ..FROZEN_PAGES };

static FLOORS: [Floor; 3] = [
    Floor {
        check: Workload { sample: |engine, ranges| check_large(engine, ranges, Gift::Pages), ..PAGES },
        free: PAGES,
        bar: REFERENCED_BAR,
    },
    Floor { check: CHECK_FROZEN, free: FROZEN_PAGES, bar: FROZEN_BAR },
    Floor { check: CHECK_FROZEN, free: FROZEN_RANGE, bar: FROZEN_BAR },
];

fn plan(request: &Request) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for b in &request.rivals {
        plan.comparisons.extend(WORKLOADS.iter().map(|workload| {
            let comparison = workload.compare(&request.a, b);
            let promised = workload.case.name == FROZEN_HUGE.case.name && b.policy.contig == ContigPolicy::Batched;
            if promised { comparison.with_bar(Bar::NanosecondsAtMost(HUGE_BAR)) } else { comparison }
        }));
    }
    for b in request.rivals.iter().filter(|b| b.policy.contig == ContigPolicy::Batched) {
        plan.comparisons.extend(FLOORS.iter().map(|floor| Comparison {
            case: &floor.free.case,
            a: Box::new(floor.check.under(b).named("the floor: checks alone")),
            b: Box::new(floor.free.under(b)),
            bar: Some(Bar::RatioAtMost(floor.bar)),
        }));
    }
    Ok(plan)
}

/// What a range is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gift {
    /// Single pages with a reference each.
    Pages,
    /// Single pages without references.
    FrozenPages,
    /// The largest blocks that fit, without references.
    FrozenRange,
}

impl Gift {
    /// A range of so many pages, a multiple of the largest block.
    fn allocate(self, engine: &Engine<'_>, pages: u32) -> Range<Pfn> {
        let start = match self {
            Gift::Pages => engine.alloc_contig_pages(Gfp::KERNEL, pages),
            Gift::FrozenPages | Gift::FrozenRange => engine.alloc_contig_frozen_pages(Gfp::KERNEL, pages),
        };
        let start = start.expect("memory is plenty");
        let range = start..start.offset(pages);
        if self == Gift::FrozenPages {
            for (block, order) in start.blocks_up_to(range.end, Order::MAX) {
                engine.split_page(block, order).expect("the block is ours");
            }
        }
        range
    }

    fn free(self, engine: &Engine<'_>, range: Range<Pfn>) {
        let freed = match self {
            Gift::Pages => engine.free_contig_range(range),
            Gift::FrozenPages | Gift::FrozenRange => engine.free_contig_frozen_range(range),
        };
        freed.expect("the range is ours");
    }
}

/// Times frees of large ranges, one after the other.
fn free_large(engine: &Engine<'_>, ranges: u64, gift: Gift) -> Sample {
    let once = |_| {
        let range = gift.allocate(engine, RANGE_PAGES);
        time(1, || gift.free(engine, range))
    };
    (0..ranges).map(once).sum()
}

/// Times the least that a free of large ranges must do. Frees them afterwards.
fn check_large(engine: &Engine<'_>, ranges: u64, gift: Gift) -> Sample {
    let once = |_| {
        let range = gift.allocate(engine, RANGE_PAGES);
        let sample = match gift {
            Gift::Pages => time(1, || assert!(check_and_drop(engine, &range), "the range is ours")),
            Gift::FrozenPages | Gift::FrozenRange => time(1, || assert!(check(engine, &range), "the range is ours")),
        };
        if gift == Gift::Pages {
            let frames = engine.map().frames(&range).flatten();
            frames.for_each(|frame| frame.set(frame.word().with_refs(1)));
        }
        gift.free(engine, range);
        sample
    };
    (0..ranges).map(once).sum()
}

/// Frames that a floor reads together, so that it waits for memory and not for itself.
const GROUP: usize = 8;

/// Reads and checks the word of every frame.
fn check(engine: &Engine<'_>, range: &Range<Pfn>) -> bool {
    engine.map().frames(black_box(range)).all(|frames| all_groups(frames, |group| held(group, 0).is_some()))
}

/// Reads and checks the word of every frame, and writes it back with a reference less.
fn check_and_drop(engine: &Engine<'_>, range: &Range<Pfn>) -> bool {
    let drop_one = |group: &[Frame; GROUP]| {
        let words = held(group, 1);
        let dropped = words.map(|words| group.iter().zip(words).for_each(|(frame, word)| frame.set(word.with_refs(0))));
        dropped.is_some()
    };
    engine.map().frames(black_box(range)).all(|frames| all_groups(frames, drop_one))
}

/// Whether `look` is content with all groups of a slice, which is made of whole ones. A function of its own, so that
/// the compiler makes the same loop of it wherever it stands.
#[inline(never)]
fn all_groups(frames: &[Frame], look: impl Fn(&[Frame; GROUP]) -> bool) -> bool {
    let (groups, rest) = frames.as_chunks();
    assert!(rest.is_empty(), "a range is a multiple of a group");
    groups.iter().all(look)
}

/// The words of a group, if all are single pages with so many references.
fn held(group: &[Frame; GROUP], refs: u32) -> Option<[Word; GROUP]> {
    let words = group.each_ref().map(Frame::word);
    words.iter().all(|word| word.is_held_of(Order::ZERO, refs)).then_some(words)
}

/// Times frees of huge pages that were split into frozen single pages.
fn free_huge(engine: &Engine<'_>, ranges: u64) -> Sample {
    let allocate = |_| {
        let block = engine.alloc_frozen_pages(Gfp::KERNEL, HUGE).expect("memory is plenty");
        engine.split_page(block, HUGE).expect("the block is ours");
        block..block.offset(HUGE.pages())
    };
    let blocks: Vec<_> = (0..ranges).map(allocate).collect();
    time(ranges, || blocks.into_iter().for_each(|block| Gift::FrozenPages.free(engine, block)))
}

fn author_loop(engine: &Engine<'_>, loops: u64) -> Sample {
    time(loops, || {
        for _ in 0..loops {
            let block = engine.alloc_pages(Gfp::KERNEL, HUGE).expect("memory is plenty");
            engine.split_page(block, HUGE).expect("the block is ours");
            Gift::Pages.free(engine, block..block.offset(HUGE.pages()));
        }
    })
}

fn epilogue(request: &Request, compared: &[Compared]) -> Result<Epilogue, Error> {
    let mut epilogue = Epilogue::default();
    for b in &request.rivals {
        epilogue.exact.extend(placement(&request.a, b)?);
        epilogue.notes.push(beside_the_author(&request.a, b, compared));
    }
    Ok(epilogue)
}

/// Where the pages of a large range are after it was freed.
fn placement(a: &NamedPolicy, b: &NamedPolicy) -> Result<[Exact; 2], Error> {
    let after = |policy| {
        with_engine(policy, GIB, |engine| {
            let range = Gift::Pages.allocate(engine, RANGE_PAGES);
            let before = free_huge_pages(engine);
            Gift::Pages.free(engine, range);
            [free_huge_pages(engine) - before, listed_pages(engine)]
        })
    };
    let ([a_huge, a_listed], [b_huge, b_listed]) = (after(a)?, after(b)?);
    let exact = |what: &str, a_count: u64, b_count: u64, verdict| Exact {
        what: what.to_owned(),
        a: a.name.clone(),
        b: b.name.clone(),
        a_count,
        b_count,
        verdict,
    };
    let in_all = RANGE_PAGES / HUGE.pages();
    Ok([
        exact(
            &format!("huge pages free at once, of the {in_all} of a freed range"),
            a_huge,
            b_huge,
            Verdict::of_exact(b_huge, a_huge),
        ),
        exact("single pages left on the CPU's lists", a_listed, b_listed, Verdict::of_exact(a_listed, b_listed)),
    ])
}

/// Blocks of order 9 that the zones could give without a drain.
fn free_huge_pages(engine: &Engine<'_>) -> u64 {
    let in_zone = |areas: &freehold::page::FreeAreas| {
        let blocks = |order: Order| u64::from(areas.area(order).nr_free()) << (order.get() - HUGE.get());
        HUGE.to(Order::MAX).map(blocks).sum::<u64>()
    };
    engine.zones().iter().map(|zone| zone.inspect(in_zone)).sum()
}

/// Pages on the lists of all CPUs.
fn listed_pages(engine: &Engine<'_>) -> u64 {
    let zones = engine.zones().iter();
    zones.map(|zone| engine.pcp(freehold::base::CpuId(0), zone).with(|lists| u64::from(lists.count()))).sum()
}

/// What the author reported, beside what was measured here.
fn beside_the_author(a: &NamedPolicy, b: &NamedPolicy, compared: &[Compared]) -> Note {
    let is_ours = |compared: &&Compared| compared.a == a.name && compared.b == b.name;
    let of_case = |case: &Case| compared.iter().filter(is_ours).find(|compared| compared.case == case.name);
    let mut lines = Vec::new();
    if let Some(pages) = of_case(&PAGES.case) {
        let [before, after] = [pages.outcome.a_ns, pages.outcome.b_ns].map(|ns| ns / 1000.0);
        let times = pages.outcome.estimate.ratio.recip();
        lines.push(format!("freeing 16384 pages, here: {before:.1} -> {after:.1} us, {times:.1} times as fast"));
        lines.push("CMA release of 16384 pages, the author's: 1406 -> 402 us, 3.5 times as fast".to_owned());
    }
    if let Some(loops) = of_case(&AUTHOR_LOOP.case) {
        let [before, after] = loops.totals(AUTHOR_LOOPS);
        let [before_us, after_us] = [before, after].map(|total| table::count(total.nanoseconds / 1000));
        let count = table::count(before.operations);
        lines.push(format!("{count} loops of order 9, split, range free, here: {before_us} -> {after_us} us"));
        lines.push("100,000 loops of the same, the author's: 4,097,358 us before".to_owned());
    }
    lines.push(
        "share of the author's profile in the free: 70.9 % -> 23.6 %, of which 17.8 % in preparing pages".to_owned(),
    );
    Note { title: format!("Beside the author's own figures, made on his machine with a kernel ({})", b.name), lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    const GIFTS: [Gift; 3] = [Gift::Pages, Gift::FrozenPages, Gift::FrozenRange];

    fn free_pages(engine: &Engine<'_>) -> u64 {
        engine.drain_all();
        engine.zones().iter().map(|zone| zone.free_pages()).sum()
    }

    #[test]
    fn samples_and_floors_leave_the_machine_as_it_was() {
        for policy in [BENCH.a, BENCH.b] {
            with_engine(&registry::parse(policy).unwrap(), GIB, |engine| {
                let before = free_pages(engine);
                for gift in GIFTS {
                    free_large(engine, 2, gift);
                }
                check_large(engine, 2, Gift::Pages);
                check_large(engine, 2, Gift::FrozenPages);
                free_huge(engine, 4);
                author_loop(engine, 4);
                assert_eq!(free_pages(engine), before, "{policy}");
                engine.check().expect("nothing is lost or broken");
            })
            .unwrap();
        }
    }

    #[test]
    fn a_floor_notices_a_page_that_is_not_the_callers() {
        with_engine(&registry::baseline(), GIB, |engine| {
            let range = Gift::Pages.allocate(engine, RANGE_PAGES);
            engine.get_page(range.start).unwrap();
            assert!(!check_and_drop(engine, &range));
            let frozen = Gift::FrozenPages.allocate(engine, RANGE_PAGES);
            assert!(check(engine, &frozen));
            Gift::FrozenPages.free(engine, frozen.clone());
            assert!(!check(engine, &frozen));
        })
        .unwrap();
    }

    #[test]
    fn batches_leave_huge_pages_where_single_frees_leave_single_pages() {
        let [huge, listed] = placement(&registry::baseline(), &registry::parse(BENCH.b).unwrap()).unwrap();
        assert_eq!((huge.b_count, listed.b_count), (32, 0));
        assert!(huge.a_count < 32 && listed.a_count > 0, "{huge:?} {listed:?}");
        assert_eq!((huge.verdict, listed.verdict), (Verdict::Better, Verdict::Better));
    }
}
