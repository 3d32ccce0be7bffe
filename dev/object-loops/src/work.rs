//! The loops by name, and what they answer.

use crate::rounds::{Rounds, Size, Trouble};
use crate::{Objects, Touched, alone, remote};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Objects allocated, then freed in the order of allocation.
    Fill,
    /// The same by a caller that uses them: a byte of each is written, and later read.
    FillTouched,
    /// Objects freed as soon as they are allocated.
    Pair,
    /// Objects allocated here and freed on another CPU.
    Remote,
}

/// Ticks of so many operations, in the middle of the timed rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks.
    pub ticks: u64,
    /// Operations in them.
    pub operations: u64,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 4] = [Work::Fill, Work::FillTouched, Work::Pair, Work::Remote];

    /// Its name in requests and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Fill => "fill",
            Work::FillTouched => "fill-touched",
            Work::Pair => "pair",
            Work::Remote => "remote",
        }
    }

    /// The work of this name.
    pub fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }

    /// What its figures are, in the order of [`run`](Self::run).
    pub const fn figures(self) -> &'static [&'static str] {
        match self {
            Work::Fill | Work::FillTouched | Work::Remote => &["alloc", "free"],
            Work::Pair => &["pair"],
        }
    }

    /// Does it, with `count` objects a round, and says what each figure is: the median of the timed rounds. The second
    /// thread of [`Remote`](Self::Remote) begins with `settle`, which moves it to its CPU.
    ///
    /// # Errors
    /// When an allocation fails, or `settle` does; nothing is left allocated then.
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

/// The median of each figure, the lower one of two.
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
    fn the_end_of_memory_is_told_and_nothing_is_kept() {
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
    fn a_second_thread_that_is_nowhere_is_told_after_all_is_freed() {
        let fake = FakeAllocator::new();
        let trouble = run(Work::Remote, &fake, &|| Err("nowhere".to_owned())).unwrap_err();
        assert_eq!(trouble, Trouble::Settle("nowhere".to_owned()));
        assert_eq!(fake.close(), Ok(500 * 4));
    }

    #[test]
    fn medians_are_of_each_figure() {
        assert_eq!(medians(vec![[5, 1], [1, 2], [3, 3], [2, 4]]), [2, 2]);
        assert_eq!(medians(vec![[7]]), [7]);
    }

    #[test]
    fn work_is_found_by_its_name() {
        for work in Work::ALL {
            assert_eq!(Work::named(work.name()), Some(work));
        }
        assert_eq!(Work::named("bulk"), None);
    }
}
