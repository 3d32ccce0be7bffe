//! Loops by name, and their results.

use crate::rounds::{Rounds, Size, Trouble};
use crate::{Objects, Touched, alone, remote};

/// Kind of loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Allocates objects, then frees them in the order of allocation.
    Fill,
    /// Like [`Fill`](Work::Fill), but the caller uses the objects: it writes a byte of each and later reads it.
    FillTouched,
    /// Frees each object as soon as it is allocated.
    Pair,
    /// Allocates objects on one CPU and frees them on another.
    Remote,
}

/// Ticks of a number of operations: the median of the timed rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Number of ticks.
    pub ticks: u64,
    /// Operations that took these ticks.
    pub operations: u64,
}

impl Work {
    /// All loops.
    pub const ALL: [Work; 4] = [Work::Fill, Work::FillTouched, Work::Pair, Work::Remote];

    /// Returns the name of the loop in requests and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Fill => "fill",
            Work::FillTouched => "fill-touched",
            Work::Pair => "pair",
            Work::Remote => "remote",
        }
    }

    /// Returns the loop of this name.
    pub fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }

    /// Returns the names of the loop's figures, in the order of [`run`](Self::run).
    pub const fn figures(self) -> &'static [&'static str] {
        match self {
            Work::Fill | Work::FillTouched | Work::Remote => &["alloc", "free"],
            Work::Pair => &["pair"],
        }
    }

    /// Runs the loop with `count` objects per round, and returns its figures: the median of each over the timed rounds.
    /// The second thread of [`Remote`](Self::Remote) calls `settle` first, which moves it to its CPU.
    ///
    /// # Errors
    /// Returns an error if an allocation or `settle` fails. No object is left allocated in this case.
    pub fn run(
        self,
        objects: &(impl Objects + ?Sized),
        size: Size,
        count: usize,
        rounds: Rounds,
        settle: &(dyn Fn() -> Result<(), String> + Sync),
    ) -> Result<Vec<Ticks>, Trouble> {
        let figures = match self {
            Work::Fill => medians(alone::fill(objects, size, count, rounds)?),
            Work::FillTouched => medians(alone::fill(&Touched(objects), size, count, rounds)?),
            Work::Pair => medians(alone::pair(objects, size, count, rounds)?),
            Work::Remote => medians(remote::remote(objects, size, count, rounds, settle)?),
        };
        Ok(figures.into_iter().map(|ticks| Ticks { ticks, operations: count as u64 }).collect())
    }
}

/// Returns the median of each figure, or the lower of the two middle values.
fn medians<const N: usize>(rounds: Vec<[u64; N]>) -> Vec<u64> {
    (0..N).map(|figure| median(rounds.iter().map(|round| round[figure]).collect())).collect()
}

fn median(mut ticks: Vec<u64>) -> u64 {
    ticks.sort_unstable();
    ticks[(ticks.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeAllocator;

    const ROUNDS: Rounds = Rounds { warm_up: 1, timed: 3 };
    const SIZE: Size = Size::new(48).unwrap();

    fn run(
        work: Work,
        fake: &FakeAllocator,
        settle: &(dyn Fn() -> Result<(), String> + Sync),
    ) -> Result<Vec<Ticks>, Trouble> {
        work.run(fake, SIZE, 500, ROUNDS, settle)
    }

    #[test]
    fn every_loop_frees_what_it_allocates() {
        for work in [Work::Fill, Work::Pair, Work::Remote] {
            let fake = FakeAllocator::new();
            let figures = run(work, &fake, &|| Ok(())).unwrap();
            assert_eq!(figures.len(), work.figures().len());
            assert!(figures.iter().all(|figure| figure.operations == 500), "{figures:?}");
            assert_eq!(fake.seen(), (vec![48], i32::from(work == Work::Remote)), "{work:?}");
            assert_eq!(fake.close(), Ok(500 * 4), "{work:?}");
        }
    }

    #[test]
    fn exhaustion_is_an_error_and_frees_everything() {
        for work in [Work::Fill, Work::Remote] {
            let fake = FakeAllocator::with_most(499);
            let trouble = run(work, &fake, &|| Ok(())).unwrap_err();
            assert_eq!(trouble, Trouble::Exhausted { after: 499, size: SIZE });
            assert_eq!(fake.close(), Ok(499));
        }
        let fake = FakeAllocator::with_most(0);
        assert_eq!(run(Work::Pair, &fake, &|| Ok(())).unwrap_err(), Trouble::Exhausted { after: 0, size: SIZE });
    }

    #[test]
    fn failed_second_thread_is_an_error_after_all_frees() {
        let fake = FakeAllocator::new();
        let trouble = run(Work::Remote, &fake, &|| Err("nowhere".to_owned())).unwrap_err();
        assert_eq!(trouble, Trouble::Settle("nowhere".to_owned()));
        assert_eq!(fake.close(), Ok(500 * 4));
    }

    #[test]
    fn medians_are_taken_per_figure() {
        assert_eq!(medians(vec![[5, 1], [1, 2], [3, 3], [2, 4]]), [2, 2]);
        assert_eq!(medians(vec![[7]]), [7]);
    }

    #[test]
    fn work_names_round_trip() {
        for work in Work::ALL {
            assert_eq!(Work::named(work.name()), Some(work));
        }
        assert_eq!(Work::named("bulk"), None);
    }
}
