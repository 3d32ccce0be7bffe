//! `flags`: the cost of converting GFP flags into allocation flags, by copying two bits with a mask and by testing two
//! bits.
//!
//! The author's test consists of two loops that allocate and free a block of order 3: once as a compound block, and
//! once as a block with a second reference, so that its tails are freed one order at a time. On a zone with plenty of
//! free memory, this engine serves both loops from the per-CPU list *before* it converts flags (`page/alloc.rs`,
//! `rmqueue_fast`), so the two policies run the same instructions. Further cases therefore isolate the conversion: the
//! loops in a zone that stays below its high watermark, where each request makes the complete first attempt, and the
//! bare conversions over a table of requests.

use std::hint::black_box;
use std::sync::LazyLock;

use fastrand::Rng;
use freehold::base::{Gfp, MigrateType, Order};
use freehold::policy::flags::{
    AllocFlags, NoFragmentFacts, SlowFacts, nofragment_coupled, nofragment_plain, slow_coupled, slow_plain,
};
use freehold::policy::watermark::Watermarks;
use freehold::policy::{DefragMode, FlagsPolicy};
use freehold_policies::BASELINE;
use freehold_timing::clock::time;

#[cfg(feature = "disasm")]
use super::machine_code::tables;
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::engine::{Engine, GIB, Workload};
use crate::error::Error;
use crate::report::{ComparisonRow, Note};
use crate::settings::Method;
use crate::subject::{Case, Sample};

/// Number of loops in the author's test.
const AUTHOR_LOOPS: u64 = 1_000_000;

pub(crate) const BENCH: Bench = Bench {
    name: "flags",
    asks: "What does it cost to test two GFP flags instead of copying them with a mask?",
    a: BASELINE,
    b: "linux-6.12,flags=plain",
    unit: "ns",
    method: Method::Comparisons,
    beside: None,
    cases: || WORKLOADS.iter().map(|workload| &workload.case).collect(),
    make_plan: |request| {
        let rivals = request.rivals.iter();
        let comparisons = rivals.flat_map(|b| WORKLOADS.iter().map(|workload| workload.compare(&request.a, b)));
        Ok(Plan { comparisons: comparisons.collect(), notes: Vec::new() })
    },
    epilogue,
};

/// Loop on a compound block, which is freed whole.
pub(crate) const COMPOUND: Workload = Workload {
    case: Case {
        name: "order-3-compound",
        about: "the same with __GFP_COMP: the block is freed as a whole",
        operation: "a loop",
        operations: 10_000,
        pairs: 5,
    },
    pages: GIB,
    arrange: |_| {},
    sample: |engine, loops| author_loop(engine, Gfp::KERNEL | Gfp::COMP, loops),
};

/// Loop on a block that is not compound: its tails are freed one order at a time.
const SHARED: Workload = Workload {
    case: Case {
        name: "order-3-shared",
        about: "the loop of the patch's author with GFP_KERNEL: allocate order 3, add a reference, free (the tails \
            are freed one order at a time), drop the reference",
        operations: 5000,
        ..COMPOUND.case
    },
    sample: |engine, loops| author_loop(engine, Gfp::KERNEL, loops),
    ..COMPOUND
};

/// The bare conversion of the slow path.
const CONVERT_SLOW: Workload = Workload {
    case: Case {
        name: "convert-slow",
        about: "the conversion of the slow path alone, each dependent on the one before",
        operation: "a conversion",
        operations: 200_000,
        pairs: 5,
    },
    pages: 1 << 15,
    arrange: |_| {},
    sample: |engine, conversions| match engine.policy().flags {
        FlagsPolicy::Coupled => {
            convert_all(conversions, |request| slow_coupled(request.gfp, request.order, request.migratetype, FACTS))
        }
        FlagsPolicy::Plain => {
            convert_all(conversions, |request| slow_plain(request.gfp, request.order, request.migratetype, FACTS))
        }
    },
};

static WORKLOADS: [Workload; 6] = [
    SHARED,
    COMPOUND,
    Workload {
        case: Case {
            name: "order-3-shared-below-high",
            about: "order-3-shared in a zone below its high watermark: every request converts its flags",
            ..SHARED.case
        },
        arrange: stay_below_high,
        ..SHARED
    },
    Workload {
        case: Case {
            name: "order-3-compound-below-high",
            about: "order-3-compound in a zone below its high watermark: every request converts its flags",
            ..COMPOUND.case
        },
        arrange: stay_below_high,
        ..COMPOUND
    },
    CONVERT_SLOW,
    Workload {
        case: Case {
            name: "convert-nofragment",
            about: "the conversion of the first attempt alone, each dependent on the one before",
            ..CONVERT_SLOW.case
        },
        sample: |engine, conversions| match engine.policy().flags {
            FlagsPolicy::Coupled => convert_all(conversions, |request| nofragment_coupled(request.gfp, request.facts)),
            FlagsPolicy::Plain => convert_all(conversions, |request| nofragment_plain(request.gfp, request.facts)),
        },
        ..CONVERT_SLOW
    },
];

/// Times loops that allocate a block of order 3, take a second reference, free the block and drop the reference.
fn author_loop(engine: &Engine<'_>, gfp: Gfp, loops: u64) -> Sample {
    // The compiler does not know these values, so it cannot precompute anything from them.
    let (gfp, order) = (black_box(gfp), black_box(Order::new(3)));
    time(loops, || {
        for _ in 0..loops {
            let pfn = engine.alloc_pages(gfp, order).expect("free memory suffices");
            engine.get_page(pfn).expect("the block is allocated");
            engine.free_pages(pfn, order).expect("the block is allocated");
            engine.put_page(pfn).expect("the block has a second reference");
        }
    })
}

/// Raises the high watermark of every zone above its managed pages, so that free memory never reaches it. Free memory
/// stays above the low watermark, which is unchanged.
fn stay_below_high(engine: &Engine<'_>) {
    for zone in engine.zones().iter().filter(|zone| zone.is_populated()) {
        let marks = zone.watermarks();
        engine.set_watermarks(zone, Watermarks::given(marks.min, marks.low, zone.managed() + 1));
    }
}

/// Arguments of the conversions.
#[derive(Clone, Copy)]
struct AllocRequest {
    gfp: Gfp,
    order: Order,
    migratetype: MigrateType,
    facts: NoFragmentFacts,
}

const FACTS: SlowFacts = SlowFacts { realtime: false, defrag_mode: DefragMode::Off };

/// GFP flags with weights that are roughly those of recordings: mostly user pages, then kernel memory, then requests
/// that may not wait.
const MIX: [(Gfp, u32); 10] = [
    (Gfp::HIGHUSER_MOVABLE, 40),
    (Gfp::KERNEL, 15),
    (Gfp::KERNEL_ACCOUNT, 10),
    (Gfp::USER, 5),
    (Gfp::NOFS, 8),
    (Gfp::NOIO, 2),
    (Gfp::ATOMIC, 10),
    (Gfp::NOWAIT, 5),
    (Gfp::TRANSHUGE_LIGHT, 3),
    (Gfp::TRANSHUGE, 2),
];

/// Requests with those weights, shuffled so that no branch can be predicted by position. The table fits into the
/// first-level cache.
static REQUESTS: LazyLock<Vec<AllocRequest>> = LazyLock::new(|| {
    let mut rng = Rng::with_seed(1);
    let weighted = MIX.iter().flat_map(|&(gfp, weight)| (0..weight * 10).map(move |_| gfp));
    let mut requests = Vec::new();
    for gfp in weighted {
        requests.push(AllocRequest {
            gfp,
            order: Order::new(rng.u8(0..4)),
            migratetype: gfp.migratetype().expect("each mask has at most one migratetype"),
            facts: NoFragmentFacts { has_other_zone: rng.bool(), defrag_mode: DefragMode::Off },
        });
    }
    rng.shuffle(&mut requests);
    requests
});

/// Times a conversion, inlined into a loop of its own. The input of each request depends on the result of the one
/// before, masked by a zero that the compiler does not know. So the latency of the chain of instructions is timed.
/// Without the chain, the throughput of a loop of a few instructions would be timed, and that depends on the address at
/// which the linker places the loop: two loops of the same four instructions differed by 2 %.
fn convert_all(conversions: u64, convert: impl Fn(AllocRequest) -> AllocFlags) -> Sample {
    let (requests, zero) = black_box((&REQUESTS[..], 0));
    let rounds = conversions.div_ceil(requests.len() as u64);
    time(rounds * requests.len() as u64, || {
        let mut last = 0;
        for _ in 0..rounds {
            for request in requests {
                // An addition is used because the compiler would split an `or` and move it behind the conversion.
                let gfp = Gfp::from_bits_retain(request.gfp.bits().wrapping_add(last & zero));
                last = convert(AllocRequest { gfp, ..*request }).bits();
            }
        }
        black_box(last);
    })
}

fn epilogue(_: &Request, compared: &[ComparisonRow]) -> Result<Epilogue, Error> {
    Ok(Epilogue { tables: tables(), notes: vec![author_lines(compared)], ..Epilogue::default() })
}

/// Returns no table: without the feature `disasm` there are only times.
#[cfg(not(feature = "disasm"))]
fn tables() -> Vec<freehold_report::report::Table> {
    Vec::new()
}

/// Returns the results of the loops in the format that the author's test prints, for all sides that took part.
fn author_lines(compared: &[ComparisonRow]) -> Note {
    let loops: Vec<&ComparisonRow> =
        compared.iter().filter(|row| [SHARED.case.name, COMPOUND.case.name].contains(&row.case)).collect();
    let mut lines = Vec::new();
    for row in &loops {
        let [a, b] = row.totals(AUTHOR_LOOPS);
        for (name, total) in [(&row.a, a), (&row.b, b)] {
            let (us, ns) = (total.nanoseconds / 1000, total.per_operation());
            let line = format!("page_alloc_test: Completed. Time: {us} us (Avg: {ns:.2} ns per alloc+free loop)");
            lines.push(format!("{line}   # {}, {name}, {} loops", row.case, total.operations));
        }
    }
    let is_whole = loops.iter().all(|row| row.totals(AUTHOR_LOOPS)[0].operations >= AUTHOR_LOOPS);
    let remark = if is_whole { "" } else { ", with fewer than 1,000,000 loops" };
    Note { title: format!("Format of the author's test{remark}"), lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::with_engine;
    use freehold::page::ZoneFlag;

    #[test]
    fn zone_stays_below_its_high_watermark_and_serves() {
        with_engine(&freehold_policies::baseline(), 1 << 15, |engine| {
            stay_below_high(engine);
            let zone = engine.zones().iter().find(|zone| zone.is_populated()).unwrap();
            for gfp in [Gfp::KERNEL, Gfp::KERNEL | Gfp::COMP] {
                assert_eq!(author_loop(engine, gfp, 5000).operations, 5000);
                assert!(zone.has(ZoneFlag::BelowHigh), "the fast path must stay disabled");
            }
        })
        .unwrap();
    }

    #[test]
    fn author_loop_loses_no_pages() {
        with_engine(&freehold_policies::baseline(), 1 << 15, |engine| {
            author_loop(engine, Gfp::KERNEL, 1000);
            engine.drain_all_pages();
            let zone = engine.zones().iter().find(|zone| zone.is_populated()).unwrap();
            assert_eq!(zone.free_pages(), zone.managed());
        })
        .unwrap();
    }

    fn sum_of_flags(convert: fn(AllocRequest) -> AllocFlags) -> u64 {
        REQUESTS.iter().map(|&request| u64::from(convert(request).bits())).sum::<u64>()
    }

    #[test]
    fn both_conversions_have_equal_results() {
        let coupled = sum_of_flags(|request| slow_coupled(request.gfp, request.order, request.migratetype, FACTS));
        assert_eq!(coupled, sum_of_flags(|request| slow_plain(request.gfp, request.order, request.migratetype, FACTS)));
        assert!(coupled > 0 && REQUESTS.len() == 1000);
    }
}
