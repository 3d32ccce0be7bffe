//! `freehold compare`: replays recordings through the engine under policy A and under each policy B.
//!
//! Every replay is exact, but a few pages may decide what follows. So each policy is also replayed with watermarks that
//! vary by up to 1 % (unless `--exact` is given), which yields a range for each measure. A difference is sensitive to
//! watermarks if the ranges of A and B overlap. The rules of the recorded kernel are also replayed in any case, as far
//! as the engine implements them, because only that replay can be compared with the kernel itself.

use std::iter;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_policies::NamedPolicy;
use freehold_recordings::{BUNDLED, Bundled};
use freehold_replay::report::comparison::{ComparisonReport, NEAREST, Replays, WITH};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_replay::{Conditions, PreparedReplay, Setting, Watch, advice};
use freehold_report::formats::{VerdictFormats, Views};
use freehold_report::parallel;
use freehold_report::progress::Progress;
use freehold_report::report::Detail;
use freehold_report::terminal::Style;
use freehold_trace::Reader;
use freehold_trace::kernel::Release;
use freehold_trace::recording::Recording;

use super::inputs::without_snapshots;
use super::reclaim::ReclaimArgs;
use super::{SpreadArgs, expect_each_once, help_with_settings, in_words, margin, parse_settings};
use crate::error::Error;

/// Arguments of `freehold compare`.
#[derive(Debug, Args)]
#[command(after_help = help_with_settings("Examples:\n  \
                        freehold compare                                       bundled recordings, default policies\n  \
                        freehold compare my.parquet --b linux-6.12,pcp=merge   another recording and policy\n  \
                        freehold compare a.parquet b.parquet --mmtests -       table for mails to kernel developers\n  \
                        freehold compare my.parquet --setting-b vm.min_free_kbytes=65536   other kernel settings\n  \
                        freehold compare my.parquet --all                      all rows and all assumptions"))]
pub struct CompareArgs {
    /// Recordings; snapshots among several files are passed over [default: the two bundled recordings of a real host]
    #[arg(value_name = "FILE")]
    recordings: Vec<PathBuf>,

    /// Policy A, as SET[,field=value...] [default: the rules nearest to the recorded kernel]
    #[arg(long, value_name = "NAME")]
    a: Option<String>,

    /// Policy B; may be repeated [default: `freehold`; with --setting-b: policy A]. Without --a, `freehold` is replayed
    /// on the rules nearest to the recorded kernel (`freehold,on=linux-6.18`); any other policy is replayed as written
    #[arg(long, value_name = "NAME")]
    b: Vec<String>,

    /// Kernel setting for B instead of the recorded one, such as vm.min_free_kbytes=65536; may be repeated
    #[arg(long = "setting-b", value_name = "NAME=VALUE")]
    settings_b: Vec<String>,

    #[command(flatten)]
    spread: SpreadArgs,

    #[command(flatten)]
    reclaim: ReclaimArgs,

    /// Margin in percent: relative changes up to the margin are "no change"
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,

    /// Replay each policy once: faster, but the sensitivity of differences to watermarks stays unknown
    #[arg(long)]
    exact: bool,

    /// Print all details: equal measures, fidelity, events that were not replayed exactly, assumptions
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: VerdictFormats,
}

/// The policies of a comparison.
struct Policies {
    /// Policy A; `None` for the engine's version of each recorded kernel's rules.
    a: Option<NamedPolicy>,
    /// Policies B; empty if B is A with other settings.
    rivals: Vec<NamedPolicy>,
    /// Settings with which each B is replayed.
    settings: Vec<Setting>,
}

impl Policies {
    fn parse(args: &CompareArgs) -> Result<Policies, Error> {
        let a = args.a.as_deref().map(freehold_policies::parse).transpose()?;
        let rivals = match (args.b.as_slice(), args.settings_b.as_slice()) {
            ([], []) => vec![freehold_policies::parse(freehold_policies::BEST)?],
            (names, _) => names.iter().map(|name| freehold_policies::parse(name)).collect::<Result<_, _>>()?,
        };
        Ok(Policies { a, rivals, settings: parse_settings(&args.settings_b)? })
    }

    /// Returns the policy name that selects a rival in a separate run.
    fn name_alone(&self, rival: &NamedPolicy, a: &NamedPolicy, kernel: Release) -> String {
        match (&self.a, self.rivals.is_empty()) {
            (_, true) => a.name.clone(),
            (None, _) => kernel.on_rules(&rival.name),
            (Some(_), _) => rival.name.clone(),
        }
    }

    /// Returns each B as it is replayed on a recording of this kernel, on which A is `a`.
    fn rivals_of(&self, a: &NamedPolicy, kernel: Release) -> Result<Vec<NamedPolicy>, Error> {
        match (self.rivals.as_slice(), &self.a) {
            ([], _) => Ok(vec![NamedPolicy { name: "A".to_owned(), policy: a.policy }]),
            (rivals, None) => rivals.iter().map(|b| on_recorded_rules(b, kernel)).collect(),
            (rivals, Some(_)) => Ok(rivals.to_vec()),
        }
    }
}

/// Prints the comparison.
pub(crate) fn run(args: &CompareArgs, style: Style) -> Result<(), Error> {
    Ok(args.formats.emit(&*answer(args)?, style)?)
}

/// Replays every recording under every policy, and returns the comparison.
pub(crate) fn answer(args: &CompareArgs) -> Result<Box<dyn Views>, Error> {
    let policies = Policies::parse(args)?;
    expect_each_once("--b", &args.b)?;
    expect_each_once("recording", &args.recordings)?;
    let margin = margin(args.margin)?;
    args.formats.try_all(args.recordings.iter().map(PathBuf::as_path))?;
    let recordings = recordings(args)?;
    let detail = if args.all { Detail::All } else { Detail::Differences };
    let mut report = ComparisonReport::new(name_of_a(&policies, &recordings), margin, detail);
    let replayed = parallel::run_all(recordings.len(), |number| replay_all(&recordings[number], &policies, args))?;
    for (recording, Outcomes { a, rivals, baseline }) in recordings.iter().zip(&replayed) {
        let rules = (policies.a.is_none() && !policies.rivals.is_empty()).then_some(recording.release);
        report.add(recording.facts(args.spread.cpus), &Replays { a, rivals, baseline, rules });
    }
    for set in freehold_policies::SETS {
        report.explain(set.name, set.why);
    }
    for policy in policies.a.iter().chain(&policies.rivals) {
        report.describe(&policy.name, freehold_policies::describe(&policy.name));
    }
    Ok(Box::new(report.conclude()))
}

/// Opens the recordings that were named, or the bundled ones.
fn recordings(args: &CompareArgs) -> Result<Vec<Recording>, Error> {
    if !args.recordings.is_empty() {
        let files = without_snapshots(&args.recordings)?;
        return files.iter().map(|path| Ok(Recording::open(path)?)).collect();
    }
    BUNDLED.iter().map(open_bundled).collect()
}

fn open_bundled(bundled: &Bundled) -> Result<Recording, Error> {
    let path = Path::new(bundled.name);
    let reader = Reader::from_file(bundled.open().map_err(Error::Bundled)?, path)?;
    Ok(Recording::from_reader(reader, path)?)
}

/// Returns the name of A in the report of all recordings.
fn name_of_a(policies: &Policies, recordings: &[Recording]) -> String {
    if let Some(a) = &policies.a {
        return a.name.clone();
    }
    let mut rules: Vec<&str> = recordings.iter().map(|recording| recording.release.rules()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules.join(" or ") + NEAREST
}

/// Returns the name of a policy with settings.
fn name_with(policy: &str, settings: &[Setting]) -> String {
    if settings.is_empty() { policy.to_owned() } else { [policy, &in_words(settings).join(", ")].join(WITH) }
}

/// Outcomes of the replays of one recording.
struct Outcomes {
    a: ReplayOutcome,
    rivals: Vec<ReplayOutcome>,
    baseline: ReplayOutcome,
}

/// One policy on a recording, with the conditions of its replay.
struct Side<'s> {
    policy: &'s NamedPolicy,
    cpus: Option<NonZeroU16>,
    settings: &'s [Setting],
    watch: Watch,
    /// Name that selects the policy in a separate run: with the recorded kernel's rules, if it was put on them.
    asked: String,
}

/// Replays one recording under every policy.
fn replay_all(recording: &Recording, policies: &Policies, args: &CompareArgs) -> Result<Outcomes, Error> {
    let cpus = args.spread.cpus;
    let prepared = PreparedReplay::new(&recording.reader, args.reclaim.reclaim)?;
    let rules = freehold_policies::parse(recording.release.rules())?;
    let a_policy = policies.a.as_ref().unwrap_or(&rules);
    let rivals = policies.rivals_of(a_policy, recording.release)?;
    for rival in &rivals {
        prepared.check_settings(&rival.policy, &policies.settings)?;
    }
    // Only a replay on the recorded CPUs can be compared with the recorded kernel.
    let is_baseline = cpus.is_none() && a_policy.policy == rules.policy;
    let watch = if args.formats.wants_page() { Watch::Map } else { Watch::Sums };
    let a = Side { policy: a_policy, cpus, settings: &[], watch, asked: a_policy.name.clone() };
    let rival_sides = rivals.iter().map(|policy| {
        let asked = policies.name_alone(policy, a_policy, recording.release);
        Side { policy, cpus, settings: &policies.settings, watch, asked }
    });
    let baseline = (!is_baseline).then(|| Side {
        policy: &rules,
        cpus: None,
        settings: &[],
        watch: Watch::Nothing,
        asked: rules.name.clone(),
    });
    let sides = iter::once(a).chain(rival_sides).chain(baseline);
    let sides: Vec<(Side<'_>, Vec<Vec<Setting>>)> = sides
        .map(|side| {
            let all = nudged(&side, recording, args);
            (side, all)
        })
        .collect();
    let jobs: Vec<(&Side<'_>, &Vec<Setting>)> =
        sides.iter().flat_map(|(side, all)| all.iter().map(move |settings| (side, settings))).collect();
    let mut replayed = parallel::run_all(jobs.len(), |number| {
        let (side, settings) = jobs[number];
        let name = name_with(&side.policy.name, side.settings);
        let what = format!("{} under {name}", recording.facts(side.cpus).file);
        let progress = Progress::new(what, recording.reader.row_count());
        // Replays with varied watermarks are not shown, so they are not watched.
        let watch = if settings.len() > side.settings.len() { Watch::Nothing } else { side.watch };
        let conditions = Conditions { cpus: side.cpus, settings, pacing: args.reclaim.pacing, watch };
        let outcome = prepared.replay(&name, side.policy.policy, conditions, |events| progress.advance(events));
        outcome.map(|mut outcome| {
            let file = recording.path.display().to_string();
            outcome.course.set_command(|| super::map::command(&file, &side.asked, args.reclaim, &conditions));
            outcome
        })
    })?
    .into_iter();
    let mut outcomes = sides.iter().map(|(_, all)| {
        let mut first: ReplayOutcome = replayed.next().expect("each job has one outcome");
        first.nudged = replayed.by_ref().take(all.len() - 1).collect();
        first
    });
    let mut a = outcomes.next().expect("the first side is A");
    let rivals = outcomes.by_ref().take(rivals.len()).collect();
    let baseline = outcomes.next().unwrap_or_else(|| a.clone());
    a.assumptions.extend(recording.release.differences(&a_policy.name));
    Ok(Outcomes { a, rivals, baseline })
}

/// Returns the settings of each replay of a side: its own settings, then the same with varied watermarks unless
/// `--exact` is given.
fn nudged(side: &Side<'_>, recording: &Recording, args: &CompareArgs) -> Vec<Vec<Setting>> {
    let (facts, settings) = (recording.reader.facts(), side.settings);
    if args.exact { vec![settings.to_vec()] } else { advice::with_nudges(facts, settings) }
}

/// Returns B as it is replayed on a recording of this kernel: `freehold` is put on the kernel's rules, and any other
/// policy is unchanged. B keeps its name.
fn on_recorded_rules(b: &NamedPolicy, kernel: Release) -> Result<NamedPolicy, Error> {
    let policy = freehold_policies::parse(&kernel.on_rules(&b.name))?.policy;
    Ok(NamedPolicy { name: b.name.clone(), policy })
}
