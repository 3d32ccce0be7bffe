//! `freehold replay FILE --policy NAME`: replays a recording through the engine under one policy.

use std::path::PathBuf;

use clap::Args;
use freehold_replay::report::single::ReplayReport;
use freehold_replay::{Conditions, PreparedReplay, Watch};
use freehold_report::formats::{Formats, Views};
use freehold_report::progress::Progress;
use freehold_report::report::Detail;
use freehold_report::terminal::Style;
use freehold_trace::recording::Recording;

use super::reclaim::ReclaimArgs;
use super::{SpreadArgs, help_with_settings, in_words, parse_settings};
use crate::error::Error;

/// End of the help text.
const NOTES: &str = "A recording is replayed on the recorded machine's memory. `freehold sim recording FILE` runs its \
                     tasks on other memory: with --start SNAPSHOT on another machine's, with --age 60 on fragmented \
                     memory.\n\n\
                     Examples:\n  freehold replay recording.parquet --policy freehold\n  \
                     freehold replay recording.parquet --cpus 64 --json -\n  \
                     freehold replay recording.parquet --setting vm.min_free_kbytes=65536";

/// Arguments of `freehold replay`.
#[derive(Debug, Args)]
#[command(after_help = help_with_settings(NOTES))]
pub struct ReplayArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Policy, as SET[,field=value...]; see `freehold policies` [default: the rules nearest to the recorded kernel]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    #[command(flatten)]
    spread: SpreadArgs,

    #[command(flatten)]
    reclaim: ReclaimArgs,

    /// Kernel setting instead of the recorded one, such as vm.min_free_kbytes=65536; may be repeated
    #[arg(long = "setting", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    /// List the first decisions that differ from the recorded kernel's
    #[arg(long)]
    explain: bool,

    /// Print all details: zero measures, every check against the recorded kernel, assumptions
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Prints the report of the replay.
pub(crate) fn run(args: &ReplayArgs, style: Style) -> Result<(), Error> {
    Ok(args.formats.emit(&*answer(args)?, style)?)
}

/// Replays the recording, and returns a report of the events and of the fidelity to the recorded kernel.
pub(crate) fn answer(args: &ReplayArgs) -> Result<Box<dyn Views>, Error> {
    args.formats.try_all([args.recording.as_path()])?;
    let settings = parse_settings(&args.settings)?;
    let named = args.policy.as_deref().map(freehold_policies::parse).transpose()?;
    let recording = Recording::open(&args.recording)?;
    let policy = named.map_or_else(|| freehold_policies::parse(recording.release.rules()), Ok)?;
    let prepared = PreparedReplay::new(&recording.reader, args.reclaim.reclaim)?;
    let progress = Progress::new(format!("replaying under {}", policy.name), recording.reader.row_count());
    let watch = if args.formats.wants_page() { Watch::Map } else { Watch::Sums };
    let conditions = Conditions { cpus: args.spread.cpus, settings: &settings, pacing: args.reclaim.pacing, watch };
    let mut outcome = prepared.replay(&policy.name, policy.policy, conditions, |events| progress.advance(events))?;
    drop(progress);
    let file = recording.facts(args.spread.cpus).file;
    outcome.course.set_command(|| super::map::command(&file, &policy.name, args.reclaim, &conditions));
    outcome.assumptions.extend(recording.release.differences(&outcome.policy));
    if !args.explain {
        outcome.course.decisions.clear();
        outcome.course.compaction.iter_mut().for_each(|compared| compared.examples.clear());
    }
    let facts = recording.facts(args.spread.cpus);
    let detail = if args.all { Detail::All } else { Detail::Differences };
    Ok(Box::new(ReplayReport { recording: facts, settings: in_words(&settings), outcome, detail }))
}
