//! The region in which the reserve may matter: fleets by the age of their memory and by who waits for huge pages, drawn
//! as a map, with the published hosts marked in it.

use freehold_report::number;
use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;
use freehold_stats::verdict::Verdict;

use super::parts::{code, difference};
use super::published::ROWS;
use super::studies::{AGES, BACK, Cell, RIVALS, Reports, SKIP, WAITING};
use crate::markup::{list, table};

/// A reserve of this share of memory is as good as at its cap, a hundredth.
const FULL: f64 = 0.008;

/// The map: what the reserve takes and what taking it away brings, for each age and share of tasks that wait.
pub fn map(reports: &Reports) -> String {
    let heads: Vec<String> = WAITING.iter().map(|waiting| format!("{waiting} % wait")).collect();
    let header: Vec<&str> = ["age"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let row = |age: u8| {
        let cells =
            WAITING.into_iter().map(|waiting| at(reports, Cell { age, waiting }).map_or_else(String::new, said));
        [age.to_string()].into_iter().chain(cells).collect()
    };
    format!(
        "{}\n\nThe reserve counts as at its cap, a hundredth, from {} of memory on. Where it is: (●): huge pages are had \
         as seldom as on the published hosts before the change. (○): without the reserve as often as there after it.",
        table(&header, AGES.into_iter().map(row)),
        number::percent(FULL)
    )
}

/// The fleet at a place.
pub fn at(reports: &Reports, cell: Cell) -> Option<&FleetReport> {
    reports.region.iter().find(|(place, _)| *place == cell).map(|(_, report)| report)
}

/// What taking the reserve away changes at a place.
pub fn change(cell: Cell, report: &FleetReport) -> String {
    let [before, after] = shares(report).map(number::percent);
    format!("{cell}: {before} → {after}")
}

/// By how much taking the reserve away changes the share of faults that got a huge page.
pub fn gain(report: &FleetReport) -> f64 {
    let [before, after] = shares(report);
    after - before
}

/// The share of faults that got a huge page, with the reserve and without it.
fn shares(report: &FleetReport) -> [f64; 2] {
    let skip = report.policy(SKIP).expect("each fleet of the map has the proposal");
    [0, skip].map(|policy| value(report, &measures::THP_SUCCESS, policy))
}

/// Whether huge pages are had as seldom with a reserve at its cap, and as often without it, as was published.
pub fn is_as_published(report: &FleetReport) -> [bool; 2] {
    let published = ROWS.iter().find(|row| row.measure.name == measures::THP_SUCCESS.name).expect("it is a row");
    let is_in = |(least, most): (f64, f64), share: f64| is_full(report) && (least..=most).contains(&share);
    let [before, after] = shares(report);
    [is_in(published.before, before), is_in(published.after, after)]
}

fn value(report: &FleetReport, measure: &Measure, policy: usize) -> f64 {
    report.estimate(measure, policy).map_or(0.0, |estimate| estimate.value)
}

/// Whether the reserve is as good as at its cap.
pub fn is_full(report: &FleetReport) -> bool {
    value(report, &measures::RESERVED_SHARE, 0) >= FULL
}

fn said(report: &FleetReport) -> String {
    let [before, after] = shares(report).map(number::percent);
    let [is_before, is_after] = is_as_published(report);
    let mark = |is_published: bool, mark| if is_published { mark } else { "" };
    format!(
        "{} of memory reserved; huge pages {before}{} → {after}{}: {}",
        number::percent(value(report, &measures::RESERVED_SHARE, 0)),
        mark(is_before, " (●)"),
        mark(is_after, " (○)"),
        verdict(report, &measures::THP_SUCCESS, SKIP).map_or("", Verdict::word)
    )
}

/// How a policy stands against policy A in a measure, if it took part and there was anything to measure.
pub fn verdict(report: &FleetReport, measure: &Measure, label: &str) -> Option<Verdict> {
    Some(report.judge(measure, report.policy(label)?)?.verdict)
}

/// How often each rival is better, by where hosts are.
pub fn fade(reports: &Reports) -> String {
    let (full, others): (Vec<_>, Vec<_>) = reports.region.iter().partition(|(_, report)| is_full(report));
    let line = |label: &&str| {
        let [full, others] = [&full, &others].map(|fleets| decided(fleets, label));
        format!(
            "{}, huge pages: where the reserve is at its cap {full}; where the reserve is not {others}.",
            code(label)
        )
    };
    list(RIVALS.iter().map(line))
}

/// The fleets on which a policy's huge pages come to this verdict.
pub fn judged<'r>(
    fleets: impl IntoIterator<Item = &'r (Cell, FleetReport)>,
    label: &str,
    wanted: Verdict,
) -> impl Iterator<Item = &'r (Cell, FleetReport)> {
    fleets.into_iter().filter(move |(_, report)| verdict(report, &measures::THP_SUCCESS, label) == Some(wanted))
}

/// At which of these places a policy is decided to be better, worse, or no different.
fn decided(fleets: &[&(Cell, FleetReport)], label: &str) -> String {
    let at = |wanted: Verdict| {
        let places: Vec<String> =
            judged(fleets.iter().copied(), label, wanted).map(|(cell, _)| cell.to_string()).collect();
        (!places.is_empty()).then(|| format!("{} at {}", wanted.word(), places.join("; ")))
    };
    let told: Vec<String> =
        [Verdict::Better, Verdict::Worse, Verdict::NoDifference].into_iter().filter_map(at).collect();
    let told = if told.is_empty() { "decided nowhere".to_owned() } else { told.join(", ") };
    format!("({} fleets) {told}", fleets.len())
}

/// The same hosts with as much memory as the published ones.
pub fn large(reports: &Reports) -> String {
    let shown = [
        measures::RESERVED,
        measures::THP_SUCCESS,
        measures::COMPACTION_SUCCESS,
        measures::KSWAPD_SCANNED,
        measures::FREE_IN_RESERVE,
        measures::ATOMIC_FAILED,
    ];
    let report = &reports.large;
    let rows = shown.iter().flat_map(|measure| {
        [SKIP, BACK].into_iter().filter_map(|label| {
            let policy = report.policy(label)?;
            let judged = report.judge(measure, policy);
            let [is, was] = [policy, 0].map(|policy| measure.text(value(report, measure, policy)));
            let verdict = judged.as_ref().map_or("", |judged| judged.verdict.word()).to_owned();
            Some(vec![measure.about.to_owned(), was, code(label), is, difference(measure, judged.as_ref()), verdict])
        })
    });
    table(&["measure", "`linux-6.12`", "policy", "is", "difference", "verdict"], rows.collect::<Vec<_>>().into_iter())
}
