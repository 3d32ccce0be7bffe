//! The difference between recordings, as tables.

use freehold_measure::formats::Document;
use freehold_measure::number::{ABSENT, change, count, decimal, duration, percent};
use freehold_measure::terminal::{Column, Style, Tone, table_text};

use super::{Counter, CounterRow, Difference, MeasureRow, Recorded};

/// Counters of `/proc/vmstat` in the table; JSON has all.
const VMSTAT_ROWS: usize = 24;

impl Document for Difference {
    fn reports(&self) -> std::borrow::Cow<'_, [freehold_measure::report::Report]> {
        std::borrow::Cow::Borrowed(&[])
    }

    fn text(&self, style: Style) -> String {
        let chapters = [
            self.recordings_text(style),
            self.settings_text(style),
            self.measures_text(style),
            self.counters_text(style),
        ];
        let filled: Vec<_> = chapters.into_iter().filter(|chapter| !chapter.is_empty()).collect();
        filled.join("\n")
    }
}

impl Difference {
    fn recordings_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text(""),
            Column::Text("recording"),
            Column::Text("kernel"),
            Column::Number("CPUs"),
            Column::Number("pages"),
            Column::Number("seconds"),
            Column::Number("allocations"),
            Column::Number("lost"),
        ]);
        for (label, recorded) in ["1", "2"].into_iter().zip(&self.recordings) {
            table.add_row(recording_cells(label, recorded).map(|text| style.cell(text, Tone::Plain)));
        }
        table_text(&table)
    }

    fn settings_text(&self, style: Style) -> String {
        if self.settings.is_empty() {
            return String::new();
        }
        let mut table = style.table(&[Column::Text("setting"), Column::Text("1"), Column::Text("2")]);
        for row in &self.settings {
            let value = |value: &Option<String>| value.clone().unwrap_or(ABSENT.to_owned());
            table.add_row([row.name.clone(), value(&row.first), value(&row.second)]);
        }
        style.heading("Settings that differ") + &table_text(&table)
    }

    fn measures_text(&self, style: Style) -> String {
        let mut table =
            style.table(&[Column::Text("measure"), Column::Number("1"), Column::Number("2"), Column::Number("change")]);
        for row in self.measures.iter().filter(|row| row.first.is_some() || row.second.is_some()) {
            table.add_row([row.name.clone(), measure(row, row.first), measure(row, row.second), change(row.change)]);
        }
        style.heading("Measures") + &table_text(&table)
    }

    fn counters_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("of"),
            Column::Text("counter"),
            Column::Number("1"),
            Column::Number("2"),
            Column::Number("1 a second"),
            Column::Number("2 a second"),
            Column::Number("1 per 1000 allocs"),
            Column::Number("2 per 1000 allocs"),
            Column::Number("change of that"),
        ]);
        for row in self.shown_counters() {
            let rate = |value: Option<f64>| value.map_or(ABSENT.to_owned(), decimal);
            table.add_row([
                row.chapter.to_owned(),
                row.name.clone(),
                signed(row.first.total),
                signed(row.second.total),
                rate(row.first.per_second),
                rate(row.second.per_second),
                rate(row.first.per_1000_allocations),
                rate(row.second.per_1000_allocations),
                change(row.change_per_1000_allocations),
            ]);
        }
        style.heading("Counters") + &table_text(&table)
    }

    /// Every counter, but of `/proc/vmstat` only those that moved most for the work done.
    fn shown_counters(&self) -> Vec<&CounterRow> {
        let (mut vmstat, mut shown): (Vec<_>, Vec<_>) = self.counters.iter().partition(|row| row.chapter == "vmstat");
        let weight = |counter: &Counter| counter.per_1000_allocations.unwrap_or(0.0).abs();
        let weight = |row: &CounterRow| weight(&row.first).max(weight(&row.second));
        vmstat.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        shown.extend(vmstat.into_iter().take(VMSTAT_ROWS));
        shown
    }
}

fn recording_cells(label: &str, recorded: &Recorded) -> [String; 8] {
    [
        label.to_owned(),
        recorded.file.clone(),
        recorded.kernel_release.clone(),
        recorded.cpus.to_string(),
        count(recorded.managed_pages),
        format!("{:.3}", recorded.duration_seconds),
        count(recorded.allocations),
        count(recorded.lost),
    ]
}

fn measure(row: &MeasureRow, value: Option<f64>) -> String {
    match (row.unit, value) {
        (_, None) => ABSENT.to_owned(),
        ("share", Some(share)) => percent(share),
        ("ns", Some(ns)) => duration(ns as u64),
        (_, Some(value)) => decimal(value),
    }
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}
