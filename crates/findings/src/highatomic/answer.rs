//! The answer, in three sentences: where the reserve matters, what protects atomic requests, and what to do. Each is
//! chosen by what came out.

use freehold_measure::verdict::Verdict;
use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;

use super::parts::{code, difference};
use super::region::{self, verdict};
use super::sentences::sum;
use super::studies::{BACK, Cell, RIVALS, Reports, SKIP};

/// All three.
pub fn all(reports: &Reports) -> String {
    [matters(reports), protects(reports), advice(reports)].join(" ")
}

fn matters(reports: &Reports) -> String {
    let of = |wanted: Verdict| {
        let told =
            reports.region.iter().filter(|(_, report)| verdict(report, &measures::THP_SUCCESS, SKIP) == Some(wanted));
        told.collect::<Vec<_>>()
    };
    let (better, worse, all) = (of(Verdict::Better), of(Verdict::Worse), reports.region.len());
    let told = |fleets: &[&(Cell, FleetReport)]| {
        let change = |(_, report): &&&(Cell, FleetReport)| region::gain(report).abs();
        match fleets.iter().max_by(|one, other| change(one).total_cmp(&change(other))) {
            None => "in none".to_owned(),
            Some((cell, report)) => format!("in {} (most at {})", fleets.len(), region::change(*cell, report)),
        }
    };
    let full = reports.region.iter().filter(|(_, report)| region::is_full(report));
    let fills = match full.map(|(cell, _)| cell.waiting).max() {
        None => "it fills to its cap, a hundredth of memory, in none of them".to_owned(),
        Some(0) => "it fills to its cap, a hundredth of memory, only where no task waits for a huge page".to_owned(),
        Some(most) => {
            format!("it fills to its cap, a hundredth of memory, where at most {most} % of tasks' memory waits")
        }
    };
    format!(
        "Without the reserve huge pages are had more often {} of the {all} fleets of the map, and less often {}; {fills}.",
        told(&better),
        told(&worse)
    )
}

fn protects(reports: &Reports) -> String {
    let failed = |report: &FleetReport, label: Option<&str>| {
        label
            .map_or(Some(0), |label| report.policy(label))
            .map_or(0.0, |policy| sum(report, &measures::ATOMIC_FAILED, policy))
    };
    let elsewhere: f64 = reports.region.iter().map(|(_, report)| failed(report, Some(SKIP))).sum();
    let (with, without) = (failed(&reports.short, None), failed(&reports.short, Some(SKIP)));
    let text = |count: f64| measures::ATOMIC_FAILED.text(count);
    let short = format!(
        "where huge pages are off and so little is kept free, {} of {} atomic requests of order 1 to 3 fail without the \
         reserve and {} with it",
        text(without),
        measures::ATOMIC.text(reports.short.policy(SKIP).map_or(0.0, |skip| sum(
            &reports.short,
            &measures::ATOMIC,
            skip
        ))),
        text(with),
    );
    match elsewhere {
        0.0 => format!(
            "Where Linux keeps as much free as huge pages need, atomic requests do not need the reserve (none fails in the \
             whole region without it); {short}."
        ),
        some => format!("Atomic requests fail without the reserve in the region too ({}), and {short}.", text(some)),
    }
}

fn advice(reports: &Reports) -> String {
    let gain = |label: &str| verdict(&reports.main, &measures::THP_SUCCESS, label) == Some(Verdict::Better);
    let harm = |label: &str| verdict(&reports.short, &measures::ATOMIC_FAILED, label) == Some(Verdict::Worse);
    let good: Vec<&str> = RIVALS.into_iter().filter(|label| gain(label) && !harm(label)).collect();
    let judged = |report: &FleetReport, measure: &Measure| {
        let judged = report.policy(BACK).and_then(|policy| report.judged(measure, policy));
        difference(measure, judged.as_ref())
    };
    if !good.contains(&BACK) {
        let named: Vec<String> = good.iter().map(|label| code(label)).collect();
        return match named.as_slice() {
            [] => "Of no policy of this page is it shown that it gains huge pages without costing atomic requests."
                .to_owned(),
            named => format!("Without costing atomic requests, huge pages are gained by {}.", named.join(" and ")),
        };
    }
    let others: Vec<String> = good.iter().filter(|label| **label != BACK).map(|label| code(label)).collect();
    let alone = if others.is_empty() { "alone ".to_owned() } else { format!("(as {}) ", others.join(" and ")) };
    format!(
        "Giving back what lies idle in the reserve, {}, {alone}gains huge pages ({} of all faults) and is not shown to cost \
         atomic requests where they fail ({}, {}). It is what `freehold` does.",
        code(BACK),
        judged(&reports.main, &measures::THP_SUCCESS),
        judged(&reports.short, &measures::ATOMIC_FAILED),
        verdict(&reports.short, &measures::ATOMIC_FAILED, BACK).map_or("", Verdict::word),
    )
}
