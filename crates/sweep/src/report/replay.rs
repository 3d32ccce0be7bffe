//! Replays: recordings decide together, as in a comparison of them all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use freehold_measure::formats::Document;
use freehold_measure::report::pool::confidence_of;
use freehold_measure::report::{self as model, Line, Measure};
use freehold_replay::report::brief::LISTED_MAX;
use freehold_replay::report::comparison::{ComparisonReport, Replays as Sides, WITH};
use freehold_replay::report::model::ReplayOutcome;
use freehold_trace::kernel::Release;

use super::{Judged, Part, Terms};
use crate::outcome::{self, Replayed};
use crate::plan::{RECORDED, Replays, cpus_label, setting_label};
use crate::subject::Identity;
use crate::task::{CPUS, POLICY, SETTING};

/// A combination: policy, settings, CPUs, as the labels have them.
type Key = [String; 3];

/// What is known of one recording.
type Found = HashMap<Key, Replayed>;

/// A policy under settings.
#[derive(Clone, Copy)]
struct Side<'s> {
    policy: &'s str,
    setting: &'s str,
}

/// One A and its rivals, on so many CPUs.
struct Question<'s> {
    about: Option<String>,
    a: Side<'s>,
    rivals: Vec<Side<'s>>,
    cpus: &'s str,
}

/// All that is asked of every recording.
struct Asked {
    a: String,
    b: Vec<String>,
    settings: Vec<String>,
    cpus: Vec<String>,
}

/// Judges every B by A.
pub fn judge(replays: &Replays, parts: Vec<Part>, terms: Terms) -> Judged {
    let recordings = by_recording(parts);
    let asked = Asked {
        a: replays.a_label().to_owned(),
        b: replays.b.iter().map(|policy| policy.name.clone()).collect(),
        settings: replays.settings.iter().map(|settings| setting_label(settings)).collect(),
        cpus: replays.cpus.iter().map(|cpus| cpus_label(*cpus)).collect(),
    };
    let questions = asked.questions();
    let comparisons = questions.iter().map(|question| question.rivals.len()).sum();
    let (mut incomplete, mut verdicts) = (BTreeSet::new(), Vec::new());
    for question in &questions {
        let (report, missing) = answer(question, replays, &recordings, terms, confidence_of(comparisons));
        incomplete.extend(missing);
        verdicts.extend(report);
    }
    Judged { comparisons, incomplete: incomplete.into_iter().collect(), verdicts }
}

/// Replays of each recording, those of the same name beside each other.
fn by_recording(parts: Vec<Part>) -> BTreeMap<Identity, Found> {
    let mut recordings: BTreeMap<Identity, Found> = BTreeMap::new();
    for Part { header, rows } in parts {
        let label = |key| header.label(key).unwrap_or_default().to_owned();
        let key = [POLICY, SETTING, CPUS].map(label);
        if let (Some(identity), Some(replayed)) = (header.recording, outcome::of_rows(&rows)) {
            recordings.entry(identity).or_default().insert(key, replayed);
        }
    }
    recordings
}

impl Asked {
    /// With policies B, they are held against A under the same settings and on as many CPUs; without, A under other
    /// settings against A as recorded.
    fn questions(&self) -> Vec<Question<'_>> {
        let several = self.cpus.len() > 1;
        let on = |cpus: &str| {
            several.then(|| if cpus == RECORDED { "the recorded CPUs".to_owned() } else { format!("{cpus} CPUs") })
        };
        let of_policies = |(setting, cpus): (&'_ String, &'_ String)| {
            let under = (self.settings.len() > 1).then(|| format!("Settings: {setting}"));
            let about: Vec<String> = under.into_iter().chain(on(cpus)).collect();
            (!about.is_empty()).then(|| about.join("; "))
        };
        let mut questions = Vec::new();
        for cpus in &self.cpus {
            let side = |policy, setting| Side { policy, setting };
            if self.b.is_empty() {
                let others = self.settings.iter().filter(|setting| *setting != RECORDED);
                let rivals = others.map(|setting| side(self.a.as_str(), setting.as_str())).collect();
                questions.push(Question { about: on(cpus), a: side(&self.a, RECORDED), rivals, cpus });
                continue;
            }
            for setting in &self.settings {
                let rivals = self.b.iter().map(|b| side(b.as_str(), setting.as_str())).collect();
                let about = of_policies((setting, cpus));
                questions.push(Question { about, a: side(&self.a, setting), rivals, cpus });
            }
        }
        questions
    }
}

/// The replays that answer a question on one recording.
struct Answer {
    a: ReplayOutcome,
    rivals: Vec<ReplayOutcome>,
    baseline: ReplayOutcome,
    release: Release,
}

/// The report on a question, and the recordings that lack an answer; no report if all do.
fn answer(
    question: &Question<'_>,
    replays: &Replays,
    recordings: &BTreeMap<Identity, Found>,
    terms: Terms,
    confidence: f64,
) -> (Vec<model::Report>, Vec<String>) {
    let (mut missing, mut kernels, mut answers) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (identity, found) in recordings {
        match question.on(replays, found) {
            Some((facts, answer)) => {
                let twins = recordings.keys().filter(|other| other.name == identity.name).count();
                let file = if twins > 1 { format!("{}.parquet", identity.label()) } else { facts.file.clone() };
                kernels.insert(answer.release.rules());
                answers.push((freehold_trace::recording::RecordingFacts { file, ..facts }, answer));
            }
            None => missing.push(identity.label()),
        }
    }
    if answers.is_empty() {
        return (Vec::new(), missing);
    }
    let a = match &replays.a {
        Some(a) => named(&a.name, question.a.setting),
        None => {
            named(&(kernels.into_iter().collect::<Vec<_>>().join(" or ") + " (nearest kernel)"), question.a.setting)
        }
    };
    let mut report = ComparisonReport::new(a, terms.margin, terms.detail).at_confidence(confidence);
    for (facts, Answer { a, rivals, baseline, release }) in &answers {
        let rules = (replays.a.is_none() && !replays.b.is_empty()).then_some(*release);
        report.add(facts.clone(), &Sides { a, rivals, baseline, rules });
    }
    for set in freehold_registry::SETS {
        report.explain(set.name, set.why);
    }
    let report = report.concluded();
    let reports = report.reports().into_owned();
    (reports.into_iter().map(|report| told(report, question, answers.len())).collect(), missing)
}

impl Question<'_> {
    fn on(&self, replays: &Replays, found: &Found) -> Option<(freehold_trace::recording::RecordingFacts, Answer)> {
        let get = |side: &Side<'_>| found.get(&[side.policy, side.setting, self.cpus].map(str::to_owned));
        let a = get(&self.a)?;
        let release = Release::parse(&a.facts.kernel_release)?;
        let as_recorded = [RECORDED; 3].map(str::to_owned);
        let baseline = match replays.has_baseline(release) {
            true => found.get(&[replays.a_label(), RECORDED, RECORDED].map(str::to_owned)),
            false => found.get(&as_recorded),
        };
        let rivals = self.rivals.iter().map(|side| Some(self.renamed(side, &get(side)?.outcome)));
        let rivals = rivals.collect::<Option<Vec<_>>>()?;
        let mut a_outcome = ReplayOutcome { policy: named(&a.outcome.policy, self.a.setting), ..a.outcome.clone() };
        a_outcome.assumptions.extend(release.differences(&a.outcome.policy));
        let baseline = baseline?.outcome.clone();
        Some((a.facts.clone(), Answer { a: a_outcome, rivals, baseline, release }))
    }

    /// B by the name that it is asked for, as in a comparison.
    fn renamed(&self, side: &Side<'_>, outcome: &ReplayOutcome) -> ReplayOutcome {
        let policy = if side.policy == self.a.policy { "A" } else { side.policy };
        ReplayOutcome { policy: named(policy, side.setting), ..outcome.clone() }
    }
}

/// What a policy is called under settings.
fn named(policy: &str, setting: &str) -> String {
    if setting == RECORDED { policy.to_owned() } else { [policy, setting].join(WITH) }
}

/// The report as it is told among others, and not too long where recordings are many.
fn told(mut report: model::Report, question: &Question<'_>, recordings: usize) -> model::Report {
    report.subject.splice(0..0, question.about.clone());
    if recordings > LISTED_MAX {
        report.tables.clear();
        report.groups.iter_mut().flat_map(|group| &mut group.measures).for_each(thin);
        let sentence = "Of each measure the recordings are shown on which it changes the least and the most; the \
                        dataset has all of them.";
        report.verdict.push(sentence.to_owned());
    }
    report
}

/// Leaves the two ends of a measure.
fn thin(measure: &mut Measure) {
    let change = |line: &Line| line.change.filter(|_| line.verdict.is_some());
    let of = |line: &Line| change(line).unwrap_or(f64::NAN);
    let told = || measure.lines.iter().filter(|line| change(line).is_some());
    let ends = [
        told().min_by(|a, b| of(a).total_cmp(&of(b))).cloned(),
        told().max_by(|a, b| of(a).total_cmp(&of(b))).cloned(),
    ];
    let mut ends: Vec<Line> = ends.into_iter().flatten().collect();
    ends.dedup();
    if ends.is_empty() {
        ends.extend(measure.lines.first().cloned());
    }
    measure.lines = ends;
}
