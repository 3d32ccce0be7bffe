//! Mallocs under whole programs: runs the same loads with each malloc preloaded in turn, and compares CPU time and
//! memory.
//!
//! ```text
//! request  loads, mallocs and rounds to measure
//! roster   finds the mallocs on this machine
//! cost     runs a load under a malloc; the cost that it reports
//! ratio    Freehold's cost divided by that of another malloc, within a round
//! sheet    tables of one figure, over all loads of a kind
//! report   all tables, in the order in which people read them
//! ```
//!
//! In a round every load runs once under every malloc, in random order. A ratio is of two runs of one round, and the
//! reported figure is the median over the rounds with its interval. So a temporary disturbance of the machine affects
//! runs that are compared with each other.
//!
//! If another malloc fails at a load or hangs, the report names both, and the pair is not tried again.

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

/// Default number of rounds.
pub const ROUNDS: u32 = 9;

/// Measures all loads under all mallocs.
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

/// Returns the sentence about a failure of another malloc. A failure under Freehold is an error.
fn failure(load: &Load, malloc: &Malloc, what: &str) -> Result<String, Error> {
    let sentence = format!("the load `{}` under {}: {what}", load.name, malloc.name);
    if malloc.name == roster::OURS { Err(Error::Input(sentence)) } else { Ok(sentence) }
}
