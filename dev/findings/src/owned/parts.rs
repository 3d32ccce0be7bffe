//! The parts of the document that are made from runs, by name, and the tables and the picture of one plan.

use freehold_report::number;
use freehold_report::report::plot;

use super::studies::Reports;
use super::{NAME, across, aged, paces, reconcile, sentences, system_time};
use crate::Page;
use crate::markup::table;
use crate::template::Part;
use freehold_sim::report::SimReport;
use freehold_sim::report::measures::{self, Measure};

/// What the words of a part come to: text, and a picture that the text shows.
pub type Made = (String, Option<Page>);

/// Makes a part about one point of a plan.
type OfPlan = fn(&SimReport, usize) -> String;
/// Makes a part about all plans.
type OfAll = fn(&Reports) -> String;

/// Parts about one plan: `NAME: PLAN [SWEPT VALUE]`.
const OF_A_PLAN: [(&str, OfPlan); 6] = [
    ("contention", contention),
    ("memory", memory),
    ("times", times),
    ("growth", sentences::growth),
    ("lead", sentences::lead),
    ("savings", sentences::savings),
];
/// Parts about all plans.
const OF_ALL: [(&str, OfAll); 13] = [
    ("answer", aged::answer),
    ("together", aged::together),
    ("worse-by-age", aged::worse),
    ("bars", across::bars),
    ("losses", across::losses),
    ("sweep", across::sweep),
    ("locks", across::locks),
    ("loads", |reports| reconcile::loads(reports.loads())),
    ("reconcile", |reports| reconcile::meaning(reports.loads())),
    ("paces", paces::paces),
    ("system-time", system_time::savings),
    ("system-time-meaning", system_time::meaning),
    ("recipe", across::recipe),
];
/// The part that shows a picture: `picture: PLAN [SWEPT VALUE]`.
const PICTURE: &str = "picture";

/// Whether such a part can be made.
#[cfg(test)]
pub fn is_known(part: &Part) -> bool {
    let names = OF_A_PLAN.iter().map(|part| part.0).chain(OF_ALL.iter().map(|part| part.0));
    names.chain([PICTURE]).any(|name| name == part.name)
}

/// Makes a part; nothing if there is no such part or plan.
pub fn make(part: &Part, reports: &Reports) -> Option<Made> {
    if let Some((_, make)) = OF_ALL.iter().find(|(name, _)| *name == part.name) {
        return Some((make(reports), None));
    }
    let report = reports.of(part.words.first()?)?;
    let value = part.words.get(1);
    let point = report.plan.points.iter().position(|point| point.value.as_ref() == value)?;
    if part.name == PICTURE {
        return Some(picture(report, point));
    }
    let (_, make) = OF_A_PLAN.iter().find(|(name, _)| *name == part.name)?;
    Some((make(report, point), None))
}

fn picture(report: &SimReport, point: usize) -> Made {
    let name = format!("{NAME}-{}.svg", report.plan.name);
    let text = format!("![{}]({name})", report.plan.title);
    (text, Some(Page { name, text: plot::svg(&report.plan.title, &report.plots(point)) }))
}

/// What the CPUs did and waited for.
fn contention(report: &SimReport, point: usize) -> String {
    let shown = [measures::ZONE_WAIT, measures::ZONE_LOCKS, measures::PAGES_PER_LOCK, measures::ZONE_HOLD];
    let more = [measures::REMOTE_FREES, measures::ALLOC_P99];
    let header = [
        "CPUs",
        "policy",
        "M operations/s",
        "change",
        "verdict",
        "waiting",
        "zone locks in 1000",
        "pages/lock",
        "hold, ns in 1000",
        "remote frees",
        "p99, ns",
    ];
    let row = |cpus: u16, policy: usize| {
        let mut cells = vec![cpus.to_string()];
        cells.extend(throughput(report, point, cpus, policy));
        cells.extend(shown.iter().chain(&more).map(|measure| value(report, measure, point, cpus, policy)));
        cells
    };
    table(&header, rows(report, row))
}

/// What became of memory, at the end and at its worst.
fn memory(report: &SimReport, point: usize) -> String {
    let pairs = [
        (measures::FREE_BLOCKS_END, measures::FREE_BLOCKS_WORST),
        (measures::UNUSABLE_END, measures::UNUSABLE_WORST),
        (measures::MIXED_END, measures::MIXED_WORST),
        (measures::HELD_END, measures::HELD_WORST),
    ];
    let header = [
        "CPUs",
        "policy",
        "free pageblocks",
        "verdict",
        "unusable at order 9",
        "verdict",
        "mixed pageblocks",
        "held pages",
        "owned pageblocks",
        "failed",
    ];
    let row = |cpus: u16, policy: usize| {
        let value = |measure: &Measure| value(report, measure, point, cpus, policy);
        let [free, unusable, mixed, held] = pairs.map(|(end, worst)| format!("{} / {}", value(&end), value(&worst)));
        let verdict = |measure: &Measure| change(report, measure, point, cpus, policy).1;
        vec![
            cpus.to_string(),
            format!("`{}`", report.label(policy)),
            free,
            verdict(&measures::FREE_BLOCKS_WORST),
            unusable,
            verdict(&measures::UNUSABLE_WORST),
            mixed,
            held,
            value(&measures::OWNED_END),
            value(&measures::FAILURES),
        ]
    };
    table(&header, rows(report, row))
}

/// What CPU time was spent on.
fn times(report: &SimReport, point: usize) -> String {
    let shown: Vec<Measure> = measures::TIMES.iter().copied().chain([measures::ZONE_WAIT]).collect();
    let mut header = vec!["CPUs", "policy"];
    header.extend(shown.iter().map(|measure| measure.about.trim_start_matches("share of CPU time spent ")));
    let row = |cpus: u16, policy: usize| {
        let mut cells = vec![cpus.to_string(), format!("`{}`", report.label(policy))];
        cells.extend(shown.iter().map(|measure| value(report, measure, point, cpus, policy)));
        cells
    };
    table(&header, rows(report, row))
}

/// A row for each number of CPUs and policy.
fn rows<'r>(
    report: &'r SimReport,
    row: impl Fn(u16, usize) -> Vec<String> + 'r,
) -> impl Iterator<Item = Vec<String>> + 'r {
    let policies = 0..report.plan.policies.len();
    let pairs = report.plan.cpus.iter().flat_map(move |&cpus| policies.clone().map(move |policy| (cpus, policy)));
    pairs.map(move |(cpus, policy)| row(cpus, policy))
}

/// A measure, as tables show it.
pub fn value(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> String {
    let spread = report.spread(measure, point, cpus, policy);
    spread.map_or(number::ABSENT.to_owned(), |spread| measure.text(spread.median))
}

/// A policy, its throughput, and change and verdict of that.
pub fn throughput(report: &SimReport, point: usize, cpus: u16, policy: usize) -> [String; 4] {
    let (change, verdict) = change(report, &measures::THROUGHPUT, point, cpus, policy);
    let value = value(report, &measures::THROUGHPUT, point, cpus, policy);
    [format!("`{}`", report.label(policy)), value, change, verdict]
}

/// Change and verdict against policy A, which has none.
pub fn change(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> (String, String) {
    match report.judge(measure, point, cpus, policy).filter(|_| policy > 0) {
        None => (String::new(), String::new()),
        Some(judged) => (number::change(judged.change), judged.verdict.word().to_owned()),
    }
}
