//! Published changes of real kernels: compares kernels before and after each change with the engine on the same loads.
//!
//! Two kernels differ in more than one change. Therefore the engine replays the recordings of the first kernel twice:
//! under that kernel's rules, and under these rules with only the change added. It also replays the recordings of the
//! second kernel under the second kernel's rules, which shows how accurate the engine is for that kernel. Slabs are not
//! replayed, because a recording contains no objects. Instead, the kernel's figures about its caches are compared with
//! the engine's rules ([`sheaves`]).

mod sheaves;

use freehold_report::markdown;
use freehold_report::number::{Quantity, change, quantity};
use freehold_stats::samples::{Sample, any_nonzero};

use crate::cell::Cell;
use crate::error::Error;
use crate::judge::{self, AS_RECORDED, Runs, Way, judge, with_interval};
use crate::lab::{Load, Recordings};
use crate::suite::ROWS;

/// CPUs and MiB of memory of all loads.
const SIZE: (u16, u32) = (2, 1024);

/// Published change, and the last kernel before it and the first one with it.
struct Change {
    heading: &'static str,
    about: &'static str,
    workload: &'static str,
    before: &'static str,
    after: &'static str,
    /// Policy with the rules of the first kernel and this change.
    alone: &'static str,
    /// Row that the change is about, and its name in the table. It is shown first, before the other [`ROWS`].
    row: (&'static str, &'static str),
}

/// Section of the page about a change.
struct Section {
    /// Row of the summary.
    line: Vec<String>,
    text: String,
}

const CHANGES: [Change; 4] = [
    Change {
        heading: "Flags are tested, not copied (7.3)",
        about: "GFP flags are converted to allocation flags by tests instead of copies of bits. The resulting flags \
                are the same, so the results of the allocator must not differ. `freehold bench flags` measures the \
                cost.",
        workload: "calm",
        before: "7.2",
        after: "7.3",
        alone: "linux-7.2,flags=plain",
        row: ("blocks_taken", "blocks taken"),
    },
    Change {
        heading: "Ranges are freed as blocks (7.2)",
        about: "Pages of a range, or of an area that was allocated in bulk, are freed as the largest blocks that fit, \
                instead of one by one. Single pages pass through per-CPU lists, from which they are allocated again or \
                drained. A block that is too large for a list is freed directly to the free lists. A recording shows a \
                page on a list only when the page is drained or allocated from the list, so the kernels' figures of \
                that row are lower bounds.",
        workload: "ranges",
        before: "6.12",
        after: "7.2",
        alone: "linux-6.12,contig=batched",
        row: ("range_pages_listed", "pages of ranges that came to a list"),
    },
    Change {
        heading: "Atomic requests skip lists and try the reserve first (7.2)",
        about: "Before the change, an atomic request above order 0 was served from a per-CPU list, which was refilled \
                for the request from any free list, and the request still reserved a pageblock. Since the change, the \
                request skips an empty list, tries the reserve first, and reserves a pageblock only if the block came \
                from an ordinary free list.",
        workload: "atomic",
        before: "6.12",
        after: "7.2",
        alone: "linux-6.12,highatomic=past-lists",
        row: ("blocks_from_reserve", "blocks taken from the reserve"),
    },
    Change {
        heading: "The reserve is used again above the low watermark (7.3)",
        about: "Atomic requests may use the reserve already at the low watermark, and not only below it.",
        workload: "atomic",
        before: "7.2",
        after: "7.3",
        alone: "linux-7.2,highatomic=reuse-first",
        row: ("blocks_from_reserve", "blocks taken from the reserve"),
    },
];

const IN_SHORT: &str = "## Summary\n\nThe table has one row for each change, in the order of the page. The kernels ran \
    the same load before and after the change. The engine replayed the recordings of the kernel before the change, \
    under that kernel's rules and with the change alone. Pages on the kernels' lists are known only from later events, \
    so these figures are lower bounds. Sheaves are at the end of the page.";

/// Returns a cell of this page.
fn cell(workload: &'static str, kernel: &'static str) -> Cell {
    let (cpus, memory) = SIZE;
    Cell { kernel, workload, cpus, memory }
}

impl Change {
    fn loads(&self) -> [Load; 2] {
        [self.before, self.after].map(|kernel| Load::new(&cell(self.workload, kernel)))
    }

    fn section(&self, recorded: &Recordings) -> Result<Section, Error> {
        let [before, after] = match recorded.find_pair(&self.loads()) {
            Ok(files) => files,
            Err(sentence) => return Ok(Section { line: self.line(None), text: self.text(&sentence) }),
        };
        let alone = Way { policy: Some(self.alone), ..AS_RECORDED };
        let [first, changed] = judge::replay(before, [AS_RECORDED, alone])?;
        let [second] = judge::replay(after, [AS_RECORDED])?;
        let lines: Vec<Line> = std::iter::once(&self.row)
            .chain(ROWS.iter().filter(|row| **row != self.row))
            .filter_map(|(row, name)| Line::new(row, name, &first, &changed, &second))
            .collect();
        let key = lines.iter().find(|line| line.name == self.row.1);
        Ok(Section {
            line: self.line(key.map(|line| line.cells(lines.len()))),
            text: self.text(&self.findings(&lines)),
        })
    }

    /// Formats a row of the summary from the cells of the change's main row.
    fn line(&self, cells: Option<Vec<String>>) -> Vec<String> {
        let kernels = format!("{} to {}", self.before, self.after);
        let mut line = vec![kernels, self.row.1.to_owned()];
        line.extend((1..7).map(|at| cells.as_ref().map_or("-".to_owned(), |cells| cells[at].clone())));
        line
    }

    fn text(&self, findings: &str) -> String {
        let Change { heading, about, workload, before, after, alone, .. } = self;
        let recipe = format!("`{}`; the engine: `{alone}`.", recipe([before, after], workload));
        format!("## {heading}\n\n{about}\n\n{recipe}\n\n{findings}")
    }

    fn findings(&self, lines: &[Line]) -> String {
        let family = lines.len();
        let head = [
            "row".to_owned(),
            format!("Linux {}", self.before),
            format!("Linux {}", self.after),
            "change of Linux, and its interval".to_owned(),
            format!("engine as {}", self.before),
            "with the change alone".to_owned(),
            "change of the engine".to_owned(),
            format!("engine as {}, on its recordings", self.after),
        ];
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let table = markdown::table(&head, lines.iter().map(|line| line.cells(family)));
        format!("{}\n\n{table}", in_short(lines))
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
        ]
    }

    fn differs(&self, family: usize) -> bool {
        judge(self.row, &self.kernels[0], &self.kernels[1], family).differs()
    }
}

/// Returns the command that compares two kernels on a load of this page.
fn recipe([before, after]: [&str; 2], workload: &str) -> String {
    let (cpus, memory) = SIZE;
    format!(
        "freehold diff --kernels {before} {after} --workload {workload} --cpus {cpus} --memory {memory}M --accel emulated"
    )
}

/// Formats a mean and the standard deviation of its runs.
fn with_spread(group: &Sample) -> String {
    let [mean, deviation] = [group.mean, group.deviation].map(|value| quantity(Some(Quantity::from_mean(value))));
    format!("{mean} ± {deviation}")
}

/// Formats a summary of the table.
fn in_short(lines: &[Line]) -> String {
    let family = lines.len();
    let kernels: Vec<&str> = lines.iter().filter(|line| line.differs(family)).map(|line| line.name).collect();
    let engine: Vec<&str> =
        lines.iter().filter(|line| line.engine[0].values != line.engine[1].values).map(|line| line.name).collect();
    format!(
        "Rows in which the kernels differ: {} of {family}{}. Rows in which the change alone alters the engine's results \
         on the same recordings: {} of {family}{}.",
        kernels.len(),
        format_names(&kernels),
        engine.len(),
        format_names(&engine)
    )
}

/// Formats the names of rows in brackets, if there are any.
fn format_names(rows: &[&str]) -> String {
    if rows.is_empty() { String::new() } else { format!(" ({})", rows.join(", ")) }
}

/// Returns all loads that the page needs.
pub(crate) fn loads() -> impl Iterator<Item = Load> {
    CHANGES.iter().flat_map(Change::loads).chain(sheaves::loads())
}

/// Returns the sections of the page: the summary, then one section for each change.
///
/// # Errors
/// Returns an error if a recording cannot be read or replayed.
pub(crate) fn sections(recorded: &Recordings) -> Result<Vec<String>, Error> {
    let sections = CHANGES.iter().map(|change| change.section(recorded)).collect::<Result<Vec<_>, _>>()?;
    let head = [
        "Linux",
        "row",
        "Linux before",
        "Linux after",
        "change of Linux, and its interval",
        "engine before",
        "with the change alone",
        "change of the engine",
    ];
    let summary = markdown::table(&head, sections.iter().map(|section| section.line.clone()));
    let texts = sections.into_iter().map(|section| section.text);
    Ok(std::iter::once(format!("{IN_SHORT}\n\n{summary}")).chain(texts).chain([sheaves::section(recorded)?]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_between_kernels_that_support_the_load() {
        for change in &CHANGES {
            assert!(change.loads().iter().all(|load| load.cell.is_possible()), "{}", change.heading);
            let alone = freehold_policies::parse(change.alone).unwrap();
            let before = freehold_policies::parse(&format!("linux-{}", change.before)).unwrap();
            assert_ne!(alone.policy, before.policy, "{}", change.heading);
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
    fn differing_rows_are_summarised() {
        let text = in_short(&[line([1e4, 2e4], [1e4, 1e4]), line([1e4, 1e4], [1e4, 2e4])]);
        assert!(text.starts_with("Rows in which the kernels differ: 1 of 2 (a row)."), "{text}");
        assert!(text.ends_with("on the same recordings: 1 of 2 (a row)."), "{text}");
    }
}
