//! The document of `freehold compare`.
//!
//! One table a recording and policy B, then how near `linux-6.12` came to the recorded kernel, then what
//! was not replayed. In JSON these are flat arrays whose rows name their recording, ready for a data frame.

use freehold_measure::number;
use freehold_measure::output::Report;
use freehold_measure::terminal::{Column, Style, Tone, table_text};
use freehold_measure::verdict::Verdict;
use freehold_trace::recording::RecordingFacts;
use serde::Serialize;

use super::model::{FidelityRow, ReplayOutcome};
use super::rows::{self, MetricRow};
use super::tables;

/// One recording under A and one B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The recording's file.
    pub recording: String,
    /// Policy B.
    pub b: String,
    /// The metrics and their verdicts.
    pub metrics: Vec<MetricRow>,
}

/// One fidelity row with where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FidelityEntry {
    /// The recording's file.
    pub recording: String,
    /// The policy whose replay is held against the kernel.
    pub policy: String,
    /// The numbers.
    #[serde(flatten)]
    pub row: FidelityRow,
}

/// Something that was not replayed exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreplayedEntry {
    /// The recording's file.
    pub recording: String,
    /// The policy.
    pub policy: String,
    /// What it was.
    pub what: String,
    /// How often.
    pub events: u64,
}

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonReport {
    recordings: Vec<RecordingFacts>,
    a: String,
    comparisons: Vec<Comparison>,
    fidelity: Vec<FidelityEntry>,
    unreplayed: Vec<UnreplayedEntry>,
    assumptions: Vec<String>,
}

impl ComparisonReport {
    /// A document without recordings, for policy A of this name.
    pub fn new(a: String) -> ComparisonReport {
        ComparisonReport {
            recordings: Vec::new(),
            a,
            comparisons: Vec::new(),
            fidelity: Vec::new(),
            unreplayed: Vec::new(),
            assumptions: Vec::new(),
        }
    }

    /// Adds one recording: its replay under A, under each B, and under the policy of the recorded kernel.
    pub fn add(
        &mut self,
        facts: RecordingFacts,
        a: &ReplayOutcome,
        rivals: &[ReplayOutcome],
        baseline: &ReplayOutcome,
    ) {
        for b in rivals {
            self.comparisons.push(Comparison {
                recording: facts.file.clone(),
                b: b.policy.clone(),
                metrics: rows::judge(&a.metrics, &b.metrics),
            });
        }
        self.fidelity.extend(baseline.fidelity.iter().map(|row| FidelityEntry {
            recording: facts.file.clone(),
            policy: baseline.policy.clone(),
            row: row.clone(),
        }));
        for outcome in std::iter::once(a).chain(rivals) {
            self.add_caveats(&facts.file, outcome);
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

    fn recording_text(&self, facts: &RecordingFacts, style: Style) -> String {
        let mut text = style.heading(&title(facts));
        for comparison in self.comparisons.iter().filter(|c| c.recording == facts.file) {
            text += &format!("\nA = {}\nB = {}\n\n", self.a, comparison.b);
            text += &table_text(&tables::metrics(&comparison.metrics, style));
            text += &format!("\n{}\n", summary(&comparison.metrics));
        }
        let rows: Vec<_> = self.fidelity.iter().filter(|entry| entry.recording == facts.file).collect();
        if let Some(first) = rows.first() {
            text += &format!("\nHow near {} comes to the recorded kernel:\n\n", first.policy);
            text += &table_text(&tables::fidelity(rows.iter().map(|entry| &entry.row), style));
        }
        text + &self.unreplayed_text(facts, style)
    }

    /// One line a reason, one column a policy.
    fn unreplayed_text(&self, facts: &RecordingFacts, style: Style) -> String {
        let entries: Vec<_> = self.unreplayed.iter().filter(|entry| entry.recording == facts.file).collect();
        if entries.is_empty() {
            return "\nEverything was replayed exactly.\n".to_owned();
        }
        let policies = distinct(entries.iter().map(|entry| entry.policy.as_str()));
        let columns: Vec<_> = policies.iter().map(|policy| Column::Number(policy)).collect();
        let mut table = style.table(&[&[Column::Text("events not replayed exactly")], &columns[..]].concat());
        for what in distinct(entries.iter().map(|entry| entry.what.as_str())) {
            let events = |policy: &&str| {
                let entry = entries.iter().find(|entry| entry.what == what && entry.policy == *policy);
                style.cell(number::count(entry.map_or(0, |entry| entry.events)), Tone::Plain)
            };
            let reason = style.cell(what, Tone::Plain);
            table.add_row(std::iter::once(reason).chain(policies.iter().map(events)));
        }
        format!("\n{}", table_text(&table))
    }
}

/// Each text once, in order of first appearance.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    texts.for_each(|text| {
        if !seen.contains(&text) {
            seen.push(text);
        }
    });
    seen
}

impl Report for ComparisonReport {
    fn text(&self, style: Style) -> String {
        let sections: Vec<_> = self.recordings.iter().map(|facts| self.recording_text(facts, style)).collect();
        sections.join("\n") + &assumptions_text(&self.assumptions, style)
    }
}

/// A recording in one line.
pub fn title(facts: &RecordingFacts) -> String {
    let spread =
        if facts.replay_cpus == facts.cpus { String::new() } else { format!(" spread over {}", facts.replay_cpus) };
    format!(
        "{}: Linux {}, {} CPUs{spread}, {:.1} s, {} rows",
        facts.file,
        facts.kernel_release,
        facts.cpus,
        facts.duration_seconds,
        number::count(facts.rows)
    )
}

/// What the replay takes for granted, as a list; nothing when there is nothing.
pub fn assumptions_text(assumptions: &[String], style: Style) -> String {
    if assumptions.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = assumptions.iter().map(|line| format!("- {line}\n")).collect();
    format!("\n{}{}", style.heading("Taken for granted"), lines.concat())
}

/// The verdicts of one table in one sentence.
fn summary(rows: &[MetricRow]) -> String {
    let number = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    format!(
        "B is better in {}, worse in {}, no different in {}; {} differ where neither way is good by itself.",
        number(Verdict::Better),
        number(Verdict::Worse),
        number(Verdict::NoDifference),
        number(Verdict::Neither),
    )
}

#[cfg(test)]
mod tests {
    use super::super::model::{Metric, Metrics};
    use super::*;

    fn outcome(policy: &str, locks: u64) -> ReplayOutcome {
        ReplayOutcome {
            policy: policy.to_owned(),
            metrics: Metrics::new().with_count(Metric::ZoneLockAcquisitions, locks),
            fidelity: vec![FidelityRow::new("free_pages", 100.0, 99.0, Some(0.01))],
            unreplayed: vec![("bulk allocation without event".to_owned(), 7)],
            assumptions: vec!["Reclaim is replayed as recorded.".to_owned()],
        }
    }

    fn report() -> ComparisonReport {
        let facts = RecordingFacts {
            file: "build.parquet".to_owned(),
            kernel_release: "6.18.5".to_owned(),
            cpus: 2,
            replay_cpus: 8,
            duration_seconds: 12.5,
            rows: 1_000_000,
        };
        let a = outcome("linux-6.12", 200);
        let mut report = ComparisonReport::new("linux-6.12".to_owned());
        report.add(facts, &a, &[outcome("freehold", 100)], &a);
        report
    }

    #[test]
    fn the_json_has_the_shape_that_scripts_rely_on() {
        let json = serde_json::to_value(report()).unwrap();
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
    fn the_text_names_policies_verdicts_and_caveats() {
        let text = report().text(Style::PLAIN);
        for part in [
            "spread over 8",
            "A = linux-6.12",
            "B = freehold",
            "better",
            "-50.0 %",
            "B is better in 1, worse in 0",
            "bulk allocation without event",
            "Reclaim is replayed as recorded.",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
    }

    #[test]
    fn an_assumption_shared_by_policies_is_said_once() {
        assert_eq!(report().text(Style::PLAIN).matches("as recorded").count(), 1);
    }
}
