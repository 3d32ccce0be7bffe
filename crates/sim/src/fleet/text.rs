//! The tables of a fleet: what it brought under each policy, how policies differ on the same hosts, and what to make of
//! the numbers. On demand a row for each host.

use comfy_table::Table;
use freehold_measure::number::{self, ABSENT};
use freehold_measure::terminal::{Column, Style, Tone, table_text};
use freehold_measure::verdict::Direction;

use super::judge::{self, Estimate, estimate_text};
use super::measures::{self, Measure};
use super::report::{FleetReport, Listing};
use crate::report::NEVER_FULL;
use crate::workload::WorkPace;

/// The measures of the table of hosts, with their heads.
const ON_HOSTS: [(&str, Measure); 7] = [
    ("HighAtomic", measures::RESERVED),
    ("THP", measures::THP_SUCCESS),
    ("compaction", measures::COMPACTION_SUCCESS),
    ("kswapd scanned/min", measures::KSWAPD_SCANNED),
    ("atomic", measures::ATOMIC),
    ("failed", measures::ATOMIC_FAILED),
    ("free blocks", measures::FREE_BLOCKS),
];

/// The report for people.
pub fn text(report: &FleetReport, style: Style) -> String {
    let plan = &report.fleet.plan;
    let mut sections = vec![format!("{}{}\n", style.heading(&plan.title), plan.shows), size_text(report) + ".\n"];
    sections.push(table_text(&fleet(report, style)));
    if report.policies() > 1 {
        let heading = style.heading(&format!("Against {}, on the same hosts", plan.policies[0].name));
        sections.push(heading + &table_text(&differences(report, style)));
    }
    if report.listing == Listing::Hosts {
        sections.push(table_text(&hosts(report, style)));
    }
    let mut runs = report.results.iter().flatten();
    if plan.points[0].workload.pace() == WorkPace::Set && runs.all(|run| !run.vmstat.is_under_pressure()) {
        sections.push(NEVER_FULL.to_owned());
    }
    if !plan.draws.is_empty() {
        sections.push(table_text(&draws(report, style)));
    }
    sections.push(stands_on(report));
    sections.push(report.recipe.text());
    sections.join("\n")
}

/// How many hosts, how large, and what they draw, in sentences.
pub fn hosts_text(report: &FleetReport) -> String {
    let drawn = report.fleet.plan.draws.iter().map(|draw| format!("{} from {} to {}", draw.key, draw.least, draw.most));
    let drawn: Vec<String> = drawn.collect();
    let drawn = if drawn.is_empty() {
        "Hosts differ by seed alone".to_owned()
    } else {
        format!("Each draws {}", drawn.join(", "))
    };
    format!("{}. {drawn}.\n", size_text(report))
}

/// How many hosts, how large, for how long.
fn size_text(report: &FleetReport) -> String {
    let fleet = &report.fleet;
    let point = &fleet.plan.points[0];
    let pages = point.machine.machine(fleet.plan.cpus[0]).map_or(0, |machine| u64::from(machine.pages));
    format!(
        "{} of {} MiB and {} CPUs, {} of virtual time each after {} that do not count",
        plural(fleet.hosts.into(), "host"),
        number::count(pages >> 8),
        fleet.plan.cpus[0],
        seconds(point.duration_ms),
        seconds(point.warmup_ms),
    )
}

fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", number::count(count), if count == 1 { "" } else { "s" })
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{} s", number::count(ms / 1000))
    } else {
        format!("{} ms", number::count(ms))
    }
}

/// One row a measure, one column a policy.
fn fleet(report: &FleetReport, style: Style) -> Table {
    let mut columns = vec![Column::Text("")];
    columns.extend((0..report.policies()).map(|policy| Column::Number(report.label(policy))));
    let mut table = style.table(&columns);
    for measure in measures::ALL {
        let values = (0..report.policies()).map(|policy| estimate_text(measure, report.estimate(measure, policy)));
        let mut cells = vec![style.cell(measure.about, Tone::Plain)];
        cells.extend(values.map(|value| style.cell(value, Tone::Plain)));
        table.add_row(cells);
    }
    table
}

/// One row a measure that has a good direction, and policy B.
fn differences(report: &FleetReport, style: Style) -> Table {
    let columns = ["", "policy", "difference", "interval", "verdict"].map(Column::Text);
    let mut table = style.table(&columns);
    for measure in measures::ALL.iter().filter(|measure| measure.direction != Direction::Neutral) {
        for policy in 1..report.policies() {
            let about = if policy == 1 { measure.about } else { "" };
            let mut cells = vec![style.cell(about, Tone::Plain), style.cell(report.label(policy), Tone::Plain)];
            match report.judged(measure, policy) {
                None => cells.extend([ABSENT; 3].map(|dash| style.cell(dash, Tone::Faint))),
                Some(judged) => {
                    let Estimate { value, interval, .. } = judged.difference;
                    let signed = |value| measure.difference_text(value);
                    let interval =
                        interval.map_or(ABSENT.to_owned(), |(low, high)| between(&signed(low), &signed(high)));
                    let difference = signed(value) + measure.difference_unit();
                    cells.extend([difference, interval].map(|text| style.cell(text, Tone::Plain)));
                    cells.push(style.cell(judged.verdict.word(), judged.verdict.tone()));
                }
            }
            table.add_row(cells);
        }
    }
    table
}

/// One row a host and policy.
fn hosts(report: &FleetReport, style: Style) -> Table {
    let mut columns = vec![Column::Number("host"), Column::Text("policy")];
    columns.extend(ON_HOSTS.map(|(head, _)| Column::Number(head)));
    let mut table = style.table(&columns);
    for (host, results) in report.hosts.iter().zip(&report.results) {
        for (policy, result) in results.iter().enumerate() {
            let number = if policy == 0 { host.number.to_string() } else { String::new() };
            let mut cells = vec![style.cell(number, Tone::Plain), style.cell(report.label(policy), Tone::Plain)];
            let value = |measure: &Measure| measure.of(result).map_or(ABSENT.to_owned(), |value| measure.text(value));
            cells.extend(ON_HOSTS.map(|(_, measure)| style.cell(value(&measure), Tone::Plain)));
            table.add_row(cells);
        }
    }
    table
}

/// What makes hosts differ beside their seeds: one row a key of the plan.
fn draws(report: &FleetReport, style: Style) -> Table {
    let mut table = style.table(&[Column::Text("each host draws"), Column::Number("from"), Column::Number("to")]);
    for draw in &report.fleet.plan.draws {
        let cells = [draw.key.clone(), number::count(draw.least), number::count(draw.most)];
        table.add_row(cells.map(|text| style.cell(text, Tone::Plain)));
    }
    table
}

/// What the numbers stand on.
fn stands_on(report: &FleetReport) -> String {
    let percent = judge::CONFIDENCE * 100.0;
    let enough = if report.hosts.len() < judge::HOSTS_MIN {
        format!(" With fewer than {} hosts there are none, and nothing is decided.", judge::HOSTS_MIN)
    } else {
        String::new()
    };
    format!(
        "Numbers are medians over the hosts, or sums where it says all hosts; in brackets {percent} % intervals: they hold the \
         value for all hosts that might have been drawn.{enough} Each host is exact: plan, seed and cost table give \
         the same numbers on every machine.\n"
    )
}

fn between(low: &str, high: &str) -> String {
    format!("[{low}, {high}]")
}
