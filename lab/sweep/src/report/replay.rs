//! Replays: recordings decide together, as in a comparison of them all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use freehold_replay::report::brief::LISTED_MAX;
use freehold_replay::report::comparison::{ComparisonReport, Replays as Sides, WITH};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_report::formats::Document;
use freehold_report::report::pool::confidence_of;
use freehold_report::report::{self as model, Measure};
use freehold_trace::kernel::Release;
use freehold_trace::recording::RecordingFacts;

use super::{Judged, Terms};
use crate::outcome::{self, Replayed};
use crate::part::{Header, Row};
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

/// What is known of all recordings.
pub struct Told<'p> {
    replays: &'p Replays,
    /// Those of the same name beside each other.
    recordings: BTreeMap<Identity, Found>,
}

impl<'p> Told<'p> {
    /// Of no recording yet.
    pub fn nothing(replays: &'p Replays) -> Told<'p> {
        Told { replays, recordings: BTreeMap::new() }
    }

    /// Takes in a replay; nothing if these rows tell of none.
    pub fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        let mut replayed = outcome::of_rows(rows)?;
        let label = |key| header.label(key).unwrap_or_default().to_owned();
        let key = [POLICY, SETTING, CPUS].map(label);
        // Only these are held against the recorded kernel.
        let [policy, under @ ..] = &key;
        let is_baseline = under.iter().all(|label| label == RECORDED)
            && [RECORDED, self.replays.a_label()].contains(&policy.as_str());
        if !is_baseline {
            replayed.outcome.fidelity = Vec::new();
        }
        self.recordings.entry(header.recording?).or_default().insert(key, replayed);
        Some(())
    }

    /// Judges every B by A.
    pub fn judge(&self, terms: Terms) -> Judged {
        let asked = Asked {
            a: self.replays.a_label().to_owned(),
            b: self.replays.b.iter().map(|policy| policy.name.clone()).collect(),
            settings: self.replays.settings.iter().map(|settings| setting_label(settings)).collect(),
            cpus: self.replays.cpus.iter().map(|cpus| cpus_label(*cpus)).collect(),
        };
        let questions = asked.questions();
        let comparisons = questions.iter().map(|question| question.rivals.len()).sum();
        let (mut incomplete, mut verdicts) = (BTreeSet::new(), Vec::new());
        let files = self.files();
        for question in &questions {
            let (answers, missing) = self.answers(question);
            incomplete.extend(missing);
            if !answers.is_empty() {
                verdicts.extend(self.report(question, &answers, &files, (terms, confidence_of(comparisons))));
            }
        }
        Judged { comparisons, incomplete: incomplete.into_iter().collect(), verdicts }
    }

    /// What recordings are called: those that share a name, by their contents too.
    fn files(&self) -> BTreeMap<&Identity, String> {
        let mut named: HashMap<&str, usize> = HashMap::new();
        self.recordings.keys().for_each(|identity| *named.entry(&identity.name).or_default() += 1);
        let name = |identity: &Identity| match named[identity.name.as_str()] {
            1 => identity.name.clone(),
            _ => identity.label(),
        };
        self.recordings.keys().map(|identity| (identity, format!("{}.parquet", name(identity)))).collect()
    }

    /// What answers a question, and the recordings that lack an answer.
    fn answers(&self, question: &Question<'_>) -> (Vec<(&Identity, Answer<'_>)>, Vec<String>) {
        let (mut missing, mut answers) = (Vec::new(), Vec::new());
        for (identity, found) in &self.recordings {
            match question.on(self.replays, found) {
                Some(answer) => answers.push((identity, answer)),
                None => missing.push(identity.label()),
            }
        }
        (answers, missing)
    }

    fn report(
        &self,
        question: &Question<'_>,
        answers: &[(&Identity, Answer<'_>)],
        files: &BTreeMap<&Identity, String>,
        (terms, confidence): (Terms, f64),
    ) -> Vec<model::Report> {
        let kernels: BTreeSet<&str> = answers.iter().map(|(_, answer)| answer.release.rules()).collect();
        let a = match &self.replays.a {
            Some(a) => a.name.clone(),
            None => kernels.into_iter().collect::<Vec<_>>().join(" or ") + " (nearest kernel)",
        };
        let a = named(&a, question.a.setting);
        let mut report = ComparisonReport::new(a, terms.margin, terms.detail).at_confidence(confidence);
        for (identity, answer) in answers {
            let rules = (self.replays.a.is_none() && !self.replays.b.is_empty()).then_some(answer.release);
            let facts = RecordingFacts { file: files[identity].clone(), ..answer.a.facts.clone() };
            let (a, rivals) = question.named(answer);
            report.add(facts, &Sides { a: &a, rivals: &rivals, baseline: answer.baseline, rules });
        }
        for set in freehold_policies::SETS {
            report.explain(set.name, set.why);
        }
        let reports = report.concluded().reports().into_owned();
        reports.into_iter().map(|report| told(report, question, answers.len())).collect()
    }
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
struct Answer<'f> {
    a: &'f Replayed,
    rivals: Vec<&'f Replayed>,
    baseline: &'f ReplayOutcome,
    release: Release,
}

impl Question<'_> {
    /// What answers it; nothing if a replay is missing.
    fn on<'f>(&self, replays: &Replays, found: &'f Found) -> Option<Answer<'f>> {
        let get = |side: &Side<'_>| found.get(&[side.policy, side.setting, self.cpus].map(str::to_owned));
        let a = get(&self.a)?;
        let release = Release::parse(&a.facts.kernel_release)?;
        let policy = if replays.has_baseline(release) { replays.a_label() } else { RECORDED };
        let baseline = &found.get(&[policy, RECORDED, RECORDED].map(str::to_owned))?.outcome;
        let rivals = self.rivals.iter().map(get).collect::<Option<_>>()?;
        Some(Answer { a, rivals, baseline, release })
    }

    /// A and its rivals by the names that they are asked for, as in a comparison.
    fn named(&self, answer: &Answer<'_>) -> (ReplayOutcome, Vec<ReplayOutcome>) {
        let Answer { a, rivals, release, .. } = answer;
        let mut outcome = ReplayOutcome { policy: named(&a.outcome.policy, self.a.setting), ..a.outcome.clone() };
        outcome.assumptions.extend(release.differences(&a.outcome.policy));
        let renamed = |(side, rival): (&Side<'_>, &&Replayed)| {
            let policy = if side.policy == self.a.policy { "A" } else { side.policy };
            ReplayOutcome { policy: named(policy, side.setting), ..rival.outcome.clone() }
        };
        (outcome, self.rivals.iter().zip(rivals).map(renamed).collect())
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
    let change = |row: &model::Row| row.change.filter(|_| row.verdict.is_some());
    let of = |row: &model::Row| change(row).unwrap_or(f64::NAN);
    let told = || measure.rows.iter().filter(|row| change(row).is_some());
    let ends = [
        told().min_by(|a, b| of(a).total_cmp(&of(b))).cloned(),
        told().max_by(|a, b| of(a).total_cmp(&of(b))).cloned(),
    ];
    let mut ends: Vec<model::Row> = ends.into_iter().flatten().collect();
    ends.dedup();
    if ends.is_empty() {
        ends.extend(measure.rows.first().cloned());
    }
    measure.rows = ends;
}
