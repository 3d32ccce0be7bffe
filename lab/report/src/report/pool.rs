//! From single cases to what all of them say.
//!
//! A change counts if it is larger than the margin. Of six cases or more the middle one speaks, with an interval that
//! is exact by rank and widened by a bootstrap. Of fewer no interval of such confidence exists, so the cases have to
//! agree: all beyond the margin and to one side, or all within it; otherwise they leave it undecided, and so they do if
//! one of them is undecided by itself. What they say together is then the geometric mean of B/A, in which a half and a
//! double cancel, whatever their sizes. Where many comparisons are made, each has to be surer ([`confidence_of`]), and
//! then it takes more cases to have an interval.

use fastrand::Rng;

use super::{Pooled, Row};
use freehold_stats::intervals::{has_rank_interval, median, median_interval};
use freehold_stats::verdict::{Direction, Verdict, judge_change};

/// Cases of which an interval by rank can have the confidence of 95 %.
pub const CASES_MIN: usize = 6;
/// That confidence.
pub const CONFIDENCE: f64 = 0.95;
/// What the bootstrap draws by: the same cases give the same interval.
const SEED: u64 = 1;

/// Returns the confidence that each of `comparisons` needs for all of them together to have [`CONFIDENCE`]
/// (Bonferroni).
pub fn confidence_of(comparisons: usize) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / comparisons.max(1) as f64
}

/// Pools all cases of a measure. Rows without a verdict of their own are left out, and so are rows in which both values
/// are zero. The interval has this confidence, if there are cases enough for one.
pub fn pool(rows: &[Row], direction: Direction, margin: f64, confidence: f64) -> Pooled {
    let judged: Vec<&Row> = rows.iter().filter(|row| row.verdict.is_some() && row.is_nonzero()).collect();
    let changes: Option<Vec<f64>> = judged.iter().map(|row| row.change).collect();
    match changes {
        _ if judged.is_empty() => {
            let verdict = rows.iter().all(Row::is_same).then_some(Verdict::NoDifference);
            Pooled { cases: 0, change: None, interval: None, verdict }
        }
        // Some where none was has no ratio, and no mean.
        None => {
            let first = judged[0].verdict;
            let verdict = if judged.iter().all(|row| row.verdict == first) { first } else { Some(Verdict::Undecided) };
            Pooled { cases: judged.len(), change: None, interval: None, verdict }
        }
        Some(changes) => {
            let is_few = !has_rank_interval(judged.len(), confidence);
            let is_open = is_few && judged.iter().any(|row| row.verdict == Some(Verdict::Undecided));
            let pooled = pool_changes(changes, direction, margin, confidence);
            if is_open { Pooled { verdict: Some(Verdict::Undecided), ..pooled } } else { pooled }
        }
    }
}

fn pool_changes(mut changes: Vec<f64>, direction: Direction, margin: f64, confidence: f64) -> Pooled {
    let (low, high) = interval(&changes, confidence);
    let [verdict_low, verdict_high] = [low, high].map(|end| judge_change(end, direction, margin));
    let agree = verdict_low == verdict_high && !(low < -margin && high > margin);
    let verdict = Some(if agree { verdict_low } else { Verdict::Undecided });
    let cases = changes.len();
    let change =
        Some(if has_rank_interval(cases, confidence) { median(&mut changes) } else { geometric_mean(&changes) });
    Pooled { cases, change, interval: Some((low, high)), verdict }
}

/// The geometric mean of ratios, as a change. A ratio of nothing counts as a thousandth: a mean of it would be nothing.
fn geometric_mean(changes: &[f64]) -> f64 {
    let logarithms = changes.iter().map(|change| (1.0 + change).max(0.001).ln());
    (logarithms.sum::<f64>() / changes.len() as f64).exp() - 1.0
}

fn interval(changes: &[f64], confidence: f64) -> (f64, f64) {
    if has_rank_interval(changes.len(), confidence) {
        return median_interval(changes, confidence, &mut Rng::with_seed(SEED));
    }
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
            let verdict = change.map_or(Verdict::Worse, |change| judge_change(change, Direction::Lower, 0.02));
            let (a, b) = (Some(Quantity::Count(a)), Some(Quantity::Count(b)));
            Row { case: "x".to_owned(), a, b, change, verdict: Some(verdict), ..Row::default() }
        });
        rows.collect()
    }

    fn pool_pairs(pairs: &[(u64, u64)]) -> Pooled {
        pool(&rows(pairs), Direction::Lower, 0.02, CONFIDENCE)
    }

    #[test]
    fn cases_that_agree_decide() {
        assert_eq!(pool_pairs(&[(100, 50), (100, 90)]).verdict, Some(Verdict::Better));
        assert_eq!(pool_pairs(&[(100, 120), (100, 190)]).verdict, Some(Verdict::Worse));
        assert_eq!(pool_pairs(&[(100, 101), (100, 99)]).verdict, Some(Verdict::NoDifference));
    }

    #[test]
    fn cases_that_do_not_agree_leave_it_undecided() {
        assert_eq!(pool_pairs(&[(100, 50), (100, 200)]).verdict, Some(Verdict::Undecided));
        assert_eq!(pool_pairs(&[(100, 50), (100, 100)]).verdict, Some(Verdict::Undecided));
        let neutral = pool(&rows(&[(100, 50), (100, 200)]), Direction::Neutral, 0.02, CONFIDENCE);
        assert_eq!(neutral.verdict, Some(Verdict::Undecided));
    }

    #[test]
    fn a_half_and_a_double_cancel() {
        let pooled = pool_pairs(&[(100, 50), (1000, 2000)]);
        assert!(pooled.change.unwrap().abs() < 1e-9);
        assert_eq!(pooled.interval, Some((-0.5, 1.0)));
    }

    #[test]
    fn what_is_not_reproduced_says_nothing() {
        let mut rows = rows(&[(100, 50), (100, 200)]);
        rows[1].verdict = None;
        let pooled = pool(&rows, Direction::Lower, 0.02, CONFIDENCE);
        assert_eq!((pooled.cases, pooled.verdict), (1, Some(Verdict::Better)));
    }

    #[test]
    fn few_cases_decide_nothing_if_one_of_them_is_open() {
        let mut rows = rows(&[(100, 50), (100, 60)]);
        rows[1].verdict = Some(Verdict::Undecided);
        assert_eq!(pool(&rows, Direction::Lower, 0.02, CONFIDENCE).verdict, Some(Verdict::Undecided));
    }

    #[test]
    fn something_where_nothing_was_has_no_mean() {
        let pooled = pool_pairs(&[(0, 5), (10, 5)]);
        assert_eq!((pooled.verdict, pooled.change), (Some(Verdict::Undecided), None));
        assert_eq!(pool_pairs(&[(0, 5), (10, 20)]).verdict, Some(Verdict::Worse));
        assert_eq!(pool_pairs(&[(0, 0), (10, 5)]).verdict, Some(Verdict::Better), "nothing at all says nothing");
        assert_eq!(pool_pairs(&[(0, 0), (0, 0)]).verdict, Some(Verdict::NoDifference));
    }

    #[test]
    fn many_cases_have_an_interval_of_the_middle_one() {
        let pooled =
            pool_pairs(&[(100, 90), (100, 89), (100, 91), (100, 90), (100, 88), (100, 92), (100, 90), (100, 300)]);
        assert_eq!(pooled.cases, 8);
        let (low, high) = pooled.interval.unwrap();
        assert!(low < -0.09 && high >= -0.1, "{low} to {high}");
    }

    #[test]
    fn six_cases_are_enough_for_one_comparison() {
        assert!(has_rank_interval(CASES_MIN, confidence_of(1)) && !has_rank_interval(CASES_MIN - 1, confidence_of(1)));
    }

    /// Eleven of twelve recordings gain: enough for one comparison, not for one of a hundred.
    #[test]
    fn one_of_many_comparisons_has_to_be_surer() {
        let rows = rows(&[[(100, 80); 11].as_slice(), &[(100, 101)]].concat());
        let verdicts =
            [1, 100].map(|comparisons| pool(&rows, Direction::Lower, 0.02, confidence_of(comparisons)).verdict);
        assert_eq!(verdicts, [Some(Verdict::Better), Some(Verdict::Undecided)]);
    }
}
