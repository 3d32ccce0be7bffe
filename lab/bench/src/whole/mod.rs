//! Mallocs under whole programs: runs the same loads with each malloc preloaded in turn, and compares CPU time and
//! memory.
//!
//! ```text
//! request  loads, mallocs and rounds to measure
//! roster   finds the mallocs on this machine
//! cost     runs a load under a malloc; the cost that it reports
//! limits   runs programs with little memory under each malloc
//! ratio    Freehold's cost divided by that of another malloc, within a round
//! costs    costs of all runs; ratios and medians of them
//! group    tables of whole loads, and their means
//! summary  mean and worst ratio of programs
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
mod costs;
mod group;
mod limits;
mod ratio;
mod report;
mod request;
mod roster;
mod sheet;
mod summary;

use fastrand::Rng;
use freehold_report::progress::Progress;

use crate::error::Error;
pub(crate) use cost::CHOOSING;
use cost::{Ending, Rounds};
use freehold_workloads::malloc::Table;
use limits::LimitRow;
pub use report::WholeReport;
pub use request::{Load, Request};
pub use roster::{Malloc, Place};
pub(crate) use roster::{find_built, find_mallocs, find_packaged};

/// Default number of rounds.
pub const ROUNDS: u32 = 9;

/// Outcomes of all runs.
struct Outcomes {
    rounds: Rounds,
    limits: Vec<LimitRow>,
    /// Sentences about failures of other mallocs.
    failures: Vec<String>,
}

/// Measures all loads under all mallocs.
///
/// # Errors
/// When a malloc cannot be preloaded, or a load fails under Freehold.
pub fn measure(request: &Request) -> Result<WholeReport, Error> {
    let mallocs = find_mallocs(&request.library, &request.others)?;
    let (limited, loads): (Vec<usize>, Vec<usize>) =
        (0..request.loads.len()).partition(|&load| request.loads[load].table == Table::Limits);
    let steps: Vec<Step> =
        loads.into_iter().flat_map(|load| (0..mallocs.len()).map(move |malloc| (load, malloc))).collect();
    let runs = u64::from(request.rounds) * steps.len() as u64 + (limited.len() * mallocs.len()) as u64;
    let bar = Progress::counting("malloc", runs, "runs");
    let (rounds, failures) = measure_rounds(request, &mallocs, steps, &bar)?;
    let limits = limits::measure_limits(request, &limited, &mallocs, &bar)?;
    Ok(WholeReport::new(request, &mallocs, Outcomes { rounds, limits, failures }))
}

/// A load and a malloc, as indices.
type Step = (usize, usize);

/// Runs these steps in each round, in random order. A step that fails is not tried again. Returns the costs, and
/// sentences about failures.
fn measure_rounds(
    request: &Request,
    mallocs: &[Malloc],
    mut steps: Vec<Step>,
    bar: &Progress,
) -> Result<(Rounds, Vec<String>), Error> {
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
    Ok((rounds, failures))
}

/// Returns the sentence about a failure of another malloc. A failure under Freehold is an error.
fn failure(load: &Load, malloc: &Malloc, what: &str) -> Result<String, Error> {
    let sentence = format!("the load `{}` under {}: {what}", load.name, malloc.name);
    if malloc.name == roster::OURS { Err(Error::Input(sentence)) } else { Ok(sentence) }
}
