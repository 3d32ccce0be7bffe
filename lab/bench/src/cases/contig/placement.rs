//! Placement of free pages after a case has run: exact counts, which are equal on every machine.

use freehold::base::{CpuId, Order};
use freehold::page::{FreeAreas, PCP_LISTS};
use freehold_policies::NamedPolicy;
use freehold_stats::verdict::Verdict;

use super::cma;
use super::ranges::HUGE;
use super::workloads::CMA_LOOP;
use crate::engine::{Engine, GIB, Workload, with_engine};
use crate::error::Error;
use crate::report::Exact;

/// Placement of the free pages of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Huge pages that are available at once: in the zones' free blocks, or as whole blocks on a CPU's list.
    pub huge: u64,
    /// Single pages on the lists of all CPUs.
    pub listed: u64,
}

impl Placement {
    fn measure(engine: &Engine<'_>) -> Placement {
        Placement {
            huge: free_huge_pages(engine) + listed_blocks(engine, HUGE),
            listed: listed_blocks(engine, Order::ZERO),
        }
    }
}

/// Counts the free pages of both sides after each case.
///
/// # Errors
/// When a machine cannot be built.
pub(super) fn compare_placement(
    a: &NamedPolicy,
    b: &NamedPolicy,
    workloads: &[&Workload],
) -> Result<Vec<Exact>, Error> {
    let (of_a, of_b) = (measure_each_case(a, workloads)?, measure_each_case(b, workloads)?);
    let cases = workloads.iter().map(|workload| workload.case.name).chain([CMA_LOOP.name]);
    let mut rows = Vec::new();
    for (case, (of_a, of_b)) in cases.zip(of_a.into_iter().zip(of_b)) {
        rows.push(Exact {
            what: format!("huge pages available at once, of {}, after {case}", GIB / HUGE.pages()),
            a: a.name.clone(),
            b: b.name.clone(),
            a_count: of_a.huge,
            b_count: of_b.huge,
            verdict: Verdict::compare_exact(of_b.huge, of_a.huge),
        });
        rows.push(Exact {
            what: format!("single pages on per-CPU lists after {case}"),
            a: a.name.clone(),
            b: b.name.clone(),
            a_count: of_a.listed,
            b_count: of_b.listed,
            verdict: Verdict::compare_exact(of_a.listed, of_b.listed),
        });
    }
    Ok(rows)
}

/// Returns the placement on a fresh machine after one sample of each case, the CMA loop last.
fn measure_each_case(policy: &NamedPolicy, workloads: &[&Workload]) -> Result<Vec<Placement>, Error> {
    let mut placements = Vec::new();
    for workload in workloads {
        placements.push(with_engine(policy, workload.pages, |engine| {
            (workload.sample)(engine, 1);
            Placement::measure(engine)
        })?);
    }
    placements.push(cma::with_area(policy, |engine, area| {
        cma::iterate(engine, area, 1, cma::TimedPart::Whole);
        Placement::measure(engine)
    })?);
    Ok(placements)
}

fn free_huge_pages(engine: &Engine<'_>) -> u64 {
    engine.zones().iter().map(|zone| zone.inspect(huge_pages_in)).sum()
}

/// Counts the huge pages in the free blocks of a zone.
fn huge_pages_in(areas: &FreeAreas) -> u64 {
    HUGE.to(Order::MAX).map(|order| u64::from(areas.area(order).nr_free()) << (order.get() - HUGE.get())).sum()
}

/// Counts the blocks of an order on the lists of all CPUs.
fn listed_blocks(engine: &Engine<'_>, order: Order) -> u64 {
    let map = engine.map();
    let all = (0..engine.cpus()).flat_map(|cpu| engine.zones().iter().map(move |zone| (CpuId(cpu), zone)));
    let counts = all.map(|(cpu, zone)| {
        engine.pcp(cpu, zone).inspect(|lists| {
            let blocks = (0..PCP_LISTS).flat_map(|index| lists.list(index).iter(map));
            blocks.filter(|&block| map.frame(block).word().order() == order).count() as u64
        })
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::contig::{BENCH, workloads};

    #[test]
    fn batched_frees_leave_huge_pages_and_single_frees_do_not() {
        let workloads: Vec<&Workload> = workloads().collect();
        let one_by_one = measure_each_case(&freehold_policies::baseline(), &workloads).unwrap();
        let batched = measure_each_case(&freehold_policies::parse(BENCH.b).unwrap(), &workloads).unwrap();
        let whole = Placement { huge: u64::from(GIB / HUGE.pages()), listed: 0 };
        // Pages that are not neighbours in the slice remain single under both policies.
        let singles = ["vfree-scattered", "vfree-shuffled", "vfree-as-allocated"];
        let names = workloads.iter().map(|workload| workload.case.name).chain([CMA_LOOP.name]);
        let gathered: Vec<_> = names.zip(batched).filter(|(name, _)| !singles.contains(name)).collect();
        assert!(gathered.len() == 8 && gathered.iter().all(|&(_, placement)| placement == whole), "{gathered:?}");
        assert!(
            one_by_one.iter().all(|placement| placement.huge < whole.huge && placement.listed > 0),
            "{one_by_one:?}"
        );
    }

    #[test]
    fn page_on_a_list_counts_as_one_block() {
        with_engine(&freehold_policies::baseline(), GIB, |engine| {
            let page = engine.alloc_pages(freehold::base::Gfp::KERNEL, Order::ZERO).unwrap();
            let before = listed_blocks(engine, Order::ZERO);
            engine.free_pages(page, Order::ZERO).unwrap();
            assert_eq!(listed_blocks(engine, Order::ZERO), before + 1);
        })
        .unwrap();
    }
}
