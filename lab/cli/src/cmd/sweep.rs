//! `freehold sweep`: runs many replays or simulations by a plan, into one dataset, and reports their joint results.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_report::formats::VerdictFormats;
use freehold_report::report::Detail;
use freehold_report::terminal::{Style, printable};
use freehold_report::{notes, parallel};
use freehold_sweep::folder::Folder;
use freehold_sweep::local::{self, Summary};
use freehold_sweep::report::Terms;
use freehold_sweep::{Plan, Report};

use super::inputs::without_snapshots;
use super::margin;
use crate::error::Error;

/// Arguments of `freehold sweep`.
#[derive(Debug, Args)]
#[command(
    after_help = "A plan defines the tasks (replays of recordings, runs of a simulation, or hosts of a fleet), the \
                        policies and the axes. The results of each task are one small Parquet file in FOLDER. \
                        pyarrow, Polars and DuckDB read the folder as one partitioned dataset. Tasks whose results \
                        are in FOLDER are not run again, so the same command continues an interrupted sweep.\n\n\
                        Examples:\n  freehold sweep plans/sweep-reserve.toml recordings/*.parquet --into study\n  \
                        freehold sweep my-plan.toml recordings --into study --jobs 8 --html study.html\n  \
                        freehold sweep my-plan.toml recordings --into study --dry-run\n  \
                        freehold sweep --report study --mmtests -\n\n\
                        Exit status: 1 if some recordings or tasks failed. Each is named on stderr, and the others \
                        were processed."
)]
pub struct SweepArgs {
    /// Plan, a TOML file
    #[arg(value_name = "PLAN", required_unless_present = "report")]
    plan: Option<PathBuf>,

    /// Recordings, or folders of recordings; snapshots among several files are passed over
    #[arg(value_name = "FILE")]
    recordings: Vec<PathBuf>,

    /// Folder for the results; results of the same plan in this folder are kept, and only missing tasks are run
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["report", "dry_run"])]
    into: Option<PathBuf>,

    /// Print the report on the results in FOLDER, without running tasks
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["plan", "recordings", "into", "jobs", "dry_run"])]
    report: Option<PathBuf>,

    /// Maximum number of concurrent tasks [default: number of CPUs of this machine]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Print the number of tasks, and run none
    #[arg(long)]
    dry_run: bool,

    /// Margin in percent: relative changes of replays up to the margin are "no change"
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,

    /// Print all details: equal measures, tables, assumptions
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: VerdictFormats,
}

/// Executes the plan, and prints the report of all results; or prints only the report, or only the number of tasks.
/// Returns an error if a recording or a task failed.
pub(crate) fn run(args: &SweepArgs, style: Style) -> Result<(), Error> {
    let detail = if args.all { Detail::All } else { Detail::Differences };
    let terms = Terms { margin: margin(args.margin)?, detail };
    args.formats.try_all(args.recordings.iter().map(PathBuf::as_path))?;
    if let Some(path) = &args.report {
        let (folder, plan) = Folder::open(path)?;
        return show(args, &plan, &folder, terms, style);
    }
    let Some(path) = &args.plan else { unreachable!("clap requires PLAN unless --report is given") };
    let plan = Plan::open(path)?;
    let files = without_snapshots(&local::recordings(&plan, &args.recordings)?)?;
    if args.dry_run {
        return look(&plan, &files, args.into.as_deref());
    }
    let Some(into) = &args.into else { unreachable!("clap requires --into unless --report or --dry-run is given") };
    let folder = Folder::create(into, &plan)?;
    let jobs = args.jobs.map_or_else(parallel::at_once, NonZeroUsize::get);
    let summary = local::run(&plan, &files, &folder, jobs)?;
    if summary.kept > 0 {
        notes::print(&format!("{} of {} tasks were complete already", summary.kept, summary.tasks));
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
    let line = format!("{}: {} tasks{of}, {} complete", plan.title(), summary.tasks, summary.kept);
    freehold_report::output::print(format!("{}\n", printable(&line)).as_bytes())?;
    conclude(&summary)
}

/// Prints the duplicates, and the recordings and tasks that failed, to stderr. Returns an error if any failed.
fn conclude(summary: &Summary) -> Result<(), Error> {
    if let Some(sentence) = again(&summary.repeated) {
        notes::print(&sentence);
    }
    for failure in &summary.failures {
        eprintln!("freehold: {}", printable(&failure.to_string()));
    }
    match summary.failures.len() {
        0 => Ok(()),
        failures => Err(Error::Left { failures }),
    }
}

/// Formats a sentence about recordings that are duplicates, naming some of them; `None` if there are none.
fn again(repeated: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 3;
    match repeated {
        [] => None,
        [one] => Some(format!("skipped 1 file with the same contents as another recording: {one}")),
        several => {
            let named = several.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = if several.len() > NAMED_MAX { ", ..." } else { "" };
            let files = several.len();
            Some(format!("skipped {files} files with the same contents as other recordings: {named}{more}"))
        }
    }
}
