//! `freehold advise RECORDING...`: recommends changes to the settings of the recorded machine.
//!
//! Each recording is replayed under the rules nearest to its kernel's: with its own settings, with varied watermarks,
//! and with a few candidates or all of them. Recordings that cannot support advice are refused before any replay.
//! Recordings whose replay with their own settings reproduces no measure are left out; the command fails if no
//! recording remains.

use std::path::PathBuf;

use clap::Args;
use freehold_policies::NamedPolicy;
use freehold_replay::advice::report::{AdviceReport, Extent, Subject};
use freehold_replay::advice::{self, Candidate};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_replay::{Conditions, PreparedReplay, ReclaimMode, Setting, Watch};
use freehold_report::formats::{Formats, Views};
use freehold_report::parallel;
use freehold_report::progress::Progress;
use freehold_report::terminal::Style;
use freehold_trace::Facts;
use freehold_trace::recording::Recording;

use super::inputs::without_snapshots;
use super::{expect_each_once, margin};
use crate::error::Error;

/// Arguments of `freehold advise`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold advise recording.parquet\n  \
                        freehold advise monday.parquet tuesday.parquet wednesday.parquet   with intervals\n  \
                        freehold advise recording.parquet --all --json advice.json")]
pub struct AdviseArgs {
    /// Recordings of one machine; several recordings give intervals. Snapshots among several files are passed over
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,

    /// Margin in percent: relative changes up to the margin are "no change"
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,

    /// Try every value, not only likely improvements, and print each with all assumptions; takes several times as long
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Prints the advice.
pub(crate) fn run(args: &AdviseArgs, style: Style) -> Result<(), Error> {
    Ok(args.formats.emit(&*answer(args)?, style)?)
}

/// Replays every recording with its own and with changed settings, and returns the advice.
pub(crate) fn answer(args: &AdviseArgs) -> Result<Box<dyn Views>, Error> {
    expect_each_once("recording", &args.recordings)?;
    let margin = margin(args.margin)?;
    args.formats.try_all(args.recordings.iter().map(PathBuf::as_path))?;
    let files = without_snapshots(&args.recordings)?;
    let recordings: Vec<Recording> = files.iter().map(|path| Recording::open(path)).collect::<Result<_, _>>()?;
    let files: Vec<String> = recordings.iter().map(|recording| recording.facts(None).file).collect();
    let machines: Vec<(&str, &Facts)> =
        files.iter().zip(&recordings).map(|(file, recording)| (file.as_str(), recording.reader.facts())).collect();
    advice::check(&machines)?;
    let machine = machines[0].1;
    let candidates = advice::candidates(machine);
    let prepared = parallel::run_all(recordings.len(), |number| Prepared::new(&recordings[number]))?;
    let now = parallel::run_all(prepared.len(), |number| prepared[number].replay(&[]))?;
    let (kept, left_out): (Vec<usize>, Vec<usize>) =
        (0..now.len()).partition(|number| advice::is_reproduced(&now[*number]));
    let left_out: Vec<String> = left_out.into_iter().map(|number| files[number].clone()).collect();
    if kept.is_empty() {
        return Err(advice::not_reproduced(&left_out).into());
    }
    let candidates = if args.all { candidates } else { advice::select(candidates, &now) };
    let kept: Vec<(&Prepared<'_>, ReplayOutcome)> =
        kept.into_iter().map(|number| (&prepared[number], now[number].clone())).collect();
    let subjects = replay_candidates(kept, &candidates)?;
    let extent = if args.all { Extent::Everything } else { Extent::Settings };
    Ok(Box::new(AdviceReport::new(&subjects, &candidates, machine, margin, extent).leaving_out(left_out)))
}

/// A recording prepared for replays under the rules nearest to its kernel's.
struct Prepared<'r> {
    recording: &'r Recording,
    policy: NamedPolicy,
    replay: PreparedReplay,
}

impl Prepared<'_> {
    fn new(recording: &Recording) -> Result<Prepared<'_>, Error> {
        let policy = freehold_policies::parse(recording.release.rules())?;
        let replay = PreparedReplay::new(&recording.reader, ReclaimMode::Model)?;
        Ok(Prepared { recording, policy, replay })
    }

    /// Replays the recording with these settings.
    fn replay(&self, settings: &[Setting]) -> Result<ReplayOutcome, Error> {
        let words: Vec<String> = settings.iter().map(Setting::to_string).collect();
        let what = if words.is_empty() { "the recorded settings".to_owned() } else { words.join(", ") };
        let title = format!("{} under {what}", self.recording.facts(None).file);
        let progress = Progress::new(title, self.recording.reader.row_count());
        let conditions = Conditions { settings, watch: Watch::Sums, ..Conditions::default() };
        let NamedPolicy { name, policy } = &self.policy;
        Ok(self.replay.replay(name, *policy, conditions, |events| progress.advance(events))?)
    }

    /// Returns the settings whose replays show the sensitivity: watermarks 1 % lower and 1 % higher.
    fn nudges(&self) -> Vec<Setting> {
        let nudges = advice::nudges(self.recording.reader.facts(), &[]);
        nudges.first().into_iter().chain(nudges.last()).cloned().collect()
    }
}

/// Replays recordings with varied watermarks and with each candidate. `kept` has their replays with the recorded
/// settings.
fn replay_candidates(
    kept: Vec<(&Prepared<'_>, ReplayOutcome)>,
    candidates: &[Candidate],
) -> Result<Vec<Subject>, Error> {
    let mut jobs: Vec<(&Prepared<'_>, Setting)> = Vec::new();
    for (prepared, _) in &kept {
        let tried = candidates.iter().map(|candidate| candidate.setting.clone());
        jobs.extend(prepared.nudges().into_iter().chain(tried).map(|setting| (*prepared, setting)));
    }
    let outcomes = parallel::run_all(jobs.len(), |number| {
        let (prepared, setting) = &jobs[number];
        prepared.replay(std::slice::from_ref(setting))
    })?;
    let mut outcomes = outcomes.into_iter();
    let mut subjects = Vec::new();
    for (prepared, mut now) in kept {
        let (recording, reader) = (prepared.recording, &prepared.recording.reader);
        now.assumptions.extend(recording.release.differences(&prepared.policy.name));
        subjects.push(Subject {
            facts: recording.facts(None),
            machine: reader.shared_facts(),
            requests: advice::requests(reader.facts()),
            now,
            nudged: outcomes.by_ref().take(prepared.nudges().len()).collect(),
            tried: outcomes.by_ref().take(candidates.len()).collect(),
        });
    }
    Ok(subjects)
}
