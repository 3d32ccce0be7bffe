//! Stages: the steps of the gate and of the nightly run, executed one after the other.
//!
//! A stage has a name, a summary, a budget and a function. The runner prints a line when a stage starts, and a line
//! with its time when it ends. The first stage that fails stops the gate; the nightly run continues with the next
//! stage. Both then end with an exit code other than zero. A stage is skipped, with a reason, if this machine lacks
//! something that it needs. A summary at the end lists the stages that ran. A stage that takes longer than its budget
//! only causes a warning, because time depends on the machine.

use std::time::{Duration, Instant};

use clap::Args as ClapArgs;

use crate::error::Error;

/// Selection of stages.
#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    /// Run only these stages; may be given several times.
    #[arg(long, value_name = "STAGE")]
    only: Vec<String>,
    /// List the stages and exit.
    #[arg(long)]
    list: bool,
}

/// One stage of the gate or of the nightly run.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Name of the stage, for `--only`.
    pub(crate) name: &'static str,
    /// Purpose of the stage, in a phrase.
    pub(crate) summary: &'static str,
    /// Maximum time of the stage in seconds, on two CPUs that other work uses too, with nothing built before.
    pub(crate) budget: u64,
    /// Function that runs the stage to its end.
    pub(crate) run: fn() -> Result<Outcome, Error>,
}

/// Outcome of a stage that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The stage ran and found nothing wrong.
    Passed,
    /// The stage could not run on this machine; the sentence names the missing part.
    Skipped(String),
}

/// A run of stages.
#[derive(Debug)]
pub(crate) struct Run {
    /// Name of the run in the output.
    pub(crate) task: &'static str,
    /// All stages in their order.
    pub(crate) stages: &'static [Stage],
    /// What happens after a stage that failed.
    pub(crate) after_failure: AfterFailure,
}

/// Continuation of a run after a stage that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// The run ends, so that its user hears of the failure early.
    Stop,
    /// The next stage runs, so that one run reports all failures.
    Continue,
}

/// Runs the stages that `args` select.
///
/// # Errors
/// Returns the error of the first stage that fails, or [`Error::Usage`] if a selected stage does not exist.
pub(crate) fn run(run: &Run, args: &Args) -> Result<(), Error> {
    let Run { task, stages, after_failure } = *run;
    if args.list {
        for stage in stages {
            println!("{:<9} {:>5} s  {}", stage.name, stage.budget, stage.summary);
        }
        return Ok(());
    }
    let mut report = Vec::new();
    let mut outcome = Ok(());
    for stage in selected(stages, &args.only)? {
        outcome = outcome.and(perform(task, stage, &mut report));
        if outcome.is_err() && after_failure == AfterFailure::Stop {
            break;
        }
    }
    println!("\n{task}: summary");
    for line in &report {
        println!("  {line}");
    }
    outcome
}

/// Returns the stages named in `only`, or all stages if `only` is empty.
fn selected(stages: &'static [Stage], only: &[String]) -> Result<Vec<&'static Stage>, Error> {
    if only.is_empty() {
        return Ok(stages.iter().collect());
    }
    only.iter().map(|name| find(stages, name)).collect()
}

/// Returns the stage of this name.
fn find(stages: &'static [Stage], name: &str) -> Result<&'static Stage, Error> {
    stages.iter().find(|stage| stage.name == name).ok_or_else(|| {
        let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        Error::Usage(format!("there is no stage `{name}`; the stages are: {}", names.join(", ")))
    })
}

fn perform(task: &str, stage: &Stage, report: &mut Vec<String>) -> Result<(), Error> {
    println!("\n{task}: {}: {}", stage.name, stage.summary);
    let started = Instant::now();
    let outcome = (stage.run)();
    let time = started.elapsed();
    let line = result_line(stage, &outcome, time);
    println!("{task}: {line}");
    if time > Duration::from_secs(stage.budget) {
        println!("{task}: warning: {} took longer than its budget of {} s", stage.name, stage.budget);
    }
    report.push(line);
    outcome.map(drop)
}

fn result_line(stage: &Stage, outcome: &Result<Outcome, Error>, time: Duration) -> String {
    let (name, seconds, budget) = (stage.name, time.as_secs_f64(), stage.budget);
    let (ending, reason) = match outcome {
        Ok(Outcome::Passed) => ("passed", ""),
        Ok(Outcome::Skipped(reason)) => ("skipped", reason.as_str()),
        Err(_) => ("FAILED", ""),
    };
    format!("{name:<9} {ending:<7} {seconds:>7.1} s of {budget:>4}  {reason}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    static STAGES: [Stage; 2] = [
        Stage { name: "fmt", summary: "passes", budget: 10, run: || Ok(Outcome::Passed) },
        Stage { name: "clippy", summary: "fails", budget: 10, run: || Err(Error::Failed("no".to_owned())) },
    ];

    #[test]
    fn unknown_stage_error_lists_known_stages() {
        let sentence = selected(&STAGES, &["clipy".to_owned()]).unwrap_err().to_string();
        assert!(sentence.contains("`clipy`") && sentence.contains("fmt, clippy"), "{sentence}");
        assert_eq!(selected(&STAGES, &[]).unwrap().len(), STAGES.len());
    }

    #[test]
    fn nightly_run_continues_after_a_failure_and_returns_it() {
        static RAN: AtomicU32 = AtomicU32::new(0);
        static STAGES: [Stage; 2] = [
            Stage { name: "miri", summary: "fails", budget: 10, run: || Err(Error::Failed("no".to_owned())) },
            Stage { name: "loom", summary: "counts its runs", budget: 10, run: count },
        ];
        fn count() -> Result<Outcome, Error> {
            RAN.fetch_add(1, Relaxed);
            Ok(Outcome::Passed)
        }
        let args = Args { only: Vec::new(), list: false };
        assert!(run(&Run { task: "ci", stages: &STAGES, after_failure: AfterFailure::Stop }, &args).is_err());
        assert_eq!(RAN.load(Relaxed), 0);
        assert!(run(&Run { task: "nightly", stages: &STAGES, after_failure: AfterFailure::Continue }, &args).is_err());
        assert_eq!(RAN.load(Relaxed), 1);
    }

    #[test]
    fn failure_is_reported_and_returned() {
        let mut report = Vec::new();
        assert!(perform("ci", &STAGES[0], &mut report).is_ok());
        assert!(perform("ci", &STAGES[1], &mut report).is_err());
        assert!(report[1].contains("FAILED"), "{report:?}");
    }

    fn first_line(outcome: Result<Outcome, Error>) -> String {
        result_line(&STAGES[0], &outcome, Duration::from_millis(12_340))
    }

    #[test]
    fn stage_line_shows_time_and_budget() {
        assert_eq!(first_line(Ok(Outcome::Passed)), "fmt       passed     12.3 s of   10");
        assert_eq!(
            first_line(Ok(Outcome::Skipped("no root".to_owned()))),
            "fmt       skipped    12.3 s of   10  no root"
        );
    }
}
