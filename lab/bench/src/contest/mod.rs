//! A contest: many contestants at the same events, in turns.
//!
//! Where a [comparison](super::subject::Comparison) takes as many runs of two sides as its verdict needs, a contest
//! takes runs of everybody: tables of many allocators and sizes would never end otherwise, and any two of their columns
//! may be held against each other. In a run all contestants are built anew, in random order, and live at the same time;
//! the events come in random order, and in each event all contestants one after the other, in random order too. So a
//! disturbance hits neighbours, and the ratio of two contestants is taken within a run ([`duel`]).
//!
//! How many runs there are is settled beforehand, by number and by time, not by what comes out; so one look is taken.

pub mod duel;

use std::time::Instant;

use fastrand::Rng;
use freehold_object_loops::{Size, Ticks, Work};
use freehold_report::progress::Progress;
use freehold_stats::intervals::median;
use serde::Serialize;

use super::{Settings, decide};
use crate::error::Error;
use crate::session::{WEIGHT, used_up};

/// Most runs of a contest, whatever a comparison may have.
const RUNS_MAX: usize = 40;
/// What is read as time.
pub const CLOCK: &str = "the processor's time stamp counter";
/// A contest may take so many times as long as a comparison.
const COMPARISONS: f64 = 10.0;

/// What everybody does: a loop over objects of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The loop.
    pub work: Work,
    /// Bytes of an object.
    pub size: Size,
    /// Objects of a round.
    pub objects: usize,
    /// Rounds, of which the middle one counts.
    pub rounds: u32,
}

/// Does an event: a time for each figure of the loop.
pub type Play<'p> = dyn FnMut(Event) -> Result<Vec<Ticks>, Error> + 'p;

/// What is done while a contestant is open.
pub type Then<'t> = dyn FnMut(&mut Play<'_>) -> Result<(), Error> + 't;

/// Somebody who takes part.
pub trait Contestant {
    /// Its name in tables.
    fn name(&self) -> &str;

    /// Whether it takes part in events of this loop.
    fn does(&self, work: Work) -> bool;

    /// Builds what it needs, lets `then` play, and takes it apart.
    ///
    /// # Errors
    /// When it cannot be built, or `then` fails.
    fn open(&self, then: &mut Then<'_>) -> Result<(), Error>;
}

/// One figure of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The loop.
    pub work: Work,
    /// Its place among [`Work::figures`].
    pub figure: usize,
    /// Bytes of an object.
    pub size: Size,
}

impl Cell {
    /// The figure's name.
    pub fn name(self) -> &'static str {
        self.work.figures()[self.figure]
    }
}

/// A contestant's time in one figure, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The contest.
    pub contest: &'static str,
    /// The contestant.
    pub contestant: String,
    /// The loop.
    #[serde(rename = "loop")]
    pub work: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// Bytes of an object.
    pub bytes: usize,
    /// Ticks an operation in the median run.
    pub ticks: f64,
}

/// Times of everybody in every run.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// Who took part.
    pub names: Vec<String>,
    /// What was timed.
    pub cells: Vec<Cell>,
    /// Ticks an operation: by run, contestant and cell; nothing where one did not take part.
    pub runs: Vec<Vec<Vec<Option<f64>>>>,
    /// Seed of what chance decides.
    seed: u64,
}

/// Runs a contest.
///
/// # Errors
/// When a contestant cannot be built, or cannot do an event.
pub fn hold(
    name: &str,
    contestants: &[&dyn Contestant],
    events: &[Event],
    settings: &Settings,
) -> Result<Contest, Error> {
    let (runs_max, seconds) = limits(settings.runs_max, settings.time.as_secs_f64());
    let bar = Progress::weighing(name, WEIGHT);
    let part = bar.part(WEIGHT);
    let mut rng = Rng::with_seed(settings.seed);
    let start = Instant::now();
    let mut runs = Vec::new();
    let over = |runs: usize| runs >= decide::RUNS_MIN && start.elapsed().as_secs_f64() >= seconds;
    while runs.len() < runs_max && !over(runs.len()) {
        runs.push(take_run(contestants, events, &mut rng)?);
        part.reach(used_up(runs.len(), runs_max, start, seconds));
    }
    let names = contestants.iter().map(|contestant| contestant.name().to_owned()).collect();
    Ok(Contest { names, cells: cells(events), runs, seed: settings.seed })
}

/// Most runs and seconds of a contest, where a comparison has so many.
pub fn limits(runs_max: usize, seconds_max: f64) -> (usize, f64) {
    (runs_max.min(RUNS_MAX), seconds_max * COMPARISONS)
}

fn cells(events: &[Event]) -> Vec<Cell> {
    let of = |event: &Event| {
        let (work, size) = (event.work, event.size);
        (0..work.figures().len()).map(move |figure| Cell { work, figure, size })
    };
    events.iter().flat_map(of).collect()
}

/// Ticks an operation, by contestant and cell.
fn take_run(contestants: &[&dyn Contestant], events: &[Event], rng: &mut Rng) -> Result<Vec<Vec<Option<f64>>>, Error> {
    let mut times = vec![vec![Vec::new(); events.len()]; contestants.len()];
    let mut builders: Vec<usize> = (0..contestants.len()).collect();
    rng.shuffle(&mut builders);
    open_all(contestants, &builders, &mut |play| {
        let mut order: Vec<usize> = (0..events.len()).collect();
        rng.shuffle(&mut order);
        for event in order {
            let work = events[event].work;
            let mut players: Vec<usize> = (0..contestants.len()).filter(|&at| contestants[at].does(work)).collect();
            rng.shuffle(&mut players);
            for player in players {
                let figures = play(player, events[event])?;
                times[player][event] =
                    figures.iter().map(|ticks| ticks.ticks as f64 / ticks.operations as f64).collect();
            }
        }
        Ok(())
    })?;
    let figures = |of_event: &Vec<f64>, event: &Event| -> Vec<Option<f64>> {
        let known = (0..event.work.figures().len()).map(|figure| of_event.get(figure).copied());
        known.collect()
    };
    let of_player =
        |times: Vec<Vec<f64>>| times.iter().zip(events).flat_map(|(of, event)| figures(of, event)).collect();
    Ok(times.into_iter().map(of_player).collect())
}

/// Lets a contestant do an event, by its number.
type PlayAny<'p> = dyn FnMut(usize, Event) -> Result<Vec<Ticks>, Error> + 'p;

/// Opens contestants one inside the other, in this order, and does something while all are open.
fn open_all(
    contestants: &[&dyn Contestant],
    order: &[usize],
    then: &mut dyn FnMut(&mut PlayAny<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some((&first, rest)) = order.split_first() else {
        return then(&mut |player, _| unreachable!("contestant {player} is among those that were opened"));
    };
    contestants[first].open(&mut |play| {
        open_all(contestants, rest, &mut |others| {
            then(&mut |player, event| if player == first { play(event) } else { others(player, event) })
        })
    })
}

impl Contest {
    /// The place of a contestant.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Cells of a figure of a loop, by size.
    pub fn cells_of(&self, work: Work, figure: usize) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(move |&at| self.cells[at].work == work && self.cells[at].figure == figure)
    }

    /// Everybody's time in every figure.
    pub fn standings(&self, contest: &'static str) -> impl Iterator<Item = Standing> {
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

    /// Ticks an operation in the median run.
    pub fn ticks(&self, player: usize, cell: usize) -> Option<f64> {
        let mut ticks: Vec<f64> = self.runs.iter().map(|run| run[player][cell]).collect::<Option<_>>()?;
        (!ticks.is_empty()).then(|| median(&mut ticks))
    }
}

#[cfg(test)]
pub mod tests {
    use std::cell::RefCell;

    use super::*;

    pub const SIZES: [Size; 2] = [Size::new(8).unwrap(), Size::new(64).unwrap()];

    /// A contest whose times are known: each contestant's by a rule over the run and the cell.
    pub fn planted(
        names: &[&str],
        works: &[Work],
        runs: usize,
        rule: fn(usize, usize, Cell) -> Option<f64>,
    ) -> Contest {
        let event = |&work: &Work| SIZES.map(|size| Event { work, size, objects: 10, rounds: 1 });
        let cells = cells(&works.iter().flat_map(event).collect::<Vec<_>>());
        let run = |run| {
            let of = |player| cells.iter().map(|&cell| rule(run, player, cell)).collect();
            (0..names.len()).map(of).collect()
        };
        let runs = (0..runs).map(run).collect();
        Contest { names: names.iter().map(|&name| name.to_owned()).collect(), cells, runs, seed: 1 }
    }

    /// Takes so many ticks an operation, and notes when it is open.
    struct Steady<'l> {
        name: &'static str,
        ticks: u64,
        log: &'l RefCell<Vec<String>>,
    }

    impl Contestant for Steady<'_> {
        fn name(&self) -> &str {
            self.name
        }

        fn does(&self, work: Work) -> bool {
            work == Work::Pair || self.ticks < 5
        }

        fn open(&self, then: &mut Then<'_>) -> Result<(), Error> {
            self.log.borrow_mut().push(format!("+{}", self.name));
            let opened = then(&mut |event| {
                let ticks = Ticks { ticks: self.ticks * 10 * event.size.bytes() as u64, operations: 10 };
                Ok(vec![ticks; event.work.figures().len()])
            });
            self.log.borrow_mut().push(format!("-{}", self.name));
            opened
        }
    }

    #[test]
    fn everybody_does_every_event_that_they_do() {
        let log = RefCell::new(Vec::new());
        let (fast, slow) = (Steady { name: "fast", ticks: 3, log: &log }, Steady { name: "slow", ticks: 7, log: &log });
        let works = [Work::Pair, Work::Fill].into_iter();
        let events = works.flat_map(|work| SIZES.map(|size| Event { work, size, objects: 10, rounds: 1 }));
        let events: Vec<Event> = events.collect();
        let run = take_run(&[&fast, &slow], &events, &mut Rng::with_seed(3)).unwrap();
        assert_eq!(run[0], [24.0, 192.0, 24.0, 24.0, 192.0, 192.0].map(Some));
        assert_eq!(run[1], [Some(56.0), Some(448.0), None, None, None, None]);
        let log = log.into_inner();
        assert_eq!(log.len(), 4);
        assert!(log[0].starts_with('+') && log[1].starts_with('+') && log[3][1..] == log[0][1..], "{log:?}");
        assert_eq!(
            cells(&events).iter().map(|cell| cell.name()).collect::<Vec<_>>(),
            ["pair", "pair", "alloc", "free", "alloc", "free"]
        );
    }
}
