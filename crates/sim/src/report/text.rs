//! The tables of a simulation: what it did and what it waited for, then what became of memory.
//!
//! What columns mean stands first. Then one row a number of CPUs and policy. Where several seeds were run, a number is the
//! median, and the sentence below says how far seeds lie apart at most.

use comfy_table::Table;
use freehold_measure::number::{self, ABSENT};
use freehold_measure::terminal::{Column, Style, Tone, table_text};

use super::measures::{self, Measure};
use super::{SimReport, judge};
use crate::run::LOOKS;
use crate::workload::WorkPace;

/// A column: its head, and the measures in it, of which the second is the worst.
type Head = (&'static str, &'static [Measure]);

/// What happened.
const SPEED: [Head; 8] = [
    ("waiting", &[measures::ZONE_WAIT]),
    ("zone locks", &[measures::ZONE_LOCKS]),
    ("pages/lock", &[measures::PAGES_PER_LOCK]),
    ("hold, ns", &[measures::ZONE_HOLD]),
    ("in allocator", &[measures::ALLOCATOR]),
    ("remote frees", &[measures::REMOTE_FREES]),
    ("p99, ns", &[measures::ALLOC_P99]),
    ("failed", &[measures::FAILURES]),
];

/// What became of memory.
const MEMORY: [Head; 5] = [
    ("free blocks", &[measures::FREE_BLOCKS_END, measures::FREE_BLOCKS_WORST]),
    ("unusable", &[measures::UNUSABLE_END, measures::UNUSABLE_WORST]),
    ("mixed blocks", &[measures::MIXED_END, measures::MIXED_WORST]),
    ("held pages", &[measures::HELD_END, measures::HELD_WORST]),
    ("owned blocks", &[measures::OWNED_END]),
];

/// What memory that is full brought.
const PRESSURE: [Head; 6] = [
    ("reserve", &[measures::RESERVED]),
    ("huge pages", &[measures::THP_SUCCESS]),
    ("compaction", &[measures::COMPACTION_SUCCESS]),
    ("kswapd", &[measures::KSWAPD_SCANNED]),
    ("direct", &[measures::DIRECT_SCANNED]),
    ("atomic / failed", &[measures::ATOMIC, measures::ATOMIC_FAILED]),
];

/// The report for people.
pub fn text(report: &SimReport, style: Style) -> String {
    let plan = &report.plan;
    let mut sections = vec![format!("{}{}\n", style.heading(&plan.title), plan.shows), legend(report)];
    for point in 0..plan.points.len() {
        let swept = plan.swept.as_ref().zip(plan.points[point].value.as_ref());
        let swept = swept.map_or(String::new(), |(key, value)| style.heading(&format!("{key} = {value}")));
        sections.push(swept + &table_text(&speed(report, point, style)));
        sections.push(table_text(&columns(report, point, style, &MEMORY)));
        if plan.points[point].workload.pace() == WorkPace::Set {
            sections.push(table_text(&columns(report, point, style, &PRESSURE)));
            sections.extend(calm(report, point));
        }
    }
    sections.push(stands_on(report));
    sections.extend(plan.points.first().and_then(|point| point.workload.left_out()));
    sections.push(report.recipe.text());
    sections.join("\n")
}

fn speed(report: &SimReport, point: usize, style: Style) -> Table {
    let mut columns = vec![
        Column::Number("CPUs"),
        Column::Text("policy"),
        Column::Number("Mop/s"),
        Column::Number("change"),
        Column::Text("verdict"),
    ];
    columns.extend(SPEED.map(|(head, _)| Column::Number(head)));
    let mut table = style.table(&columns);
    for row in rows(report, point) {
        let mut cells = vec![style.cell(row.cpus_text(), Tone::Plain), style.cell(row.label(), Tone::Plain)];
        cells.push(style.cell(row.value(&measures::THROUGHPUT), Tone::Plain));
        let (change, word, tone) = row.verdict();
        cells.extend([style.cell(change, Tone::Plain), style.cell(word, tone)]);
        cells.extend(SPEED.map(|(_, shown)| style.cell(row.values(shown), Tone::Plain)));
        table.add_row(cells);
    }
    table
}

/// These columns, after number of CPUs and policy.
fn columns(report: &SimReport, point: usize, style: Style, heads: &[Head]) -> Table {
    let mut columns = vec![Column::Number("CPUs"), Column::Text("policy")];
    columns.extend(heads.iter().map(|(head, _)| Column::Number(head)));
    let mut table = style.table(&columns);
    for row in rows(report, point) {
        let mut cells = vec![style.cell(row.cpus_text(), Tone::Plain), style.cell(row.label(), Tone::Plain)];
        cells.extend(heads.iter().map(|(_, shown)| style.cell(row.values(shown), Tone::Plain)));
        table.add_row(cells);
    }
    table
}

/// A word on hosts whose memory never filled: tables say nothing about pressure then.
fn calm(report: &SimReport, point: usize) -> Option<String> {
    let mut outcomes = report.cells.iter().filter(|cell| cell.point == point).flat_map(|cell| &cell.outcomes);
    let is_calm = outcomes.all(|run| !run.vmstat.is_under_pressure());
    is_calm.then(|| NEVER_FULL.to_owned())
}

/// What is said of a host that had memory to spare.
pub const NEVER_FULL: &str = "Memory never filled, so nothing was under pressure, and no policy could show what it does about \
                              that: give it more time, or less memory.\n";

/// What verdicts stand on.
fn stands_on(report: &SimReport) -> String {
    let seeds = match report.plan.seeds {
        1 => "Verdicts stand on one seed; --seeds runs more".to_owned(),
        seeds => format!(
            "Numbers are medians of {seeds} seeds; throughput differs by at most {} between them",
            apart(report)
        ),
    };
    format!("{seeds}. The simulation is exact: plan, seeds and cost table give the same numbers on every machine.\n")
}

/// What the words at the heads of columns mean.
fn legend(report: &SimReport) -> String {
    let a = &report.plan.policies[0].name;
    let is_set = report.plan.points.iter().any(|point| point.workload.pace() == WorkPace::Set);
    let (asked, pressure) = if is_set { (AS_MUCH, UNDER_PRESSURE) } else { ("", "") };
    format!(
        "change and verdict: throughput against {a}, seed by seed; no difference is up to {margin} % under every seed{asked}\n\
         waiting: share of CPU time spent waiting for a zone lock; zone locks: acquisitions in 1000 operations; \
         pages/lock: pages moved each time; hold: ns that zone locks were held in 1000 operations\n\
         in allocator: share of CPU time; remote frees: share of frees on another CPU than the allocation; p99: what \
         99 % of allocations did not exceed\n\
         free blocks: whole free pageblocks; unusable: share of free memory that lies below order 9; mixed blocks: \
         pageblocks with pages that can and that cannot move; held pages: on per-CPU lists and stacks; each at the end \
         / at its worst of {looks} looks\n{pressure}",
        margin = judge::MARGIN * 100.0,
        looks = number::count(LOOKS + 1),
    )
}

/// Why throughput is not judged at a set pace.
const AS_MUCH: &str = "; as much is asked for under every policy, so that more of it is neither good nor bad";
/// What the words of [`PRESSURE`] mean.
const UNDER_PRESSURE: &str = "reserve: HighAtomic pageblocks at the end; huge pages, compaction: share of attempts that \
                              succeeded; kswapd, direct: pages that they scanned a minute; atomic: requests of orders 1 \
                              to 3, and those that failed\n";

/// The largest distance between two seeds of a cell, relative to their median.
fn apart(report: &SimReport) -> String {
    let spreads = report.cells.iter().map(|cell| measures::Spread::of(&measures::THROUGHPUT, &cell.outcomes));
    let apart = spreads.filter(|spread| spread.median > 0.0).map(|spread| (spread.most - spread.least) / spread.median);
    number::percent(apart.fold(0.0, f64::max))
}

/// A number of CPUs and a policy.
#[derive(Clone, Copy)]
struct Row<'r> {
    report: &'r SimReport,
    point: usize,
    cpus: u16,
    policy: usize,
}

fn rows(report: &SimReport, point: usize) -> impl Iterator<Item = Row<'_>> {
    let cells = report.cells.iter().filter(move |cell| cell.point == point);
    cells.map(move |cell| Row { report, point, cpus: cell.cpus, policy: cell.policy })
}

impl Row<'_> {
    /// The number of CPUs, where it is not that of the row above.
    fn cpus_text(&self) -> String {
        if self.policy == 0 { self.cpus.to_string() } else { String::new() }
    }

    fn label(&self) -> &str {
        self.report.label(self.policy)
    }

    fn value(&self, measure: &Measure) -> String {
        let spread = self.report.spread(measure, self.point, self.cpus, self.policy);
        let median = spread.map(|spread| spread.median).filter(|median| !median.is_nan());
        median.map_or(ABSENT.to_owned(), |median| measure.text(median))
    }

    fn values(&self, shown: &[Measure]) -> String {
        shown.iter().map(|measure| self.value(measure)).collect::<Vec<_>>().join(" / ")
    }

    /// Change and verdict of throughput; nothing for policy A.
    fn verdict(&self) -> (String, &'static str, Tone) {
        let judged = self.report.judged(&measures::THROUGHPUT, self.point, self.cpus, self.policy);
        match judged.filter(|_| self.policy > 0) {
            None => (String::new(), "", Tone::Plain),
            Some(judged) => (number::change(judged.change), judged.verdict.word(), judged.verdict.tone()),
        }
    }
}
