//! What a simulation says of a policy B: measures by subject, and sentences, the most important first.
//!
//! What B does to throughput never stands without what it does to latency: a policy may do more by letting some wait.
//! Where the two disagree, a sentence says where and by how much.

use freehold_report::number::{self, change};
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::{Direction, Verdict};

use super::measures::{self, Measure as OfRun};
use super::{SimReport, judge};
use crate::workload::WorkPace;

/// What is said of a host that had memory to spare.
pub const NEVER_FULL: &str = "Memory never filled, so nothing was under pressure, and no policy could show what it does \
                              about that: give it more time, or less memory.";

/// One number of CPUs at one value of the swept parameter.
struct Case {
    of: String,
    a: Option<f64>,
    b: Option<f64>,
    change: Option<f64>,
    verdict: Verdict,
}

/// A measure of a policy in every case in which there is a number under A or B.
fn cases(report: &SimReport, measure: &OfRun, policy: usize) -> Vec<Case> {
    let of_b = report.cells.iter().filter(|cell| cell.policy == policy);
    let case = |cell: &crate::sweep::Cell| {
        let side = |policy| report.spread(measure, cell.point, cell.cpus, policy).and_then(|spread| spread.number());
        let judged = report.judged(measure, cell.point, cell.cpus, policy)?;
        let cpus = format!("{} {}", cell.cpus, number::unit(cell.cpus.into(), "CPUs"));
        let of = report.swept_at(cell.point).map_or_else(|| cpus.clone(), |swept| format!("{cpus}, {swept}"));
        Some(Case { of, a: side(0), b: side(policy), change: judged.change, verdict: judged.verdict })
    };
    of_b.filter_map(case).filter(|case| case.a.is_some() || case.b.is_some()).collect()
}

/// Every measure of a policy, by subject.
pub fn groups(report: &SimReport, policy: usize) -> Vec<Group> {
    let of = |measure: &OfRun| Measure {
        name: measure.name,
        unit: measure.unit.name(),
        direction: report.direction(measure),
        rows: cases(report, measure, policy).into_iter().map(row).collect(),
        pooled: None,
    };
    let group = |(name, all): measures::Group| Group { name, measures: all.iter().map(of).collect() };
    measures::groups(report.pace()).map(group).collect()
}

fn row(case: Case) -> Row {
    let quantity = |side: Option<f64>| side.map(crate::measures::quantity);
    let (a, b) = (quantity(case.a), quantity(case.b));
    Row { case: case.of, a, b, change: case.change, verdict: Some(case.verdict), ..Row::default() }
}

/// What B changes and by how much; where throughput and latency disagree; what else.
pub fn sentences(report: &SimReport, policy: usize) -> Vec<String> {
    let b = &report.plan.policies[policy].name;
    let [throughput, latency] =
        [measures::THROUGHPUT, measures::ALLOC_P99].map(|measure| cases(report, &measure, policy));
    let speed = match report.pace() {
        WorkPace::Free => format!("throughput is {}; ", told(&throughput)),
        WorkPace::Set => String::new(),
    };
    let first = format!("{b}: {speed}the latency of 99 % of allocations (p99) is {}.", told(&latency));
    let mut sentences = vec![first];
    sentences.extend(disagreement(&throughput, &latency));
    sentences.push(elsewhere(report, policy));
    sentences
}

/// What is said of one measure in all cases.
fn told(cases: &[Case]) -> String {
    if let [case] = cases {
        return format!("{} ({})", word(case.verdict), change_text(case));
    }
    let of = |verdict: Verdict| -> Vec<&Case> { cases.iter().filter(|case| case.verdict == verdict).collect() };
    let verdicts = [Verdict::Better, Verdict::Worse, Verdict::Neither, Verdict::Undecided, Verdict::NoDifference];
    let found = verdicts.into_iter().map(|verdict| (verdict, of(verdict))).filter(|(_, cases)| !cases.is_empty());
    let part = |(number, (verdict, those)): (usize, (Verdict, Vec<&Case>))| {
        let count = match (number, those.len() == cases.len()) {
            (_, true) => format!("all {} cases", cases.len()),
            (0, false) => format!("{} of {} cases", those.len(), cases.len()),
            _ => those.len().to_string(),
        };
        let by = if verdict == Verdict::NoDifference { String::new() } else { format!(" ({})", range(&those)) };
        format!("{} in {count}{by}", word(verdict))
    };
    found.enumerate().map(part).collect::<Vec<_>>().join(", ")
}

/// The word for a verdict behind "is".
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NoDifference => "no different",
        Verdict::Neither => "different",
        verdict => verdict.word(),
    }
}

/// From the smallest change to the largest.
fn range(cases: &[&Case]) -> String {
    let known = cases.iter().filter_map(|case| case.change);
    let (low, high) = known.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), of| (low.min(of), high.max(of)));
    let text = |of| change(Some(of));
    match low <= high {
        true if text(low) == text(high) => text(low),
        true => format!("{} to {}", text(low), text(high)),
        false => "from none".to_owned(),
    }
}

fn change_text(case: &Case) -> String {
    match (case.change, case.a) {
        (None, Some(_)) => "from none".to_owned(),
        (of, _) => change(of),
    }
}

/// Where throughput and latency point to different sides, the case in which latency differs most.
fn disagreement(throughput: &[Case], latency: &[Case]) -> Option<String> {
    let opposed = |(one, other): &(&Case, &Case)| {
        matches!((one.verdict, other.verdict), (Verdict::Better, Verdict::Worse) | (Verdict::Worse, Verdict::Better))
    };
    let pairs: Vec<(&Case, &Case)> = throughput.iter().zip(latency).filter(opposed).collect();
    let size = |case: &Case| case.change.map_or(f64::INFINITY, f64::abs);
    let (one, other) = *pairs.iter().max_by(|a, b| size(a.1).total_cmp(&size(b.1)))?;
    let place = match throughput.len() {
        1 => "The two disagree".to_owned(),
        all => format!("The two disagree in {} of {all} cases, most on {}", pairs.len(), one.of),
    };
    let ns = |side: Option<f64>| side.map_or_else(|| number::ABSENT.to_owned(), |ns| measures::ALLOC_P99.text(ns));
    let (a, b) = (ns(other.a), ns(other.b));
    let (word, p99) = (one.verdict.word(), other.verdict.word());
    Some(format!("{place}: throughput {} ({word}), but p99 from {a} to {b} ns ({p99}).", change_text(one)))
}

/// The other measures that are better or worse somewhere; of those that are looked at several times, the worst look.
fn elsewhere(report: &SimReport, policy: usize) -> String {
    let is_told = |measure: &&OfRun| {
        [measures::THROUGHPUT.name, measures::ALLOC_P99.name].contains(&measure.name) || measure.name.ends_with("_end")
    };
    let all: Vec<(String, Vec<Case>)> = measures::groups(report.pace())
        .flat_map(|(_, all)| all)
        .filter(|measure| measure.direction != Direction::Neutral && !is_told(measure))
        .map(|measure| (measure.words(), cases(report, measure, policy)))
        .collect();
    let list = |verdict: Verdict| {
        let of = |(words, cases): &(String, Vec<Case>)| {
            let those: Vec<&Case> = cases.iter().filter(|case| case.verdict == verdict).collect();
            let count = if cases.len() == 1 { range(&those) } else { format!("in {}", those.len()) };
            (!those.is_empty()).then(|| format!("{words} {count}"))
        };
        all.iter().filter_map(of).collect::<Vec<_>>().join(", ")
    };
    let [better, worse] = [("Also better", Verdict::Better), ("Also worse", Verdict::Worse)].map(|(title, verdict)| {
        let list = list(verdict);
        if list.is_empty() { list } else { format!("{title}: {list}.") }
    });
    match [better, worse].into_iter().filter(|list| !list.is_empty()).collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => "Nothing else is better or worse.".to_owned(),
        both => both,
    }
}

/// How far to believe it, and why: said once, of all policies.
pub fn belief(report: &SimReport) -> Vec<String> {
    let margin = judge::MARGIN * 100.0;
    let seeds = match report.plan.seeds {
        1 => "All of it stands on one seed, so chance is not told from effect; --seeds runs more.".to_owned(),
        seeds => format!(
            "A verdict holds under each of {seeds} seeds and is beyond {margin} % in the middle; throughput differs by at \
             most {} between them.",
            apart(report)
        ),
    };
    let exact = format!(
        "This is a simulation of the real engine: exact, the same numbers on every machine, and as near to a real one as \
         the prices in the cost table `{}` are (`freehold calibrate --check`).",
        report.recipe.costs.name
    );
    report.is_calm().then(|| NEVER_FULL.to_owned()).into_iter().chain([seeds, exact]).collect()
}

/// The largest distance between two seeds of a cell, relative to their median.
fn apart(report: &SimReport) -> String {
    let spreads = report.cells.iter().map(|cell| measures::Spread::of(&measures::THROUGHPUT, &cell.outcomes));
    let apart = spreads.filter(|spread| spread.median > 0.0).map(|spread| (spread.most - spread.least) / spread.median);
    number::percent(apart.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(of: &str, a: f64, b: f64, verdict: Verdict) -> Case {
        Case { of: of.to_owned(), a: Some(a), b: Some(b), change: Some(b / a - 1.0), verdict }
    }

    #[test]
    fn more_throughput_is_not_told_without_the_latency_that_it_costs() {
        let throughput =
            [case("1 CPU", 10.0, 10.0, Verdict::NoDifference), case("32 CPUs", 10.0, 11.4, Verdict::Better)];
        let latency = [case("1 CPU", 12.0, 12.0, Verdict::NoDifference), case("32 CPUs", 12.0, 150.0, Verdict::Worse)];
        let said = disagreement(&throughput, &latency).unwrap();
        assert_eq!(
            said,
            "The two disagree in 1 of 2 cases, most on 32 CPUs: throughput +14.0 % (better), but p99 from 12 to 150 ns (worse)."
        );
        assert_eq!(told(&throughput), "better in 1 of 2 cases (+14.0 %), no different in 1");
        assert_eq!(disagreement(&throughput, &throughput), None);
    }

    #[test]
    fn what_all_cases_say_is_said_once() {
        let cases = [case("1", 10.0, 11.0, Verdict::Better), case("2", 10.0, 20.0, Verdict::Better)];
        assert_eq!(told(&cases), "better in all 2 cases (+10.0 % to +100.0 %)");
        assert_eq!(told(&cases[..1]), "better (+10.0 %)");
    }
}
