//! Results of the contest of the slab's rivals: the author's table beside this measurement, arrays against lists, and
//! hardening.

use freehold_object_loops::{Size, Work};
use freehold_policies::NamedPolicy;
use freehold_report::report::{Column, Table, Value};

use super::findings::Findings;
use super::published::lameter;
use super::rivals::SlabRival;
use crate::bar::Bar;
use crate::bench::Request;
use crate::contest::{Cell, Contest, Duel, Sum};
use crate::settings::Settings;
use crate::values;

/// Bar for a pair of tagged lists against guarded ones, for sizes up to [`PAIRS_BYTES`].
const PAIR: Bar = Bar::RatioAtMost(0.75);
/// Largest size in bytes for which that bar is set.
const PAIRS_BYTES: usize = 2048;

/// Returns the bar of B against A in a cell.
fn bar(cell: Cell, settings: &Settings) -> Bar {
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
        title: "Tagged lists against two words".to_owned(),
        about: format!(
            "Ticks. A is `{}`, with and without its guard; tagged is `{}` with `slab=tagged`. The author's figures are \
             cycles before and after the change, on another machine.",
            request.a.name, b.name
        ),
        ..table
    });
    let sides = Sides { guarded: SlabRival::LinuxA, unguarded: None, tagged: SlabRival::LinuxTagged };
    let table = sides.table(contest, &request.settings, findings);
    findings.tables.push(Table {
        title: "Tagged lists against two words, Linux slab sizes".to_owned(),
        about: "Ticks. Both sides have as many objects in a slab as Linux, and keep as few free slabs.".to_owned(),
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
    /// Returns a table of the figures of the author's loops.
    fn table(&self, contest: &Contest, settings: &Settings, findings: &mut Findings) -> Table {
        let (mut rows, mut guarded, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &cell) in contest.cells.iter().enumerate().filter(|(_, cell)| cell.work != Work::FillTouched) {
            let (a, b) = (self.guarded as usize, self.tagged as usize);
            let duel = contest.duel_in(a, b, at, settings.margin).map(|duel| duel.with_bar(bar(cell, settings)));
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
        self.summarize(contest, &guarded, &plain, findings);
        self.add_means(contest, settings, findings);
        Table { columns: self.columns(), rows: rows.into_iter().map(|(_, row)| row).collect(), ..Table::default() }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec!["loop", "bytes", "author", "A"];
        columns.extend(self.unguarded.map(|_| "A, no guard"));
        columns.extend(["tagged", "tagged/A", "bar"]);
        columns.extend(self.unguarded.map(|_| "tagged/A, no guard"));
        values::columns(1, columns)
    }

    fn summarize(&self, contest: &Contest, guarded: &[Duel], plain: &[Duel], findings: &mut Findings) {
        let tagged = &contest.names[self.tagged as usize];
        findings.summarize(&contest.names[self.guarded as usize], tagged, guarded);
        if let Some(unguarded) = self.unguarded {
            findings.summarize(&contest.names[unguarded as usize], tagged, plain);
        }
    }

    /// Adds the geometric means over small pairs: against lists with their guard and, if they take part, without it.
    fn add_means(&self, contest: &Contest, settings: &Settings, findings: &mut Findings) {
        let pairs: Vec<Sum> = contest
            .cells_of(Work::Pair, 0)
            .filter(|&at| contest.cells[at].size.bytes() <= PAIRS_BYTES)
            .map(|at| vec![at])
            .collect();
        let scope = format!("pair up to {PAIRS_BYTES} bytes");
        let tagged = self.tagged as usize;
        for a in [self.guarded].into_iter().chain(self.unguarded).map(|rival| rival as usize) {
            if let Some(duel) = contest.duel(|_| a, |_| tagged, &pairs, settings.margin) {
                findings.add_mean(&scope, &contest.names[a], &contest.names[tagged], &duel);
            }
        }
    }
}

/// Adds tables of arrays and of bitmaps against lists: the ratio in every figure and size.
pub(super) fn rivals(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let same = "Objects of less than 64 bytes are on tagged lists on both sides.";
    let lists = "Slabs of objects of less than 64 bytes have lists.";
    let rivals = [
        (SlabRival::Sheaves, "Sheaves against tagged lists", ""),
        (SlabRival::Bitmap, "Bitmaps against tagged lists", same),
        (SlabRival::SheavesBitmap, "Sheaves and bitmaps against tagged lists", lists),
    ];
    for (rival, title, about) in rivals {
        let columns = columns(contest, SlabRival::Tagged, rival, settings, findings);
        findings.tables.push(Table { title: title.to_owned(), about: about.to_owned(), ..matrix(&columns) });
    }
}

/// Adds the table of the cost of hardening.
pub(super) fn hardening(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let columns = columns(contest, SlabRival::Tagged, SlabRival::Hardened, settings, findings);
    findings.tables.push(Table {
        title: "Hardening".to_owned(),
        about:
            "Ticks of hardened tagged lists divided by those of tagged lists. Hardened lists have links mangled by a \
                secret, a check for objects freed twice in a row, and new slabs in random order."
                .to_owned(),
        ..matrix(&columns)
    });
}

/// Duels of one figure at every size.
struct BySize {
    /// Cell of the figure at one of the sizes.
    cell: Cell,
    duels: Vec<(Size, Duel)>,
}

/// Compares B with A in every figure.
fn columns(contest: &Contest, a: SlabRival, b: SlabRival, settings: &Settings, findings: &mut Findings) -> Vec<BySize> {
    let mut columns: Vec<BySize> = Vec::new();
    let mut duels = Vec::new();
    for (at, &cell) in contest.cells.iter().enumerate() {
        let Some(duel) = contest.duel_in(a as usize, b as usize, at, settings.margin) else { continue };
        findings.note(contest, a as usize, b as usize, at, &duel);
        duels.push(duel);
        match columns.iter_mut().find(|column| (column.cell.work, column.cell.figure) == (cell.work, cell.figure)) {
            Some(column) => column.duels.push((cell.size, duel)),
            None => columns.push(BySize { cell, duels: vec![(cell.size, duel)] }),
        }
    }
    findings.summarize(&contest.names[a as usize], &contest.names[b as usize], &duels);
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
fn title(cell: Cell) -> String {
    match cell.work {
        Work::Pair => cell.name().to_owned(),
        work => format!("{}: {}", work.name(), cell.name()),
    }
}

/// Returns the first two columns of a row about a cell.
pub(super) fn place(cell: Cell) -> Vec<Value> {
    vec![Value::text(title(cell)), Value::text(cell.size)]
}
