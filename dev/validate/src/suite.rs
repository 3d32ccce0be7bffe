//! The suite: cells of the grid, each booted several times. Each recording is replayed under the rules of its own
//! kernel.

use freehold_report::number::{Quantity, change, percent, quantity};
use freehold_stats::intervals::median;
use freehold_stats::samples::Sample;
use freehold_stats::verdict::relative_change;

use crate::cell::{Cell, Half};
use crate::decisions::Decisions;
use crate::judge::Runs;
use crate::table::NamedTable;

/// Rows of the tables, with their names for readers. Predictions are judged in these rows.
pub(crate) const ROWS: [(&str, &str); 19] = [
    ("blocks_taken", "blocks taken"),
    ("blocks_drained", "blocks drained"),
    ("free_pages", "free pages at the end"),
    ("free_pages_order_4_up", "of these in blocks of order 4 and above"),
    ("unusable_free_index_order9", "unusable index of order 9"),
    ("failures", "failed requests"),
    ("fallback_claims", "fallbacks by claim"),
    ("fallback_steals", "fallbacks by steal"),
    ("highatomic_pageblocks", "pageblocks in reserve"),
    ("blocks_from_reserve", "blocks served from the reserve"),
    ("huge_pages_served", "huge pages served"),
    ("allocstall", "direct reclaims"),
    ("pgscan_kswapd", "pages that kswapd scanned"),
    ("pgscan_direct", "pages that requests scanned"),
    ("pgsteal_kswapd", "pages that kswapd reclaimed"),
    ("compact_stall", "direct compactions"),
    ("stall_time", "time for which requests stalled"),
    ("compact_free_scanned", "free frames scanned"),
    ("pgmigrate_success", "pages moved"),
];

/// Rows about the placement of blocks. Their errors are shown separately for cells with and without reclaim.
const PLACEMENT_ROWS: [&str; 2] = ["blocks_taken", "blocks_drained"];

/// Rows by mechanism: parts of some rows above. They are shown in the tables of errors only.
const MECHANISM_ROWS: [(&str, &str); 13] = [
    ("allocstall_costly_ready", "direct reclaims above order 3, ready for compaction"),
    ("allocstall_costly", "direct reclaims above order 3, with reclaim"),
    ("allocstall_small", "direct reclaims of orders 0 to 3"),
    ("pgscan_costly", "pages scanned above order 3"),
    ("pgscan_small", "pages scanned for orders 0 to 3"),
    ("pgsteal_costly", "pages reclaimed above order 3"),
    ("pgsteal_small", "pages reclaimed for orders 0 to 3"),
    ("requests_huge_first", "first requests of huge-page faults"),
    ("requests_huge_second", "second requests of huge-page faults"),
    ("failures_no_reclaim", "failures of requests that may not reclaim"),
    ("failures_huge_first", "failures of first requests"),
    ("failures_huge_second", "failures of second requests"),
    ("failures_other", "failures of other requests"),
];

/// Cell, and the results of its runs.
#[derive(Debug)]
pub(crate) struct CellResult {
    /// Cell of the grid.
    pub(crate) cell: Cell,
    /// Results of its runs, or the reason for which there are none.
    pub(crate) runs: Result<Runs, String>,
}

impl CellResult {
    fn row(&self, name: &str) -> Option<(&Sample, &Sample)> {
        self.runs.as_ref().ok()?.row(name)
    }

    fn has_few_events(&self, name: &str) -> bool {
        self.runs.as_ref().is_ok_and(|runs| runs.has_few_events(name))
    }

    /// Returns whether the kernel reclaimed memory in some run.
    fn reclaims(&self) -> bool {
        ["pgscan_kswapd", "allocstall"].iter().any(|row| self.row(row).is_some_and(|(kernel, _)| kernel.mean > 0.0))
    }
}

/// Largest standard error of the kernel's mean, relative to the mean, with which a cell is judged.
const STANDARD_ERROR_MAX: f64 = 0.2;

/// Errors of a row over some cells.
#[derive(Default)]
struct Summary {
    errors: Vec<f64>,
    worst: Option<(f64, String)>,
    spreads: Vec<f64>,
    /// Cells in which the kernel's value is zero and the engine's value is not.
    invented: usize,
    /// Cells in which the kernel's value differs too much between runs, which have no error.
    uncertain: usize,
    /// Cells with too few events on both sides, which have no error.
    few: usize,
}

/// Returns the table of errors of one half.
pub(crate) fn errors(judged: &[CellResult], half: Half) -> NamedTable {
    let of_half: Vec<&CellResult> = judged.iter().filter(|judged| judged.cell.half() == half).collect();
    let (reclaiming, calm): (Vec<&CellResult>, Vec<_>) = of_half.iter().partition(|cell| cell.reclaims());
    let rows = ROWS.iter().chain(&MECHANISM_ROWS).flat_map(|(row, name)| {
        let groups = if PLACEMENT_ROWS.contains(row) {
            vec![(format!("{name}, no reclaim"), &calm), (format!("{name}, with reclaim"), &reclaiming)]
        } else {
            vec![((*name).to_owned(), &of_half)]
        };
        groups.into_iter().filter_map(|(name, cells)| line(&name, summarize(cells, row))).collect::<Vec<_>>()
    });
    let head = [
        "row",
        "cells",
        "median error",
        "worst error",
        "cell of the worst error",
        "kernel's spread",
        "in the engine only",
        "kernel too uncertain",
        "too few events",
    ];
    let name = match half {
        Half::HeldOut => "held-out",
        Half::Open => "open",
    };
    NamedTable::new(name, head, rows)
}

fn summarize(judged: &[&CellResult], row: &str) -> Summary {
    let mut summary = Summary::default();
    for judged in judged {
        let Some((kernel, engine)) = judged.row(row) else { continue };
        if judged.has_few_events(row) {
            summary.few += usize::from(kernel.mean + engine.mean > 0.0);
            continue;
        }
        if kernel.mean == 0.0 {
            summary.invented += usize::from(engine.mean != 0.0);
            continue;
        }
        if kernel.spread().is_some_and(|spread| spread / (kernel.values.len() as f64).sqrt() > STANDARD_ERROR_MAX) {
            summary.uncertain += 1;
            continue;
        }
        let error = (engine.mean - kernel.mean) / kernel.mean;
        summary.spreads.extend(kernel.spread());
        summary.errors.push(error.abs());
        if summary.worst.as_ref().is_none_or(|(worst, _)| error.abs() > worst.abs()) {
            summary.worst = Some((error, judged.cell.name()));
        }
    }
    summary
}

/// Formats the errors of a row; returns `None` if no cell has a value.
fn line(name: &str, mut summary: Summary) -> Option<Vec<String>> {
    let cells = summary.errors.len();
    if cells + summary.invented + summary.uncertain + summary.few == 0 {
        return None;
    }
    let (worst, place) =
        summary.worst.map_or(("-".to_owned(), "-".to_owned()), |(error, at)| (change(Some(error)), at));
    Some(vec![
        name.to_owned(),
        cells.to_string(),
        format_median(&mut summary.errors),
        worst,
        place,
        format_median(&mut summary.spreads),
        summary.invented.to_string(),
        summary.uncertain.to_string(),
        summary.few.to_string(),
    ])
}

/// Formats the median of shares, if there are any.
fn format_median(values: &mut [f64]) -> String {
    if values.is_empty() { "-".to_owned() } else { percent(median(values)) }
}

/// Returns both halves, the held-out one first.
fn by_half(judged: &[CellResult]) -> impl Iterator<Item = &CellResult> {
    let halves = [Half::HeldOut, Half::Open].into_iter();
    halves.flat_map(|half| judged.iter().filter(move |judged| judged.cell.half() == half))
}

/// Returns the table of all cells, with the most important rows: the kernel's value, the engine's error, and the
/// kernel's spread.
pub(crate) fn cells(judged: &[CellResult]) -> NamedTable {
    let shown = ["blocks_taken", "blocks_drained", "free_pages", "failures", "huge_pages_served", "allocstall"];
    let rows = by_half(judged).map(|judged| {
        let values = shown
            .iter()
            .map(|row| judged.row(row).map_or("-".to_owned(), |(kernel, engine)| kernel_and_engine(kernel, engine)));
        [judged.cell.half().to_string(), judged.cell.name()].into_iter().chain(values).collect()
    });
    let head = ["half", "cell", "taken", "drained", "free pages", "failures", "huge pages", "direct reclaims"];
    NamedTable::new("cells", head, rows)
}

/// Formats the kernel's value, and the engine's error beside the kernel's spread.
fn kernel_and_engine(kernel: &Sample, engine: &Sample) -> String {
    let error = change(relative_change(kernel.mean, engine.mean));
    let spread = kernel.spread().map_or_else(String::new, |spread| format!(" ({})", percent(spread)));
    format!("{}: {error}{spread}", quantity(Some(Quantity::from_mean(kernel.mean))))
}

/// Returns the table of failed requests in common, for the cells in which requests failed in the kernel.
pub(crate) fn failures(judged: &[CellResult]) -> NamedTable {
    let rows = by_half(judged).filter_map(|judged| {
        let failures = &judged.runs.as_ref().ok()?.failures;
        let refused = failures.of_kernel();
        let by = [failures.by_task(), failures.by_tenth()];
        let shares = by
            .map(|common| [common.with_engine, common.between_runs].map(|share| share.map_or("-".to_owned(), percent)));
        let cell = vec![judged.cell.half().to_string(), judged.cell.name(), refused.to_string()];
        (refused > 0).then(|| [cell, shares.concat()].concat())
    });
    let head = [
        "half",
        "cell",
        "failed in all runs",
        "by task: engine and kernel",
        "by task: two runs of the kernel",
        "by tenth: engine and kernel",
        "by tenth: two runs of the kernel",
    ];
    NamedTable::new("failures", head, rows)
}

/// Returns the table of first differences between the kernel's and the engine's decisions about compaction, over all
/// runs of all cells, the most frequent ones first.
pub(crate) fn decisions(judged: &[CellResult]) -> NamedTable {
    let mut all = Decisions::default();
    judged.iter().filter_map(|judged| judged.runs.as_ref().ok()).for_each(|runs| all.add(&runs.decisions));
    NamedTable::new("decisions", ["recorded kernel", "engine", "requests"], all.rows())
}
