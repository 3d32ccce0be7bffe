//! Times of all contestants in all runs of a contest.

use freehold_object_loops::Work;
use freehold_stats::intervals::median;
use serde::Serialize;

use super::event::Cell;

/// Time of a contestant in one figure, for the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Name of the contest.
    pub contest: &'static str,
    /// Name of the contestant.
    pub contestant: String,
    /// Name of the loop.
    #[serde(rename = "loop")]
    pub work: &'static str,
    /// Name of the figure.
    pub figure: &'static str,
    /// Size of an object in bytes.
    pub bytes: usize,
    /// Ticks per operation in the median run.
    pub ticks: f64,
}

/// Times of all contestants in all runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contest {
    /// Names of the contestants.
    pub names: Vec<String>,
    /// Timed figures.
    pub cells: Vec<Cell>,
    /// Ticks per operation, by run, contestant and cell; `None` where a contestant did not take part.
    pub runs: Vec<Vec<Vec<Option<f64>>>>,
    /// Seed of the bootstrap.
    pub(super) seed: u64,
}

impl Contest {
    /// Returns the index of a contestant.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Returns the indices of the cells of a figure of a loop, by size.
    pub(crate) fn cells_of(&self, work: Work, figure: usize) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(move |&at| self.cells[at].work == work && self.cells[at].figure == figure)
    }

    /// Returns the times of all contestants in all figures.
    pub(crate) fn standings(&self, contest: &'static str) -> impl Iterator<Item = Standing> {
        let players = 0..self.names.len();
        let each = players.flat_map(|player| (0..self.cells.len()).map(move |cell| (player, cell)));
        each.filter_map(move |(player, at)| {
            let cell = self.cells[at];
            Some(Standing {
                contest,
                contestant: self.names[player].clone(),
                work: cell.work.name(),
                figure: cell.name(),
                bytes: cell.size.bytes(),
                ticks: self.ticks(player, at)?,
            })
        })
    }

    /// Returns the ticks per operation in the median run.
    pub(crate) fn ticks(&self, player: usize, cell: usize) -> Option<f64> {
        let mut ticks: Vec<f64> = self.runs.iter().map(|run| run[player][cell]).collect::<Option<_>>()?;
        (!ticks.is_empty()).then(|| median(&mut ticks))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use freehold_object_loops::Size;

    use super::super::event::{Event, figures};
    use super::*;

    pub(crate) const SIZES: [Size; 2] = [Size::new(8).unwrap(), Size::new(64).unwrap()];

    /// Builds a contest whose times follow a rule over the run, the contestant and the cell.
    pub(crate) fn planted(
        names: &[&str],
        works: &[Work],
        runs: usize,
        rule: fn(usize, usize, Cell) -> Option<f64>,
    ) -> Contest {
        let mut events = Vec::new();
        for &work in works {
            events.extend(SIZES.map(|size| Event { work, size, objects: 10, rounds: 1 }));
        }
        let cells = figures(&events);
        let mut times = Vec::new();
        for run in 0..runs {
            let players = 0..names.len();
            times.push(players.map(|player| cells.iter().map(|&cell| rule(run, player, cell)).collect()).collect());
        }
        Contest { names: names.iter().map(|&name| name.to_owned()).collect(), cells, runs: times, seed: 1 }
    }
}
