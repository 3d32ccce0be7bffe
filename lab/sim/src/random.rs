//! Random numbers in integer arithmetic, which gives the same results on every machine.
//!
//! Sizes and lifetimes of processes span orders of magnitude. [`LogUniform`] draws such numbers in two steps: first one
//! of the doublings between the bounds, all with equal probability, then a number within that doubling. Half of all
//! processes are then smaller than the geometric mean, and the few large processes hold most of the pages.

use serde::{Deserialize, Serialize};

/// Log-uniform distribution from `least` to `most`: every doubling is equally probable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogUniform {
    /// Lower bound, inclusive.
    pub least: u32,
    /// Upper bound, inclusive.
    pub most: u32,
}

impl LogUniform {
    /// Creates the distribution between two bounds.
    pub const fn new(least: u32, most: u32) -> LogUniform {
        LogUniform { least, most }
    }

    /// Draws a number. If `most` cuts off the last doubling, the numbers in that doubling are more frequent.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> u32 {
        let least = self.least.max(1);
        let most = self.most.max(least);
        let low = least << rng.u32(0..=(most / least).ilog2());
        let high = low.saturating_mul(2).saturating_sub(1).min(most);
        rng.u32(low..=high)
    }

    /// Returns an upper bound of the mean: the average of the largest numbers of all doublings.
    pub fn mean_at_most(&self) -> u64 {
        let least = self.least.max(1);
        let most = self.most.max(least);
        let doublings = (most / least).ilog2();
        let sum: u64 = (0..=doublings).map(|by| (u64::from(least) << (by + 1)).min(u64::from(most))).sum();
        sum / u64::from(doublings + 1)
    }
}

/// Returns whether an event of this probability, in percent, occurs.
pub(crate) fn occurs(rng: &mut fastrand::Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_uniform_draws_every_doubling_equally_often() {
        let mut rng = fastrand::Rng::with_seed(7);
        let spread = LogUniform::new(16, 1023);
        let mut doublings = [0; 6];
        for _ in 0..6000 {
            let number = spread.draw(&mut rng);
            assert!((16..=1023).contains(&number));
            doublings[(number / 16).ilog2() as usize] += 1;
        }
        assert!(doublings.iter().all(|&count| (850..1150).contains(&count)), "{doublings:?}");
    }

    #[test]
    fn log_uniform_of_a_single_number_is_constant() {
        let mut rng = fastrand::Rng::with_seed(1);
        assert!((0..100).all(|_| LogUniform::new(5, 5).draw(&mut rng) == 5));
        assert_eq!(LogUniform::new(5, 5).mean_at_most(), 5);
    }

    #[test]
    fn log_uniform_mean_is_below_its_bound() {
        let mut rng = fastrand::Rng::with_seed(3);
        let spread = LogUniform::new(10, 5000);
        let sum: u64 = (0..10_000).map(|_| u64::from(spread.draw(&mut rng))).sum();
        let bound = spread.mean_at_most();
        assert!((bound / 2..bound).contains(&(sum / 10_000)), "{} against {bound}", sum / 10_000);
    }

    #[test]
    fn occurs_matches_the_percentage() {
        let mut rng = fastrand::Rng::with_seed(2);
        let came = (0..10_000).filter(|_| occurs(&mut rng, 30)).count();
        assert!((2800..3200).contains(&came), "{came}");
        assert!(!occurs(&mut rng, 0) && occurs(&mut rng, 100));
    }
}
