//! The little statistics that verdicts need. Medians throughout, because timings have long tails and the middle does
//! not care about them.

use fastrand::Rng;

/// Resamples of a bootstrap: its ends then stand on ten or more of them at the highest confidence there is, that of the
/// 14 looks of 100,000 runs.
const RESAMPLES: usize = 6000;

/// The middle value, or the mean of the two middle ones. Reorders the values.
///
/// # Panics
/// If there are none.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the value below which `share` of the values are, interpolated between neighbours. Reorders the values.
///
/// # Panics
/// If there are none.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    let (_, &mut low, above) = values.select_nth_unstable_by(place as usize, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    low + (high - low) * place.fract()
}

/// An interval that holds the true median with at least this confidence: the wider of two at each end. The percentile
/// bootstrap alone is too narrow when values are few (6 to 7 % misses where 5 % were promised, at 10 values); the
/// interval of [`rank_interval`] keeps its promise for any distribution, but moves in steps of whole values.
pub fn median_interval(values: &[f64], confidence: f64, rng: &mut Rng) -> (f64, f64) {
    let (rank_low, rank_high) = rank_interval(values, confidence);
    let (draw_low, draw_high) = bootstrap_interval(values, median, confidence, rng);
    (rank_low.min(draw_low), rank_high.max(draw_high))
}

/// An interval of the sum of as many values as these, by the percentile bootstrap. Where few values make up most of the
/// sum, it is too narrow: a draw that is not among the values cannot be drawn again.
pub fn sum_interval(values: &[f64], confidence: f64, rng: &mut Rng) -> (f64, f64) {
    bootstrap_interval(values, |draw| draw.iter().sum(), confidence, rng)
}

/// The exact interval of the median: the true one lies below the k-th smallest value only if fewer than k values fell
/// below it, which has the chance of so few heads among as many tosses. Where even all values together do not span it,
/// they must do; so few are not judged ([`has_rank_interval`]).
pub fn rank_interval(values: &[f64], confidence: f64) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = values_outside(sorted.len(), (1.0 - confidence) / 2.0).max(1);
    (sorted[rank - 1], sorted[sorted.len() - rank])
}

/// Whether `values` are enough for [`rank_interval`] to keep its promise.
pub fn has_rank_interval(values: usize, confidence: f64) -> bool {
    values_outside(values, (1.0 - confidence) / 2.0) > 0
}

/// The largest k for which fewer than k heads in so many tosses have at most the chance `tail`. The terms are added as
/// logarithms: two to the power of thousands is no number otherwise.
fn values_outside(tosses: usize, tail: f64) -> usize {
    let mut log_term = -(tosses as f64) * std::f64::consts::LN_2;
    let mut chance = 0.0;
    (0..tosses)
        .take_while(|&heads| {
            chance += log_term.exp();
            log_term += ((tosses - heads) as f64 / (heads + 1) as f64).ln();
            chance <= tail
        })
        .count()
}

/// Ends of the percentile bootstrap interval of a statistic: what it is of many draws with replacement, without the
/// `1 - confidence` most extreme of them.
fn bootstrap_interval(
    values: &[f64],
    statistic: impl Fn(&mut [f64]) -> f64,
    confidence: f64,
    rng: &mut Rng,
) -> (f64, f64) {
    let mut draw = vec![0.0; values.len()];
    let resamples = (0..RESAMPLES).map(|_| {
        draw.fill_with(|| values[rng.usize(..values.len())]);
        statistic(&mut draw)
    });
    let mut results: Vec<f64> = resamples.collect();
    let tail = (1.0 - confidence) / 2.0;
    (quantile(&mut results, tail), quantile(&mut results, 1.0 - tail))
}

/// Returns the Mann-Kendall statistic of a trend over time, in standard deviations. Beyond 3 in size, chance
/// is a poor explanation. Cost: quadratic.
pub fn mann_kendall(values: &[f64]) -> f64 {
    let signs =
        later_pairs(values).map(|(_, earlier, later)| (later - earlier).partial_cmp(&0.0).map_or(0, |o| o as i64));
    let score = signs.sum::<i64>() as f64;
    let n = values.len() as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    if deviation > 0.0 { score / deviation } else { 0.0 }
}

/// Returns the change from the first value to the last by the Theil-Sen slope. Cost: quadratic.
pub fn theil_sen_change(values: &[f64]) -> f64 {
    let mut slopes: Vec<f64> =
        later_pairs(values).map(|(distance, earlier, later)| (later - earlier) / distance as f64).collect();
    if slopes.is_empty() { 0.0 } else { median(&mut slopes) * (values.len() - 1) as f64 }
}

/// Every two values with their distance in places.
fn later_pairs(values: &[f64]) -> impl Iterator<Item = (usize, f64, f64)> {
    let all = values.iter().enumerate();
    all.flat_map(move |(at, &earlier)| {
        values[at + 1..].iter().enumerate().map(move |(gap, &later)| (gap + 1, earlier, later))
    })
}

/// How many values lie far out: beyond three times the distance of the quartiles from the nearer of them (Tukey's outer
/// fences).
pub fn outliers(values: &[f64]) -> usize {
    let mut sorted = values.to_vec();
    let (low, high) = (quantile(&mut sorted, 0.25), quantile(&mut sorted, 0.75));
    let reach = 3.0 * (high - low);
    values.iter().filter(|&&value| value < low - reach || value > high + reach).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut [7.0]), 7.0);
        // The usual example of R's type 7.
        assert_eq!(quantile(&mut [1.0, 2.0, 3.0, 4.0, 5.0], 0.25), 2.0);
        assert_eq!(quantile(&mut [1.0, 2.0, 3.0, 4.0], 0.25), 1.75);
        assert_eq!(quantile(&mut [1.0, 2.0, 3.0, 4.0], 1.0), 4.0);
    }

    /// The bootstrap distribution of a median is known: the chance that it is at most the k-th of n values is that of
    /// at least (n + 1) / 2 hits in n tries at k/n. For n = 11 that is 0.0002 for k = 1, 0.007 for k = 2, 0.051 for k =
    /// 3.
    #[test]
    fn the_bootstrap_interval_is_that_of_theory() {
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        assert_eq!(bootstrap_interval(&values, median, 0.95, &mut Rng::with_seed(1)), (3.0, 9.0));
        assert_eq!(bootstrap_interval(&values, median, 0.998, &mut Rng::with_seed(1)), (2.0, 10.0));
    }

    /// Of sixty-four values that are 0 or 1, half of each, a sum has the deviation 4: nineteen in twenty lie within 8.
    #[test]
    fn the_interval_of_a_sum_is_that_of_theory() {
        let values: Vec<f64> = (0..64).map(|at| f64::from(at % 2)).collect();
        assert_eq!(sum_interval(&values, 0.95, &mut Rng::with_seed(1)), (24.0, 40.0));
        assert_eq!(sum_interval(&[3.0; 10], 0.95, &mut Rng::with_seed(1)), (30.0, 30.0));
    }

    /// The ranks of the tables of the sign test: 2 of 10 (2.1 % misses), 6 of 20 (4.1 %), 14 of 40 (3.8 %).
    #[test]
    fn few_values_have_no_interval_by_rank() {
        let confidence = 1.0 - 0.05 / 11.0;
        assert_eq!(
            [0, 1, 8, 9, 20].map(|values| has_rank_interval(values, confidence)),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn the_interval_by_rank_is_that_of_the_tables() {
        for (count, outside) in [(5, 0), (6, 1), (10, 2), (20, 6), (40, 14), (100, 40), (2000, 956)] {
            assert_eq!(values_outside(count, 0.025), outside, "of {count}");
        }
        let values = [5.0, 1.0, 4.0, 2.0, 3.0, 6.0];
        assert_eq!(rank_interval(&values, 0.95), (1.0, 6.0));
        assert_eq!(rank_interval(&values[..5], 0.95), (1.0, 5.0));
    }

    /// Many seeded samples of which the median is known to be 0, with normal noise and with long tails.
    #[test]
    fn the_interval_misses_no_more_often_than_it_says() {
        for draw in [normal, long_tailed] {
            for count in [10, 20, 40] {
                let missed = misses(draw, count, 10_000, |values, _| rank_interval(values, 0.95));
                assert!(missed <= 0.05, "{missed} at {count}");
            }
        }
    }

    /// Why the bootstrap does not stand alone, and that the wider of the two is what stands.
    #[test]
    fn the_bootstrap_of_few_values_misses_more_often_than_it_says() {
        let alone = misses(long_tailed, 10, 1000, |values, rng| bootstrap_interval(values, median, 0.95, rng));
        let both = misses(long_tailed, 10, 1000, |values, rng| median_interval(values, 0.95, rng));
        assert!(alone > 0.05 && both <= 0.05, "{alone}, {both}");
    }

    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    /// Student's distribution with two degrees of freedom.
    fn long_tailed(rng: &mut Rng) -> f64 {
        let at = 2.0 * rng.f64() - 1.0;
        at * (2.0 / (1.0 - at * at)).sqrt()
    }

    /// The share of samples whose interval does not hold 0.
    fn misses(
        draw: fn(&mut Rng) -> f64,
        count: usize,
        trials: u32,
        interval: impl Fn(&[f64], &mut Rng) -> (f64, f64),
    ) -> f64 {
        let mut rng = Rng::with_seed(1);
        let missed = (0..trials).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| draw(&mut rng)).collect();
            let (low, high) = interval(&values, &mut rng);
            low > 0.0 || high < 0.0
        });
        missed.count() as f64 / f64::from(trials)
    }

    /// Against the textbook formula: 1, 2, ..., 10 has the score 45, whose deviation is sqrt(10 * 9 * 25 / 18).
    #[test]
    fn a_trend_is_told_from_none() {
        let rising: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((mann_kendall(&rising) - 45.0 / 125_f64.sqrt()).abs() < 1e-12);
        assert_eq!(theil_sen_change(&rising), 9.0);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!((mann_kendall(&falling) + mann_kendall(&rising)).abs() < 1e-12);
        assert_eq!(mann_kendall(&[1.0, 3.0, 3.0, 1.0]), 0.0);
        assert_eq!((mann_kendall(&[1.0]), theil_sen_change(&[1.0])), (0.0, 0.0));
    }

    #[test]
    fn a_rise_resists_an_outlier() {
        let mut values: Vec<f64> = (0..21).map(|at| 0.1 * f64::from(at)).collect();
        values[20] = 1000.0;
        assert!((theil_sen_change(&values) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn outliers_are_those_beyond_the_outer_fences() {
        let mut values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(outliers(&values), 0);
        values.extend([-1000.0, 1000.0, 1001.0]);
        assert_eq!(outliers(&values), 3);
        assert_eq!(outliers(&[1.0; 8]), 0);
    }
}
