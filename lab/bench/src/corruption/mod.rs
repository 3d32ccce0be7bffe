//! Programs that misuse their memory, under several mallocs: which mallocs notice the misuse, and where memory is
//! corrupted.
//!
//! ```text
//! roster    the mallocs, with default settings and with their strictest checks
//! outcome   runs a case under a malloc and classifies its end
//! report    tables of the outcomes
//! ```
//!
//! Nothing is timed. Each case is a process of its own (`freehold load corruption`) and runs once. The reaction of a
//! malloc depends on the case, and for some mallocs on chance.

mod outcome;
mod report;
mod roster;

use std::path::PathBuf;

use freehold_report::progress::Progress;

use crate::error::Error;
use crate::whole::Malloc;
use outcome::Outcome;
pub use report::CorruptionReport;

/// Cases and mallocs to try.
#[derive(Clone, Debug)]
pub struct Request {
    /// Program that misuses its memory.
    pub program: PathBuf,
    /// Names of the cases, `WAY/BYTES`.
    pub cases: Vec<String>,
    /// Path of Freehold's library.
    pub library: PathBuf,
    /// Mallocs in addition to those that are found.
    pub others: Vec<Malloc>,
}

/// Runs all cases under all mallocs.
///
/// # Errors
/// When a malloc cannot be preloaded, or a case cannot be run.
pub fn measure(request: &Request) -> Result<CorruptionReport, Error> {
    let mallocs = roster::find_setups(&request.library, &request.others)?;
    let bar = Progress::counting("corruption", (request.cases.len() * mallocs.len()) as u64, "runs");
    let mut outcomes = Vec::with_capacity(request.cases.len());
    for case in &request.cases {
        let under = mallocs.iter().map(|malloc| {
            bar.advance(1);
            Outcome::run(&request.program, case, malloc)
        });
        outcomes.push((case.clone(), under.collect::<Result<Vec<_>, Error>>()?));
    }
    Ok(CorruptionReport::new(&mallocs, outcomes))
}
