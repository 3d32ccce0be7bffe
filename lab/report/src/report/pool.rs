//! Pooling of the rows of a measure over all cases.
//!
//! Rows that are not judged, that have too few events, or that are zero under A and B are left out. If only one of
//! several rows remains, nothing is decided. Six or more rows have a median with an interval, which is exact by rank
//! and widened by a bootstrap, and the interval is judged. Fewer rows have no interval of that confidence. Their
//! verdicts have to agree, else the result is [`Mixed`](Verdict::Mixed). The change of few rows is the geometric mean
//! of B/A, in which a half and a double cancel. If many comparisons are made, each needs a higher confidence
//! ([`confidence_of`]), and therefore more rows.

use fastrand::Rng;

use super::{Pooled, Row};
use freehold_stats::intervals::{has_rank_interval, median, median_interval};
use freehold_stats::verdict::{Change, Direction, Evidence, Verdict, judge};

/// Fewest cases for an interval by rank at 95 % confidence.
pub const CASES_MIN: usize = 6;
/// Confidence of all comparisons together.
pub const CONFIDENCE: f64 = 0.95;
/// Seed of the bootstrap, fixed so that the same cases give the same interval.
const SEED: u64 = 1;

/// Returns the confidence that each of `comparisons` needs for all of them together to have [`CONFIDENCE`]
/// (Bonferroni).
pub fn confidence_of(comparisons: usize) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / comparisons.max(1) as f64
}

/// Pools all rows of a measure. The interval has this confidence, if there are enough rows for one.
pub fn pool(rows: &[Row], direction: Direction, margin: f64, confidence: f64) -> Pooled {
    let judged: Vec<&Row> = rows.iter().filter(|row| row.verdict.is_judged() && row.is_nonzero()).collect();
    let changes: Option<Vec<f64>> = judged.iter().map(|row| judged_change(row, margin)).collect();
    let (cases, agreed) = (judged.len(), agreed_verdict(&judged));
    match changes {
        _ if judged.is_empty() || (cases == 1 && rows.len() > 1) => {
            let verdict = agreed_verdict(&rows.iter().collect::<Vec<_>>());
            let verdict = if verdict == Verdict::Mixed { Verdict::NotJudged } else { verdict };
            Pooled { cases, change: None, interval: None, verdict }
        }
        // A change from zero has no ratio, and therefore no mean.
        None => Pooled { cases, change: None, interval: None, verdict: agreed },
        Some(mut changes) if has_rank_interval(cases, confidence) => {
            let (low, high) = median_interval(&changes, confidence, &mut Rng::with_seed(SEED));
            let change = Change::Interval { low, high, exceeds: margin, middle: None };
            let verdict = judge(&Evidence::new(change, direction, margin));
            Pooled { cases, change: Some(median(&mut changes)), interval: Some((low, high)), verdict }
        }
        Some(changes) => {
            let interval = Some(extremes(&changes));
            Pooled { cases, change: Some(geometric_mean(&changes)), interval, verdict: agreed }
        }
    }
}

/// Returns the change of a row; zero if the row is labelled "no change" although its relative change exceeds the
/// margin, as for a very small share. `None` for a change from zero.
fn judged_change(row: &Row, margin: f64) -> Option<f64> {
    row.change.map(|change| if row.verdict == Verdict::NoChange && change.abs() > margin { 0.0 } else { change })
}

/// Returns the common verdict of all rows, or `Mixed` if they differ. Changes without a better direction must also have
/// the same sign.
fn agreed_verdict(rows: &[&Row]) -> Verdict {
    let Some(first) = rows.first() else { return Verdict::NotJudged };
    let is_agreed = rows.iter().all(|row| {
        row.verdict == first.verdict && (row.verdict != Verdict::Changed || is_growth(row) == is_growth(first))
    });
    if is_agreed { first.verdict } else { Verdict::Mixed }
}

/// Returns whether B is larger than A.
fn is_growth(row: &Row) -> bool {
    row.change.is_none_or(|change| change > 0.0)
}

/// Returns the geometric mean of ratios, as a change. A ratio below a thousandth counts as a thousandth, because a
/// ratio of zero would make the mean zero.
fn geometric_mean(changes: &[f64]) -> f64 {
    let logarithms = changes.iter().map(|change| (1.0 + change).max(0.001).ln());
    (logarithms.sum::<f64>() / changes.len() as f64).exp() - 1.0
}

/// Returns the least and the greatest change.
fn extremes(changes: &[f64]) -> (f64, f64) {
    let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
    changes.iter().fold((low, high), |(low, high), &change| (low.min(change), high.max(change)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Quantity;
    use freehold_stats::verdict::relative_change;

    fn rows(pairs: &[(u64, u64)]) -> Vec<Row> {
        let rows = pairs.iter().map(|&(a, b)| {
            let change = relative_change(a as f64, b as f64);
            let certain = Change::Exact(change.unwrap_or(f64::INFINITY));
            let verdict = judge(&Evidence::new(certain, Direction::Lower, 0.02));
            let (a, b) = (Some(Quantity::Count(a)), Some(Quantity::Count(b)));
            Row { case: "x".to_owned(), a, b, change, verdict, ..Row::default() }
        });
        rows.collect()
    }

    fn pool_pairs(pairs: &[(u64, u64)]) -> Pooled {
        pool(&rows(pairs), Direction::Lower, 0.02, CONFIDENCE)
    }

    #[test]
    fn agreeing_cases_have_a_pooled_verdict() {
        assert_eq!(pool_pairs(&[(100, 50), (100, 90)]).verdict, Verdict::Better);
        assert_eq!(pool_pairs(&[(100, 120), (100, 190)]).verdict, Verdict::Worse);
        assert_eq!(pool_pairs(&[(100, 101), (100, 99)]).verdict, Verdict::NoChange);
    }

    #[test]
    fn disagreeing_cases_are_mixed() {
        assert_eq!(pool_pairs(&[(100, 50), (100, 200)]).verdict, Verdict::Mixed);
        assert_eq!(pool_pairs(&[(100, 50), (100, 100)]).verdict, Verdict::Mixed);
        let mut neutral = rows(&[(100, 50), (100, 200)]);
        neutral.iter_mut().for_each(|row| row.verdict = Verdict::Changed);
        assert_eq!(pool(&neutral, Direction::Neutral, 0.02, CONFIDENCE).verdict, Verdict::Mixed);
    }

    #[test]
    fn halving_and_doubling_cancel_in_the_mean() {
        let pooled = pool_pairs(&[(100, 50), (1000, 2000)]);
        assert!(pooled.change.unwrap().abs() < 1e-9);
        assert_eq!(pooled.interval, Some((-0.5, 1.0)));
    }

    #[test]
    fn unreproduced_cases_are_excluded() {
        let mut rows = rows(&[(100, 50), (100, 200)]);
        rows[1].verdict = Verdict::NotJudged;
        let pooled = pool(&rows, Direction::Lower, 0.02, CONFIDENCE);
        assert_eq!((pooled.cases, pooled.change, pooled.verdict), (1, None, Verdict::NotJudged), "one of two is left");
        assert_eq!(pool(&rows[..1], Direction::Lower, 0.02, CONFIDENCE).verdict, Verdict::Better);
    }

    #[test]
    fn few_cases_with_an_undecided_case_are_mixed() {
        let mut rows = rows(&[(100, 50), (100, 60)]);
        rows[1].verdict = Verdict::SensitiveToWatermarks;
        assert_eq!(pool(&rows, Direction::Lower, 0.02, CONFIDENCE).verdict, Verdict::Mixed);
    }

    #[test]
    fn unchanged_cases_pool_to_no_change() {
        let mut rows = rows(&[(100, 150), (100, 150)]);
        rows.iter_mut().for_each(|row| row.verdict = Verdict::NoChange);
        let pooled = pool(&rows, Direction::Lower, 0.02, CONFIDENCE);
        assert_eq!((pooled.verdict, pooled.change), (Verdict::NoChange, Some(0.0)));
    }

    #[test]
    fn change_from_zero_has_no_mean() {
        let pooled = pool_pairs(&[(0, 5), (10, 5)]);
        assert_eq!((pooled.verdict, pooled.change), (Verdict::Mixed, None));
        assert_eq!(pool_pairs(&[(0, 5), (10, 20)]).verdict, Verdict::Worse);
        assert_eq!(pool_pairs(&[(0, 0), (10, 5), (10, 5)]).verdict, Verdict::Better, "nothing at all says nothing");
        assert_eq!(pool_pairs(&[(0, 0), (0, 0)]).verdict, Verdict::NoChange);
    }

    #[test]
    fn many_cases_have_an_interval_of_the_median() {
        let pooled =
            pool_pairs(&[(100, 90), (100, 89), (100, 91), (100, 90), (100, 88), (100, 92), (100, 90), (100, 300)]);
        assert_eq!(pooled.cases, 8);
        let (low, high) = pooled.interval.unwrap();
        assert!(low < -0.09 && high >= -0.1, "{low} to {high}");
    }

    #[test]
    fn six_cases_suffice_for_one_comparison() {
        assert!(has_rank_interval(CASES_MIN, confidence_of(1)) && !has_rank_interval(CASES_MIN - 1, confidence_of(1)));
    }

    /// Eleven of twelve recordings gain, which is enough for one comparison but not for one of a hundred.
    #[test]
    fn more_comparisons_require_higher_confidence() {
        let rows = rows(&[[(100, 80); 11].as_slice(), &[(100, 101)]].concat());
        let verdicts =
            [1, 100].map(|comparisons| pool(&rows, Direction::Lower, 0.02, confidence_of(comparisons)).verdict);
        assert_eq!(verdicts, [Verdict::Better, Verdict::WithinNoise]);
    }
}
