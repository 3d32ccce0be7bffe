//! Results of the contest of the slab's rivals: the author's table beside this measurement, arrays against lists, and
//! hardening.

use freehold_object_loops::{Size, Work};
use freehold_policies::NamedPolicy;
use freehold_report::report::{Column, Table, Value};
use freehold_stats::verdict::Verdict;

use super::findings::Findings;
use super::published::lameter;
use super::rivals::SlabRival;
use crate::bar::Bar;
use crate::bench::Request;
use crate::contest::{Cell, Contest, Duel, Sum};
use crate::settings::Settings;
use crate::values::{self, bars, tally};

/// Bar for a pair of tagged lists against guarded ones, for sizes up to [`PAIRS_BYTES`].
const PAIR: Bar = Bar::RatioAtMost(0.75);
/// Largest size in bytes for which that bar is set.
const PAIRS_BYTES: usize = 2048;

/// Returns the bar of B against A in a cell.
fn promised(cell: Cell, settings: &Settings) -> Bar {
    match cell.work {
        Work::Pair if cell.size.bytes() <= PAIRS_BYTES => PAIR,
        // No loop may be slower by more than the margin.
        _ => Bar::RatioAtMost(1.0 + settings.margin.as_percent() / 100.0),
    }
}

/// Adds the author's table beside the measured times.
pub(super) fn author(contest: &Contest, request: &Request, b: &NamedPolicy, findings: &mut Findings) {
    let sides = Sides { guarded: SlabRival::A, unguarded: Some(SlabRival::Unguarded), tagged: SlabRival::Tagged };
    let table = sides.table(contest, &request.settings, findings);
    findings.tables.push(Table {
        title: "One word against two".to_owned(),
        about: format!(
            "A is `{}`, and A again without the guard that it pays; tagged is `{}` with `slab=tagged`. The author's \
             figures are cycles before and after the change, of another machine; all others are ticks.",
            request.a.name, b.name
        ),
        ..table
    });
    let sides = Sides { guarded: SlabRival::LinuxA, unguarded: None, tagged: SlabRival::LinuxTagged };
    let table = sides.table(contest, &request.settings, findings);
    findings.tables.push(Table {
        title: "The same with slabs of Linux's sizes".to_owned(),
        about:
            "A and tagged as above, but with as many objects in a slab as Linux would give it, and as few slabs kept: \
                slow paths weigh more, on both sides."
                .to_owned(),
        ..table
    });
}

/// Contestants that are compared for the author's change.
struct Sides {
    /// Lists of two words, with the guard that these need.
    guarded: SlabRival,
    /// Lists of two words without the guard.
    unguarded: Option<SlabRival>,
    /// Lists of one word.
    tagged: SlabRival,
}

impl Sides {
    /// Returns a table of all figures that the author could have measured, with its conclusions.
    fn table(&self, contest: &Contest, settings: &Settings, findings: &mut Findings) -> Table {
        let (mut rows, mut guarded, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &cell) in contest.cells.iter().enumerate().filter(|(_, cell)| cell.work != Work::FillTouched) {
            let (a, b) = (self.guarded as usize, self.tagged as usize);
            let duel = contest.duel_in(a, b, at, settings.margin).map(|duel| duel.with_bar(promised(cell, settings)));
            if let Some(duel) = &duel {
                findings.note(contest, a, b, at, duel);
            }
            let without = self.unguarded.map(|unguarded| {
                let duel = contest.duel_in(unguarded as usize, b, at, settings.margin)?;
                findings.note(contest, unguarded as usize, b, at, &duel);
                Some(duel)
            });
            let published = lameter(cell.work, cell.figure, cell.size);
            let mut row = place(cell);
            row.push(Value::Faint(
                published.map_or_else(String::new, |[before, after]| format!("{before} -> {after}")),
            ));
            let contestants = [self.guarded].into_iter().chain(self.unguarded).chain([self.tagged]);
            row.extend(contestants.map(|contestant| values::ticks(contest.ticks(contestant as usize, at))));
            row.extend([values::duel(duel.as_ref()), values::bar(duel.as_ref())]);
            row.extend(without.as_ref().map(|duel| values::duel(duel.as_ref())));
            rows.push((cell, row));
            guarded.extend(duel);
            plain.extend(without.flatten());
        }
        rows.sort_by_key(|(cell, _)| (cell.work, cell.figure, cell.size));
        let mut conclusions = vec![format!("Against A, tagged is {}; the bar is {}.", tally(&guarded), bars(&guarded))];
        if self.unguarded.is_some() {
            conclusions.push(format!("Against A without its guard, tagged is {}.", tally(&plain)));
        }
        conclusions.extend(self.pairs(contest, settings));
        Table {
            columns: self.columns(),
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            conclusions,
            ..Table::default()
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec!["loop", "bytes", "author", "A"];
        columns.extend(self.unguarded.map(|_| "A, no guard"));
        columns.extend(["tagged", "tagged/A", "bar"]);
        columns.extend(self.unguarded.map(|_| "tagged/A, no guard"));
        values::columns(1, columns)
    }

    /// Formats the gain of pairs in the geometric mean, and the part of it that is not due to the guard.
    fn pairs(&self, contest: &Contest, settings: &Settings) -> Option<String> {
        let pairs: Vec<Sum> = contest
            .cells_of(Work::Pair, 0)
            .filter(|&at| contest.cells[at].size.bytes() <= PAIRS_BYTES)
            .map(|at| vec![at])
            .collect();
        let (tagged, margin) = (self.tagged as usize, settings.margin);
        let all = contest.duel(|_| self.guarded as usize, |_| tagged, &pairs, margin)?.ratio_text();
        let unguarded = self.unguarded.and_then(|rival| contest.duel(|_| rival as usize, |_| tagged, &pairs, margin));
        let rest = unguarded.map_or_else(String::new, |duel| {
            format!(
                ", and {} times those of A without its guard: what this is below 1, is not the guard's",
                duel.ratio_text()
            )
        });
        Some(format!(
            "In the geometric mean over pairs of up to {PAIRS_BYTES} bytes, tagged takes {all} times the ticks of A{rest}."
        ))
    }
}

/// Adds tables of arrays and of bitmaps against lists: the ratio in every figure and size.
pub(super) fn rivals(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let small = " Small objects, of less than 64 bytes, are tagged lists under both.";
    let listed = " Slabs of small objects, of less than 64 bytes, keep lists.";
    let rivals = [
        (SlabRival::Sheaves, "Arrays (`sheaves`)", ""),
        (SlabRival::Bitmap, "Words beside slabs (`bitmap`)", small),
        (SlabRival::SheavesBitmap, "Arrays before such slabs (`sheaves-bitmap`)", listed),
    ];
    for (who, what, remark) in rivals {
        let columns = columns(contest, SlabRival::Tagged, who, settings, findings);
        findings.tables.push(Table {
            title: format!("{what} against lists (`tagged`)"),
            about: format!("Ticks over those of tagged lists: below 1 it wins.{remark}"),
            conclusions: columns.iter().map(BySize::sizes).collect(),
            ..matrix(&columns)
        });
    }
}

/// Adds the table of the cost of hardening.
pub(super) fn hardening(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let columns = columns(contest, SlabRival::Tagged, SlabRival::Hardened, settings, findings);
    let duels = columns.iter().flat_map(|column| &column.duels).map(|(_, duel)| duel);
    findings.tables.push(Table {
        title: "What hardening costs".to_owned(),
        about: "Ticks of tagged lists with links mangled by a secret, a check for objects freed twice in a row, and new slabs in \
                random order, over those without."
            .to_owned(),
        conclusions: vec![format!("Hardened, tagged is {}.", tally(duels))],
        ..matrix(&columns)
    });
}

/// Duels of one figure at every size.
struct BySize {
    /// Cell of the figure at one of the sizes.
    cell: Cell,
    duels: Vec<(Size, Duel)>,
}

impl BySize {
    /// Formats the verdicts with the sizes at which they apply.
    fn sizes(&self) -> String {
        let words = [
            (Verdict::Better, "wins at"),
            (Verdict::Worse, "loses at"),
            (Verdict::NoChange, "makes no difference at"),
            (Verdict::WithinNoise, "is within noise at"),
            (Verdict::NotJudged, "is not judged at"),
        ];
        let parts: Vec<String> = words
            .into_iter()
            .filter_map(|(verdict, words)| {
                let found = self.duels.iter().filter(|(_, duel)| duel.verdict == verdict);
                let sizes: Vec<Size> = found.map(|(size, _)| *size).collect();
                match sizes.len() {
                    0 => None,
                    all if all == self.duels.len() => Some(format!("{words} every size")),
                    _ => Some(format!("{words} {}", format_size_ranges(&sizes))),
                }
            })
            .collect();
        format!("In `{}` it {}.", title(self.cell), parts.join("; "))
    }
}

/// Formats sizes; neighbouring sizes of the table are joined into ranges: `8 to 64, 512`.
fn format_size_ranges(sizes: &[Size]) -> String {
    let runs = sizes.chunk_by(|one, next| 2 * one.bytes() == next.bytes());
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first} to {last}"),
        only => only.iter().map(Size::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Compares B with A in every figure.
fn columns(contest: &Contest, a: SlabRival, b: SlabRival, settings: &Settings, findings: &mut Findings) -> Vec<BySize> {
    let mut columns: Vec<BySize> = Vec::new();
    for (at, &cell) in contest.cells.iter().enumerate() {
        let Some(duel) = contest.duel_in(a as usize, b as usize, at, settings.margin) else { continue };
        findings.note(contest, a as usize, b as usize, at, &duel);
        match columns.iter_mut().find(|column| (column.cell.work, column.cell.figure) == (cell.work, cell.figure)) {
            Some(column) => column.duels.push((cell.size, duel)),
            None => columns.push(BySize { cell, duels: vec![(cell.size, duel)] }),
        }
    }
    columns
}

/// Returns a table with a row for each size and a column for each figure, holding the ratio and the verdict.
fn matrix(columns: &[BySize]) -> Table {
    let sizes = columns.first().map_or(&[][..], |column| &column.duels);
    let rows = sizes.iter().enumerate().map(|(at, (size, _))| {
        let ratios = columns.iter().map(|column| values::bare_ratio(&column.duels[at].1));
        std::iter::once(Value::text(size)).chain(ratios).collect()
    });
    let titles = columns.iter().map(|column| title(column.cell));
    Table {
        columns: values::columns(0, std::iter::once("bytes".to_owned()).chain(titles)),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// Formats the name of a figure with that of its loop.
pub(super) fn title(cell: Cell) -> String {
    match cell.work {
        Work::Pair => cell.name().to_owned(),
        work => format!("{}: {}", work.name(), cell.name()),
    }
}

/// Returns the first two columns of a row about a cell.
pub(super) fn place(cell: Cell) -> Vec<Value> {
    vec![Value::text(title(cell)), Value::text(cell.size)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_shortened() {
        let [a, b, c, d, e, ..] = Size::TABLE;
        assert_eq!(format_size_ranges(&[a, b, c, e]), "8 to 32, 128");
        assert_eq!(format_size_ranges(&[b, d]), "16, 64");
        assert_eq!(format_size_ranges(&[]), "");
    }
}
