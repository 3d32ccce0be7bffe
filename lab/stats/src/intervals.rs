//! Medians, confidence intervals, trends and outliers.
//!
//! Verdicts on timings use medians, because timings have long tails and a median is insensitive to them. The module has
//! no dependencies within the laboratory; random draws come from a generator that the caller seeds.

use fastrand::Rng;

/// Number of resamples of a bootstrap. At the highest confidence in use, that of the 14 interim looks of a comparison
/// with 100,000 runs, each end of the interval still rests on ten or more resamples.
const RESAMPLES: usize = 6000;

/// Returns the median: the middle value, or the mean of the two middle values. Reorders the values.
///
/// # Panics
/// If `values` is empty.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the quantile at `share`: the value below which that share of the values falls, interpolated between
/// neighbours. Reorders the values.
///
/// # Panics
/// If `values` is empty.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    let (_, &mut low, above) = values.select_nth_unstable_by(place as usize, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    low + (high - low) * place.fract()
}

/// Returns an interval that contains the true median with at least this confidence, if there are enough values for it
/// ([`has_rank_interval`]).
///
/// Two intervals are computed and the wider end is taken on each side. The percentile bootstrap alone is too narrow for
/// few values: at 10 values it misses 6 to 7 % of the time instead of 5 %. The interval of [`rank_interval`] has the
/// stated confidence for any distribution, but its ends move in steps of whole values.
///
/// # Panics
/// If `values` is empty.
pub fn median_interval(values: &[f64], confidence: f64, rng: &mut Rng) -> (f64, f64) {
    let (rank_low, rank_high) = rank_interval(values, confidence);
    let (draw_low, draw_high) = bootstrap_interval(values, median, confidence, rng);
    (rank_low.min(draw_low), rank_high.max(draw_high))
}

/// Returns an interval for the sum of this many values, by the percentile bootstrap. The interval is too narrow if a
/// few values make up most of the sum, because resampling cannot draw a large value that was never observed. Both ends
/// are zero if there is no value.
pub fn sum_interval(values: &[f64], confidence: f64, rng: &mut Rng) -> (f64, f64) {
    bootstrap_interval(values, |draw| draw.iter().sum(), confidence, rng)
}

/// Returns the exact interval of the median, whose ends are order statistics of the values.
///
/// The true median is below the k-th smallest value only if fewer than k values fell below the median. The probability
/// of that event is the probability of fewer than k heads in as many tosses of a fair coin. If there are too few values
/// for this confidence, the interval spans all values; [`has_rank_interval`] detects this case, and such values are not
/// judged.
///
/// # Panics
/// If `values` is empty.
pub fn rank_interval(values: &[f64], confidence: f64) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = values_outside(sorted.len(), (1.0 - confidence) / 2.0).max(1);
    (sorted[rank - 1], sorted[sorted.len() - rank])
}

/// Returns whether `values` values are enough for [`rank_interval`] to have the stated confidence.
pub fn has_rank_interval(values: usize, confidence: f64) -> bool {
    values_outside(values, (1.0 - confidence) / 2.0) > 0
}

/// Returns the largest k for which the probability of fewer than k heads in `tosses` tosses is at most `tail`. Each
/// term is computed from its logarithm, because two to the power of minus several thousand underflows a float.
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

/// Returns the percentile bootstrap interval of a statistic. The statistic is computed for many draws with replacement,
/// and the `1 - confidence` most extreme results are cut off, half of them at each end.
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

/// Returns the Mann-Kendall statistic of a trend over time, in standard deviations; zero for fewer than two values.
/// Chance is an unlikely explanation of an absolute value above 3. Cost: quadratic.
pub fn mann_kendall(values: &[f64]) -> f64 {
    let signs =
        later_pairs(values).map(|(_, earlier, later)| (later - earlier).partial_cmp(&0.0).map_or(0, |o| o as i64));
    let score = signs.sum::<i64>() as f64;
    let n = values.len() as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    if deviation > 0.0 { score / deviation } else { 0.0 }
}

/// Returns the change from the first value to the last by the Theil-Sen slope; zero for fewer than two values. Cost:
/// quadratic.
pub fn theil_sen_change(values: &[f64]) -> f64 {
    let mut slopes: Vec<f64> =
        later_pairs(values).map(|(distance, earlier, later)| (later - earlier) / distance as f64).collect();
    if slopes.is_empty() { 0.0 } else { median(&mut slopes) * (values.len() - 1) as f64 }
}

/// Returns every pair of values with the distance between their positions.
fn later_pairs(values: &[f64]) -> impl Iterator<Item = (usize, f64, f64)> {
    let all = values.iter().enumerate();
    all.flat_map(move |(at, &earlier)| {
        values[at + 1..].iter().enumerate().map(move |(gap, &later)| (gap + 1, earlier, later))
    })
}

/// Returns the number of far outliers: values more than three interquartile ranges below the lower quartile or above
/// the upper quartile (Tukey's outer fences).
///
/// # Panics
/// If `values` is empty.
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

    /// The bootstrap distribution of a median is known. The probability that it is at most the k-th of n values is that
    /// of at least (n + 1) / 2 hits in n tries with probability k/n. For n = 11, this is 0.0002 for k = 1, 0.007 for k
    /// = 2 and 0.051 for k = 3.
    #[test]
    fn bootstrap_interval_of_a_median_matches_theory() {
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        assert_eq!(bootstrap_interval(&values, median, 0.95, &mut Rng::with_seed(1)), (3.0, 9.0));
        assert_eq!(bootstrap_interval(&values, median, 0.998, &mut Rng::with_seed(1)), (2.0, 10.0));
    }

    /// The values are 0 and 1, 32 of each. The bootstrap sum has a standard deviation of 4, so 95 % of the sums are
    /// within 8 of the mean.
    #[test]
    fn sum_interval_matches_theory() {
        let values: Vec<f64> = (0..64).map(|at| f64::from(at % 2)).collect();
        assert_eq!(sum_interval(&values, 0.95, &mut Rng::with_seed(1)), (24.0, 40.0));
        assert_eq!(sum_interval(&[3.0; 10], 0.95, &mut Rng::with_seed(1)), (30.0, 30.0));
    }

    /// With 11 comparisons, the exact interval needs nine values.
    #[test]
    fn rank_interval_needs_enough_values() {
        let confidence = 1.0 - 0.05 / 11.0;
        assert_eq!(
            [0, 1, 8, 9, 20].map(|values| has_rank_interval(values, confidence)),
            [false, false, false, true, true]
        );
    }

    /// The ranks of the tables of the sign test: 2 of 10 values (2.1 % misses), 6 of 20 (4.1 %), 14 of 40 (3.8 %).
    #[test]
    fn rank_interval_matches_the_sign_test_tables() {
        for (count, outside) in [(5, 0), (6, 1), (10, 2), (20, 6), (40, 14), (100, 40), (2000, 956)] {
            assert_eq!(values_outside(count, 0.025), outside, "of {count}");
        }
        let values = [5.0, 1.0, 4.0, 2.0, 3.0, 6.0];
        assert_eq!(rank_interval(&values, 0.95), (1.0, 6.0));
        assert_eq!(rank_interval(&values[..5], 0.95), (1.0, 5.0));
    }

    /// Many seeded samples whose true median is 0, with normal noise and with long tails.
    #[test]
    fn rank_interval_miss_rate_is_as_stated() {
        for draw in [normal, long_tailed] {
            for count in [10, 20, 40] {
                let missed = misses(draw, count, 10_000, |values, _| rank_interval(values, 0.95));
                assert!(missed <= 0.05, "{missed} at {count}");
            }
        }
    }

    /// The bootstrap alone misses the true median too often; the wider of both intervals does not.
    #[test]
    fn bootstrap_of_few_values_misses_too_often() {
        let alone = misses(long_tailed, 10, 1000, |values, rng| bootstrap_interval(values, median, 0.95, rng));
        let both = misses(long_tailed, 10, 1000, |values, rng| median_interval(values, 0.95, rng));
        assert!(alone > 0.05 && both <= 0.05, "{alone}, {both}");
    }

    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    /// Draws from Student's distribution with two degrees of freedom.
    fn long_tailed(rng: &mut Rng) -> f64 {
        let at = 2.0 * rng.f64() - 1.0;
        at * (2.0 / (1.0 - at * at)).sqrt()
    }

    /// Returns the share of samples whose interval does not contain 0.
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

    /// Compares with the textbook formula: 1, 2, ..., 10 has the score 45, whose deviation is sqrt(10 * 9 * 25 / 18).
    #[test]
    fn trend_statistics_match_the_textbook() {
        let rising: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((mann_kendall(&rising) - 45.0 / 125_f64.sqrt()).abs() < 1e-12);
        assert_eq!(theil_sen_change(&rising), 9.0);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!((mann_kendall(&falling) + mann_kendall(&rising)).abs() < 1e-12);
        assert_eq!(mann_kendall(&[1.0, 3.0, 3.0, 1.0]), 0.0);
        assert_eq!((mann_kendall(&[1.0]), theil_sen_change(&[1.0])), (0.0, 0.0));
    }

    #[test]
    fn theil_sen_slope_resists_an_outlier() {
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
