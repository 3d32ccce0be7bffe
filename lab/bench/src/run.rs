//! One run of a comparison: two machines side by side, and samples taken of them in pairs.
//!
//! Both machines are built anew for each run, and twice: once A first and once B first, behind a spacer of random size.
//! Where the metadata happens to lie can be worth five percent, and who comes first decides much of it; so a run's
//! result is the mean of its two halves, in which that cancels. Warm-up pairs are thrown away. Within a pair chance
//! decides who goes first. A half's result is the median of its pairs' log ratios, so that a pair hit by an interrupt
//! does not count. Runs, not pairs, are the independent observations of what follows.

use std::hint::black_box;

use fastrand::Rng;
use freehold_stats::intervals::median;

use super::subject::{Case, Effort, Sample, Sampler, Subject};
use crate::error::Error;

/// Pairs thrown away at the start of a half.
const WARM_UP_PAIRS: u32 = 2;
/// Largest spacer before the machines, in bytes.
const SPACER_MAX: usize = 1 << 20;

/// Two samples taken one right after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Of A.
    pub a: Sample,
    /// Of B.
    pub b: Sample,
}

impl Pair {
    /// Logarithm of B's time an operation over A's.
    pub fn log_ratio(self) -> f64 {
        (self.b.per_operation() / self.a.per_operation()).ln()
    }
}

/// Pairs in the order in which they were taken; neither half is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// With the machine of A built first, and with that of B.
    pub halves: [Vec<Pair>; 2],
}

impl Run {
    /// The run's result.
    pub fn log_ratio(&self) -> f64 {
        self.middle(Pair::log_ratio)
    }

    /// Some number of each pair: the mean of the halves' medians.
    pub fn middle(&self, number: impl Fn(Pair) -> f64) -> f64 {
        let mut sum = 0.0;
        for half in &self.halves {
            let mut numbers: Vec<f64> = half.iter().map(|&pair| number(pair)).collect();
            sum += median(&mut numbers);
        }
        sum / 2.0
    }

    /// All pairs.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.halves.iter().flatten()
    }
}

/// Which machine is built first.
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
