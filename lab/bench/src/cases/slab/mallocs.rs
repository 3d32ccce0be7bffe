//! Results of the contest of mallocs: all mallocs in every loop and size, and the bars for Freehold's.

use freehold_object_loops::Work;
use freehold_report::report::{Table, Value};

use super::findings::Findings;
use super::lists::{place, title};
use crate::bar::Bar;
use crate::settings::Settings;

use crate::contest::{Contest, Duel, DuelRecord, Sum};
use crate::values::{self, bars, tally};

/// Name of Freehold's malloc.
const OURS: &str = "freehold";
/// Largest size in bytes for which a bar is set; larger blocks consist of whole pages.
const BYTES_MAX: usize = 8192;
/// Bar for Freehold's geometric mean against the best peer.
const MEAN: Bar = Bar::RatioAtMost(0.9);
/// Bar for Freehold's time in any figure against the best peer.
const WORST: Bar = Bar::RatioAtMost(1.3);
/// Loops for which bars are set.
const WORKS: [Work; 3] = [Work::Fill, Work::Pair, Work::Remote];

/// Adds the table of all mallocs and its conclusions.
pub(super) fn judge(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let Some(ours) = contest.place(OURS) else { return };
    let peers: Vec<usize> = (0..contest.names.len()).filter(|&player| player != ours).collect();
    if peers.is_empty() {
        return;
    }
    let beside = Beside { contest, settings, ours, peers };
    let cells = beside.cells(findings);
    let conclusions = beside.conclusions(&cells, findings);
    let columns =
        ["loop", "bytes", OURS].into_iter().chain(beside.peers.iter().map(|&peer| contest.names[peer].as_str()));
    findings.tables.push(Table {
        title: "Beside other people's mallocs".to_owned(),
        about: "Ticks an operation. The best peer is the one with the lowest figure in that row.".to_owned(),
        columns: values::columns(1, columns.chain(["best peer", "ours/best", "bar"])),
        rows: cells.iter().map(|cell| beside.row(cell)).collect(),
        conclusions,
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
            if self.is_promised(at) {
                duel = duel.with_bar(WORST);
            }
            findings.note(self.contest, best, self.ours, at, &duel);
            duels.push(FigureDuel { at, best, duel });
        }
        duels
    }

    fn is_promised(&self, at: usize) -> bool {
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

    /// Formats the means, the worst figure, and the figures without a bar.
    fn conclusions(&self, cells: &[FigureDuel], findings: &mut Findings) -> Vec<String> {
        let mut sentences = self.means(&self.loops(&WORKS), findings);
        let promised: Vec<&FigureDuel> = cells.iter().filter(|judged| self.is_promised(judged.at)).collect();
        let worst = promised.iter().max_by(|one, other| one.duel.estimate.ratio.total_cmp(&other.duel.estimate.ratio));
        sentences.extend(worst.map(|judged| format!("The worst figure is {}.", self.figure_text(judged))));
        let duels: Vec<Duel> = promised.iter().map(|judged| judged.duel).collect();
        sentences.push(format!(
            "Against the best peer of each figure, ours is {}; the bar of each figure is {}.",
            tally(&duels),
            bars(&duels)
        ));
        sentences.extend(self.touched());
        let pages = cells.iter().filter(|judged| self.is_of_pages(judged.at));
        let pages: Vec<String> = pages.map(|judged| self.figure_text(judged)).collect();
        if !pages.is_empty() {
            sentences.push(format!("Of blocks of pages nothing was promised: {}.", pages.join("; ")));
        }
        sentences
    }

    /// Formats the means of the loop without a bar.
    fn touched(&self) -> Option<String> {
        let loops = self.loops(&[Work::FillTouched]);
        let each = self.against_peers(&loops);
        let of_each = self.against_best(&loops)?.ratio_text();
        (!each.is_empty()).then(|| {
            format!(
                "Of objects that are touched nothing was promised: in the geometric mean over `fill-touched` at {} sizes, ours \
                 takes {of_each} times as long as the best peer of each; over each peer, {}.",
                loops.len(),
                self.names_and_ratios(&each)
            )
        })
    }

    fn figure_text(&self, judged: &FigureDuel) -> String {
        let cell = self.contest.cells[judged.at];
        format!(
            "`{}` at {} bytes, {} times {}",
            title(cell),
            cell.size,
            judged.duel.ratio_text(),
            self.contest.names[judged.best]
        )
    }

    /// Formats the geometric means: against the best peer overall, against the best peer of each loop and size, and
    /// against each peer.
    fn means(&self, loops: &[Sum], findings: &mut Findings) -> Vec<String> {
        let duels: Vec<(usize, Duel)> =
            self.against_peers(loops).into_iter().map(|(peer, duel)| (peer, duel.with_bar(MEAN))).collect();
        findings.duels.extend(duels.iter().map(|(peer, duel)| mean_record(&self.contest.names[*peer], *duel)));
        let scope = format!("the geometric mean over {} loops and sizes up to {BYTES_MAX} bytes", loops.len());
        let mut sentences = Vec::new();
        if let Some((peer, duel)) = duels.first() {
            let (name, ratio, bar) = (&self.contest.names[*peer], duel.ratio_text(), duel.bar_text());
            sentences
                .push(format!("In {scope}, {name} is the best peer, and ours takes {ratio} times as long ({bar})."));
        }
        if let Some(duel) = self.against_best(loops).map(|duel| duel.with_bar(MEAN)) {
            let (ratio, bar) = (duel.ratio_text(), duel.bar_text());
            sentences.push(format!(
                "Against the best peer of each loop and size, ours takes {ratio} times as long ({bar})."
            ));
            findings.duels.push(mean_record("the best of each", duel));
        }
        sentences.push(format!("Ours over each peer, in that mean: {}.", self.names_and_ratios(&duels)));
        sentences
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

    fn names_and_ratios(&self, duels: &[(usize, Duel)]) -> String {
        let each = duels.iter().map(|(peer, duel)| format!("{} {}", self.contest.names[*peer], duel.ratio_text()));
        each.collect::<Vec<_>>().join("; ")
    }
}

/// Returns the record of a duel over the geometric mean of all loops.
fn mean_record(a: &str, duel: Duel) -> DuelRecord {
    DuelRecord { a: a.to_owned(), b: OURS.to_owned(), work: "all", figure: "geometric mean", bytes: None, duel }
}
