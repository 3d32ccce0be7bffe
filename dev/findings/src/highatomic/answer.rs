//! The answer, in three sentences: where the reserve matters, what protects atomic requests, and what to do. Each is
//! chosen by what came out.

use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;
use freehold_stats::verdict::Verdict;

use super::parts::{code, difference};
use super::region::{self, verdict};
use super::sentences::sum;
use super::studies::{BACK, Cell, RIVALS, Reports, SKIP};

/// All three.
pub fn all(reports: &Reports) -> String {
    [matters(reports), protects(reports), advice(reports)].join(" ")
}

fn matters(reports: &Reports) -> String {
    let region = &reports.region;
    let told = |wanted: Verdict| {
        let fleets: Vec<_> = region::judged(region, SKIP, wanted).collect();
        let size = |(_, report): &(Cell, FleetReport)| region::gain(report).abs();
        match fleets.iter().max_by(|one, other| size(one).total_cmp(&size(other))) {
            None => "in none".to_owned(),
            Some((cell, report)) => format!("in {} (most at {})", fleets.len(), region::change(*cell, report)),
        }
    };
    let published = match region.iter().filter(|(_, report)| region::is_as_published(report) == [true; 2]).count() {
        0 => "in no fleet".to_owned(),
        fleets => format!("in {fleets} of them"),
    };
    let (large, word) = said(&reports.large, &measures::THP_SUCCESS, SKIP);
    format!(
        "On the small hosts of the map huge pages are had more often without the reserve {} of {} fleets, and less often \
         {}; on hosts as large as the published ones: {large} ({word}); and as much as was published is gained \
         {published}.",
        told(Verdict::Better),
        region.len(),
        told(Verdict::Worse),
    )
}

/// What became of a measure under a policy: the difference, and its verdict's word.
fn said(report: &FleetReport, measure: &Measure, label: &str) -> (String, &'static str) {
    let judged = report.policy(label).and_then(|policy| report.judge(measure, policy));
    (difference(measure, judged.as_ref()), judged.map_or("", |judged| judged.verdict.word()))
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
    let others: Vec<String> = good.iter().filter(|label| **label != BACK).map(|label| code(label)).collect();
    let gains = match others.as_slice() {
        [] => "alone gains".to_owned(),
        others => format!("gains (as {})", others.join(" and ")),
    };
    let (gained, gained_is) = said(&reports.main, &measures::THP_SUCCESS, BACK);
    let (moved, moved_is) = said(&reports.main, &measures::MIGRATED, BACK);
    let (failed, failed_is) = said(&reports.short, &measures::ATOMIC_FAILED, BACK);
    format!(
        "Giving back what lies idle in the reserve, {}, is what `freehold` does: it {gains} huge pages ({gained} of the \
         main fleet's faults, {gained_is}; better in {} of the {} fleets of the map) and is not shown to cost atomic \
         requests where they fail ({failed}, {failed_is}), while compaction moves {moved} pages a minute on all hosts \
         ({moved_is}).",
        code(BACK),
        region::judged(&reports.region, BACK, Verdict::Better).count(),
        reports.region.len(),
    )
}
