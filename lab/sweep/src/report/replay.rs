//! Verdicts on replays: all recordings are judged together, as by `freehold compare` with several recordings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use freehold_replay::report::brief::LISTED_MAX;
use freehold_replay::report::comparison::{ComparisonReport, Replays as Sides, WITH};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_report::formats::Document;
use freehold_report::report::pool::confidence_of;
use freehold_report::report::{self as model, Measure};
use freehold_trace::kernel::Release;
use freehold_trace::recording::RecordingFacts;

use freehold_stats::verdict::Verdict;

use super::terms::{Terms, Verdicts};
use crate::outcome::{self, Replay};
use crate::part::{Header, Row};
use crate::plan::{RECORDED, Replays, cpus_label, setting_label};
use crate::subject::Identity;
use crate::task::{CPUS, POLICY, SETTING};

/// Labels of a combination: policy, settings, CPUs.
type Key = [String; 3];

/// Replays of one recording.
type ReplaysByKey = HashMap<Key, Replay>;

/// A policy under settings.
#[derive(Clone, Copy)]
struct Side<'s> {
    policy: &'s str,
    setting: &'s str,
}

/// A comparison of one A with its rivals on one number of CPUs.
struct Question<'s> {
    about: Option<String>,
    a: Side<'s>,
    rivals: Vec<Side<'s>>,
    cpus: &'s str,
}

/// Labels of the policies, settings and CPUs that are combined for every recording.
struct Combinations {
    a: String,
    b: Vec<String>,
    settings: Vec<String>,
    cpus: Vec<String>,
}

/// Replays of all recordings.
pub(super) struct ReplayResults<'p> {
    replays: &'p Replays,
    /// Replays by recording. Recordings with the same name are adjacent.
    recordings: BTreeMap<Identity, ReplaysByKey>,
}

impl<'p> ReplayResults<'p> {
    /// Creates results without replays.
    pub(super) fn new(replays: &'p Replays) -> ReplayResults<'p> {
        ReplayResults { replays, recordings: BTreeMap::new() }
    }

    /// Adds a replay; returns `None` if the rows are not a complete replay.
    pub(super) fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        let mut replay = outcome::from_rows(rows)?;
        let key = [POLICY, SETTING, CPUS].map(|key| header.label(key).unwrap_or_default().to_owned());
        // Only baseline replays are compared with the recorded kernel.
        let [policy, under @ ..] = &key;
        let is_baseline = under.iter().all(|label| label == RECORDED)
            && [RECORDED, self.replays.a_label()].contains(&policy.as_str());
        if !is_baseline {
            replay.outcome.fidelity = Vec::new();
        }
        self.recordings.entry(header.recording?).or_default().insert(key, replay);
        Some(())
    }

    /// Compares every policy B with A.
    pub(super) fn judge(&self, terms: Terms) -> Verdicts {
        let combinations = Combinations {
            a: self.replays.a_label().to_owned(),
            b: self.replays.b.iter().map(|policy| policy.name.clone()).collect(),
            settings: self.replays.settings.iter().map(|settings| setting_label(settings)).collect(),
            cpus: self.replays.cpus.iter().map(|cpus| cpus_label(*cpus)).collect(),
        };
        let questions = combinations.questions();
        let comparisons = questions.iter().map(|question| question.rivals.len()).sum();
        let (mut incomplete, mut reports) = (BTreeSet::new(), Vec::new());
        let files = self.files();
        for question in &questions {
            let (answers, missing) = self.answers(question);
            incomplete.extend(missing);
            if !answers.is_empty() {
                reports.extend(self.report(question, &answers, &files, (terms, confidence_of(comparisons))));
            }
        }
        Verdicts { comparisons, incomplete: incomplete.into_iter().collect(), reports }
    }

    /// Returns the names of recordings. Recordings that share a name are also identified by their contents.
    fn files(&self) -> BTreeMap<&Identity, String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.recordings.keys().for_each(|identity| *counts.entry(&identity.name).or_default() += 1);
        let mut files = BTreeMap::new();
        for identity in self.recordings.keys() {
            let is_unique = counts[identity.name.as_str()] == 1;
            let name = if is_unique { identity.name.clone() } else { identity.label() };
            files.insert(identity, format!("{name}.parquet"));
        }
        files
    }

    /// Returns the replays that answer a question, by recording, and the recordings that lack one.
    fn answers(&self, question: &Question<'_>) -> (Vec<(&Identity, Answer<'_>)>, Vec<String>) {
        let (mut missing, mut answers) = (Vec::new(), Vec::new());
        for (identity, replays) in &self.recordings {
            match question.answer(self.replays, replays) {
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
        let rules = match &self.replays.a {
            Some(a) => a.name.clone(),
            None => kernels.into_iter().collect::<Vec<_>>().join(" or ") + " (nearest kernel)",
        };
        let a = name_under(&rules, question.a.setting);
        let mut report = ComparisonReport::new(a, terms.margin, terms.detail).at_confidence(confidence);
        for (identity, answer) in answers {
            let rules = (self.replays.a.is_none() && !self.replays.b.is_empty()).then_some(answer.release);
            let facts = RecordingFacts { file: files[identity].clone(), ..answer.a.facts.clone() };
            let (a, rivals) = question.name_sides(answer);
            report.add(facts, &Sides { a: &a, rivals: &rivals, baseline: answer.baseline, rules });
        }
        for set in freehold_policies::SETS {
            report.explain(set.name, set.why);
        }
        let reports = report.conclude().reports().into_owned();
        reports.into_iter().map(|report| shorten(report, question, answers.len())).collect()
    }
}

impl Combinations {
    /// Returns the comparisons to make. Policies B are compared with A under the same settings and on the same number
    /// of CPUs. Without policies B, A under other settings is compared with A as recorded.
    fn questions(&self) -> Vec<Question<'_>> {
        let a = self.a.as_str();
        let mut questions = Vec::new();
        for cpus in &self.cpus {
            if self.b.is_empty() {
                let others = self.settings.iter().filter(|setting| *setting != RECORDED);
                let rivals = others.map(|setting| Side { policy: a, setting }).collect();
                let about = self.describe_cpus(cpus);
                questions.push(Question { about, a: Side { policy: a, setting: RECORDED }, rivals, cpus });
                continue;
            }
            for setting in &self.settings {
                let rivals = self.b.iter().map(|policy| Side { policy, setting }).collect();
                let settings = (self.settings.len() > 1).then(|| format!("Settings: {setting}"));
                let words: Vec<String> = settings.into_iter().chain(self.describe_cpus(cpus)).collect();
                let about = (!words.is_empty()).then(|| words.join("; "));
                questions.push(Question { about, a: Side { policy: a, setting }, rivals, cpus });
            }
        }
        questions
    }

    /// Describes a number of CPUs, if there are several numbers.
    fn describe_cpus(&self, cpus: &str) -> Option<String> {
        let text = if cpus == RECORDED { "the recorded CPUs".to_owned() } else { format!("{cpus} CPUs") };
        (self.cpus.len() > 1).then_some(text)
    }
}

/// Replays of one recording that answer a question.
struct Answer<'f> {
    a: &'f Replay,
    rivals: Vec<&'f Replay>,
    baseline: &'f ReplayOutcome,
    release: Release,
}

impl Question<'_> {
    /// Returns the answer to the question; `None` if a replay is missing.
    fn answer<'f>(&self, replays: &Replays, known: &'f ReplaysByKey) -> Option<Answer<'f>> {
        let a = self.replay(known, &self.a)?;
        let release = Release::parse(&a.facts.kernel_release)?;
        let policy = if replays.has_baseline(release) { replays.a_label() } else { RECORDED };
        let baseline = &known.get(&[policy, RECORDED, RECORDED].map(str::to_owned))?.outcome;
        let rivals = self.rivals.iter().map(|side| self.replay(known, side)).collect::<Option<_>>()?;
        Some(Answer { a, rivals, baseline, release })
    }

    /// Returns the replay of one side.
    fn replay<'f>(&self, known: &'f ReplaysByKey, side: &Side<'_>) -> Option<&'f Replay> {
        known.get(&[side.policy, side.setting, self.cpus].map(str::to_owned))
    }

    /// Returns A and its rivals under the names with which a comparison shows them.
    fn name_sides(&self, answer: &Answer<'_>) -> (ReplayOutcome, Vec<ReplayOutcome>) {
        let Answer { a, rivals, release, .. } = answer;
        let mut outcome = ReplayOutcome { policy: name_under(&a.outcome.policy, self.a.setting), ..a.outcome.clone() };
        outcome.assumptions.extend(release.differences(&a.outcome.policy));
        let mut renamed = Vec::with_capacity(rivals.len());
        for (side, rival) in self.rivals.iter().zip(rivals) {
            let policy = if side.policy == self.a.policy { "A" } else { side.policy };
            renamed.push(ReplayOutcome { policy: name_under(policy, side.setting), ..rival.outcome.clone() });
        }
        (outcome, renamed)
    }
}

/// Returns the name of a policy under settings.
fn name_under(policy: &str, setting: &str) -> String {
    if setting == RECORDED { policy.to_owned() } else { [policy, setting].join(WITH) }
}

/// Adds the description of the question to a report, and shortens the report if there are many recordings.
fn shorten(mut report: model::Report, question: &Question<'_>, recordings: usize) -> model::Report {
    report.subject.splice(0..0, question.about.clone());
    if recordings > LISTED_MAX {
        report.tables.clear();
        report.groups.iter_mut().flat_map(|group| &mut group.measures).for_each(thin);
        let sentence = "For each measure, only the recordings with the smallest and the largest change are shown; the \
                        dataset has all of them.";
        report.verdict.push(sentence.to_owned());
    }
    report
}

/// Keeps only the rows of a measure with the least and the greatest change; the first row if no row has a judged
/// change.
fn thin(measure: &mut Measure) {
    let changes = measure.rows.iter().filter_map(|row| Some((row, judged_change(row)?)));
    let (least, most) =
        (changes.clone().min_by(|a, b| a.1.total_cmp(&b.1)), changes.max_by(|a, b| a.1.total_cmp(&b.1)));
    let mut ends: Vec<model::Row> = [least, most].into_iter().flatten().map(|(row, _)| row.clone()).collect();
    ends.dedup();
    if ends.is_empty() {
        ends.extend(measure.rows.first().cloned());
    }
    measure.rows = ends;
}

/// Returns the change of a row that has a verdict.
fn judged_change(row: &model::Row) -> Option<f64> {
    row.change.filter(|_| row.verdict != Verdict::NotJudged)
}
