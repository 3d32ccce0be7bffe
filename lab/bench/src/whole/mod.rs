//! Mallocs under whole programs: the same loads with each malloc preloaded in turn, CPU time and memory side by side.
//!
//! ```text
//! roster   which mallocs there are, and where
//! cost     what a load took, as it says itself
//! ratio    Freehold's cost divided by another's, within a round
//! sheet    tables of one figure: loads of which the same is asked
//! report   all of it, in the order in which people read it
//! ```
//!
//! In a round every load runs once under every malloc, in random order; a ratio is of two runs of one round, and what
//! is said of it is the median over the rounds, with its interval. So what disturbs the machine for a while disturbs
//! neighbours.
//!
//! Where another malloc fails at a load, or does not end, that is said, and the two are not tried together again.

mod cost;
mod ratio;
mod report;
mod roster;
mod sheet;

use std::path::PathBuf;

use fastrand::Rng;
use freehold_report::progress::Progress;
use freehold_workloads::malloc::Table;

use crate::error::Error;
pub(crate) use cost::CHOOSING;
use cost::{Cost, Ending};
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
    /// The loads, those of a table one after the other.
    pub loads: Vec<Load>,
    /// Names of loads that cannot be made here, each with the program that is missing.
    pub left_out: Vec<(String, String)>,
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

/// A load, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its name in tables.
    pub name: String,
    /// What makes it, behind `freehold load malloc`.
    pub arguments: Vec<String>,
    /// What is asked of it.
    pub table: Table,
    /// What it has one mean with, of its table.
    pub group: &'static str,
}

/// What every malloc took for every load: by round, load and malloc; nothing where it failed.
type Rounds = Vec<Vec<Vec<Option<Cost>>>>;

/// Measures.
///
/// # Errors
/// When a malloc cannot be preloaded, or a load fails under Freehold.
pub fn measure(request: &Request) -> Result<WholeReport, Error> {
    let mallocs = roster::all(&request.library, &request.others)?;
    let mut steps: Vec<(usize, usize)> =
        (0..request.loads.len()).flat_map(|load| (0..mallocs.len()).map(move |malloc| (load, malloc))).collect();
    let bar = Progress::counting("malloc", u64::from(request.rounds) * steps.len() as u64, "runs");
    let mut rng = Rng::with_seed(request.seed);
    let (mut rounds, mut failures): (Rounds, Vec<String>) = (Vec::new(), Vec::new());
    for _ in 0..request.rounds {
        rng.shuffle(&mut steps);
        let mut round = vec![vec![None; mallocs.len()]; request.loads.len()];
        let mut failed = Vec::new();
        for &(load, malloc) in &steps {
            match cost::of(request, &request.loads[load], &mallocs[malloc])? {
                Ending::Done(cost) => round[load][malloc] = Some(cost),
                Ending::Failed(what) => {
                    failures.push(failure(&request.loads[load], &mallocs[malloc], &what)?);
                    failed.push((load, malloc));
                }
            }
            bar.advance(1);
        }
        steps.retain(|step| !failed.contains(step));
        rounds.push(round);
    }
    Ok(WholeReport::new(request, &mallocs, &rounds, failures))
}

/// What is said of another's failure; ours is an error.
fn failure(load: &Load, malloc: &Malloc, what: &str) -> Result<String, Error> {
    let sentence = format!("the load `{}` under {}: {what}", load.name, malloc.name);
    if malloc.name == roster::OURS { Err(Error::Input(sentence)) } else { Ok(sentence) }
}
