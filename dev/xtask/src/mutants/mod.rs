//! `cargo xtask mutants`: mutation testing, which finds mistakes in the core that no test would notice.
//!
//! Each mutant is one edit that a person could make by mistake: a wrong bound, condition or number, or a missing call.
//! All drawn mutants are compiled at once, so the build is paid for once. The build is a copy of the sources below the
//! build folder, in which an environment variable chooses the mutant. Then each test runs once without a mutant, to
//! measure its time and the sites that it executes. Each mutant is then tried with the tests that execute its site,
//! fastest first, until one fails. The shipped code contains nothing of this.
//!
//! | file | purpose |
//! |---|---|
//! | [`source`], [`subject`] | read the library, by its modules |
//! | [`scan`], [`operators`], [`constants`] | find [`site`]s: edits that a test should notice |
//! | [`draw`] | chooses among them, by a seed |
//! | [`render`], [`runtime`], [`copy`] | write the copy |
//! | [`build`] | builds it, and removes mutants that do not compile |
//! | [`suite`] | runs each test once, and records the sites that it executes |
//! | [`trial`] | tries each mutant |
//! | [`equivalent`] | reads the list of equivalent mutants, each with its reason |
//! | [`report`] | prints the survivors |
//!
//! A surviving mutant indicates a missing test, code that is not needed, or an equivalent program. Equivalent mutants
//! are listed in `dev/xtask/mutants/equivalent.toml`.

mod build;
mod constants;
mod copy;
mod draw;
mod equivalent;
#[cfg(test)]
mod fixture;
mod operators;
mod progress;
mod render;
mod report;
mod runtime;
mod scan;
mod site;
mod source;
mod subject;
mod suite;
mod trial;
mod workers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::error::Error;
use crate::workspace;
use draw::Drawn;
use report::{MutantReport, Report};
use site::Site;
use subject::Subject;

/// Default number of mutants to draw.
const COUNT: usize = 300;
/// Path of the list of equivalent mutants, from the root.
const EQUIVALENT: &str = "dev/xtask/mutants/equivalent.toml";

/// Selection of mutants, and settings of their trials.
#[derive(ClapArgs, Debug, Clone)]
pub(crate) struct Args {
    /// Number of mutants to draw: 300, or all if --only is given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Seed of the choice: the same seed chooses the same mutants from the same sources.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Only mutants in this file or folder, or on this line (FILE:LINE); may be given several times.
    #[arg(long, value_name = "PLACE")]
    only: Vec<String>,
    /// List the mutants that would be drawn, and exit.
    #[arg(long)]
    list: bool,
    /// Write all mutants that were tried to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Number of tests that run at once.
    #[arg(long, value_name = "JOBS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Seconds in which a test must end when it is measured; a test that takes longer is tried last.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,
    /// Leave out tests that take longer, so that mutants that only they would notice survive.
    #[arg(long)]
    quick: bool,
}

impl Args {
    /// Returns arguments that draw `count` mutants by `seed`. Tests that take longer than `patience` seconds are tried
    /// last.
    pub(crate) fn sample(count: u32, seed: u64, patience: u32) -> Args {
        Args { count: Some(count), seed, only: Vec::new(), list: false, json: None, jobs: 2, patience, quick: false }
    }

    /// Returns the number of mutants to draw.
    fn count(&self) -> usize {
        match self.count {
            Some(count) => count as usize,
            None if self.only.is_empty() => COUNT,
            None => usize::MAX,
        }
    }
}

/// Tries the mutants that `args` select.
///
/// # Errors
/// Returns [`Error::Failed`] if a mutant was not noticed, or [`Error::Usage`] if a selected place has no mutants.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    run_on(&Subject::core(), &workspace::root().join(EQUIVALENT), args)
}

/// Tries mutants of any library with its tests.
fn run_on(subject: &Subject, equivalent: &Path, args: &Args) -> Result<(), Error> {
    let (sources, sites) = subject.read()?;
    let listed = equivalent::read(equivalent, &sites)?;
    let requested = draw::requested(&sites, &subject.sources().to_string_lossy(), &args.only)?;
    let (drawn, count) = (Drawn::new(&requested, args.seed), args.count().min(requested.len()));
    if args.list {
        drawn.take(count).for_each(|(_, site)| list(site));
        return Ok(());
    }
    let jobs = usize::from(args.jobs);
    println!("mutants: building {count} of {} possible mutants", requested.len());
    let built = build::build(subject, &sources, drawn, count, jobs)?;
    let patience = Duration::from_secs(args.patience.into());
    let mut tests = suite::watch(&built.programs, &subject.folder.join("met"), patience, jobs)?;
    if args.quick {
        tests.retain(|test| test.has_ended);
    }
    let fates = trial::run(&built.mutants, &tests, jobs, |site, fate| report::complaint(site, fate, &listed))?;
    let mutants = fates.into_iter().map(|(site, fate)| MutantReport::new(site, fate, &listed)).collect();
    let report =
        Report { seed: args.seed, sites: requested.len(), tests: tests.len(), refused: built.refused, mutants };
    if let Some(path) = &args.json {
        report.write(path)?;
    }
    report.conclude()
}

fn list(site: &Site) {
    println!("{}: {} for {}", report::place(site), site.mutated, site.original);
}
