//! CPU time and peak memory of the loads of a table, with geometric means.

use std::iter::once;

use freehold_report::report::{Column, Table, Value};
use freehold_workloads::malloc::Table as LoadTable;
use serde::Serialize;

use super::costs::Costs;
use super::ratio::{CPU, PEAK, Ratio, format_cell, logs_of_best};
use crate::numbers::format_ratio;

/// Minimum live bytes for a ratio of resident to live memory.
const LEAST_LIVE: f64 = (1 << 20) as f64;

/// Results of the whole loads of a table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoadGroup {
    pub loads: Vec<LoadSummary>,
    /// Geometric means over the loads, by malloc.
    cpu: Vec<Option<Ratio>>,
    peak: Vec<Option<Ratio>>,
    /// Ratio to the best other malloc of each load, which may be a different one for each load. The summary of programs
    /// has this ratio with an unbiased choice, so this one is `None` for programs.
    cpu_of_best: Option<Ratio>,
}

/// Results of a load under all mallocs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoadSummary {
    load: String,
    /// Medians, by malloc.
    cpu_ms: Vec<Option<f64>>,
    peak_mib: Vec<Option<f64>>,
    /// Resident memory over live bytes at the end, by malloc; `None` where too little is live.
    overhead: Vec<Option<f64>>,
    /// Ratio of Freehold's figure to that of each malloc.
    cpu: Vec<Option<Ratio>>,
    peak: Vec<Option<Ratio>>,
}

impl LoadSummary {
    fn new(costs: &Costs<'_>, load: usize) -> LoadSummary {
        let live = costs.medians(load, |cost| cost.live_bytes as f64);
        let resident = costs.medians(load, |cost| cost.resident_kib as f64 * 1024.0);
        let overhead = resident.into_iter().zip(live);
        let overhead = overhead.map(|(resident, live)| Some(resident? / live.filter(|&live| live >= LEAST_LIVE)?));
        LoadSummary {
            load: costs.request.loads[load].name.clone(),
            cpu_ms: costs.medians(load, |cost| CPU(cost) / 1e6),
            peak_mib: costs.medians(load, |cost| PEAK(cost) / 1024.0),
            overhead: overhead.collect(),
            cpu: costs.against(&[load], CPU),
            peak: costs.against(&[load], PEAK),
        }
    }
}

impl LoadGroup {
    pub(super) fn new(costs: &Costs<'_>, table: LoadTable) -> LoadGroup {
        let all = costs.loads_of(table);
        let has_best = table == LoadTable::Loads && !all.is_empty();
        let best = if has_best { logs_of_best(costs.rounds, &all, CPU) } else { Vec::new() };
        LoadGroup {
            loads: all.iter().map(|&load| LoadSummary::new(costs, load)).collect(),
            cpu: costs.against(&all, CPU),
            peak: costs.against(&all, PEAK),
            cpu_of_best: Ratio::from_logs(&best, costs.request.seed),
        }
    }

    /// Returns the tables, with `prefix` before their titles. Tables without rows are left out.
    pub(super) fn tables(&self, prefix: &str, mallocs: &[String]) -> Vec<Table> {
        if self.loads.is_empty() {
            return Vec::new();
        }
        let ratio = "Freehold's cost divided by that of the other malloc";
        let cpu = self.loads.iter().map(|load| (load.load.as_str(), &*load.cpu));
        let peak = self.loads.iter().map(|load| (load.load.as_str(), &*load.peak));
        let tables = vec![
            self.means(format!("{prefix}Geometric means: {ratio}"), mallocs),
            ratio_table(format!("{prefix}CPU time: {ratio}"), mallocs, cpu, &self.cpu),
            ratio_table(format!("{prefix}Peak resident memory: {ratio}"), mallocs, peak, &self.peak),
            self.medians(format!("{prefix}CPU time in ms, median"), mallocs, |load| &load.cpu_ms),
            self.medians(format!("{prefix}Peak resident memory in MiB, median"), mallocs, |load| &load.peak_mib),
            self.medians(
                format!("{prefix}Resident memory divided by live memory at the end, median"),
                mallocs,
                |load| &load.overhead,
            ),
        ];
        tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
    }

    /// Returns the table of geometric means over whole loads: one row for each other malloc, and a row for the best
    /// other malloc of each load.
    fn means(&self, title: String, mallocs: &[String]) -> Table {
        let mut rows = Vec::new();
        for (name, (cpu, peak)) in mallocs.iter().zip(self.cpu.iter().zip(&self.peak)).skip(1) {
            rows.push(vec![Value::text(name), format_cell(*cpu), format_cell(*peak)]);
        }
        if self.cpu_of_best.is_some() {
            rows.push(vec![Value::text("the best of each load"), format_cell(self.cpu_of_best), Value::None]);
        }
        let columns = Column::several(&["other malloc"], &["CPU time", "peak resident memory"]);
        Table::new(title, columns, rows)
    }

    /// Returns a table of medians.
    fn medians(&self, title: String, mallocs: &[String], figure: fn(&LoadSummary) -> &[Option<f64>]) -> Table {
        let columns = once(Column::words("load")).chain(mallocs.iter().map(|name| Column::numbers(name.clone())));
        let mut rows = Vec::new();
        for load in self.loads.iter().filter(|load| figure(load).iter().any(Option::is_some)) {
            let mut cells = vec![Value::text(&load.load)];
            for value in figure(load) {
                cells.push(value.map_or(Value::None, |value| Value::text(format_ratio(value))));
            }
            rows.push(cells);
        }
        Table::new(title, columns.collect(), rows)
    }
}

/// Returns a table of ratios: one row per load, and a row for the geometric mean.
pub(super) fn ratio_table<'a>(
    title: String,
    mallocs: &[String],
    rows: impl Iterator<Item = (&'a str, &'a [Option<Ratio>])>,
    all: &'a [Option<Ratio>],
) -> Table {
    let others = mallocs[1..].iter().map(|name| Column::numbers(format!("to {name}")));
    let mut table = Table::new(title, once(Column::words("load")).chain(others).collect(), []);
    for (name, ratios) in rows.chain([("geometric mean", all)]) {
        let mut cells = vec![Value::text(name)];
        cells.extend(ratios[1..].iter().map(|ratio| format_cell(*ratio)));
        table.rows.push(cells);
    }
    table
}
