//! One run of a comparison: two machines side by side, and samples taken of them in pairs.
//!
//! Both machines are built anew for each run, in turn A first and B first, behind a spacer of random size: where the
//! metadata happens to lie is part of the noise, not of the result. Warm-up pairs are thrown away. Within a
//! pair chance decides who goes first. A run's result is the median of its pairs' log ratios, so that a pair hit by an
//! interrupt does not count; runs, not pairs, are the independent observations of what follows.

use std::hint::black_box;

use fastrand::Rng;

use super::stats::median;
use super::subject::{Comparison, Effort, Sample, Sampler};
use crate::error::Error;

/// Pairs thrown away at the start of a run.
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
        (self.b.each() / self.a.each()).ln()
    }
}

/// The pairs of a run, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// In the order in which they were taken.
    pub pairs: Vec<Pair>,
}

impl Run {
    /// The run's result: median of the pairs' log ratios.
    pub fn log_ratio(&self) -> f64 {
        self.median_of(Pair::log_ratio)
    }

    /// Median of some number of each pair.
    pub fn median_of(&self, number: impl Fn(Pair) -> f64) -> f64 {
        median(&mut self.pairs.iter().map(|&pair| number(pair)).collect::<Vec<_>>())
    }
}

/// Takes run number `number` of a comparison.
///
/// # Errors
/// When a side cannot be built or sampled.
pub fn take(comparison: &Comparison, effort: Effort, number: usize, rng: &mut Rng) -> Result<Run, Error> {
    let Comparison { case, a, b, .. } = comparison;
    let operations = effort.operations(case);
    let spacer: Vec<u8> = black_box(Vec::with_capacity(rng.usize(1..SPACER_MAX)));
    let mut pairs = Vec::new();
    let mut sample = |a: &mut Sampler<'_>, b: &mut Sampler<'_>| {
        pairs = take_pairs(a, b, effort.pairs(case), rng)?;
        Ok(())
    };
    if number.is_multiple_of(2) {
        a.open(operations, &mut |a| b.open(operations, &mut |b| sample(a, b)))?;
    } else {
        b.open(operations, &mut |b| a.open(operations, &mut |a| sample(a, b)))?;
    }
    drop(spacer);
    Ok(Run { pairs })
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
