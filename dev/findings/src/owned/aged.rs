//! Costs and gains of owned pageblocks as machines age: policy `freehold` compared with the rules of the recorded
//! kernel, in eleven measures, on machines as workloads leave them.
//!
//! A machine is a plan at an age, and a cell is a machine with a number of CPUs. Each measure is pooled over machines.
//! A machine counts once, with the middle value of its cells. The result is the median of the machines' differences
//! with a rank interval, which is wide enough to hold for all measures simultaneously (Bonferroni correction). It
//! applies to machines like these; the machines were chosen, not drawn at random. Differences are relative, except
//! those of shares, which are in percentage points, as in `freehold sim`.

use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::measures::{self, Measure};
use freehold_sim::report::{SimReport, judge};
use freehold_stats::intervals;
use freehold_stats::verdict::{Change, Direction, Evidence, Verdict};

use crate::differences::difference_text;
use freehold_report::data_table::DataTable;

/// Ages of the machines: from pristine through the median of servers to almost unusable.
const AGES: [u8; 4] = [0, 30, 60, 90];
/// Policies that are compared.
const A: &str = "linux-6.12";
const B: &str = "freehold";
/// Measures: locks, fragmentation, requests served, and time.
const MEASURES: [Measure; 11] = [
    measures::ZONE_LOCKS,
    measures::ZONE_WAIT,
    measures::REFILLS,
    measures::UNUSABLE_END,
    measures::FREE_BLOCKS_END,
    measures::MIXED_END,
    measures::THP_SUCCESS,
    measures::STALLS,
    measures::FAILURES,
    measures::THROUGHPUT,
    measures::ALLOC_P99,
];
/// Simultaneous confidence of the intervals of all measures.
const CONFIDENCE: f64 = 0.95;

/// Function that returns the settings of a plan for machines of an age.
type OfAge = fn(u8) -> Changes;

/// All plans. A machine with an age has page cache, so `long` has more memory there. `webhost` has less memory, so that
/// it is turned over sooner. It also has more seeds, because it is the only plan with huge pages.
const PLANS: [(&str, OfAge); 5] = [
    ("long", |age| Changes { memory: (age > 0).then(|| "3GiB".to_owned()), ..age_changes(age) }),
    ("numa", |age| Changes { cpus: vec![32], ..age_changes(age) }),
    ("small-machine", age_changes),
    ("pressure", age_changes),
    ("webhost", |age| Changes { memory: Some("4GiB".to_owned()), seeds: Some(5), ..age_changes(age) }),
];

fn age_changes(age: u8) -> Changes {
    Changes { age: Some(age), a: Some(A.to_owned()), b: vec![B.to_owned()], ..Changes::default() }
}

/// Returns the name of each machine, and the command that simulates it.
pub(super) fn commands() -> impl Iterator<Item = (String, String)> {
    let machines = PLANS.into_iter().flat_map(|(plan, of_age)| AGES.map(|age| (plan, age, of_age(age))));
    machines.map(|(plan, age, changes)| (format!("`{plan}`, age {age}"), format_command(plan, age, &changes)))
}

fn format_command(plan: &str, age: u8, changes: &Changes) -> String {
    let mut command = format!("`freehold sim {plan} --age {age}");
    for cpus in &changes.cpus {
        command += &format!(" --cpus {cpus}");
    }
    if let Some(memory) = &changes.memory {
        command += &format!(" --memory {memory}");
    }
    if let Some(seeds) = changes.seeds {
        command += &format!(" --set seeds={seeds}");
    }
    command + &format!(" --a {A} --b {B}`")
}

/// Report of a plan at an age.
#[derive(Debug)]
pub(super) struct AgedRun {
    age: u8,
    report: SimReport,
}

/// Simulates all plans at all ages. `changed` may shorten a plan.
///
/// # Errors
/// Returns the first error of a plan or a run.
pub(super) fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Vec<AgedRun>, Error> {
    let cases = PLANS.into_iter().flat_map(|(name, of_age)| AGES.map(|age| (name, age, of_age(age))));
    cases
        .map(|(name, age, changes)| {
            let plan = changed(Plan::open(name, &changes)?);
            Ok(AgedRun { age, report: SimReport::simulate(plan, costs)? })
        })
        .collect()
}

/// One measure of a plan at an age, on one number of CPUs.
#[derive(Clone, Copy, Debug)]
struct Cell<'r> {
    aged: &'r AgedRun,
    cpus: u16,
    /// Relative difference, or the difference of shares.
    difference: f64,
    verdict: Verdict,
}

/// One measure, pooled over all machines on which it was measured.
struct PooledMeasure<'r> {
    /// Cells of each machine.
    cells: Vec<Vec<Cell<'r>>>,
    median: f64,
    /// Interval of the median, or `None` if there are too few machines.
    interval: Option<(f64, f64)>,
    verdict: Verdict,
}

impl AgedRun {
    /// Returns a measure on each number of CPUs. The result is empty for a measure without a direction.
    fn cells(&self, measure: &Measure) -> Vec<Cell<'_>> {
        if self.report.direction(measure) == Direction::Neutral {
            return Vec::new();
        }
        self.report.plan.cpus.iter().filter_map(|&cpus| self.cell(measure, cpus)).collect()
    }

    /// Returns a measure on this number of CPUs, if it is finite under both policies.
    fn cell(&self, measure: &Measure, cpus: u16) -> Option<Cell<'_>> {
        let medians = [0, 1].map(|policy| self.report.spread(measure, 0, cpus, policy).map(|spread| spread.median));
        let [Some(a), Some(b)] = medians.map(|median| median.filter(|median| median.is_finite())) else {
            return None;
        };
        let verdict = self.report.judge(measure, 0, cpus, 1)?.verdict;
        Some(Cell { aged: self, cpus, difference: judge::difference(measure, a, b), verdict })
    }
}

impl<'r> PooledMeasure<'r> {
    fn new(aged: &'r [AgedRun], measure: &Measure) -> PooledMeasure<'r> {
        let cells = aged.iter().map(|aged| aged.cells(measure)).filter(|cells| !cells.is_empty());
        let cells: Vec<Vec<Cell<'r>>> = cells.collect();
        let differences = cells.iter().map(|cells| cells.iter().map(|cell| cell.difference).collect());
        let machines: Vec<f64> = differences.filter_map(middle).collect();
        let confidence = 1.0 - (1.0 - CONFIDENCE) / MEASURES.len() as f64;
        let interval = intervals::has_rank_interval(machines.len(), confidence)
            .then(|| intervals::rank_interval(&machines, confidence));
        let median = middle(machines).unwrap_or(0.0);
        let verdict = interval.map_or(Verdict::NotJudged, |interval| of_interval(interval, median, measure));
        PooledMeasure { cells, median, interval, verdict }
    }

    /// Returns the number of cells with this verdict.
    fn count(&self, of: Verdict) -> usize {
        self.cells.iter().flatten().filter(|cell| cell.verdict == of).count()
    }
}

/// Returns the middle value, or the lower of the two middle values. It computes no mean, because a difference from zero
/// is infinite.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// Returns the verdict on an interval with this median.
fn of_interval((low, high): (f64, f64), median: f64, measure: &Measure) -> Verdict {
    let change = Change::Interval { low, high, exceeds: 0.0, middle: Some(median) };
    freehold_stats::verdict::judge(&Evidence::new(change, measure.direction, judge::margin(measure)))
}

/// Makes the table of all pooled measures, one per row.
pub(super) fn together(aged: &[AgedRun]) -> DataTable {
    let header = [
        "measure",
        "cells",
        "better",
        "no change",
        "within noise",
        "worse",
        "machines",
        "median",
        "interval",
        "pooled verdict",
    ];
    let rows = MEASURES.iter().map(|measure| {
        let pooled = PooledMeasure::new(aged, measure);
        let interval = pooled.interval.map_or_else(
            || "too few".to_owned(),
            |(low, high)| format!("{} to {}", difference_text(measure, low), difference_text(measure, high)),
        );
        vec![
            measure.about.to_owned(),
            pooled.cells.iter().map(Vec::len).sum::<usize>().to_string(),
            pooled.count(Verdict::Better).to_string(),
            pooled.count(Verdict::NoChange).to_string(),
            pooled.count(Verdict::WithinNoise).to_string(),
            pooled.count(Verdict::Worse).to_string(),
            pooled.cells.len().to_string(),
            difference_text(measure, pooled.median),
            interval,
            pooled.verdict.word().to_owned(),
        ]
    });
    DataTable::new(header, rows)
}

/// Makes the table of all cells that are worse, sorted within each measure by the size of the difference.
pub(super) fn worse(aged: &[AgedRun]) -> DataTable {
    let header = ["measure", "plan", "age", "CPUs", "difference"];
    let mut rows = Vec::new();
    for measure in &MEASURES {
        let mut cells: Vec<Cell<'_>> = aged.iter().flat_map(|aged| aged.cells(measure)).collect();
        cells.retain(|cell| cell.verdict == Verdict::Worse);
        cells.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        rows.extend(cells.iter().map(|cell| {
            vec![
                measure.about.to_owned(),
                format!("`{}`", cell.aged.report.plan.name),
                cell.aged.age.to_string(),
                cell.cpus.to_string(),
                difference_text(measure, cell.difference),
            ]
        }));
    }
    DataTable::new(header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge_around_midpoint(low: f64, high: f64, measure: &Measure) -> Verdict {
        of_interval((low, high), f64::midpoint(low, high), measure)
    }

    #[test]
    fn both_ends_of_an_interval_decide_the_verdict() {
        assert_eq!(judge_around_midpoint(-0.01, 0.02, &measures::ZONE_LOCKS), Verdict::NoChange);
        assert_eq!(judge_around_midpoint(-0.4, -0.01, &measures::ZONE_LOCKS), Verdict::Better);
        assert_eq!(judge_around_midpoint(-0.4, -0.01, &measures::THROUGHPUT), Verdict::Worse);
        assert_eq!(judge_around_midpoint(0.01, f64::INFINITY, &measures::FAILURES), Verdict::Worse);
        assert_eq!(judge_around_midpoint(-0.4, 0.01, &measures::ZONE_LOCKS), Verdict::WithinNoise);
        assert_eq!(
            judge_around_midpoint(-0.004, 0.005, &measures::ZONE_WAIT),
            Verdict::NoChange,
            "half a point of a share"
        );
        assert_eq!(of_interval((0.0001, 0.03), 0.001, &measures::THROUGHPUT), Verdict::WithinNoise, "below the margin");
    }

    #[test]
    fn the_middle_of_infinite_differences_is_one_of_them() {
        assert_eq!(middle(vec![f64::INFINITY, 1.0, f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
        assert_eq!(middle(vec![f64::INFINITY, 1.0, -1.0, f64::INFINITY]), Some(1.0));
        assert_eq!(middle(Vec::new()), None);
    }
}
