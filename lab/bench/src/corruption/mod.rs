//! Programs that misuse their memory, under mallocs: which of them notice, which are corrupted?
//!
//! ```text
//! roster    mallocs, as they come and as they can be set to look harder
//! outcome   what became of a program
//! report    which malloc noticed what
//! ```
//!
//! Nothing is timed. Each case is a process of its own (`freehold load corruption`), so it runs once: what a malloc
//! does about it depends on the case, and for some of them on chance.

mod outcome;
mod report;
mod roster;

use std::path::PathBuf;

use freehold_report::progress::Progress;

use crate::error::Error;
use crate::whole::Malloc;
use outcome::Outcome;
pub use report::CorruptionReport;

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program that misuses its memory.
    pub program: PathBuf,
    /// Names of the cases, `WAY/BYTES`.
    pub cases: Vec<String>,
    /// Freehold's library.
    pub library: PathBuf,
    /// Other mallocs than those that are found.
    pub others: Vec<Malloc>,
}

/// Tries all cases under all mallocs.
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
