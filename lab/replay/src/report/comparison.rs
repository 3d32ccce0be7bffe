//! The document of `freehold compare`.
//!
//! On a terminal it is a report that begins with the verdict ([`super::verdict`]). In JSON it is that report for every
//! policy B, and flat arrays whose rows name their recording, for use in a data frame.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::map::MemoryMap;
use freehold_report::report::plot::Plot;
use freehold_report::report::pool;
use freehold_report::report::{self, Caveats, Column, Detail, Table, Value, describe_side};
use freehold_trace::kernel::Release;
use freehold_trace::recording::{RecordingFacts, name_of};
use serde::Serialize;

use super::brief;
use super::course::OutOfMemory;
use super::fidelity::FidelityRow;
use super::outcome::ReplayOutcome;
use super::rows::{self, MetricRows};
use super::tables;
use super::uncompared::UncomparedEntry;
use super::verdict;
use super::view::{CourseView, PolicyCourse};

/// Separator between a policy and the settings of its replay, in the name of B.
pub const WITH: &str = " with ";

/// Suffix of the name of A if A is the engine's version of the recorded kernel's rules.
pub const NEAREST: &str = " (nearest kernel)";

/// Options to try next.
const NEXT: &str = "Maps: --html FILE. Six recordings give intervals.";

/// One recording under A and one B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The recording's file.
    pub recording: String,
    /// Policy A.
    pub a: String,
    /// Policy B.
    pub b: String,
    /// The metrics and their verdicts.
    pub metrics: MetricRows,
}

/// A fidelity row with its recording and policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FidelityEntry {
    /// The recording's file.
    pub recording: String,
    /// Policy of the replay that is compared with the kernel.
    pub policy: String,
    /// The numbers.
    #[serde(flatten)]
    pub row: FidelityRow,
}

/// A recording whose machine runs out of memory under a policy, but not under the recorded kernel's rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutOfMemoryEntry {
    /// The recording's file.
    pub recording: String,
    /// The policy.
    pub policy: String,
    /// Time and task of the first request for which no page was left.
    #[serde(flatten)]
    pub short: OutOfMemory,
}

/// A kind of event that was not replayed exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreplayedEntry {
    /// The recording's file.
    pub recording: String,
    /// The policy.
    pub policy: String,
    /// Kind of event, or reason.
    pub what: String,
    /// Number of events.
    pub events: u64,
}

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonReport {
    recordings: Vec<RecordingFacts>,
    a: String,
    /// Relative changes up to this count as no change.
    margin: f64,
    /// Confidence level of an interval over recordings.
    #[serde(skip)]
    confidence: f64,
    verdicts: Vec<report::Report>,
    comparisons: Vec<Comparison>,
    fidelity: Vec<FidelityEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uncompared: Vec<UncomparedEntry>,
    unreplayed: Vec<UnreplayedEntry>,
    assumptions: Vec<String>,
    /// Name and explanation of each policy.
    #[serde(skip)]
    reading: Vec<(String, String)>,
    /// Name and description of each policy in a few words.
    #[serde(skip)]
    descriptions: Vec<(String, &'static str)>,
    /// The recorded kernels on whose rules B was replayed.
    #[serde(skip)]
    kernels: Vec<Release>,
    /// Plots and map of each comparison, in their order.
    #[serde(skip)]
    drawings: Vec<(Vec<Plot>, Option<MemoryMap>)>,
    /// Recordings whose machine runs out of memory under a policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    out_of_memory: Vec<OutOfMemoryEntry>,
    /// Whether some policy was replayed only once on a recording.
    #[serde(skip)]
    is_single: bool,
    #[serde(skip)]
    detail: Detail,
}

/// The replays of one recording.
pub struct Replays<'r> {
    /// Replay under A.
    pub a: &'r ReplayOutcome,
    /// Replay under each B.
    pub rivals: &'r [ReplayOutcome],
    /// Replay under the rules of the recorded kernel, on its CPUs.
    pub baseline: &'r ReplayOutcome,
    /// The recorded kernel, if B follows its rules ([`Release::on_rules`]).
    pub rules: Option<Release>,
}

impl ComparisonReport {
    /// Creates a document without recordings. `a` describes A. Relative changes up to `margin` count as no change.
    pub fn new(a: String, margin: f64, detail: Detail) -> ComparisonReport {
        ComparisonReport {
            recordings: Vec::new(),
            a,
            margin,
            confidence: pool::CONFIDENCE,
            verdicts: Vec::new(),
            comparisons: Vec::new(),
            fidelity: Vec::new(),
            uncompared: Vec::new(),
            unreplayed: Vec::new(),
            assumptions: Vec::new(),
            reading: Vec::new(),
            descriptions: Vec::new(),
            kernels: Vec::new(),
            drawings: Vec::new(),
            out_of_memory: Vec::new(),
            is_single: false,
            detail,
        }
    }

    /// Sets the confidence level that each of several comparisons needs: [`pool::confidence_of`].
    #[must_use]
    pub fn at_confidence(self, confidence: f64) -> ComparisonReport {
        ComparisonReport { confidence, ..self }
    }

    /// Adds one recording.
    pub fn add(&mut self, facts: RecordingFacts, replays: &Replays<'_>) {
        let Replays { a, rivals, baseline, rules } = replays;
        self.kernels.extend(rules);
        self.is_single |= std::iter::once(*a).chain(*rivals).any(|outcome| outcome.nudged.is_empty());
        for b in *rivals {
            self.drawings.push(draw(&facts.file, a, b));
            self.comparisons.push(Comparison {
                recording: facts.file.clone(),
                a: a.policy.clone(),
                b: b.policy.clone(),
                metrics: rows::judge(&facts.file, a, b, &baseline.fidelity, self.margin),
            });
        }
        self.fidelity.extend(baseline.fidelity.iter().map(|row| FidelityEntry {
            recording: facts.file.clone(),
            policy: baseline.policy.clone(),
            row: *row,
        }));
        let uncompared = baseline.course.uncompared.iter();
        self.uncompared.extend(uncompared.map(|row| UncomparedEntry { recording: facts.file.clone(), row: *row }));
        for outcome in std::iter::once(*a).chain(*rivals) {
            self.add_caveats(&facts.file, outcome);
        }
        // Running out of memory under the recorded kernel's own rules is an error of the replay.
        let is_replay_error = baseline.replays().any(|replay| replay.course.out_of_memory.is_some());
        if !is_replay_error {
            self.out_of_memory.extend(rivals.iter().filter_map(|b| {
                let (recording, policy) = (facts.file.clone(), b.policy.clone());
                let short = b.replays().find_map(|replay| replay.course.out_of_memory.clone())?;
                Some(OutOfMemoryEntry { recording, policy, short })
            }));
        }
        self.recordings.push(facts);
    }

    fn add_caveats(&mut self, recording: &str, outcome: &ReplayOutcome) {
        self.unreplayed.extend(outcome.unreplayed.iter().map(|(what, events)| UnreplayedEntry {
            recording: recording.to_owned(),
            policy: outcome.policy.clone(),
            what: what.clone(),
            events: *events,
        }));
        for assumption in &outcome.assumptions {
            if !self.assumptions.contains(assumption) {
                self.assumptions.push(assumption.clone());
            }
        }
    }

    /// Returns the name of B with the recorded kernels on whose rules it was replayed.
    fn whole_name(&self, b: &str) -> String {
        let (policy, settings) = b.split_at(policy_of(b).len());
        let names: Vec<String> = self.kernels.iter().map(|kernel| kernel.on_rules(policy)).collect();
        if names.is_empty() { b.to_owned() } else { distinct(names.iter().map(String::as_str)).join(" or ") + settings }
    }

    /// Returns the name of A and what it is. JSON has the name alone.
    fn describe_a(&self) -> String {
        match self.a.strip_suffix(NEAREST) {
            Some(rules) => describe_side("A", rules, Some("the rules nearest to the recorded kernel")),
            None => describe_side("A", &self.a, self.description_of(&self.a)),
        }
    }

    /// Returns the description of a policy, if it has one.
    fn description_of(&self, policy: &str) -> Option<&'static str> {
        self.descriptions.iter().find(|(name, _)| name == policy).map(|(_, about)| *about)
    }

    /// Returns the name of B and what it is.
    fn describe_b(&self, b: &str) -> String {
        describe_side("B", &self.whole_name(b), self.description_of(policy_of(b)))
    }

    /// Adds a description of a policy in a few words, if there is one.
    pub fn describe(&mut self, policy: &str, about: Option<&'static str>) {
        self.descriptions.extend(about.map(|about| (policy.to_owned(), about)));
    }

    /// Adds the explanation of a policy, with a reference for further reading.
    pub fn explain(&mut self, policy: &str, why: &str) {
        self.reading.push((policy.to_owned(), why.to_owned()));
    }

    /// Judges every B over all recordings. Must be called after the last recording was added.
    #[must_use]
    pub fn conclude(mut self) -> ComparisonReport {
        let rivals: Vec<String> = distinct(self.comparisons.iter().map(|comparison| comparison.b.as_str()));
        self.verdicts = rivals.iter().map(|b| self.verdict_on(b)).collect();
        self
    }

    fn verdict_on(&self, b: &str) -> report::Report {
        let pairs = self.comparisons.iter().zip(&self.drawings);
        let (comparisons, drawings): (Vec<&Comparison>, Vec<_>) =
            pairs.filter(|(comparison, _)| comparison.b == b).unzip();
        let rows: Vec<MetricRows> = comparisons
            .iter()
            .map(|comparison| comparison.metrics.with_case(&self.short(&comparison.recording)))
            .collect();
        let groups = verdict::group_by_cause(&rows, self.margin, self.confidence);
        let mut sentences = verdict::sentences(&groups, rows.len());
        sentences.extend(self.single_replays());
        sentences.extend(self.guessed());
        let short = self.out_of_memory.iter().filter(|entry| entry.policy == b);
        sentences.extend(short.map(|OutOfMemoryEntry { recording, policy, short }| {
            format!("{}: {}", self.short(recording), short.sentence(policy))
        }));
        let fidelity = self.fidelity.iter().map(|entry| (&*entry.recording, &*entry.policy, &entry.row));
        let cases = brief::recordings(&self.recordings, fidelity, |facts| self.short(&facts.file));
        let a = distinct(comparisons.iter().map(|comparison| comparison.a.as_str())).join(" or ");
        report::Report {
            sides: [a, b.to_owned()],
            subject: vec![self.describe_a(), self.describe_b(b)],
            cases: Some(cases),
            verdict: sentences,
            groups,
            tables: self.recordings.iter().flat_map(|facts| self.tables_of(facts, b)).collect(),
            caveats: vec![Caveats { title: "Assumptions".into(), sentences: self.assumptions.clone() }],
            plots: drawings.iter().flat_map(|(plots, _)| plots).cloned().collect(),
            maps: drawings.iter().filter_map(|(_, map)| map.clone()).collect(),
            detail: self.detail,
            next: vec![NEXT.to_owned()],
            reading: self.reading.iter().filter(|(name, _)| name == policy_of(b)).map(|(_, why)| why.clone()).collect(),
            ..report::Report::default()
        }
    }

    /// Returns a recording's name in tables: the name of its file, with folder and extension only if other recordings
    /// have this name too.
    fn short(&self, file: &str) -> String {
        let name = name_of(file);
        let called_so = self.recordings.iter().filter(|facts| name_of(&facts.file) == name).count();
        if called_so > 1 { file.to_owned() } else { name }
    }

    /// Returns a caution if some policy was replayed only once on a recording.
    fn single_replays(&self) -> Option<String> {
        self.is_single.then(|| "One replay per policy: sensitivity to watermarks unknown.".to_owned())
    }

    /// Returns a caution about recordings whose start state is partly guessed.
    fn guessed(&self) -> Option<String> {
        let guessed: Vec<String> = self
            .recordings
            .iter()
            .filter(|facts| !facts.guesses.is_empty())
            .map(|facts| self.short(&facts.file))
            .collect();
        let all = guessed.join(", ");
        (!guessed.is_empty())
            .then(|| format!("{all}: imported; the state of memory at the start is partly guessed, see `Assumptions`."))
    }

    /// Returns whether `policy` is another B than `b`.
    fn is_other_rival(&self, policy: &str, b: &str) -> bool {
        policy != b && self.comparisons.iter().any(|comparison| comparison.b == policy)
    }

    fn tables_of(&self, facts: &RecordingFacts, b: &str) -> Vec<Table> {
        let rows: Vec<_> = self.fidelity.iter().filter(|entry| entry.recording == facts.file).collect();
        let policy = rows.first().map_or("", |entry| entry.policy.as_str());
        let title = format!("Fidelity of {policy} to the recorded kernel, {}", self.short(&facts.file));
        let uncompared = self.uncompared.iter().filter(|entry| entry.recording == facts.file).map(|entry| &entry.row);
        let fidelity = tables::fidelity(title, rows.iter().map(|entry| &entry.row), uncompared);
        let entries = self
            .unreplayed
            .iter()
            .filter(|entry| entry.recording == facts.file && !self.is_other_rival(&entry.policy, b));
        let title = format!("Events not replayed exactly, {}", self.short(&facts.file));
        let columns = vec![Column::words("kind of event"), Column::words("policy"), Column::numbers("events")];
        let unreplayed = Table::new(title, columns, entries.map(unreplayed_row));
        [fidelity, unreplayed].into_iter().filter(|table| !table.rows.is_empty()).collect()
    }
}

/// Returns the plots and the map of a recording under A and one B.
fn draw(file: &str, a: &ReplayOutcome, b: &ReplayOutcome) -> (Vec<Plot>, Option<MemoryMap>) {
    let sides = [a, b].map(|outcome| PolicyCourse { name: &outcome.policy, course: &outcome.course });
    let view = CourseView { recording: &name_of(file), sides: &sides };
    (view.plots(), view.map())
}

/// Returns the policy of a B, without the settings in its name.
fn policy_of(b: &str) -> &str {
    b.split_once(WITH).map_or(b, |(policy, _)| policy)
}

fn unreplayed_row(entry: &UnreplayedEntry) -> Vec<Value> {
    vec![Value::text(&entry.what), Value::text(&entry.policy), Value::count(entry.events)]
}

/// Returns each text once, in order of first appearance.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = Vec::new();
    texts.for_each(|text| {
        if !seen.iter().any(|other| other == text) {
            seen.push(text.to_owned());
        }
    });
    seen
}

impl Document for ComparisonReport {
    fn reports(&self) -> Cow<'_, [report::Report]> {
        Cow::Borrowed(&self.verdicts)
    }
}

#[cfg(test)]
mod tests {
    use freehold_report::terminal::Style;

    use super::super::course::Course;
    use super::super::fidelity::FidelityMeasure;
    use super::super::metrics::{Metric, Metrics};
    use super::*;

    fn outcome(policy: &str, locks: u64) -> ReplayOutcome {
        ReplayOutcome {
            policy: policy.to_owned(),
            metrics: Metrics::new().with_count(Metric::ZoneLockAcquisitions, locks),
            nudged: Vec::new(),
            fidelity: [FidelityMeasure::FreePages, FidelityMeasure::BlocksTaken, FidelityMeasure::BlocksDrained]
                .map(|measure| FidelityRow::new(measure, 100.0, 99.0, Some(0.01)))
                .to_vec(),
            unreplayed: vec![("bulk allocation without event".to_owned(), 7)],
            assumptions: vec!["Reclaim is replayed as recorded.".to_owned()],
            course: Course::default(),
        }
    }

    fn report(detail: Detail) -> ComparisonReport {
        let facts = RecordingFacts {
            file: "build.parquet".to_owned(),
            kernel_release: "6.18.5".to_owned(),
            cpus: 2,
            replay_cpus: 8,
            duration_seconds: 12.5,
            rows: 1_000_000,
            guesses: Vec::new(),
        };
        let a = outcome("linux-6.12", 200);
        let mut report = ComparisonReport::new("linux-6.12".to_owned(), 0.02, detail);
        report.add(facts, &Replays { a: &a, rivals: &[outcome("freehold", 100)], baseline: &a, rules: None });
        report.conclude()
    }

    #[test]
    fn comparison_json_has_the_documented_shape() {
        let json = serde_json::to_value(report(Detail::Differences)).unwrap();
        assert_eq!(json["a"], "linux-6.12");
        assert_eq!(json["recordings"][0]["file"], "build.parquet");
        let comparison = &json["comparisons"][0];
        assert_eq!(comparison["b"], "freehold");
        let first = &comparison["metrics"][0];
        assert_eq!(first["name"], "zone_lock_acquisitions");
        assert_eq!(first["a"], 200);
        assert_eq!(first["b"], 100);
        assert_eq!(first["change"], -0.5);
        assert_eq!(first["verdict"], "better");
        assert_eq!(json["fidelity"][0]["within"], true);
        assert_eq!(json["unreplayed"][0]["events"], 7);
    }

    #[test]
    fn verdict_is_first_and_details_are_hidden() {
        let text = report(Detail::Differences).text(Style::PLAIN);
        assert!(text.starts_with("A: linux-6.12\nB: freehold\n\nrecording  machine"), "{text}");
        for part in
            ["spread over 8", "better 1, worse 0, not judged 10\n", "All 11 rows: --all", "good: 3 of 3 in bounds"]
        {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
        assert!(!text.contains("bulk allocation") && !text.contains("as recorded"), "{text}");
    }

    #[test]
    fn out_of_memory_is_reported_unless_the_replay_errs() {
        let short = Some(OutOfMemory { time: 1_500_000_000, task: "cc1".to_owned(), pages: 7 });
        for (recorded, nudged, is_reported) in [(&None, &None, true), (&short, &None, false), (&None, &short, false)] {
            let nudged = vec![outcome_short_of_memory("linux-6.12", nudged)];
            let a = ReplayOutcome { nudged, ..outcome_short_of_memory("linux-6.12", recorded) };
            let b = outcome_short_of_memory("freehold", &short);
            let facts = report(Detail::All).recordings[0].clone();
            let mut report = ComparisonReport::new("linux-6.12".to_owned(), 0.02, Detail::Differences);
            report.add(facts, &Replays { a: &a, rivals: &[b], baseline: &a, rules: None });
            let text = report.conclude().text(Style::PLAIN).replace('\n', " ");
            let sentence = "runs out of memory: a request of `cc1` fails after 1.500 s";
            assert_eq!(text.contains(sentence), is_reported, "{text}");
        }
    }

    fn outcome_short_of_memory(policy: &str, out_of_memory: &Option<OutOfMemory>) -> ReplayOutcome {
        let course = Course { out_of_memory: out_of_memory.clone(), ..Course::default() };
        ReplayOutcome { course, ..outcome(policy, 100) }
    }

    #[test]
    fn b_is_named_by_its_replayed_rules() {
        let mut report = report(Detail::Differences);
        for kernel in ["6.18.5", "6.12.1", "7.1"] {
            report.kernels.push(Release::parse(kernel).unwrap());
        }
        let under = report.whole_name("freehold with vm.min_free_kbytes=1");
        assert_eq!(under, "freehold,on=linux-6.18 or freehold with vm.min_free_kbytes=1");
        let text = report.conclude().text(Style::PLAIN);
        let b = "freehold,on=linux-6.18 or freehold";
        assert!(text.starts_with(&format!("A: linux-6.12\nB: {b}\n")), "{text}");
    }

    #[test]
    fn full_report_has_tables_and_unique_caveats() {
        let text = report(Detail::All).text(Style::PLAIN);
        assert!(text.contains("bulk allocation without event"), "{text}");
        assert_eq!(text.matches("Reclaim is replayed as recorded.").count(), 1, "{text}");
    }
}
