//! The table published with the proposal: about sixty production hosts with 64 GB on each side, before and after the
//! change.
//!
//! JP Kobryn, 2026-05-19: <https://lkml.iu.edu/2605.2/06680.html>. These are the author's numbers. The simulation was
//! not tuned to them.

use freehold_sim::fleet::measures::{self, Measure};

/// Row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Corresponding measure of the simulation.
    pub(crate) measure: Measure,
    /// Name of the row.
    pub(crate) name: &'static str,
    /// Lower and upper bound before the change.
    pub(crate) before: (f64, f64),
    /// Lower and upper bound after the change.
    pub(crate) after: (f64, f64),
    /// Numbers as published.
    pub(crate) text: [&'static str; 2],
}

/// Rows of the table, in their order.
pub(crate) const ROWS: [Row; 5] = [
    Row {
        measure: measures::RESERVED_SHARE,
        name: "memory in HighAtomic pageblocks",
        before: (0.01, 0.01),
        after: (0.0, 0.0001),
        text: ["1 % (309-312 pageblocks a host)", "1 pageblock a host"],
    },
    Row {
        measure: measures::THP_SUCCESS,
        name: "THP success",
        before: (0.01, 0.06),
        after: (0.44, 0.78),
        text: ["1-6 %", "44-78 %"],
    },
    Row {
        measure: measures::COMPACTION_SUCCESS,
        name: "compaction success",
        before: (0.0, 0.02),
        after: (0.24, 0.47),
        text: ["0-2 %", "24-47 %"],
    },
    Row {
        measure: measures::KSWAPD_SCANNED,
        name: "pages scanned by kswapd, all hosts, a minute",
        before: (70.2e6, 70.2e6),
        after: (29.9e6, 29.9e6),
        text: ["70.2 M", "29.9 M"],
    },
    Row {
        measure: measures::ATOMIC_COSTLY,
        name: "atomic requests of order 4 and above",
        before: (0.0, 0.0),
        after: (0.0, 0.0),
        text: ["0", "0"],
    },
];
