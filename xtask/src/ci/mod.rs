//! `cargo xtask ci`: every check there is, in one command, cheapest first.
//!
//! A stage is a name, a sentence and a function. Each prints a line when it starts and one with its time when
//! it ends; the first that fails stops the run, and the exit code is not zero. A stage may also be skipped, with
//! the reason, when this machine lacks what it needs; a summary at the end shows which ran.
//!
//! The two commands of the README are read from the README, so what it promises is what is run.

mod planted;
mod readme;
mod sanitizer;
mod smoke;
mod soak;
mod stages;
mod uncoupled;

use std::time::{Duration, Instant};

use clap::Args as ClapArgs;

use crate::error::Error;
use stages::{STAGES, Stage};

/// Which stages to run.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Run only these stages; may be given several times.
    #[arg(long, value_name = "STAGE")]
    only: Vec<String>,
    /// List the stages and leave.
    #[arg(long)]
    list: bool,
}

/// How a stage ended well.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran, and nothing is wrong.
    Passed,
    /// It could not run here; the sentence says what is missing.
    Skipped(String),
}

/// Runs the stages that `args` ask for.
///
/// # Errors
/// The first stage's failure; [`Error::Usage`] when a stage does not exist.
pub fn run(args: &Args) -> Result<(), Error> {
    if args.list {
        for stage in &STAGES {
            println!("{:<9} {}", stage.name, stage.summary);
        }
        return Ok(());
    }
    let mut report = Vec::new();
    let outcome = selected(&args.only)?.into_iter().try_for_each(|stage| perform(stage, &mut report));
    println!("\nci: summary");
    for line in &report {
        println!("  {line}");
    }
    outcome
}

/// The stages called `only`, or all of them.
fn selected(only: &[String]) -> Result<Vec<&'static Stage>, Error> {
    if only.is_empty() {
        return Ok(STAGES.iter().collect());
    }
    let find = |name: &String| {
        STAGES.iter().find(|stage| stage.name == name).ok_or_else(|| {
            let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
            Error::Usage(format!("there is no stage `{name}`; there are: {}", names.join(", ")))
        })
    };
    only.iter().map(find).collect()
}

fn perform(stage: &Stage, report: &mut Vec<String>) -> Result<(), Error> {
    println!("\nci: {}: {}", stage.name, stage.summary);
    let started = Instant::now();
    let outcome = (stage.run)();
    let line = result_line(stage.name, &outcome, started.elapsed());
    println!("ci: {line}");
    report.push(line);
    outcome.map(drop)
}

fn result_line(name: &str, outcome: &Result<Outcome, Error>, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match outcome {
        Ok(Outcome::Passed) => format!("{name:<9} passed  {seconds:>7.1} s"),
        Ok(Outcome::Skipped(reason)) => format!("{name:<9} skipped {seconds:>7.1} s  {reason}"),
        Err(_) => format!("{name:<9} FAILED  {seconds:>7.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_stage_names_the_known_ones() {
        let sentence = selected(&["clipy".to_owned()]).unwrap_err().to_string();
        assert!(sentence.contains("`clipy`") && sentence.contains("clippy"), "{sentence}");
        assert_eq!(selected(&[]).unwrap().len(), STAGES.len());
    }

    #[test]
    fn failure_is_reported_and_passed_on() {
        let stage = Stage { name: "x", summary: "fails", run: || Err(Error::Failed("no".to_owned())) };
        let mut report = Vec::new();
        assert!(perform(&stage, &mut report).is_err());
        assert!(report[0].contains("FAILED"), "{report:?}");
    }
}
