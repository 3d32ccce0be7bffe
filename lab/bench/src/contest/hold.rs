//! Runs of a contest, in each of which all contestants are open at once.

use std::time::Instant;

use fastrand::Rng;
use freehold_object_loops::Ticks;
use freehold_report::progress::Progress;

use super::event::{Contestant, Event, figures};
use super::times::Contest;
use crate::decide;
use crate::error::Error;
use crate::session::{WEIGHT, used_up};
use crate::settings::Settings;

/// Maximum runs of a contest, even if comparisons may have more.
const RUNS_MAX: usize = 40;
/// Time limit of a contest, as a multiple of that of a comparison.
const COMPARISONS: f64 = 10.0;

/// Runs a contest.
///
/// # Errors
/// When a contestant cannot be built, or cannot do an event.
pub(crate) fn hold(
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
    while runs.len() < runs_max && (runs.len() < decide::RUNS_MIN || start.elapsed().as_secs_f64() < seconds) {
        runs.push(take_run(contestants, events, &mut rng)?);
        part.reach(used_up(runs.len(), runs_max, start, seconds));
    }
    let names = contestants.iter().map(|contestant| contestant.name().to_owned()).collect();
    Ok(Contest { names, cells: figures(events), runs, seed: settings.seed })
}

/// Returns the maximum runs and seconds of a contest, given those of a comparison.
pub(crate) fn limits(runs_max: usize, seconds_max: f64) -> (usize, f64) {
    (runs_max.min(RUNS_MAX), seconds_max * COMPARISONS)
}

/// Takes one run and returns the ticks per operation, by contestant and cell.
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
    Ok(times.iter().map(|times| join_figures(times, events)).collect())
}

/// Joins the times of one contestant, event by event. Times of events in which it took no part are `None`.
fn join_figures(times: &[Vec<f64>], events: &[Event]) -> Vec<Option<f64>> {
    let mut joined = Vec::new();
    for (known, event) in times.iter().zip(events) {
        joined.extend((0..event.work.figures().len()).map(|figure| known.get(figure).copied()));
    }
    joined
}

/// Function that lets the contestant with a given index do an event.
type PlayAny<'p> = dyn FnMut(usize, Event) -> Result<Vec<Ticks>, Error> + 'p;

/// Opens contestants one inside the other, in this order, and calls `then` while all are open.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use freehold_object_loops::Work;

    use super::super::event::Then;
    use super::super::times::tests::SIZES;
    use super::*;

    /// Contestant that takes `ticks` ticks per operation and byte, and logs when it is opened and closed.
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
    fn contestants_run_each_supported_event() {
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
            figures(&events).iter().map(|cell| cell.name()).collect::<Vec<_>>(),
            ["pair", "pair", "alloc", "free", "alloc", "free"]
        );
    }
}
