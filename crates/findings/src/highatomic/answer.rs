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
    let large = said(&reports.large, &measures::THP_SUCCESS, SKIP);
    let published = match reports.region.iter().filter(|(_, report)| region::is_as_published(report)).count() {
        0 => "in no fleet".to_owned(),
        fleets => format!("in {fleets} of them"),
    };
    format!(
        "On the small hosts of the map huge pages are had more often without the reserve {} of {all} fleets, and less \
         often {}; on hosts as large as the published ones: {} ({}); and as much as was published is gained {published}.",
        told(&better),
        told(&worse),
        large[0],
        large[1]
    )
}

/// What became of a measure under a policy: the difference, and its verdict's word.
fn said(report: &FleetReport, measure: &Measure, label: &str) -> [String; 2] {
    let judged = report.policy(label).and_then(|policy| report.judged(measure, policy));
    let word = judged.as_ref().map_or("", |judged| judged.verdict.word());
    [difference(measure, judged.as_ref()), word.to_owned()]
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
    if !good.contains(&BACK) {
        let named: Vec<String> = good.iter().map(|label| code(label)).collect();
        return match named.as_slice() {
            [] => "Of no policy of this page is it shown that it gains huge pages without costing atomic requests."
                .to_owned(),
            named => format!("Without costing atomic requests, huge pages are gained by {}.", named.join(" and ")),
        };
    }
    let gains =
        |(_, report): &&(Cell, FleetReport)| verdict(report, &measures::THP_SUCCESS, BACK) == Some(Verdict::Better);
    let others: Vec<String> = good.iter().filter(|label| **label != BACK).map(|label| code(label)).collect();
    let alone = if others.is_empty() { "alone".to_owned() } else { format!("as {}", others.join(" and ")) };
    let [gained, moved] =
        [measures::THP_SUCCESS, measures::MIGRATED].map(|measure| said(&reports.main, &measure, BACK));
    let failed = said(&reports.short, &measures::ATOMIC_FAILED, BACK);
    format!(
        "Giving back what lies idle in the reserve, {}, is what `freehold` does: it {alone} gains huge pages ({} of the \
         main fleet's faults, {}; better in {} of the {} fleets of the map) and is not shown to cost atomic requests \
         where they fail ({}, {}), while compaction moves {} pages a minute on all hosts ({}).",
        code(BACK),
        gained[0],
        gained[1],
        reports.region.iter().filter(gains).count(),
        reports.region.len(),
        failed[0],
        failed[1],
        moved[0],
        moved[1]
    )
}
