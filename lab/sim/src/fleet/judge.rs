//! Estimates over the hosts of a fleet, and verdicts on two policies.
//!
//! The simulation of a host is exact; the hosts are a sample of all hosts that could have been drawn. So intervals are
//! over hosts: the interval of the median ([`intervals::median_interval`]) or of the sum. Policies are compared on the
//! same hosts: the estimate is the median or the sum of the differences, B minus A on each host. With fewer than 20
//! events under both policies, there are too few events. There is no change if the interval of the estimate is within
//! the margin. B is better or worse (changed, for a measure without a better direction) if the interval excludes zero
//! and the estimate exceeds the margin. Otherwise the difference is within noise.

use fastrand::Rng;
use freehold_report::number::ABSENT;
use freehold_stats::intervals;
use freehold_stats::verdict::{Change, Direction, Evidence, Verdict};
use serde::Serialize;

use super::measures::Measure;
use crate::measure::{Aggregate, Unit};
use crate::report::judge::{MARGIN, SHARE_MARGIN};

/// Confidence of an interval, if only one comparison is judged.
pub const CONFIDENCE: f64 = 0.95;
/// Seed of the bootstrap draws behind intervals.
const SEED: u64 = 1;

/// Estimate of a measure over the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Median or sum over the hosts.
    pub value: f64,
    /// Ends of its interval; `None` with too few hosts.
    pub interval: Option<(f64, f64)>,
    /// Smallest and largest value of any host.
    pub range: (f64, f64),
    /// Number of hosts that have a value.
    pub hosts: usize,
}

/// Returns the minimum number of hosts for an interval. For example, the probability that all hosts are on one side of
/// the median is 3 % for six hosts, and 6 % for five.
pub fn hosts_min(confidence: f64) -> usize {
    (1..)
        .find(|&hosts| intervals::has_rank_interval(hosts, confidence))
        .expect("there is an interval for every confidence if there are enough hosts")
}

/// Comparison of policy B with policy A on the same hosts, in one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HostComparison {
    /// Estimate of the differences, B minus A on each host.
    pub difference: Estimate,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

impl Estimate {
    /// Estimates the value of a fleet from one number for each host; returns `None` if there are none.
    pub fn from_values(aggregate: Aggregate, values: &[f64], confidence: f64) -> Option<Estimate> {
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), &v| (l.min(v), m.max(v)));
        let rng = &mut Rng::with_seed(SEED);
        let value = match aggregate {
            _ if values.is_empty() => return None,
            Aggregate::Median => intervals::median(&mut values.to_vec()),
            Aggregate::Sum => values.iter().sum(),
        };
        let interval = intervals::has_rank_interval(values.len(), confidence).then(|| match aggregate {
            Aggregate::Median => intervals::median_interval(values, confidence, rng),
            Aggregate::Sum => intervals::sum_interval(values, confidence, rng),
        });
        Some(Estimate { value, interval, range: (least, most), hosts: values.len() })
    }
}

/// Judges policy B against policy A. `a` and `b` have one value for each host, in the same order; `events` is the
/// number of events behind them. Hosts without a value under both policies are ignored; returns `None` if no host is
/// left.
pub fn judge(
    measure: &Measure,
    a: &[Option<f64>],
    b: &[Option<f64>],
    events: Option<f64>,
    confidence: f64,
) -> Option<HostComparison> {
    let pairs: Vec<(f64, f64)> = a.iter().zip(b).filter_map(|(a, b)| (*a).zip(*b)).collect();
    let of_a: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let difference = Estimate::from_values(measure.aggregate, &differences, confidence)?;
    let margin = match measure.unit {
        Unit::Share => SHARE_MARGIN,
        _ => Estimate::from_values(measure.aggregate, &of_a, confidence)?.value.abs() * MARGIN,
    };
    Some(HostComparison { difference, verdict: decide(measure.direction, &difference, margin, events) })
}

fn decide(direction: Direction, difference: &Estimate, margin: f64, events: Option<f64>) -> Verdict {
    // Without enough hosts there is no interval, which is treated as an unbounded one.
    let (low, high) = difference.interval.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let change = Change::Interval { low, high, exceeds: 0.0, middle: Some(difference.value) };
    freehold_stats::verdict::judge(&Evidence::new(change, direction, margin).with_events(events))
}

/// Formats an estimate with its interval.
pub fn estimate_text(measure: &Measure, estimate: Option<Estimate>) -> String {
    let Some(Estimate { value, interval, .. }) = estimate else { return ABSENT.to_owned() };
    match interval {
        Some((low, high)) if low < high => {
            format!("{} [{}, {}]", measure.text(value), measure.text(low), measure.text(high))
        }
        _ => measure.text(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::measures::{ATOMIC, ATOMIC_FAILED, KSWAPD_SCANNED, RESERVED, THP_SUCCESS};

    fn some(values: impl IntoIterator<Item = f64>) -> Vec<Option<f64>> {
        values.into_iter().map(Some).collect()
    }

    fn verdict_of(measure: &Measure, a: impl Fn(u32) -> f64, b: impl Fn(u32) -> f64, hosts: u32) -> Verdict {
        judge(measure, &some((0..hosts).map(a)), &some((0..hosts).map(b)), None, CONFIDENCE).unwrap().verdict
    }

    #[test]
    fn fleet_estimate_is_the_median_or_the_sum() {
        let values: Vec<f64> = (1..=9).map(f64::from).collect();
        let middle = Estimate::from_values(Aggregate::Median, &values, CONFIDENCE).unwrap();
        assert_eq!((middle.value, middle.range, middle.hosts), (5.0, (1.0, 9.0), 9));
        let (low, high) = middle.interval.unwrap();
        assert!(low < 5.0 && high > 5.0);
        assert_eq!(Estimate::from_values(Aggregate::Sum, &values, CONFIDENCE).unwrap().value, 45.0);
        assert_eq!(Estimate::from_values(Aggregate::Sum, &[], CONFIDENCE), None);
    }

    /// Returns widely spread values of hosts.
    fn apart(host: u32) -> f64 {
        f64::from(host) / 20.0
    }

    #[test]
    fn hosts_are_compared_in_pairs() {
        // The values of hosts are widely spread, and under B each of them is one percentage point higher.
        assert_eq!(verdict_of(&THP_SUCCESS, apart, |host| apart(host) + 0.01, 20), Verdict::Better);
        assert_eq!(verdict_of(&THP_SUCCESS, apart, |host| apart(host) - 0.01, 20), Verdict::Worse);
        assert_eq!(verdict_of(&THP_SUCCESS, apart, |host| apart(host) + 0.001, 20), Verdict::NoChange);
    }

    #[test]
    fn mixed_directions_or_few_hosts_are_within_noise() {
        assert_eq!(
            verdict_of(&KSWAPD_SCANNED, |_| 100.0, |host| if host % 2 == 0 { 90.0 } else { 110.0 }, 20),
            Verdict::WithinNoise
        );
        assert_eq!(verdict_of(&RESERVED, |_| 100.0, |_| 1.0, 5), Verdict::WithinNoise);
        assert_eq!(verdict_of(&RESERVED, |_| 100.0, |_| 1.0, 6), Verdict::Better);
    }

    #[test]
    fn equal_zeros_are_no_change_and_neutral_measures_change() {
        assert_eq!(verdict_of(&ATOMIC_FAILED, |_| 0.0, |_| 0.0, 6), Verdict::NoChange);
        assert_eq!(verdict_of(&ATOMIC, |_| 10.0, |_| 20.0, 6), Verdict::Changed);
    }

    #[test]
    fn failures_on_a_third_of_the_hosts_are_worse() {
        let verdict = verdict_of(&ATOMIC_FAILED, |_| 0.0, |host| if host % 3 == 0 { 100.0 } else { 0.0 }, 60);
        assert_eq!(verdict, Verdict::Worse);
    }

    #[test]
    fn hosts_without_a_value_are_excluded() {
        let a = [Some(0.5), None, Some(0.5)];
        let comparison = judge(&THP_SUCCESS, &a, &[Some(0.6), Some(0.9), None], None, CONFIDENCE).unwrap();
        assert_eq!(comparison.difference.hosts, 1);
        assert_eq!(judge(&THP_SUCCESS, &[None], &[Some(1.0)], None, CONFIDENCE), None);
    }
}
