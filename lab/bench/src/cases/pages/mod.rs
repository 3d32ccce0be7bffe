//! `pages`: the time of the common paths, served from the per-CPU list and from the zone, on one thread and on two. It
//! compares rival policies, the floor (the minimum time), and other projects' page-frame allocators.
//!
//! ```text
//! work      the timed loops                             page_loop   the subjects: work on an engine or the floor
//! floor     the minimum cost of a per-CPU list
//! ```

mod floor;
mod page_loop;
mod work;

use freehold::base::frame::METADATA_BYTES;
use freehold::base::pageblock::Pageblock;
use freehold::base::{Frame, Gfp};
use freehold_policies::{BASELINE, BEST, NamedPolicy};
use page_loop::{PageLoop, Row, Threading};
use work::Work;

use crate::bar::Bar;
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::comparison::Comparison;
use crate::engine::GIB;
use crate::error::Error;
use crate::peers::{PEERS, Peer};
use crate::report::Note;
use crate::settings::Method;
use crate::subject::Case;

pub(crate) const BENCH: Bench = Bench {
    name: "pages",
    asks: "What do the common allocations and frees of pages cost, under rival policies and in other allocators?",
    a: BASELINE,
    b: BEST,
    unit: "ns",
    method: Method::Comparisons,
    beside: Some(PEERS),
    cases: || ROWS.iter().chain([&ELSEWHERE]).map(|row| &row.case).collect(),
    make_plan: plan,
    epilogue: |_, _| Ok(Epilogue { notes: vec![metadata()], ..Epilogue::default() }),
};

/// Bar for the time of each of two concurrent threads against that of one thread.
const TWO_THREADS: Bar = Bar::RatioAtMost(1.15);
/// Maximum metadata per gibibyte of memory, and the maximum of it that a free accesses, in MiB.
const METADATA_MAX: (f64, f64) = (2.6, 0.6);

const PAIR: Row = Row {
    case: Case {
        name: "order-0-pair",
        about: "allocate and free a page",
        operation: "a pair",
        operations: 20_000,
        pairs: 5,
    },
    gfp: Gfp::KERNEL,
    order: 0,
    work: Work::Pair,
};

const GET: Row = Row {
    case: Case {
        name: "order-0-bulk-get",
        about: "allocate a gibibyte of single pages; freeing them is not timed",
        operation: "a page",
        operations: GIB as u64,
        pairs: 1,
    },
    work: Work::BulkGet,
    ..PAIR
};

const PUT: Row = Row {
    case: Case {
        name: "order-0-bulk-put",
        about: "free a gibibyte of single pages in the order of their allocation, which is not timed",
        ..GET.case
    },
    work: Work::BulkPut,
    ..GET
};

const RANDOM_PUT: Row = Row {
    case: Case {
        name: "order-0-random-put",
        about: "free a gibibyte of single pages in random order; allocating them is not timed",
        ..GET.case
    },
    work: Work::RandomPut,
    ..GET
};

const HUGE_PAIR: Row = Row {
    case: Case { name: "order-9-pair", about: "allocate and free a huge page", ..PAIR.case },
    gfp: Gfp::TRANSHUGE,
    order: 9,
    ..PAIR
};

static ROWS: [Row; 8] = [
    PAIR,
    Row {
        case: Case { name: "order-3-pair", about: "allocate and free a block of 8 pages", ..PAIR.case },
        order: 3,
        ..PAIR
    },
    Row {
        case: Case {
            name: "order-4-pair",
            about: "allocate and free a block of 16 pages, without per-CPU lists",
            operations: 5000,
            ..PAIR.case
        },
        order: 4,
        ..PAIR
    },
    HUGE_PAIR,
    GET,
    PUT,
    RANDOM_PUT,
    Row {
        case: Case {
            name: "order-0-fill-free-random",
            about: "allocate a gibibyte of single pages and free them in random order, repeatedly",
            operation: "an operation",
            operations: 2 * GIB as u64,
            pairs: 1,
        },
        work: Work::FillFreeRandom,
        ..PAIR
    },
];

/// Case in which one thread allocates and another one frees.
static ELSEWHERE: Row = Row {
    case: Case {
        name: "order-0-put-elsewhere",
        about: "free single pages that another CPU allocated, 512 at a time; allocating them is not timed",
        operations: 1 << 14,
        pairs: 5,
        ..GET.case
    },
    ..GET
};

/// A row of the engine compared with a row of the floor, which may be another case.
struct Above {
    floor: &'static Row,
    ours: &'static Row,
    bar: Option<Bar>,
}

static ABOVE: [Above; 5] = [
    Above { floor: &PAIR, ours: &PAIR, bar: Some(Bar::RatioAtMost(1.8)) },
    Above { floor: &GET, ours: &GET, bar: None },
    Above { floor: &PUT, ours: &PUT, bar: None },
    Above { floor: &RANDOM_PUT, ours: &RANDOM_PUT, bar: None },
    Above { floor: &PAIR, ours: &HUGE_PAIR, bar: None },
];
/// Cases that two threads run concurrently.
static TOGETHER: [Row; 4] = [PAIR, GET, PUT, RANDOM_PUT];

const ALONE: Threading = Threading::One { cpus: 1 };

fn plan(request: &Request) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let partner = request.settings.partner;
    for b in &request.rivals {
        plan.comparisons.extend(against(&request.a, b, partner));
    }
    for b in &request.rivals {
        plan.comparisons.extend(above_floor(b, partner));
        plan.comparisons.extend(partner.into_iter().flat_map(|partner| together(b, partner)));
    }
    if partner.is_none() {
        let line = "two threads, and frees on another CPU: this process may use only one CPU";
        plan.notes.push(Note { title: "Not measured".to_owned(), lines: vec![line.to_owned()] });
    }
    add_peers(request, &mut plan)?;
    Ok(plan)
}

/// Compares every row under both policies.
fn against(a: &NamedPolicy, b: &NamedPolicy, partner: Option<u16>) -> Vec<Comparison> {
    let elsewhere = partner.map(|partner| (&ELSEWHERE, Threading::Elsewhere { partner }));
    let rows = ROWS.iter().map(|row| (row, ALONE)).chain(elsewhere);
    let comparisons = rows.map(|(row, threads)| Comparison {
        case: &row.case,
        a: Box::new(PageLoop::under(a, row, threads)),
        b: Box::new(PageLoop::under(b, row, threads)),
        bar: None,
    });
    comparisons.collect()
}

/// Compares a policy with the floor.
fn above_floor(policy: &NamedPolicy, partner: Option<u16>) -> Vec<Comparison> {
    let elsewhere = partner.map(|partner| (&PUT, &ELSEWHERE, Threading::Elsewhere { partner }, None));
    let all = ABOVE.iter().map(|above| (above.floor, above.ours, ALONE, above.bar)).chain(elsewhere);
    let comparisons = all.map(|(floor, ours, threads, bar)| Comparison {
        case: &ours.case,
        a: Box::new(PageLoop::on_floor(floor)),
        b: Box::new(PageLoop::under(policy, ours, threads)),
        bar,
    });
    comparisons.collect()
}

/// Compares two threads with one under a policy.
fn together(policy: &NamedPolicy, partner: u16) -> impl Iterator<Item = Comparison> {
    TOGETHER.iter().map(move |row| Comparison {
        case: &row.case,
        a: Box::new(PageLoop::under(policy, row, Threading::One { cpus: 2 }).and("one thread")),
        b: Box::new(PageLoop::under(policy, row, Threading::Two { partner }).and("two threads")),
        bar: Some(TWO_THREADS),
    })
}

/// Adds comparisons of the first policy B with other projects' allocators.
fn add_peers(request: &Request, plan: &mut Plan) -> Result<(), Error> {
    let ours = request.rivals.first().unwrap_or(&request.a);
    let Some(program) = PEERS.find(request.settings.peers.as_deref())? else {
        plan.notes.push(PEERS.how_to_build());
        return Ok(());
    };
    for peer in program.list::<Peer>()? {
        let can = ROWS.iter().filter(|row| peer.can(row.case.name));
        plan.comparisons.extend(can.map(|row| Comparison {
            case: &row.case,
            a: Box::new(PageLoop::under(ours, row, ALONE)),
            b: Box::new(peer.subject(&program, row.case.name, request.settings.cpu)),
            bar: None,
        }));
    }
    Ok(())
}

/// Returns the number of bytes that the engine stores per frame and per pageblock.
fn metadata() -> Note {
    let (frame, pageblock) = (METADATA_BYTES, size_of::<Pageblock>());
    let all = frame as f64 / 4.0 + pageblock as f64 * 512.0 / f64::from(1 << 20);
    let hot = size_of::<Frame>() as f64 / 4.0;
    let line = format!(
        "{frame} bytes a frame and {pageblock} bytes a pageblock under every policy: {all:.2} MiB a GiB {}, of which state \
         words {hot:.2} {}",
        format_bar(all, METADATA_MAX.0),
        format_bar(hot, METADATA_MAX.1),
    );
    Note { title: "Metadata".to_owned(), lines: vec![line] }
}

/// Formats the bar in MiB, and whether it is met.
fn format_bar(mib: f64, most: f64) -> String {
    format!("(bar: at most {most}: {})", if mib <= most { "met" } else { "missed" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::with_cpus;
    use crate::subject::Subject;

    use freehold_timing::affinity;

    fn sample_once(subject: &dyn Subject, operations: u64) {
        let opened = subject.open(operations, &mut |sampler| {
            let sample = sampler()?;
            assert!(sample.operations >= operations, "{} did {sample:?}", subject.name());
            Ok(())
        });
        opened.unwrap();
    }

    /// Both threads share one CPU here, which is slow but valid.
    #[test]
    fn every_side_does_the_requested_operations() {
        let partner = *affinity::usable().unwrap().last().expect("this thread may use a CPU");
        for policy in ["linux-6.12", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"] {
            let policy = freehold_policies::parse(policy).unwrap();
            let compared = against(&policy, &policy, Some(partner)).into_iter();
            for comparison in compared.chain(above_floor(&policy, Some(partner))).chain(together(&policy, partner)) {
                sample_once(&*comparison.a, 600);
                sample_once(&*comparison.b, 600);
            }
        }
    }

    #[test]
    fn machine_is_consistent_after_frees_on_another_cpu() {
        let partner = *affinity::usable().unwrap().last().expect("this thread may use a CPU");
        for policy in ["linux-6.12", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"] {
            with_cpus(&freehold_policies::parse(policy).unwrap(), GIB, 2, |engine| {
                page_loop::free_elsewhere(&work::EngineBlocks::new(engine, Gfp::KERNEL, 0), 5000, partner).unwrap();
                engine.drain_all_pages();
                let census = engine.check().expect("the state is consistent");
                assert_eq!((census.free, census.allocated), (u64::from(GIB), 0), "{policy}");
            })
            .unwrap();
        }
    }
}
