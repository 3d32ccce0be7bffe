//! What owning costs and gains as machines grow old: the library's own policy against the recorded kernel's rules, in
//! eleven measures that were named before anything was run, on machines as workloads leave them.
//!
//! A cell is a plan on so many CPUs at one age. Each measure is pooled over all cells in which there was anything to
//! measure: the middle one of their differences, and the interval that holds the true middle, by rank, so wide that all
//! eleven hold together (Bonferroni). Differences are relative, and of shares in points, as `freehold sim` judges them.

use freehold_measure::number;
use freehold_measure::stats;
use freehold_measure::verdict::{Direction, Verdict, verdict_of};
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::measures::Unit;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::judge::{MARGIN, SHARE_MARGIN};
use freehold_sim::report::measures::{self, Measure};
use freehold_sim::report::{SimReport, judge};

use super::studies::Reports;
use crate::markup::{list, table};

/// How old machines are. From pristine, by the median of servers, to nearly hopeless.
pub const AGES: [u8; 4] = [0, 30, 60, 90];
/// Both policies.
const A: &str = "linux-6.12";
const B: &str = "freehold";
/// The measures: locks, fragmentation, who is served, and time.
const ELEVEN: [Measure; 11] = [
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
/// Confidence in the intervals of all measures together.
const CONFIDENCE: f64 = 0.95;

/// What is set in a plan for machines of an age.
type OfAge = fn(u8) -> Changes;

/// A plan, and what is set in it where its memory is not what a whole machine's is. An aged machine has page cache, so
/// `long` has that much more memory; `webhost` has less, so that it is turned over sooner.
const PLANS: [(&str, OfAge); 5] = [
    ("long", |age| changes(age, &[("3GiB", age > 0)], &[])),
    ("numa", |age| changes(age, &[], &[32])),
    ("small-machine", |age| changes(age, &[], &[])),
    ("pressure", |age| changes(age, &[], &[])),
    ("webhost", |age| Changes { seeds: Some(SEEDS), ..changes(age, &[("4GiB", true)], &[]) }),
];
const SEEDS: u32 = 5;

fn changes(age: u8, memory: &[(&str, bool)], cpus: &[u16]) -> Changes {
    let memory = memory.iter().find(|(_, is_set)| *is_set).map(|(size, _)| (*size).to_owned());
    let (a, b) = (Some(A.to_owned()), vec![B.to_owned()]);
    Changes { age: Some(age), memory, cpus: cpus.to_vec(), a, b, ..Changes::default() }
}

/// A plan at an age.
#[derive(Debug)]
pub struct Aged {
    age: u8,
    report: SimReport,
}

/// Simulates all plans at all ages. `changed` may shorten a plan.
///
/// # Errors
/// The first that a plan or a run has.
pub fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Vec<Aged>, Error> {
    let cases = PLANS.into_iter().flat_map(|(name, of_age)| AGES.map(|age| (name, age, of_age(age))));
    cases
        .map(|(name, age, changes)| {
            let plan = changed(Plan::open(name, &changes)?);
            Ok(Aged { age, report: SimReport::simulate(plan, costs)? })
        })
        .collect()
}

/// The command of a plan at an age.
fn command((name, of_age): (&str, OfAge), age: u8) -> String {
    let Changes { memory, cpus, seeds, .. } = of_age(age);
    let memory = memory.map(|size| format!(" --memory {size}"));
    let cpus = cpus.first().map(|cpus| format!(" --cpus {cpus}"));
    let seeds = seeds.map(|seeds| format!(" --set seeds={seeds}"));
    let set: String = [memory, cpus, seeds].into_iter().flatten().collect();
    format!("`freehold sim {name} --age {age}{set} --a {A} --b {B}`")
}

/// One measure in one cell.
#[derive(Clone, Copy, Debug)]
struct Cell<'r> {
    aged: &'r Aged,
    cpus: u16,
    /// Relative, or of shares in points.
    difference: f64,
    judged: judge::Judged,
}

/// One measure over all cells.
struct Pooled<'r> {
    measure: Measure,
    cells: Vec<Cell<'r>>,
    middle: f64,
    interval: (f64, f64),
    verdict: Verdict,
}

fn cells<'r>(aged: &'r [Aged], measure: &Measure) -> Vec<Cell<'r>> {
    let places = aged.iter().flat_map(|aged| aged.report.plan.cpus.iter().map(move |&cpus| (aged, cpus)));
    let cell = |(aged, cpus): (&'r Aged, u16)| {
        let report = &aged.report;
        let of = |policy| Some(report.spread(measure, 0, cpus, policy)?.median).filter(|median| median.is_finite());
        let (a, b) = (of(0)?, of(1)?);
        let judged = report.judged(measure, 0, cpus, 1)?;
        let is_something = (a, b) != (0.0, 0.0) && report.direction(measure) != Direction::Neutral;
        let difference = if measure.unit == Unit::Share { b - a } else { judged.change.unwrap_or(f64::INFINITY) };
        is_something.then_some(Cell { aged, cpus, difference, judged })
    };
    places.filter_map(cell).collect()
}

fn pooled<'r>(aged: &'r [Aged], measure: &Measure) -> Pooled<'r> {
    let cells = cells(aged, measure);
    let mut differences: Vec<f64> = cells.iter().map(|cell| cell.difference).collect();
    if differences.is_empty() {
        return Pooled { measure: *measure, cells, middle: 0.0, interval: (0.0, 0.0), verdict: Verdict::NoDifference };
    }
    let (low, high) = stats::by_rank(&differences, 1.0 - (1.0 - CONFIDENCE) / ELEVEN.len() as f64);
    let verdict = of_interval((low, high), measure);
    Pooled { measure: *measure, middle: stats::median(&mut differences), cells, interval: (low, high), verdict }
}

/// What an interval of the middle means: nothing beyond the margin, or one side only.
fn of_interval((low, high): (f64, f64), measure: &Measure) -> Verdict {
    let margin = if measure.unit == Unit::Share { SHARE_MARGIN } else { MARGIN };
    let is_none = low >= -margin && high <= margin;
    let is_one_side = low > 0.0 || high < 0.0;
    match (is_none, is_one_side) {
        (true, _) => Verdict::NoDifference,
        (false, true) => verdict_of(f64::midpoint(low.max(-1.0), high.min(1.0)), measure.direction, 0.0),
        (false, false) => Verdict::Undecided,
    }
}

/// The eleven measures, a row each.
pub fn eleven(reports: &Reports) -> String {
    let header =
        ["measure", "cells", "better", "no difference", "worse", "undecided", "middle", "interval", "together"];
    let row = |measure: &Measure| {
        let pooled = pooled(reports.aged(), measure);
        let count = |of: Verdict| pooled.cells.iter().filter(|cell| cell.judged.verdict == of).count().to_string();
        let text = |difference: f64| difference_text(measure, difference);
        vec![
            measure.about.to_owned(),
            pooled.cells.len().to_string(),
            count(Verdict::Better),
            count(Verdict::NoDifference),
            count(Verdict::Worse),
            count(Verdict::Undecided),
            text(pooled.middle),
            format!("{} to {}", text(pooled.interval.0), text(pooled.interval.1)),
            pooled.verdict.word().to_owned(),
        ]
    };
    let oldest = AGES[AGES.len() - 1];
    let commands = list(PLANS.map(|plan| command(plan, oldest)));
    format!("{}\n\nThe oldest machines by themselves:\n\n{commands}", table(&header, ELEVEN.iter().map(row)))
}

/// Every cell that is worse, the worst of each measure first.
pub fn worse(reports: &Reports) -> String {
    let header = ["measure", "plan", "age", "CPUs", "difference"];
    let mut rows = Vec::new();
    for measure in &ELEVEN {
        let mut cells = cells(reports.aged(), measure);
        cells.retain(|cell| cell.judged.verdict == Verdict::Worse);
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
    table(&header, rows.into_iter())
}

fn difference_text(measure: &Measure, difference: f64) -> String {
    match measure.unit {
        Unit::Share => format!("{:+.1} points", difference * 100.0),
        _ => number::change(Some(difference).filter(|difference| difference.is_finite())),
    }
}

/// The page's answer, in three sentences.
pub fn answer(reports: &Reports) -> String {
    let all: Vec<Pooled<'_>> = ELEVEN.iter().map(|measure| pooled(reports.aged(), measure)).collect();
    let told = |of: Verdict| {
        let named: Vec<String> = all
            .iter()
            .filter(|pooled| pooled.verdict == of)
            .map(|pooled| format!("{} ({})", pooled.measure.about, difference_text(&pooled.measure, pooled.middle)))
            .collect();
        if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
    };
    let counts = |of: Verdict| -> usize {
        all.iter().map(|pooled| pooled.cells.iter().filter(|cell| cell.judged.verdict == of).count()).sum()
    };
    let cells: usize = all.iter().map(|pooled| pooled.cells.len()).sum();
    format!(
        "Over machines of four ages and five plans, `{B}` is better than `{A}` in {}; worse in {}; and the same, or not \
         to be told apart, in the others of eleven measures. Of their {cells} single cells {} are better, {} show no \
         difference, and {} are worse; each of these stands below. So owning pageblocks is the library's default, with two \
         conditions that keep it from costing contiguity: it sleeps where memory is short, and pages go home only while \
         a whole pageblock is free for each CPU.",
        told(Verdict::Better),
        told(Verdict::Worse),
        counts(Verdict::Better),
        counts(Verdict::NoDifference),
        counts(Verdict::Worse),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_means_what_both_of_its_ends_do() {
        let of = |low, high, measure: &Measure| of_interval((low, high), measure);
        assert_eq!(of(-0.01, 0.02, &measures::ZONE_LOCKS), Verdict::NoDifference);
        assert_eq!(of(-0.4, -0.01, &measures::ZONE_LOCKS), Verdict::Better);
        assert_eq!(of(-0.4, -0.01, &measures::THROUGHPUT), Verdict::Worse);
        assert_eq!(of(0.01, f64::INFINITY, &measures::FAILURES), Verdict::Worse);
        assert_eq!(of(-0.4, 0.01, &measures::ZONE_LOCKS), Verdict::Undecided);
        assert_eq!(of(-0.004, 0.005, &measures::ZONE_WAIT), Verdict::NoDifference, "half a point of a share");
    }
}
