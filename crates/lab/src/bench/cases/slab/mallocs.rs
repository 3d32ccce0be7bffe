//! Everybody's malloc in every loop and size, and whether ours keeps what was promised of it.

use freehold_objects::Work;

use super::Findings;
use super::lists::{place, title};
use crate::bench::Settings;
use crate::bench::bar::Bar;
use crate::bench::contest::Contest;
use crate::bench::contest::duel::{Duel, DuelRecord, Sum};
use crate::bench::sheet::{Entry, Sheet, bars, tally};

/// The name of ours.
const OURS: &str = "freehold";
/// The largest size of which something was promised: larger ones are blocks of pages.
const BYTES_MAX: usize = 8192;
/// Most of the best one's time that ours may take, in the geometric mean.
const MEAN: Bar = Bar::RatioAtMost(0.9);
/// Most of the best one's time that ours may take in any figure.
const WORST: Bar = Bar::RatioAtMost(1.3);
/// The loops that were promised.
const WORKS: [Work; 3] = [Work::Fill, Work::Pair, Work::Remote];

/// The table of all mallocs, and what follows from it.
pub fn judge(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let Some(ours) = contest.place(OURS) else { return };
    let peers: Vec<usize> = (0..contest.names.len()).filter(|&player| player != ours).collect();
    if peers.is_empty() {
        return;
    }
    let table = Table { contest, settings, ours, peers };
    let cells = table.cells(findings);
    let conclusions = table.conclusions(&cells, findings);
    let columns =
        ["loop", "bytes", OURS].into_iter().chain(table.peers.iter().map(|&peer| contest.names[peer].as_str()));
    let columns = columns.chain(["best peer", "ours/best", "bar"]).map(str::to_owned);
    findings.sheets.push(Sheet {
        title: "Beside other people's mallocs".to_owned(),
        about: "Ticks an operation. The best peer is the one with the lowest figure in that row.".to_owned(),
        columns: columns.collect(),
        words: 1,
        rows: cells.iter().map(|cell| table.row(cell)).collect(),
        conclusions,
    });
}

/// Who is compared.
struct Table<'c> {
    contest: &'c Contest,
    settings: &'c Settings,
    ours: usize,
    peers: Vec<usize>,
}

/// A figure with its best peer.
struct Judged {
    at: usize,
    best: usize,
    duel: Duel,
}

impl Table<'_> {
    /// Every figure of the promised loops, by loop and size.
    fn cells(&self, findings: &mut Findings) -> Vec<Judged> {
        let mut cells: Vec<usize> = (0..self.contest.cells.len()).collect();
        cells.retain(|&at| WORKS.contains(&self.contest.cells[at].work));
        cells.sort_by_key(|&at| {
            let cell = self.contest.cells[at];
            (cell.work, cell.figure, cell.size)
        });
        let judged = |at: usize| {
            let best = self.best(&vec![at])?;
            let duel = self.contest.duel_in(best, self.ours, at, self.settings.margin)?;
            let duel = if self.is_promised(at) { duel.with_bar(WORST) } else { duel };
            findings.note(self.contest, best, self.ours, at, &duel);
            Some(Judged { at, best, duel })
        };
        cells.into_iter().filter_map(judged).collect()
    }

    fn is_promised(&self, at: usize) -> bool {
        self.contest.cells[at].size.bytes() <= BYTES_MAX
    }

    /// The peer that takes the fewest ticks for some figures together.
    fn best(&self, sum: &Sum) -> Option<usize> {
        let ticks = |peer: usize| sum.iter().map(|&at| self.contest.ticks(peer, at)).sum::<Option<f64>>();
        let known = self.peers.iter().filter_map(|&peer| Some((peer, ticks(peer)?)));
        known.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(peer, _)| peer)
    }

    fn row(&self, judged: &Judged) -> Vec<Entry> {
        let mut row = place(self.contest.cells[judged.at]);
        let players = std::iter::once(&self.ours).chain(&self.peers);
        row.extend(players.map(|&player| Entry::ticks(self.contest.ticks(player, judged.at))));
        row.extend([
            Entry::plain(&self.contest.names[judged.best]),
            Entry::duel(Some(&judged.duel)),
            Entry::bar(Some(&judged.duel)),
        ]);
        row
    }

    /// The promised loops at every promised size, each with its figures added up.
    fn loops(&self) -> Vec<Sum> {
        let mut sums: Vec<(Work, usize, Sum)> = Vec::new();
        for (at, cell) in self.contest.cells.iter().enumerate() {
            if !WORKS.contains(&cell.work) || !self.is_promised(at) {
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

    /// Means, the worst figure, and pages.
    fn conclusions(&self, cells: &[Judged], findings: &mut Findings) -> Vec<String> {
        let loops = self.loops();
        let mut sentences = self.means(&loops, findings);
        let promised: Vec<&Judged> = cells.iter().filter(|judged| self.is_promised(judged.at)).collect();
        let worst = promised.iter().max_by(|one, other| one.duel.estimate.ratio.total_cmp(&other.duel.estimate.ratio));
        sentences.extend(worst.map(|judged| format!("The worst figure is {}.", self.figure_text(judged))));
        let duels: Vec<Duel> = promised.iter().map(|judged| judged.duel).collect();
        sentences.push(format!(
            "Against the best peer of each figure, ours is {}; the bar of each figure is {}.",
            tally(&duels),
            bars(&duels)
        ));
        let pages: Vec<String> =
            cells.iter().filter(|judged| !self.is_promised(judged.at)).map(|judged| self.figure_text(judged)).collect();
        if !pages.is_empty() {
            sentences.push(format!("Of blocks of pages nothing was promised: {}.", pages.join("; ")));
        }
        sentences
    }

    fn figure_text(&self, judged: &Judged) -> String {
        let cell = self.contest.cells[judged.at];
        format!(
            "`{}` at {} bytes, {} times {}",
            title(cell),
            cell.size,
            judged.duel.ratio_text(),
            self.contest.names[judged.best]
        )
    }

    /// The geometric means: against the best peer overall, against the best of each loop and size, and each peer's.
    fn means(&self, loops: &[Sum], findings: &mut Findings) -> Vec<String> {
        let margin = self.settings.margin;
        let against = |peer: usize| {
            let duel = self.contest.duel(|_| peer, |_| self.ours, loops, margin)?;
            Some((peer, duel.with_bar(MEAN)))
        };
        let mut duels: Vec<(usize, Duel)> = self.peers.iter().filter_map(|&peer| against(peer)).collect();
        duels.sort_by(|(_, one), (_, other)| one.a_ticks.total_cmp(&other.a_ticks));
        let record = |a: &str, duel| DuelRecord {
            a: a.to_owned(),
            b: OURS.to_owned(),
            work: "all",
            figure: "geometric mean",
            bytes: None,
            duel,
        };
        findings.duels.extend(duels.iter().map(|(peer, duel)| record(&self.contest.names[*peer], *duel)));
        let scope = format!("the geometric mean over {} loops and sizes up to {BYTES_MAX} bytes", loops.len());
        let mut sentences = Vec::new();
        if let Some((peer, duel)) = duels.first() {
            let (name, ratio, bar) = (&self.contest.names[*peer], duel.ratio_text(), duel.bar_text());
            sentences
                .push(format!("In {scope}, {name} is the best peer, and ours takes {ratio} times as long ({bar})."));
        }
        let of_each = |sum: &Sum| self.best(sum).unwrap_or(self.ours);
        if let Some(duel) = self.contest.duel(of_each, |_| self.ours, loops, margin).map(|duel| duel.with_bar(MEAN)) {
            findings.duels.push(record("the best of each", duel));
            let (ratio, bar) = (duel.ratio_text(), duel.bar_text());
            sentences.push(format!(
                "Against the best peer of each loop and size, ours takes {ratio} times as long ({bar})."
            ));
        }
        let each = duels.iter().map(|(peer, duel)| format!("{} {}", self.contest.names[*peer], duel.ratio_text()));
        sentences.push(format!("Ours over each peer, in that mean: {}.", each.collect::<Vec<_>>().join("; ")));
        sentences
    }
}
