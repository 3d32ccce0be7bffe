//! Mallocs under whole programs: the same loads with each malloc preloaded in turn, CPU time and memory side by side.
//!
//! ```text
//! roster   which mallocs there are, and where
//! cost     what a load took, as it says itself
//! report   ratios of Freehold's to each other's, within a round
//! ```
//!
//! In a round every load runs once under every malloc, in random order; a ratio is of two runs of one round, and what is
//! said of it is the median over the rounds, with its interval. So what disturbs the machine for a while disturbs
//! neighbours.

mod cost;
mod report;
mod roster;

use std::path::PathBuf;

use fastrand::Rng;
use freehold_measure::progress::Progress;

use crate::error::Error;
pub(crate) use cost::CHOOSING;
use cost::Cost;
pub use report::WholeReport;
pub use roster::{Malloc, Place};
pub(crate) use roster::{all as mallocs, built, packaged};

/// Rounds, unless somebody says otherwise.
pub const ROUNDS: u32 = 9;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program that makes the loads.
    pub program: PathBuf,
    /// Names of the loads.
    pub loads: Vec<String>,
    /// What of each load is done, in percent.
    pub percent: u32,
    /// Freehold's library.
    pub library: PathBuf,
    /// Other mallocs than those that are found.
    pub others: Vec<Malloc>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Seed of the order, and of the bootstrap.
    pub seed: u64,
}

/// What every malloc took for every load: by round, load and malloc.
type Rounds = Vec<Vec<Vec<Cost>>>;

/// Measures.
///
/// # Errors
/// When a malloc cannot be preloaded, or a load fails under one.
pub fn measure(request: &Request) -> Result<WholeReport, Error> {
    let mallocs = roster::all(&request.library, &request.others)?;
    let steps: Vec<(usize, usize)> =
        (0..request.loads.len()).flat_map(|load| (0..mallocs.len()).map(move |malloc| (load, malloc))).collect();
    let bar = Progress::counting("malloc", u64::from(request.rounds) * steps.len() as u64, "runs");
    let mut rng = Rng::with_seed(request.seed);
    let mut rounds: Rounds = Vec::new();
    for _ in 0..request.rounds {
        let mut order = steps.clone();
        rng.shuffle(&mut order);
        let mut round = vec![vec![None; mallocs.len()]; request.loads.len()];
        for (load, malloc) in order {
            round[load][malloc] = Some(cost::of(request, &request.loads[load], &mallocs[malloc])?);
            bar.advance(1);
        }
        rounds.push(round.into_iter().map(|of_load| of_load.into_iter().flatten().collect()).collect());
    }
    Ok(WholeReport::new(request, &mallocs, &rounds))
}
