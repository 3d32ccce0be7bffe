//! `freehold advise RECORDING...`: which settings of the recorded machine to change today.
//!
//! Each recording is replayed under the rules nearest to its kernel's, as it was set, and then under every candidate;
//! what cannot carry advice is refused before that.

use std::path::PathBuf;

use clap::Args;
use freehold_policies::NamedPolicy;
use freehold_replay::advice::report::{AdviceReport, Extent, Subject};
use freehold_replay::advice::{self, Candidate};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_replay::{Conditions, PreparedReplay, ReclaimMode, Setting};
use freehold_report::formats::{Formats, Views};
use freehold_report::parallel;
use freehold_report::progress::Progress;
use freehold_report::terminal::Style;
use freehold_trace::Facts;
use freehold_trace::recording::Recording;

use super::{expect_each_once, margin};
use crate::error::Error;

/// Arguments of `freehold advise`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold advise recording.parquet\n  \
                        freehold advise monday.parquet tuesday.parquet wednesday.parquet   with intervals\n  \
                        freehold advise recording.parquet --all --json advice.json")]
pub struct AdviseArgs {
    /// Recordings of one machine; several give intervals
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,

    /// Relative changes up to this are no difference, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,

    /// Show every value that was tried too, and what is taken for granted
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Prints the answer.
pub(crate) fn run(args: &AdviseArgs, style: Style) -> Result<(), Error> {
    Ok(args.formats.emit(&*answer(args)?, style)?)
}

/// Replays every recording as it was set and otherwise: what to change.
pub(crate) fn answer(args: &AdviseArgs) -> Result<Box<dyn Views>, Error> {
    expect_each_once("recording", &args.recordings)?;
    let margin = margin(args.margin)?;
    args.formats.try_all(args.recordings.iter().map(PathBuf::as_path))?;
    let recordings: Vec<Recording> =
        args.recordings.iter().map(|path| Recording::open(path)).collect::<Result<_, _>>()?;
    let files: Vec<String> = recordings.iter().map(|recording| recording.facts(None).file).collect();
    let machines: Vec<(&str, &Facts)> =
        files.iter().zip(&recordings).map(|(file, recording)| (file.as_str(), recording.reader.facts())).collect();
    advice::check(&machines)?;
    let machine = machines[0].1;
    let candidates = advice::candidates(machine);
    let subjects = parallel::run_all(recordings.len(), |number| subject(&recordings[number], &candidates))?;
    let left_out = files.iter().zip(&subjects).filter(|(_, subject)| subject.is_none());
    let left_out: Vec<String> = left_out.map(|(file, _)| file.clone()).collect();
    if left_out.len() == files.len() {
        return Err(advice::not_reproduced(&left_out).into());
    }
    let subjects: Vec<Subject> = subjects.into_iter().flatten().collect();
    let extent = if args.all { Extent::Everything } else { Extent::Settings };
    Ok(Box::new(AdviceReport::new(&subjects, &candidates, machine, margin, extent).leaving_out(left_out)))
}

/// Replays one recording as it was set, and under every candidate; nothing, where already the first is too far off.
fn subject(recording: &Recording, candidates: &[Candidate]) -> Result<Option<Subject>, Error> {
    let facts = recording.facts(None);
    let policy = freehold_policies::parse(recording.release.rules())?;
    let prepared = PreparedReplay::new(&recording.reader, ReclaimMode::Model)?;
    let nudges = advice::nudges(recording.reader.facts(), &[]);
    let rows = recording.reader.row_count() * (1 + nudges.len() + candidates.len()) as u64;
    let progress = Progress::new(format!("{} under {} settings", facts.file, candidates.len()), rows);
    let mut now = replay(&prepared, &policy, &[], &progress)?;
    if !advice::is_reproduced(&now) {
        return Ok(None);
    }
    now.assumptions.extend(recording.release.differences(&policy.name));
    let nudged = nudges.iter().map(|nudge| replay(&prepared, &policy, std::slice::from_ref(nudge), &progress));
    let nudged = nudged.collect::<Result<_, _>>()?;
    let tried = candidates.iter().map(|candidate| std::slice::from_ref(&candidate.setting));
    let tried = tried.map(|setting| replay(&prepared, &policy, setting, &progress)).collect::<Result<_, _>>()?;
    Ok(Some(Subject { facts, requests: advice::requests(recording.reader.facts()), now, nudged, tried }))
}

/// Replays a recording under one policy and these settings.
fn replay(
    prepared: &PreparedReplay,
    policy: &NamedPolicy,
    settings: &[Setting],
    progress: &Progress,
) -> Result<ReplayOutcome, freehold_replay::Error> {
    let conditions = Conditions { settings, ..Conditions::default() };
    prepared.replay(&policy.name, policy.policy, conditions, |events| progress.advance(events))
}
