//! The document of `freehold advise`: a row for each setting, the commands to apply and undo the proposals, and
//! caveats.

use std::borrow::Cow;
use std::sync::Arc;

use freehold_report::formats::Document;
use freehold_report::report::pool::CONFIDENCE;
use freehold_report::report::{Caveats, Column, Detail, Report, Table, Value};
use freehold_stats::verdict::Verdict;
use freehold_trace::facts::Facts;
use freehold_trace::recording::RecordingFacts;
use serde::Serialize;

use super::candidates::{self, Candidate};
use super::concerns::CONCERNS;
use super::evidence::Trial;
use super::judge::{CandidateVerdict, Level};
use super::sentences;
use super::setting::{SettingAdvice, TriedValue};
use super::track::{Predictions, TrackRecord};
use crate::report::brief;
use crate::report::outcome::ReplayOutcome;
use crate::report::rows::{self, MetricRows};
use crate::report::verdict::measure;
use crate::settings;

/// One recording, replayed under its own settings and under each candidate.
pub struct Subject {
    /// The recording.
    pub facts: RecordingFacts,
    /// Facts of its machine.
    pub machine: Arc<Facts>,
    /// Number of requests in the recording.
    pub requests: u64,
    /// Replay under the recorded settings.
    pub now: ReplayOutcome,
    /// Replays under the recorded settings with varied watermarks.
    pub nudged: Vec<ReplayOutcome>,
    /// Replays under the candidates, in their order.
    pub tried: Vec<ReplayOutcome>,
}

impl Subject {
    fn trial(&self, candidate: usize) -> Trial<'_> {
        let Subject { facts, machine, requests, now, nudged, tried } = self;
        Trial { recording: &facts.file, machine, requests: *requests, now, then: &tried[candidate], nudged }
    }
}

/// Extent of the document on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// One row per setting.
    #[default]
    Settings,
    /// Also one row for each value that was tried, and all assumptions.
    Everything,
}

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceReport {
    recordings: Vec<RecordingFacts>,
    /// Recordings that were left out, since the replay is too far off in every measure that advice considers.
    left_out: Vec<String>,
    /// Policy of all replays.
    policy: String,
    /// Relative changes up to this count as no change.
    margin: f64,
    /// Settings that are worth changing, the best first, followed by the others.
    settings: Vec<SettingAdvice>,
    /// Labels of the concerns without a verdict.
    not_judged: Vec<String>,
    /// Caveats, in sentences.
    caveats: Vec<String>,
    assumptions: Vec<String>,
    /// The caveats that belong on the first screen.
    #[serde(skip)]
    warnings: Vec<String>,
    /// The recordings, with the accuracy of their replays.
    #[serde(skip)]
    cases: Table,
    #[serde(skip)]
    extent: Extent,
}

impl AdviceReport {
    /// Builds the document from the replays of recordings of one machine.
    pub fn new(
        subjects: &[Subject],
        candidates: &[Candidate],
        machine: &Facts,
        margin: f64,
        extent: Extent,
    ) -> AdviceReport {
        let track = TrackRecord::load();
        let verdicts: Vec<CandidateVerdict> = (0..candidates.len())
            .map(|at| {
                let trials: Vec<Trial<'_>> = subjects.iter().map(|subject| subject.trial(at)).collect();
                CandidateVerdict::new(&candidates[at], &trials, machine, margin, &track)
            })
            .collect();
        let mut settings: Vec<SettingAdvice> = candidates::names()
            .map(|name| {
                let values = tried_values(name, candidates, &verdicts);
                SettingAdvice::new(name, settings::recorded(machine, name), values, track.setting(name))
            })
            .collect();
        // The sort is stable: settings without a gain keep the order of the table.
        settings.sort_by(|one, other| one.rank().partial_cmp(&other.rank()).expect("the size of a change is not NaN"));
        let mut report = AdviceReport {
            recordings: subjects.iter().map(|subject| subject.facts.clone()).collect(),
            left_out: Vec::new(),
            policy: subjects.first().map_or_else(String::new, |subject| subject.now.policy.clone()),
            margin,
            assumptions: assumptions(subjects, candidates, &settings),
            not_judged: not_judged(subjects),
            caveats: Vec::new(),
            settings,
            warnings: Vec::new(),
            cases: cases(subjects),
            extent,
        };
        if is_under_pressure(subjects) == Pressure::None {
            report.warnings.push(sentences::NO_PRESSURE.to_owned());
        }
        report.caveats = report.warnings.iter().cloned().chain(report.caveats()).collect();
        report
    }

    /// Names the recordings that were left out because [`is_reproduced`](super::is_reproduced) is false for them.
    #[must_use]
    pub fn leaving_out(mut self, files: Vec<String>) -> AdviceReport {
        if !files.is_empty() {
            let named = files.join(", ");
            let sentence = format!("Left out (replay error too large in every measure): {named}.");
            self.caveats.insert(0, sentence.clone());
            self.warnings.insert(0, sentence);
        }
        AdviceReport { left_out: files, ..self }
    }

    /// Returns the settings that are worth changing, each with its best value.
    fn proposed(&self) -> impl Iterator<Item = (&SettingAdvice, &TriedValue)> {
        self.settings.iter().filter_map(|setting| Some((setting, &setting.candidates[setting.best?])))
    }

    /// Returns the caveats that do not belong on the first screen, in sentences.
    fn caveats(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if !self.not_judged.is_empty() {
            sentences.push(format!("Replay error above its bound: {}.", self.not_judged.join("; ")));
            sentences.push(sentences::unreliable());
        }
        let unknown: Vec<&str> =
            self.settings.iter().filter(|setting| setting.now.is_none()).map(|setting| setting.name).collect();
        if !unknown.is_empty() {
            sentences.push(format!("Not tried (setting not recorded): {}.", unknown.join(", ")));
        }
        sentences.push(sentences::rules());
        sentences.extend(sentences::ALWAYS.map(str::to_owned));
        sentences
    }

    /// Returns the headline: the settings at each level.
    fn verdict(&self) -> String {
        let levels = [Level::Recommended, Level::WorthTesting].into_iter().filter_map(|level| {
            let proposed = self.proposed().filter(|(setting, _)| setting.level == level);
            let changes: Vec<String> =
                proposed.map(|(setting, best)| format!("{}={}", setting.name, best.value)).collect();
            (!changes.is_empty()).then(|| format!("{}: {}.", level.label(), changes.join(", ")))
        });
        let levels: Vec<String> = levels.collect();
        let tried: usize = self.settings.iter().map(|setting| setting.candidates.len()).sum();
        match (levels.is_empty(), self.not_judged.is_empty()) {
            (false, _) => levels.join(" "),
            (true, true) => format!("leave all settings: no gain under {tried} other values."),
            (true, false) => {
                format!("leave all settings: no gain under {tried} other values, some measures not judged.")
            }
        }
    }

    fn table(&self) -> Table {
        let columns = ["setting", "now", "advice", "value", "gain, or reason to leave it"];
        let rows = self.settings.iter().map(|setting| {
            let best = setting.best.map(|best| &setting.candidates[best].verdict);
            vec![
                Value::text(setting.name),
                setting.now.as_ref().map_or(Value::None, Value::text),
                match setting.level {
                    Level::Leave => Value::Faint(setting.level.label().to_owned()),
                    level => Value::Judged(level.label().to_owned(), Verdict::Better),
                },
                setting.proposed.as_ref().map_or(Value::None, Value::text),
                match best.and_then(CandidateVerdict::gained) {
                    Some(gained) => Value::text(sentences::effect(gained)),
                    None => Value::Faint(setting.reason.clone().unwrap_or_default()),
                },
            ]
        });
        Table::new("", columns.map(Column::words).to_vec(), rows)
    }

    /// Returns the evidence for each proposal: its price, and how far the prediction can be trusted.
    fn evidence(&self) -> Table {
        let rows = self.proposed().flat_map(|(setting, best)| {
            let name = format!("{}={}", setting.name, best.value);
            let gained = best.verdict.gained();
            let facts = [
                ("cost and losses", sentences::price(&best.verdict)),
                ("replay error", gained.map_or_else(String::new, sentences::accuracy)),
                ("earlier predictions", setting.track_record.map_or_else(|| "none".to_owned(), Predictions::in_short)),
            ];
            let facts = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
            let names = std::iter::once(name).chain(std::iter::repeat(String::new()));
            names.zip(facts).map(|(name, (what, fact))| [name, what.to_owned(), fact].map(Value::Text).to_vec())
        });
        Table::new("", ["proposal", "", "evidence"].map(Column::words).to_vec(), rows)
    }

    /// Returns the commands to paste, one per row, so that none of them wraps on a narrow terminal.
    fn recipe(&self) -> Table {
        let measure = self.proposed().filter_map(|(setting, _)| Some(("measure before and after", setting.measure?)));
        let apply = self.proposed().filter_map(|(setting, _)| Some(("apply", setting.apply.as_deref()?)));
        let undo = self.proposed().filter_map(|(setting, _)| Some(("undo", setting.undo.as_deref()?)));
        let mut steps: Vec<(&str, &str)> = measure.chain(apply).chain(undo).collect();
        steps.dedup();
        let rows = steps.into_iter().map(|(step, line)| vec![Value::text(step), Value::text(line)]);
        Table::new("", ["step", "command, as root"].map(Column::words).to_vec(), rows)
    }

    fn everything(&self) -> Table {
        let columns = ["setting", "value", "for", "gain", "cost and losses"].map(Column::words).to_vec();
        let values =
            self.settings.iter().flat_map(|setting| setting.candidates.iter().map(move |tried| (setting.name, tried)));
        let rows = values.map(|(setting, tried)| {
            let effect = match tried.verdict.gained() {
                None => sentences::reason(&[tried.verdict.finding]),
                Some(gained) => sentences::effect(gained),
            };
            let price = sentences::price(&tried.verdict);
            [setting, &tried.value, tried.why, &effect, &price].map(Value::text).to_vec()
        });
        Table::new("All tried values", columns, rows)
    }
}

/// Returns the table of the recordings.
fn cases(subjects: &[Subject]) -> Table {
    let facts: Vec<RecordingFacts> = subjects.iter().map(|subject| subject.facts.clone()).collect();
    let fidelity = subjects.iter().flat_map(|Subject { facts, now, .. }| {
        now.fidelity.iter().map(move |row| (facts.file.as_str(), now.policy.as_str(), row))
    });
    brief::recordings(&facts, fidelity, |facts| facts.file.clone())
}

/// Returns the values of one setting that were tried, with their verdicts.
fn tried_values(name: &str, candidates: &[Candidate], verdicts: &[CandidateVerdict]) -> Vec<TriedValue> {
    let of_setting = candidates.iter().zip(verdicts).filter(|(candidate, _)| candidate.setting.name() == name);
    of_setting.map(|(candidate, verdict)| TriedValue::new(candidate, verdict)).collect()
}

/// Whether memory was short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    Some,
    None,
}

fn is_under_pressure(subjects: &[Subject]) -> Pressure {
    let is_short = subjects.iter().any(|subject| {
        // A metric that is zero in the replay but not in the recording has no verdict.
        rows::as_recorded(&subject.now).iter().any(|(metric, row)| {
            sentences::is_of_pressure(*metric)
                && (row.verdict == Verdict::NotJudged || row.a.is_some_and(|count| count.value() > 0.0))
        })
    });
    if is_short { Pressure::Some } else { Pressure::None }
}

/// Returns the concerns without a verdict, each with the recordings on which the replay is too far off.
fn not_judged(subjects: &[Subject]) -> Vec<String> {
    let rows: Vec<MetricRows> = subjects.iter().map(|subject| rows::as_recorded(&subject.now)).collect();
    let measures = CONCERNS.iter().map(|concern| (concern, measure(concern.metric, &rows, 0.0, CONFIDENCE)));
    measures.filter_map(|(concern, measure)| sentences::not_judged(concern.words, &measure)).collect()
}

/// Returns the assumptions of the replays under the recorded settings and under the proposed values, without those that
/// begin with "Under".
fn assumptions(subjects: &[Subject], candidates: &[Candidate], settings: &[SettingAdvice]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for Subject { now, tried, .. } in subjects {
        let proposed = candidates.iter().zip(tried).filter(|(candidate, _)| is_proposed(candidate, settings));
        for outcome in proposed.map(|(_, outcome)| outcome).chain([now]) {
            for sentence in &outcome.assumptions {
                if !sentences.contains(sentence) && !sentence.starts_with("Under ") {
                    sentences.push(sentence.clone());
                }
            }
        }
    }
    sentences
}

fn is_proposed(candidate: &Candidate, settings: &[SettingAdvice]) -> bool {
    let setting = settings.iter().find(|setting| setting.name == candidate.setting.name());
    setting.is_some_and(|setting| setting.proposed.as_deref() == Some(candidate.setting.value()))
}

impl Document for AdviceReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut answers = vec![self.table(), self.evidence(), self.recipe()];
        answers.retain(|table| !table.rows.is_empty());
        let mut caveats = vec![Caveats { title: "Notes".into(), sentences: self.caveats.clone() }];
        let mut tables = Vec::new();
        if self.extent == Extent::Everything {
            tables.push(self.everything());
            caveats.push(Caveats { title: "Assumptions".into(), sentences: self.assumptions.clone() });
        }
        Cow::Owned(vec![Report {
            cases: Some(self.cases.clone()),
            verdict: std::iter::once(self.verdict()).chain(self.warnings.iter().cloned()).collect(),
            answers,
            tables,
            caveats,
            reading: vec!["All earlier predictions and their results: docs/fidelity.md.".to_owned()],
            next: vec!["Rules, notes and all tried values: --all. Earlier predictions: docs/fidelity.md.".to_owned()],
            detail: if self.extent == Extent::Everything { Detail::All } else { Detail::Differences },
            ..Report::default()
        }])
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
