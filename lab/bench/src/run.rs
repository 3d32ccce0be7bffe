//! One run of a comparison: two machines, open at the same time, and samples taken from them in pairs.
//!
//! Both machines are built anew for each run, and twice: once with A first and once with B first, behind a spacer of
//! random size. The placement of the metadata in memory can change times by five percent, and the order of building
//! decides much of it. A run's result is therefore the mean of its two halves, in which that effect cancels. Warm-up
//! pairs are discarded. The order within a pair is random. The result of a half is the median of its pairs' log ratios,
//! so a pair hit by an interrupt has no influence. The independent observations for the statistics are runs, not pairs.

use std::hint::black_box;

use fastrand::Rng;
use freehold_stats::intervals::median;

use super::subject::{Case, Effort, Sample, Sampler, Subject};
use crate::error::Error;

/// Pairs discarded at the start of a half.
const WARM_UP_PAIRS: u32 = 2;
/// Maximum size of the spacer before the machines, in bytes.
const SPACER_MAX: usize = 1 << 20;

/// Two samples taken one right after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Sample of A.
    pub a: Sample,
    /// Sample of B.
    pub b: Sample,
}

impl Pair {
    /// Returns the logarithm of the ratio of B's time per operation to A's.
    pub fn log_ratio(self) -> f64 {
        (self.b.per_operation() / self.a.per_operation()).ln()
    }
}

/// Pairs of one run in the order in which they were taken. Neither half is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Pairs with A's machine built first, and pairs with B's machine built first.
    pub halves: [Vec<Pair>; 2],
}

impl Run {
    /// Returns the result of the run.
    pub fn log_ratio(&self) -> f64 {
        self.middle(Pair::log_ratio)
    }

    /// Computes a number for each pair and returns the mean of the medians of the two halves.
    pub fn middle(&self, number: impl Fn(Pair) -> f64) -> f64 {
        let mut sum = 0.0;
        for half in &self.halves {
            let mut numbers: Vec<f64> = half.iter().map(|&pair| number(pair)).collect();
            sum += median(&mut numbers);
        }
        sum / 2.0
    }

    /// Returns the pairs of both halves.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.halves.iter().flatten()
    }
}

/// Side whose machine is built first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    A,
    B,
}

/// Both sides of a comparison.
pub(crate) type Sides<'s> = [&'s dyn Subject; 2];

/// Takes a run of a case on two sides.
///
/// # Errors
/// When a side cannot be built or sampled.
pub(crate) fn take_run(case: &Case, sides: Sides<'_>, effort: Effort, rng: &mut Rng) -> Result<Run, Error> {
    let [a_first, b_first] = [First::A, First::B];
    Ok(Run { halves: [take_half(case, sides, effort, a_first, rng)?, take_half(case, sides, effort, b_first, rng)?] })
}

fn take_half(case: &Case, [a, b]: Sides<'_>, effort: Effort, first: First, rng: &mut Rng) -> Result<Vec<Pair>, Error> {
    let operations = effort.operations(case);
    let spacer: Vec<u8> = black_box(Vec::with_capacity(rng.usize(1..SPACER_MAX)));
    let mut pairs = Vec::new();
    let count = effort.pairs(case);
    match first {
        First::A => a.open(operations, &mut |a| {
            b.open(operations, &mut |b| {
                pairs = take_pairs(a, b, count, rng)?;
                Ok(())
            })
        })?,
        First::B => b.open(operations, &mut |b| {
            a.open(operations, &mut |a| {
                pairs = take_pairs(a, b, count, rng)?;
                Ok(())
            })
        })?,
    }
    drop(spacer);
    Ok(pairs)
}

fn take_pairs(a: &mut Sampler<'_>, b: &mut Sampler<'_>, count: u32, rng: &mut Rng) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::with_capacity(count as usize);
    for taken in 0..WARM_UP_PAIRS + count {
        let pair = if rng.bool() {
            Pair { a: a()?, b: b()? }
        } else {
            let b = b()?;
            Pair { a: a()?, b }
        };
        if taken >= WARM_UP_PAIRS {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}
