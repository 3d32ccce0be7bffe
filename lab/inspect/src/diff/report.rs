//! Report on the difference between two recordings.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::{ABSENT, change_or_from_none, count, duration};
use freehold_report::report::{Column, Detail, Report, Table, Value};
use freehold_trace::recording::name_of;

use crate::course;

use super::{CounterRow, Difference, MeasureRow, RecordingSummary, SettingRow};

/// Most counters of `/proc/vmstat` in the table; JSON contains all.
const VMSTAT_ROWS: usize = 24;
/// Most settings in the second sentence.
const NAMED: usize = 3;
/// Most rows in the table of the largest changes.
const CHANGES: usize = 10;
/// Options to try next.
const NEXT: &str = "All measures, counters and settings: --all. A verdict needs repeated runs: diff --kernels.";

impl Document for Difference {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut tables = vec![self.settings_table(), self.measures_table(), self.counters_table(), self.totals_table()];
        let mut answers = if self.is_whole { Vec::new() } else { vec![self.largest_changes()] };
        for tables in [&mut tables, &mut answers] {
            tables.retain(|table| !table.rows.is_empty());
        }
        let sides = self.recordings.each_ref().map(|recorded| recorded.file.clone());
        let [first, second] = &self.courses;
        let names = sides.each_ref().map(|file| name_of(file));
        // Recordings with the same file name are shown with their folders.
        let names = if names[0] == names[1] { sides.clone() } else { names };
        let plots = course::plots(&[(&names[0], first), (&names[1], second)]);
        let subject = ["A", "B"].into_iter().zip(&sides).map(|(side, file)| format!("{side}: {file}")).collect();
        let detail = if self.is_whole { Detail::All } else { Detail::Differences };
        Cow::Owned(vec![Report {
            sides,
            subject,
            cases: Some(self.recordings_table()),
            verdict: self.in_short(),
            answers,
            tables,
            plots,
            next: vec![NEXT.to_owned()],
            detail,
            ..Report::default()
        }])
    }
}

impl Difference {
    fn in_short(&self) -> Vec<String> {
        let settings: Vec<String> = self.settings.iter().take(NAMED).map(SettingRow::describe).collect();
        let more = self.settings.len() - settings.len();
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        let settings = match settings.is_empty() {
            true => "Settings that differ: none.".to_owned(),
            false => format!("Settings that differ: {}{more}.", settings.join(", ")),
        };
        let verdict = "No verdict: the two recordings contain different work.".to_owned();
        let equal = "No measure and no count of events per 1000 allocations differs.".to_owned();
        let equal = self.largest_changes().rows.is_empty().then_some(equal);
        [verdict, settings].into_iter().chain(equal).collect()
    }

    /// Returns the measures and counts of events that changed most. Events that happen less than once in 1000
    /// allocations are left out, and counters of `/proc/vmstat`, because they count the same events again.
    fn largest_changes(&self) -> Table {
        let counters = self
            .counters
            .iter()
            .filter(|row| row.chapter != "vmstat" && per_1000(row) >= 1.0 && has_both_rates(row))
            .map(|row| {
                let counts = [&row.first, &row.second].map(|counter| Value::decimal(counter.per_1000_allocations));
                (row.change_per_1000_allocations, format!("{} per 1000 allocations", row.name), counts)
            });
        let measures = self.measures.iter().filter(|row| row.first.is_some() && row.second.is_some()).map(|row| {
            let values = [row.first, row.second].map(|value| measure(row, value));
            (row.change, row.name.clone(), values)
        });
        let mut changes: Vec<_> = measures.chain(counters).filter(|(change, ..)| *change != Some(0.0)).collect();
        changes.sort_by(|a, b| weight(b.0).total_cmp(&weight(a.0)));
        let rows = changes.into_iter().take(CHANGES).map(|(relative, name, [first, second])| {
            vec![Value::text(name), first, second, Value::text(change_or_from_none(relative))]
        });
        Table::new("Largest changes", Column::several(&["measure"], &["A", "B", "change"]), rows)
    }

    fn recordings_table(&self) -> Table {
        let words = ["", "kernel"];
        let numbers = ["CPUs", "pages", "seconds", "allocations", "lost"];
        let rows = ["A", "B"].into_iter().zip(&self.recordings).map(recording_row);
        Table::new("", Column::several(&words, &numbers), rows)
    }

    fn settings_table(&self) -> Table {
        let rows = self.settings.iter().map(|row| {
            let [first, second] =
                [&row.first, &row.second].map(|value| value.as_ref().map_or(Value::None, Value::text));
            vec![Value::text(&row.name), first, second]
        });
        Table::new("Settings that differ", Column::several(&["setting", "A", "B"], &[]), rows)
    }

    fn measures_table(&self) -> Table {
        let rows = self.measures.iter().filter(|row| row.first.is_some() || row.second.is_some()).map(|row| {
            vec![Value::text(&row.name), measure(row, row.first), measure(row, row.second), change(row.change)]
        });
        Table::new("Measures", Column::several(&["measure"], &["A", "B", "change"]), rows)
    }

    fn counters_table(&self) -> Table {
        let rows = self.by_chapter(|row| {
            let counts = [&row.first, &row.second].map(|counter| Value::decimal(counter.per_1000_allocations));
            counts.into_iter().chain([change(row.change_per_1000_allocations)]).collect()
        });
        Table::new("Counters per 1000 allocations", Column::several(&["counter"], &["A", "B", "change"]), rows)
    }

    fn totals_table(&self) -> Table {
        let rows = self.by_chapter(|row| {
            let totals = [&row.first, &row.second].map(|counter| signed(counter.total));
            let rates = [&row.first, &row.second].map(|counter| Value::decimal(counter.per_second));
            totals.into_iter().chain(rates).collect()
        });
        let columns = Column::several(&["counter"], &["A", "B", "A per second", "B per second"]);
        Table::new("Counters in total", columns, rows)
    }

    /// Returns rows of counters, grouped under the name of their chapter.
    fn by_chapter(&self, numbers: impl Fn(&CounterRow) -> Vec<Value>) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for chapter in self.shown_counters().chunk_by(|one, next| one.chapter == next.chapter) {
            let counters = chapter.iter().map(|row| [vec![Value::text(&row.name)], numbers(row)].concat());
            let mut counters: Vec<_> = counters.collect();
            let mut title = vec![Value::Faint(format!("{}:", chapter[0].chapter))];
            title.resize(counters[0].len(), Value::text(""));
            rows.push(title);
            rows.append(&mut counters);
        }
        rows
    }

    /// Returns all counters, except that of `/proc/vmstat` only the most frequent per allocation are kept.
    fn shown_counters(&self) -> Vec<&CounterRow> {
        let (mut vmstat, mut shown): (Vec<_>, Vec<_>) = self.counters.iter().partition(|row| row.chapter == "vmstat");
        vmstat.sort_by(|a, b| per_1000(b).total_cmp(&per_1000(a)));
        shown.extend(vmstat.into_iter().take(VMSTAT_ROWS));
        shown
    }
}

/// Returns the number for each 1000 allocations, in the recording where it is larger.
fn per_1000(row: &CounterRow) -> f64 {
    let [first, second] = [&row.first, &row.second].map(|counter| counter.per_1000_allocations.unwrap_or(0.0).abs());
    first.max(second)
}

/// Returns whether both recordings have allocations, so that a missing change means "from none".
fn has_both_rates(row: &CounterRow) -> bool {
    [&row.first, &row.second].iter().all(|counter| counter.per_1000_allocations.is_some())
}

impl SettingRow {
    /// Formats both values: `vm.nr_hugepages 0 / 9876`.
    fn describe(&self) -> String {
        let [first, second] = [&self.first, &self.second].map(|value| value.as_deref().unwrap_or(ABSENT));
        format!("{} {first} / {second}", self.name)
    }
}

/// Returns the distance of a change from no change. Halves weigh as much as doubles; from none, it is infinite.
fn weight(change: Option<f64>) -> f64 {
    change.map_or(f64::INFINITY, |change| (1.0 + change).max(f64::MIN_POSITIVE).ln().abs())
}

fn recording_row((label, recorded): (&str, &RecordingSummary)) -> Vec<Value> {
    vec![
        Value::text(label),
        Value::text(&recorded.kernel_release),
        Value::text(recorded.cpus),
        Value::count(recorded.managed_pages),
        Value::Text(format!("{:.3}", recorded.duration_seconds)),
        Value::count(recorded.allocations),
        Value::count(recorded.lost),
    ]
}

fn change(change: Option<f64>) -> Value {
    change.map_or(Value::None, Value::Change)
}

fn measure(row: &MeasureRow, value: Option<f64>) -> Value {
    match (row.unit, value) {
        (_, None) => Value::None,
        ("share", Some(share)) => Value::Share(share),
        ("ns", Some(ns)) => Value::Text(duration(ns as u64)),
        (_, value) => Value::decimal(value),
    }
}

fn signed(number: i64) -> Value {
    let sign = if number < 0 { "-" } else { "" };
    Value::Text(format!("{sign}{}", count(number.unsigned_abs())))
}
