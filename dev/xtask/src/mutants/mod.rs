//! `cargo xtask mutants`: what no test would notice.
//!
//! Each mutant is one edit of the core that a person could have made by mistake: a border, a condition, a number, a
//! call left out. All that are drawn are compiled at once, into a copy below the build folder in which a number in the
//! environment chooses among them; so building is paid once. Then each test runs once without a mutant, which says what
//! it takes and which mutants it meets, and each mutant is tried with the tests that meet it, the fastest first, until
//! one fails. What ships has nothing of this.
//!
//! | file | what it does |
//! |---|---|
//! | [`source`], [`subject`] | reads the library, by its modules |
//! | [`scan`], [`operators`], [`constants`] | find [`site`]s: edits that a test should notice |
//! | [`draw`] | chooses among them, by a seed |
//! | [`render`], [`runtime`], [`copy`] | write the copy |
//! | [`build`] | builds it, and drops what does not compile |
//! | [`suite`] | runs each test once, and notes what it meets |
//! | [`trial`] | tries each mutant |
//! | [`equivalent`] | the list of those that do the same, each with its argument |
//! | [`report`] | says what survived |
//!
//! A mutant that survives is a test that is missing, code that is not needed, or the same program in other words. The
//! last kind is listed in `dev/xtask/mutants/equivalent.toml`.

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

/// How many are drawn where nobody says.
const COUNT: usize = 300;
/// Where equivalent mutants are listed, from the root.
const EQUIVALENT: &str = "dev/xtask/mutants/equivalent.toml";

/// Which mutants to try, and how.
#[derive(ClapArgs, Debug, Clone)]
pub(crate) struct Args {
    /// How many to draw: 300, or all where --only says which.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// What to draw by: the same seed draws the same from the same sources.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Only those in this file or folder, or on this line (FILE:LINE); may be given several times.
    #[arg(long, value_name = "PLACE")]
    only: Vec<String>,
    /// List those that would be drawn, and leave.
    #[arg(long)]
    list: bool,
    /// Write all that were tried to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Tests that run at once.
    #[arg(long, value_name = "JOBS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Seconds that a test may take to be known in full; one that takes longer comes last.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,
    /// Leave tests that take longer out, so that mutants survive that only these would notice.
    #[arg(long)]
    quick: bool,
}

impl Args {
    /// So many by a seed; tests that take long come last.
    pub(crate) fn sample(count: u32, seed: u64, patience: u32) -> Args {
        Args { count: Some(count), seed, only: Vec::new(), list: false, json: None, jobs: 2, patience, quick: false }
    }

    /// Number of mutants that are wanted.
    fn count(&self) -> usize {
        match self.count {
            Some(count) => count as usize,
            None if self.only.is_empty() => COUNT,
            None => usize::MAX,
        }
    }
}

/// Tries the mutants that `args` ask for.
///
/// # Errors
/// [`Error::Failed`] if one of them was not noticed; [`Error::Usage`] if there are none.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    run_on(&Subject::core(), &workspace::root().join(EQUIVALENT), args)
}

/// Mutates any library, and tries its tests.
fn run_on(subject: &Subject, equivalent: &Path, args: &Args) -> Result<(), Error> {
    let (sources, sites) = subject.read()?;
    let listed = equivalent::read(equivalent, &sites)?;
    let asked_for = draw::asked_for(&sites, &subject.sources().to_string_lossy(), &args.only)?;
    let (drawn, count) = (Drawn::new(&asked_for, args.seed), args.count().min(asked_for.len()));
    if args.list {
        drawn.take(count).for_each(|(_, site)| list(site));
        return Ok(());
    }
    let jobs = usize::from(args.jobs);
    println!("mutants: {count} of {} places to err are built", asked_for.len());
    let built = build::build(subject, &sources, drawn, count, jobs)?;
    let patience = Duration::from_secs(args.patience.into());
    let mut tests = suite::watch(&built.programs, &subject.folder.join("met"), patience, jobs)?;
    if args.quick {
        tests.retain(|test| test.has_ended);
    }
    let fates = trial::run(&built.mutants, &tests, jobs, |site, fate| report::complaint(site, fate, &listed))?;
    let mutants = fates.into_iter().map(|(site, fate)| MutantReport::new(site, fate, &listed)).collect();
    let report =
        Report { seed: args.seed, sites: asked_for.len(), tests: tests.len(), refused: built.refused, mutants };
    if let Some(path) = &args.json {
        report.write(path)?;
    }
    report.conclude()
}

fn list(site: &Site) {
    println!("{}: {} for {}", report::place(site), site.mutated, site.original);
}
