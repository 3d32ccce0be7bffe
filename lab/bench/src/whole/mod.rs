//! Mallocs under whole programs: the same loads with each malloc preloaded in turn, CPU time and memory side by side.
//!
//! ```text
//! request  what is to be measured
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
mod request;
mod roster;
mod sheet;

use fastrand::Rng;
use freehold_report::progress::Progress;

use crate::error::Error;
pub(crate) use cost::CHOOSING;
use cost::{Ending, Rounds};
pub use report::WholeReport;
pub use request::{Load, Request};
pub use roster::{Malloc, Place};
pub(crate) use roster::{find_built, find_mallocs, find_packaged};

/// Rounds, unless somebody says otherwise.
pub const ROUNDS: u32 = 9;

/// Measures.
///
/// # Errors
/// When a malloc cannot be preloaded, or a load fails under Freehold.
pub fn measure(request: &Request) -> Result<WholeReport, Error> {
    let mallocs = find_mallocs(&request.library, &request.others)?;
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
            match cost::run_load(request, &request.loads[load], &mallocs[malloc])? {
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
