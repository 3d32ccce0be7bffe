//! `freehold sweep`: runs many replays or simulations by a plan, into one dataset, and reports their joint results.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_report::formats::VerdictFormats;
use freehold_report::parallel;
use freehold_report::report::Detail;
use freehold_report::terminal::{Style, printable};
use freehold_sweep::folder::Folder;
use freehold_sweep::local::{self, Summary};
use freehold_sweep::report::Terms;
use freehold_sweep::{Plan, Report};

use super::margin;
use crate::error::Error;

/// Arguments of `freehold sweep`.
#[derive(Debug, Args)]
#[command(
    after_help = "A plan says what is done (replays of recordings, runs of a simulation, hosts of a fleet), under which \
                        policies, and along which axes. Each task's results are one small Parquet file in FOLDER, which pyarrow, \
                        Polars and DuckDB read as one partitioned dataset. What is there is not done again: a sweep that was \
                        interrupted goes on when it is started again.\n\n\
                        Examples:\n  freehold sweep plans/sweep-reserve.toml recordings/*.parquet --into study\n  \
                        freehold sweep my-plan.toml recordings --into study --jobs 8 --html study.html\n  \
                        freehold sweep my-plan.toml recordings --into study --dry-run\n  \
                        freehold sweep --report study --mmtests -\n\n\
                        Exit status: 1 if some recordings could not be done, which are named, and the rest was."
)]
pub struct SweepArgs {
    /// The plan, a TOML file
    #[arg(value_name = "PLAN", required_unless_present = "report")]
    plan: Option<PathBuf>,

    /// Recordings, or folders of them
    #[arg(value_name = "FILE")]
    recordings: Vec<PathBuf>,

    /// Folder for the results; one that holds some of the same plan is gone on with
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["report", "dry_run"])]
    into: Option<PathBuf>,

    /// Show again what the results in FOLDER say
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["plan", "recordings", "into", "jobs", "dry_run"])]
    report: Option<PathBuf>,

    /// Do at most N tasks at a time; without it, as many as this machine has CPUs
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Say what there would be to do, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Relative changes of replays up to this are no change, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,

    /// Show everything: equal measures, tables, what is taken for granted
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: VerdictFormats,
}

/// Executes the plan, and prints the report of all results.
pub(crate) fn run(args: &SweepArgs, style: Style) -> Result<(), Error> {
    let detail = if args.all { Detail::All } else { Detail::Differences };
    let terms = Terms { margin: margin(args.margin)?, detail };
    args.formats.try_all(args.recordings.iter().map(PathBuf::as_path))?;
    if let Some(path) = &args.report {
        let (folder, plan) = Folder::open(path)?;
        return show(args, &plan, &folder, terms, style);
    }
    let Some(path) = &args.plan else { unreachable!("clap asks for a plan or a report") };
    let plan = Plan::open(path)?;
    let files = local::recordings(&plan, &args.recordings)?;
    if args.dry_run {
        return look(&plan, &files, args.into.as_deref());
    }
    let Some(into) = &args.into else { unreachable!("clap asks for a folder") };
    let folder = Folder::create(into, &plan)?;
    let jobs = args.jobs.map_or_else(parallel::at_once, NonZeroUsize::get);
    let summary = local::run(&plan, &files, &folder, jobs)?;
    if summary.kept > 0 {
        eprintln!("freehold: {} of {} tasks were done before", summary.kept, summary.tasks);
    }
    show(args, &plan, &folder, terms, style)?;
    conclude(&summary)
}

/// Prints the report of the results.
fn show(args: &SweepArgs, plan: &Plan, folder: &Folder, terms: Terms, style: Style) -> Result<(), Error> {
    let parts = folder.parts()?.map(|part| part.map(|(path, bytes)| (path.display().to_string(), bytes)));
    let report = Report::from_parts(plan, parts, terms)?;
    Ok(args.formats.emit(&report, style)?)
}

/// Prints the number of tasks that would be run.
fn look(plan: &Plan, files: &[PathBuf], into: Option<&Path>) -> Result<(), Error> {
    let folder = into.map(|into| Folder::find(into, plan)).transpose()?.flatten();
    let summary = local::look(plan, files, folder.as_ref())?;
    let of = if plan.takes_recordings() { format!(" on {} recordings", summary.recordings) } else { String::new() };
    let line = format!("{}: {} tasks{of}, {} of them done", plan.title(), summary.tasks, summary.kept);
    freehold_report::output::print(format!("{}\n", printable(&line)).as_bytes())?;
    conclude(&summary)
}

/// Reports the recordings that could not be processed.
fn conclude(summary: &Summary) -> Result<(), Error> {
    if let Some(sentence) = again(&summary.repeated) {
        eprintln!("freehold: {}", printable(&sentence));
    }
    for failure in &summary.failures {
        eprintln!("freehold: {}", printable(&failure.to_string()));
    }
    match summary.failures.len() {
        0 => Ok(()),
        failures => Err(Error::Left { failures }),
    }
}

/// Formats a sentence about recordings that are duplicates, naming some of them.
fn again(repeated: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 3;
    match repeated {
        [] => None,
        [one] => Some(format!("{one} is another of these recordings again, and was passed over")),
        several => {
            let named = several.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = if several.len() > NAMED_MAX { " and more" } else { "" };
            let files = several.len();
            Some(format!("{files} files are others of these recordings again, and were passed over ({named}{more})"))
        }
    }
}
