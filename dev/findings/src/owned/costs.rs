//! Growth of waiting time with the number of CPUs, and the parts of the allocator's time that a policy saves.

use freehold_report::number;
use freehold_sim::report::SimReport;
use freehold_sim::report::measures::{self, Measure};
use freehold_stats::verdict::relative_change;

use freehold_report::data_table::DataTable;

/// Share of CPU time from which waiting counts as significant.
const WAITING_SHARE: f64 = 0.1;
/// Number of CPUs for which savings are divided into parts.
const SAVINGS_CPUS: u16 = 32;
/// Parts of an operation's time in the allocator.
const SPENT_ON: [(&str, Measure); 7] = [
    ("saved: waiting for zone locks", measures::ZONE_WAIT),
    ("saved: holding zone locks", measures::HOLD),
    ("saved: per-CPU lists' locks", measures::LIST_WAIT),
    ("saved: cutting and merging on lists", measures::LISTS),
    ("saved: stacks", measures::STACKS),
    ("saved: the operations themselves", measures::OPERATIONS),
    ("saved: reclaim", measures::RECLAIM),
];

/// Makes the table of waiting and throughput with the fewest and with the most CPUs.
pub(super) fn growth(report: &SimReport, point: usize) -> DataTable {
    let cpus = &report.plan.cpus;
    let (&few, &many) = (cpus.first().expect("a plan has CPUs"), cpus.last().expect("a plan has CPUs"));
    let [from, to] = [few, many].map(|cpus| format!("waiting on {}", cpus_text(cpus)));
    let header = ["policy", &from, &to, "throughput ratio", "CPUs from which waiting takes 10 %"];
    let rows = (0..report.plan.policies.len()).map(|policy| {
        let [waits_few, waits_many] =
            [few, many].map(|cpus| measures::ZONE_WAIT.text(median(report, &measures::ZONE_WAIT, point, cpus, policy)));
        let [work_few, work_many] = [few, many].map(|cpus| median(report, &measures::THROUGHPUT, point, cpus, policy));
        let name = format!("`{}`", report.plan.policies[policy].name);
        vec![name, waits_few, waits_many, number::decimal(work_many / work_few), knee(report, point, policy)]
    });
    DataTable::new(header, rows)
}

/// Returns the smallest number of CPUs at which at least a tenth of the CPU time is spent waiting for a zone lock, or a
/// dash if the plan has no such number.
fn knee(report: &SimReport, point: usize, policy: usize) -> String {
    report
        .plan
        .cpus
        .iter()
        .find(|&&cpus| median(report, &measures::ZONE_WAIT, point, cpus, policy) >= WAITING_SHARE)
        .map_or(number::ABSENT.to_owned(), ToString::to_string)
}

/// Makes the table of the time that a policy saves compared with policy A, by part, in nanoseconds per operation.
pub(super) fn savings(report: &SimReport, point: usize) -> DataTable {
    let cpus = nearest(&report.plan.cpus, SAVINGS_CPUS);
    let baseline = format!("ns an operation, `{}`", report.plan.policies[0].name);
    let header = ["policy", "CPUs", &baseline, "ns an operation", "change"];
    let header: Vec<&str> = header.into_iter().chain(SPENT_ON.map(|(title, _)| title)).collect();
    let rows = (1..report.plan.policies.len()).map(|policy| {
        let [was, is] = [0, policy].map(|policy| per_operation(report, &measures::ALLOCATOR, point, cpus, policy));
        let mut cells = vec![format!("`{}`", report.label(policy)), cpus.to_string()];
        cells.extend([number::decimal(was), number::decimal(is), number::change(relative_change(was, is))]);
        for (_, measure) in SPENT_ON {
            let [was, is] = [0, policy].map(|policy| per_operation(report, &measure, point, cpus, policy));
            cells.push(format!("{:+.1}", was - is));
        }
        cells
    });
    DataTable::new(header, rows)
}

/// Returns the nanoseconds per operation of an activity whose share of CPU time is `measure`. A share would be
/// misleading, because a policy that completes more operations in the same time would look more expensive.
pub(super) fn per_operation(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> f64 {
    let share = median(report, measure, point, cpus, policy);
    share * f64::from(cpus) * 1e9 / median(report, &measures::THROUGHPUT, point, cpus, policy)
}

/// Returns the number in `cpus` that is nearest to `to`.
pub(super) fn nearest(cpus: &[u16], to: u16) -> u16 {
    cpus.iter().copied().min_by_key(|cpus| cpus.abs_diff(to)).unwrap_or(to)
}

/// Returns the median over the seeds.
pub(super) fn median(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> f64 {
    report.spread(measure, point, cpus, policy).map_or(f64::NAN, |spread| spread.median)
}

fn cpus_text(cpus: u16) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}
