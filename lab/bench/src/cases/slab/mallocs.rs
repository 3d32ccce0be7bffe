//! Results of the contest of mallocs: all mallocs in every loop and size, and the bars for Freehold's.

use freehold_object_loops::Work;
use freehold_report::report::{Table, Value};

use super::findings::Findings;
use super::lists::place;
use crate::bar::Bar;
use crate::settings::Settings;

use crate::contest::{Contest, Duel, DuelRecord, Sum};
use crate::values;

/// Name of Freehold's malloc.
const OURS: &str = "freehold";
/// Name of the best peer, which may be a different one in each loop and size.
const BEST_OF_EACH: &str = "the best of each";
/// Largest size in bytes for which a bar is set; larger blocks consist of whole pages.
const BYTES_MAX: usize = 8192;
/// Bar for Freehold's geometric mean against the best peer.
const MEAN: Bar = Bar::RatioAtMost(0.9);
/// Bar for Freehold's time in any figure against the best peer.
const WORST: Bar = Bar::RatioAtMost(1.3);
/// Loops for which bars are set.
const WORKS: [Work; 3] = [Work::Fill, Work::Pair, Work::Remote];

/// Adds the table of all mallocs, their means and their summary.
pub(super) fn judge(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let Some(ours) = contest.place(OURS) else { return };
    let peers: Vec<usize> = (0..contest.names.len()).filter(|&player| player != ours).collect();
    if peers.is_empty() {
        return;
    }
    let beside = Beside { contest, settings, ours, peers };
    let cells = beside.cells(findings);
    beside.summarize(&cells, findings);
    beside.add_means(&WORKS, Some(MEAN), findings);
    beside.add_means(&[Work::FillTouched], None, findings);
    let columns =
        ["loop", "bytes", OURS].into_iter().chain(beside.peers.iter().map(|&peer| contest.names[peer].as_str()));
    findings.tables.push(Table {
        title: "Mallocs".to_owned(),
        about: "Ticks of an operation. The best peer has the lowest figure of the row.".to_owned(),
        columns: values::columns(1, columns.chain(["best peer", "freehold/best", "bar"])),
        rows: cells.iter().map(|cell| beside.row(cell)).collect(),
        conclusions: Vec::new(),
    });
}

/// The contest, Freehold's malloc and its peers.
struct Beside<'c> {
    contest: &'c Contest,
    settings: &'c Settings,
    ours: usize,
    peers: Vec<usize>,
}

/// A figure with its best peer.
struct FigureDuel {
    at: usize,
    best: usize,
    duel: Duel,
}

impl Beside<'_> {
    /// Returns the duels of all figures, sorted by loop and size.
    fn cells(&self, findings: &mut Findings) -> Vec<FigureDuel> {
        let mut cells: Vec<usize> = (0..self.contest.cells.len()).collect();
        cells.sort_by_key(|&at| {
            let cell = self.contest.cells[at];
            (cell.work, cell.figure, cell.size)
        });
        let mut duels = Vec::with_capacity(cells.len());
        for at in cells {
            let Some(best) = self.best(&vec![at]) else { continue };
            let Some(mut duel) = self.contest.duel_in(best, self.ours, at, self.settings.margin) else { continue };
            if self.has_bar(at) {
                duel = duel.with_bar(WORST);
            }
            findings.note(self.contest, best, self.ours, at, &duel);
            duels.push(FigureDuel { at, best, duel });
        }
        duels
    }

    fn has_bar(&self, at: usize) -> bool {
        WORKS.contains(&self.contest.cells[at].work) && !self.is_of_pages(at)
    }

    fn is_of_pages(&self, at: usize) -> bool {
        self.contest.cells[at].size.bytes() > BYTES_MAX
    }

    /// Returns the peer that takes the fewest ticks for the sum of some figures.
    fn best(&self, sum: &Sum) -> Option<usize> {
        let known = self.peers.iter().filter_map(|&peer| {
            let ticks: Option<f64> = sum.iter().map(|&at| self.contest.ticks(peer, at)).sum();
            Some((peer, ticks?))
        });
        known.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(peer, _)| peer)
    }

    fn row(&self, judged: &FigureDuel) -> Vec<Value> {
        let mut row = place(self.contest.cells[judged.at]);
        let players = std::iter::once(&self.ours).chain(&self.peers);
        row.extend(players.map(|&player| values::ticks(self.contest.ticks(player, judged.at))));
        row.extend([
            Value::text(&self.contest.names[judged.best]),
            values::duel(Some(&judged.duel)),
            values::bar(Some(&judged.duel)),
        ]);
        row
    }

    /// Returns the loops at all sizes that do not consist of whole pages. Each is the sum of its figures.
    fn loops(&self, works: &[Work]) -> Vec<Sum> {
        let mut sums: Vec<(Work, usize, Sum)> = Vec::new();
        for (at, cell) in self.contest.cells.iter().enumerate() {
            if !works.contains(&cell.work) || self.is_of_pages(at) {
                continue;
            }
            let bytes = cell.size.bytes();
            match sums.iter_mut().find(|(work, known, _)| (*work, *known) == (cell.work, bytes)) {
                Some((.., sum)) => sum.push(at),
                None => sums.push((cell.work, bytes, vec![at])),
            }
        }
        sums.into_iter().map(|(.., sum)| sum).collect()
    }

    /// Adds the verdicts and bars of all figures to the summary.
    fn summarize(&self, cells: &[FigureDuel], findings: &mut Findings) {
        let [mut with_bar, mut without_bar] = [Vec::new(), Vec::new()];
        for cell in cells {
            if self.has_bar(cell.at) { with_bar.push(cell.duel) } else { without_bar.push(cell.duel) }
        }
        findings.summarize("best other malloc", OURS, &with_bar);
        findings.summarize("best other malloc, without a bar", OURS, &without_bar);
    }

    /// Adds the geometric means over these loops: against each peer, and against the best peer of each loop and size.
    fn add_means(&self, works: &[Work], bar: Option<Bar>, findings: &mut Findings) {
        let loops = self.loops(works);
        let peers = self.against_peers(&loops).into_iter();
        let mut duels: Vec<(&str, Duel)> =
            peers.map(|(peer, duel)| (self.contest.names[peer].as_str(), duel)).collect();
        duels.extend(self.against_best(&loops).map(|duel| (BEST_OF_EACH, duel)));
        let names: Vec<&str> = works.iter().map(|work| work.name()).collect();
        let scope = format!("{} up to {BYTES_MAX} bytes", names.join(", "));
        for (peer, duel) in duels {
            let duel = bar.map_or(duel, |bar| duel.with_bar(bar));
            findings.add_mean(&scope, peer, OURS, &duel);
            if bar.is_some() {
                findings.duels.push(mean_record(peer, duel));
            }
        }
    }

    /// Compares Freehold's malloc with each peer in a geometric mean, the fastest peer first.
    fn against_peers(&self, loops: &[Sum]) -> Vec<(usize, Duel)> {
        let known = self.peers.iter().filter_map(|&peer| {
            let duel = self.contest.duel(|_| peer, |_| self.ours, loops, self.settings.margin)?;
            Some((peer, duel))
        });
        let mut duels: Vec<(usize, Duel)> = known.collect();
        duels.sort_by(|(_, one), (_, other)| one.a_ticks.total_cmp(&other.a_ticks));
        duels
    }

    /// Compares Freehold's malloc with the best peer of each loop and size.
    fn against_best(&self, loops: &[Sum]) -> Option<Duel> {
        self.contest.duel(|sum| self.best(sum).unwrap_or(self.ours), |_| self.ours, loops, self.settings.margin)
    }
}

/// Returns the record of a duel over the geometric mean of all loops.
fn mean_record(a: &str, duel: Duel) -> DuelRecord {
    DuelRecord { a: a.to_owned(), b: OURS.to_owned(), work: "all", figure: "geometric mean", bytes: None, duel }
}
