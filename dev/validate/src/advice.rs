//! `--advice`: compares the levels that `freehold advise` gives to values of settings with kernels that were booted
//! with these values.
//!
//! Each load of [`LOADS`] is booted several times with its kernel's default, and as often with another value of one
//! setting. `freehold advise --all` reads the recordings of the first group and gives that value a level. The
//! recordings of the second group show the outcome. The concerns are examined in the order of `freehold advise`. The
//! first concern with a decided change in the kernel's own counts determines whether the value helped or harmed. If no
//! concern has a decided change, the value is neutral.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use freehold_replay::advice::{Level, candidates, concerns};
use freehold_replay::report::metrics::Metric;
use freehold_report::parallel::run_all;
use freehold_report::progress::Progress;
use freehold_stats::samples::{self, Comparison, Sample, Scale};
use freehold_stats::verdict::Verdict;
use freehold_trace::recording::Recording;
use serde::Deserialize;

use crate::Args;
use crate::cell::Cell;
use crate::error::Error;
use crate::judge::{self, AS_RECORDED, MARGIN, Runs, with_interval};
use crate::lab::{Lab, Load};
use crate::table::NamedTable;

/// Kernel of all loads.
const KERNEL: &str = "6.12";

/// Load, the setting that is changed, and the value that it is booted with.
struct AdvisedLoad {
    workload: &'static str,
    cpus: u16,
    memory: u32,
    setting: &'static str,
    /// Position of the value among those that `freehold advise` tries.
    value: usize,
}

const fn load(workload: &'static str, (cpus, memory): (u16, u32), setting: &'static str, value: usize) -> AdvisedLoad {
    AdvisedLoad { workload, cpus, memory, setting, value }
}

/// Loads: every setting that advice knows, on loads for which it should matter, and on others.
const LOADS: [AdvisedLoad; 12] = [
    load("pressure", (2, 512), "vm.min_free_kbytes", 0),
    load("pressure", (4, 1024), "vm.watermark_scale_factor", 0),
    load("pressure", (4, 512), "vm.watermark_boost_factor", 0),
    load("huge-pages", (2, 512), "vm.compaction_proactiveness", 0),
    load("huge-pages", (4, 1024), "transparent_hugepage.defrag", 1),
    load("huge-pages", (2, 1024), "transparent_hugepage.defrag", 2),
    load("file-copy", (2, 512), "vm.watermark_scale_factor", 0),
    load("file-copy", (4, 768), "vm.watermark_scale_factor", 1),
    load("stress-ng", (2, 512), "vm.percpu_pagelist_high_fraction", 1),
    load("slab-churn", (4, 512), "vm.percpu_pagelist_high_fraction", 0),
    load("fork-storm", (2, 384), "vm.min_free_kbytes", 0),
    load("build", (4, 512), "vm.extfrag_threshold", 0),
];

/// Effect of a value in the booted kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Helped,
    Harmed,
    Neutral,
}

/// Fields of `freehold advise --json` that this module reads.
#[derive(Deserialize)]
struct AdviceJson {
    settings: Vec<SettingJson>,
}

#[derive(Deserialize)]
struct SettingJson {
    name: String,
    candidates: Vec<CandidateJson>,
}

#[derive(Deserialize)]
struct CandidateJson {
    value: String,
    level: Level,
}

/// Load with the advice on its setting and the outcome, or the reason for which there is no result.
pub(crate) struct JudgedAdvice {
    name: String,
    setting: String,
    result: Result<AdviceWithOutcome, String>,
}

/// The level of a value, and what the kernel did.
struct AdviceWithOutcome {
    level: Level,
    concerns: Vec<ConcernChange>,
}

/// The change of a concern in the kernel's own counts.
struct ConcernChange {
    name: &'static str,
    comparison: Comparison,
}

/// Boots all loads with both values, runs `freehold advise`, and compares the outcomes.
///
/// # Errors
/// Returns an error if a kernel cannot be booted, or if a recording cannot be read.
pub(crate) fn judged(lab: &Lab<'_>, args: &Args) -> Result<Vec<JudgedAdvice>, Error> {
    let before: Vec<Load> = LOADS.iter().map(AdvisedLoad::as_kernel_is).collect();
    let recorded = lab.record("loads with the defaults", before.iter().cloned())?;
    let mut pairs: Vec<[Load; 2]> = Vec::new();
    for (advised, load) in LOADS.iter().zip(before) {
        let files = recorded.find(&load).map_err(Error::Input)?;
        let setting = advised.setting_on(&files[0])?;
        pairs.push([load.clone(), Load { setting: Some(setting), ..load }]);
    }
    let recorded = lab.record("loads with another value", pairs.iter().flatten().cloned())?;
    let progress = Progress::counting("advice", pairs.len() as u64, "loads");
    run_all(pairs.len(), |at| {
        let [load, changed] = &pairs[at];
        let setting = changed.setting.clone().unwrap_or_default();
        let result = match recorded.find_pair(&pairs[at]) {
            Ok([before, after]) => match ask(&args.freehold, before, &setting) {
                Ok(level) => Ok(AdviceWithOutcome { level, concerns: compare(before, after)? }),
                Err(refusal) => Err(refusal.to_string()),
            },
            Err(sentence) => Err(sentence),
        };
        progress.advance(1);
        Ok(JudgedAdvice { name: load.name(), setting, result })
    })
}

impl AdvisedLoad {
    fn as_kernel_is(&self) -> Load {
        Load::new(&Cell { kernel: KERNEL, workload: self.workload, cpus: self.cpus, memory: self.memory })
    }

    /// Returns the setting with the value that advice tries on the machine of this recording.
    fn setting_on(&self, file: &Path) -> Result<String, Error> {
        let recording = Recording::open(file)?;
        let tried = candidates(recording.reader.facts());
        let mut of_setting = tried.iter().filter(|candidate| candidate.setting.name() == self.setting);
        let candidate = of_setting.nth(self.value);
        let missing = || {
            Error::Input(format!("{}: `freehold advise` does not try this value of {}", file.display(), self.setting))
        };
        Ok(candidate.ok_or_else(missing)?.setting.to_string())
    }
}

/// Returns the level that `freehold advise` gives to a setting.
fn ask(freehold: &Path, recordings: &[PathBuf], setting: &str) -> Result<Level, Error> {
    let mut command = Command::new(freehold);
    command.arg("advise").args(recordings).args(["--all", "--json", "-"]).stderr(Stdio::piped());
    let output =
        command.output().map_err(|error| Error::Input(format!("cannot run {}: {error}", freehold.display())))?;
    if !output.status.success() {
        return Err(Error::Input(String::from_utf8_lossy(&output.stderr).trim().replace(&folder_of(recordings), "")));
    }
    let advice: AdviceJson = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::Input(format!("cannot read the JSON of `freehold advise`: {error}")))?;
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    let candidates = advice.settings.iter().filter(|known| known.name == name).flat_map(|known| &known.candidates);
    let level = candidates.filter(|candidate| candidate.value == value).map(|candidate| candidate.level).next();
    level.ok_or_else(|| Error::Input(format!("`freehold advise` has no level for {setting}")))
}

/// Returns the folder of the first recording's folder, with the separator after it.
fn folder_of(recordings: &[PathBuf]) -> String {
    let folder = recordings.first().and_then(|file| file.parent()?.parent());
    folder.map_or_else(String::new, |folder| format!("{}/", folder.display()))
}

/// Compares the kernel's counts of every concern.
fn compare(before: &[PathBuf], after: &[PathBuf]) -> Result<Vec<ConcernChange>, Error> {
    let [before] = judge::replay(before, [AS_RECORDED])?;
    let [after] = judge::replay(after, [AS_RECORDED])?;
    let family = concerns().count();
    let counted = concerns().filter_map(|concern| {
        let (a, b) = (kernel_counts(&before, concern)?, kernel_counts(&after, concern)?);
        let comparison = samples::compare(a, b, Scale::Counts, concern.direction(), family, MARGIN);
        Some(ConcernChange { name: concern.name(), comparison })
    });
    Ok(counted.collect())
}

/// Adds the kernel's counts of a concern, boot by boot. Zone lock acquisitions are represented by the blocks that
/// per-CPU lists take or drain, for which the lock is taken.
fn kernel_counts(runs: &Runs, concern: Metric) -> Option<Sample> {
    let mut sums: Vec<f64> = Vec::new();
    for measure in concern.fidelity_sums().iter().copied().flatten() {
        let (kernel, _) = runs.row(measure.name())?;
        sums.resize(kernel.values.len(), 0.0);
        sums.iter_mut().zip(&kernel.values).for_each(|(sum, value)| *sum += value);
    }
    Some(Sample::new(sums))
}

impl AdviceWithOutcome {
    /// Returns the outcome of the first concern with a decided change.
    fn outcome(&self) -> Outcome {
        let decided = self.concerns.iter().find_map(|concern| match concern.comparison.verdict {
            Verdict::Better => Some(Outcome::Helped),
            Verdict::Worse => Some(Outcome::Harmed),
            _ => None,
        });
        decided.unwrap_or(Outcome::Neutral)
    }
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Outcome::Helped => "helped",
            Outcome::Harmed => "harmed",
            Outcome::Neutral => "neutral",
        }
    }
}

/// Returns the table of levels by outcome, the table of all loads, the loads without a result, and the recipe.
pub(crate) fn tables(args: &Args, judged: &[JudgedAdvice]) -> Vec<NamedTable> {
    let failed = judged.iter().filter_map(|judged| Some((judged.name.clone(), judged.result.as_ref().err()?.clone())));
    let recipe = format!("cargo xtask oracle --advice --runs {} --out docs/findings/data/advice", args.runs);
    vec![summary(judged), loads(judged), NamedTable::failures(failed), NamedTable::recipe(&recipe)]
}

fn summary(judged: &[JudgedAdvice]) -> NamedTable {
    let known: Vec<&AdviceWithOutcome> = judged.iter().filter_map(|judged| judged.result.as_ref().ok()).collect();
    let lines = [Outcome::Helped, Outcome::Neutral, Outcome::Harmed].map(|outcome| {
        let of_outcome = known.iter().filter(|known| known.outcome() == outcome);
        let levels: Vec<Level> = of_outcome.map(|known| known.level).collect();
        let counts = [Level::Recommended, Level::WorthTesting, Level::Leave]
            .map(|level| levels.iter().filter(|known| **known == level).count().to_string());
        [vec![outcome.label().to_owned(), levels.len().to_string()], counts.to_vec()].concat()
    });
    NamedTable::new("summary", ["outcome in the kernel", "loads", "recommended", "worth testing", "leave it"], lines)
}

fn loads(judged: &[JudgedAdvice]) -> NamedTable {
    let lines = judged.iter().filter_map(|JudgedAdvice { name, setting, result }| {
        let known = result.as_ref().ok()?;
        let decided = known.concerns.iter().filter(|concern| concern.comparison.verdict.is_decided());
        let changes: Vec<String> =
            decided.map(|concern| format!("{} {}", concern.name, with_interval(&concern.comparison))).collect();
        let changes = if changes.is_empty() { "none".to_owned() } else { changes.join("; ") };
        let words = [known.level.label(), known.outcome().label()].map(str::to_owned);
        Some([vec![name.clone(), setting.clone()], words.to_vec(), vec![changes]].concat())
    });
    NamedTable::new("loads", ["load", "booted with", "advice", "outcome", "decided changes in the kernel"], lines)
}

#[cfg(test)]
mod tests {
    use freehold_stats::verdict::Direction;

    use super::*;

    fn known(verdicts: &[Verdict]) -> AdviceWithOutcome {
        let concern = |verdict: &Verdict| {
            let sample = Sample::new(vec![1.0; 5]);
            let comparison = samples::compare(sample.clone(), sample, Scale::Counts, Direction::Lower, 1, MARGIN);
            ConcernChange { name: "x", comparison: Comparison { verdict: *verdict, ..comparison } }
        };
        AdviceWithOutcome { level: Level::Leave, concerns: verdicts.iter().map(concern).collect() }
    }

    #[test]
    fn first_decided_concern_gives_the_outcome() {
        assert_eq!(known(&[Verdict::WithinNoise, Verdict::Better, Verdict::Worse]).outcome(), Outcome::Helped);
        assert_eq!(known(&[Verdict::NoChange, Verdict::Worse, Verdict::Better]).outcome(), Outcome::Harmed);
        assert_eq!(known(&[Verdict::NoChange, Verdict::TooFewEvents]).outcome(), Outcome::Neutral);
    }

    #[test]
    fn every_load_is_bootable() {
        for load in &LOADS {
            assert!(freehold_boot::Workload::find(load.workload).is_ok(), "{}", load.workload);
            assert!(load.as_kernel_is().cell.is_possible());
        }
    }
}
