//! Published changes of real kernels: compares kernels before and after each change with the engine on the same loads.
//!
//! Two kernels differ in more than one change. Therefore the engine replays the recordings of the first kernel twice:
//! under that kernel's rules, and under these rules with only the change added. It also replays the recordings of the
//! second kernel under the second kernel's rules, which shows how accurate the engine is for that kernel. Slabs are not
//! replayed, because a recording contains no objects. Instead, the kernel's figures about its caches are compared with
//! the engine's rules ([`sheaves`]).

mod sheaves;

use freehold_report::number::{Quantity, change, quantity};
use freehold_stats::samples::{Sample, any_nonzero};

use crate::Args;
use crate::cell::Cell;
use crate::error::Error;
use crate::judge::{self, AS_RECORDED, Runs, Way, judge, with_interval};
use crate::lab::{Load, Recordings};
use crate::suite::ROWS;
use crate::table::NamedTable;

/// CPUs and MiB of memory of all loads.
const SIZE: (u16, u32) = (2, 1024);

/// Published change, and the last kernel before it and the first one with it.
struct Change {
    /// Name of the table.
    name: &'static str,
    workload: &'static str,
    before: &'static str,
    after: &'static str,
    /// Policy with the rules of the first kernel and this change.
    alone: &'static str,
    /// Row that the change is about, and its name in the table. It is shown first, before the other [`ROWS`].
    row: (&'static str, &'static str),
}

/// Tables of a change.
struct Outcome {
    /// Row of the summary.
    line: Vec<String>,
    /// Table of the change, or the reason for which there is none.
    table: Result<NamedTable, String>,
}

const CHANGES: [Change; 4] = [
    Change {
        name: "flags",
        workload: "calm",
        before: "7.2",
        after: "7.3",
        alone: "linux-7.2,flags=plain",
        row: ("blocks_taken", "blocks taken"),
    },
    Change {
        name: "ranges",
        workload: "ranges",
        before: "6.12",
        after: "7.2",
        alone: "linux-6.12,contig=batched",
        row: ("range_pages_listed", "pages of ranges that came to a list"),
    },
    Change {
        name: "atomic",
        workload: "atomic",
        before: "6.12",
        after: "7.2",
        alone: "linux-6.12,highatomic=past-lists",
        row: ("blocks_from_reserve", "blocks taken from the reserve"),
    },
    Change {
        name: "reserve",
        workload: "atomic",
        before: "7.2",
        after: "7.3",
        alone: "linux-7.2,highatomic=reuse-first",
        row: ("blocks_from_reserve", "blocks taken from the reserve"),
    },
];

/// Returns a cell of these tables.
fn cell(workload: &'static str, kernel: &'static str) -> Cell {
    let (cpus, memory) = SIZE;
    Cell { kernel, workload, cpus, memory }
}

impl Change {
    fn loads(&self) -> [Load; 2] {
        [self.before, self.after].map(|kernel| Load::new(&cell(self.workload, kernel)))
    }

    fn measure(&self, recorded: &Recordings) -> Result<Outcome, Error> {
        let [before, after] = match recorded.find_pair(&self.loads()) {
            Ok(files) => files,
            Err(reason) => return Ok(Outcome { line: self.line(None), table: Err(reason) }),
        };
        let alone = Way { policy: Some(self.alone), ..AS_RECORDED };
        let [first, changed] = judge::replay(before, [AS_RECORDED, alone])?;
        let [second] = judge::replay(after, [AS_RECORDED])?;
        let lines: Vec<Line> = std::iter::once(&self.row)
            .chain(ROWS.iter().filter(|row| **row != self.row))
            .filter_map(|(row, name)| Line::new(row, name, &first, &changed, &second))
            .collect();
        let key = lines.iter().find(|line| line.name == self.row.1);
        Ok(Outcome { line: self.line(key.map(|line| line.cells(lines.len()))), table: Ok(self.table(&lines)) })
    }

    /// Formats a row of the summary from the cells of the change's main row.
    fn line(&self, cells: Option<Vec<String>>) -> Vec<String> {
        let kernels = format!("{} to {}", self.before, self.after);
        let mut line = vec![self.name.to_owned(), kernels, self.row.1.to_owned()];
        line.extend((1..7).map(|at| cells.as_ref().map_or("-".to_owned(), |cells| cells[at].clone())));
        line
    }

    fn table(&self, lines: &[Line]) -> NamedTable {
        let head = [
            "row".to_owned(),
            format!("Linux {}", self.before),
            format!("Linux {}", self.after),
            "Linux's change, and its interval".to_owned(),
            format!("engine as {}", self.before),
            "with the change alone".to_owned(),
            "engine's change".to_owned(),
            format!("engine as {}, on its recordings", self.after),
            "differs in Linux".to_owned(),
            "differs in the engine".to_owned(),
        ];
        NamedTable::new(self.name, head, lines.iter().map(|line| line.cells(lines.len())))
    }
}

/// Row of one change: the kernels before and after, and the engine on their recordings.
struct Line {
    row: &'static str,
    name: &'static str,
    kernels: [Sample; 2],
    /// Replays of the first kernel's recordings: under its rules, and with only the change added.
    engine: [Sample; 2],
    /// Replays of the second kernel's recordings under its rules.
    engine_after: Sample,
}

impl Line {
    /// Creates a line, or returns `None` if a side lacks the row or all values are zero.
    fn new(row: &'static str, name: &'static str, first: &Runs, changed: &Runs, second: &Runs) -> Option<Line> {
        let (kernel, engine) = first.row(row)?;
        let (kernel_after, engine_after) = second.row(row)?;
        let (_, engine_changed) = changed.row(row)?;
        let line = Line {
            row,
            name,
            kernels: [kernel, kernel_after].map(Sample::clone),
            engine: [engine, engine_changed].map(Sample::clone),
            engine_after: engine_after.clone(),
        };
        let is_of_any = [&line.kernels, &line.engine].into_iter().any(|[a, b]| any_nonzero(a, b));
        is_of_any.then_some(line)
    }

    fn cells(&self, family: usize) -> Vec<String> {
        let of_kernels = judge(self.row, &self.kernels[0], &self.kernels[1], family);
        let of_engine = judge(self.row, &self.engine[0], &self.engine[1], family);
        vec![
            self.name.to_owned(),
            with_spread(&self.kernels[0]),
            with_spread(&self.kernels[1]),
            with_interval(&of_kernels),
            with_spread(&self.engine[0]),
            with_spread(&self.engine[1]),
            change(of_engine.change),
            with_spread(&self.engine_after),
            yes_or_no(of_kernels.differs()),
            yes_or_no(self.engine[0].values != self.engine[1].values),
        ]
    }
}

fn yes_or_no(is: bool) -> String {
    (if is { "yes" } else { "no" }).to_owned()
}

/// Formats a mean and the standard deviation of its runs.
fn with_spread(group: &Sample) -> String {
    let [mean, deviation] = [group.mean, group.deviation].map(|value| quantity(Some(Quantity::from_mean(value))));
    format!("{mean} ± {deviation}")
}

/// Returns all loads that the tables need.
pub(crate) fn loads() -> impl Iterator<Item = Load> {
    CHANGES.iter().flat_map(Change::loads).chain(sheaves::loads())
}

/// Returns the summary, a table for each change, and the tables about sheaves.
///
/// # Errors
/// Returns an error if a recording cannot be read or replayed.
pub(crate) fn tables(args: &Args, recorded: &Recordings) -> Result<Vec<NamedTable>, Error> {
    let (mut lines, mut tables, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for change in &CHANGES {
        let Outcome { line, table } = change.measure(recorded)?;
        lines.push(line);
        match table {
            Ok(table) => tables.push(table),
            Err(reason) => failed.push((change.name.to_owned(), reason)),
        }
    }
    match sheaves::tables(recorded)? {
        Ok(sheaves) => tables.extend(sheaves),
        Err(reason) => failed.push(("sheaves".to_owned(), reason)),
    }
    let head = [
        "change",
        "Linux",
        "row",
        "Linux before",
        "Linux after",
        "Linux's change, and its interval",
        "engine before",
        "with the change alone",
        "engine's change",
    ];
    tables.insert(0, NamedTable::new("summary", head, lines));
    tables.push(NamedTable::failures(failed));
    tables.push(NamedTable::recipe(&format!(
        "cargo xtask oracle --changes --runs {} --out docs/findings/data/kernels",
        args.runs
    )));
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_between_kernels_that_support_the_load() {
        for change in &CHANGES {
            assert!(change.loads().iter().all(|load| load.cell.is_possible()), "{}", change.name);
            let alone = freehold_policies::parse(change.alone).unwrap();
            let before = freehold_policies::parse(&format!("linux-{}", change.before)).unwrap();
            assert_ne!(alone.policy, before.policy, "{}", change.name);
        }
    }

    fn sample_around(value: f64) -> Sample {
        Sample::new(vec![value, value + 1.0, value - 1.0])
    }

    fn line(kernels: [f64; 2], engine: [f64; 2]) -> Line {
        Line {
            row: "blocks_taken",
            name: "a row",
            kernels: kernels.map(sample_around),
            engine: engine.map(sample_around),
            engine_after: sample_around(engine[1]),
        }
    }

    #[test]
    fn rows_that_differ_are_marked() {
        let cells = [line([1e4, 2e4], [1e4, 1e4]), line([1e4, 1e4], [1e4, 2e4])].map(|line| line.cells(2));
        assert_eq!(cells.map(|cells| cells[8..].join(" ")), ["yes no", "no yes"]);
    }
}
