//! The document of `freehold replay`: one recording under one policy.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::change;
use freehold_report::report::{Caveats, Column, Detail, Report, Row, Table, Value};
use freehold_stats::verdict::Verdict;
use freehold_trace::recording::{RecordingFacts, name_of};
use serde::Serialize;

use super::course::{StallTimes, Stalls};
use super::fidelity::{FidelityMeasure, VmstatCounter};
use super::outcome::ReplayOutcome;
use super::view::{CourseView, PolicyCourse};
use super::{brief, compaction, rows, tables};

/// The whole document. Its JSON is that of [`ReplayOutcome`], preceded by the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The recording that was replayed.
    pub recording: RecordingFacts,
    /// Settings that differ from the recorded ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Results of the replay.
    #[serde(flatten)]
    pub outcome: ReplayOutcome,
    /// Detail of the output at a terminal.
    #[serde(skip)]
    pub detail: Detail,
}

/// Options to try next.
const NEXT: &str = "All rows, and every check against the kernel: --all. Another policy: freehold compare.";

impl ReplayReport {
    fn under(&self) -> String {
        let policy = format!("Policy: {}", self.outcome.policy);
        if self.settings.is_empty() { policy } else { format!("{policy}, with {}", self.settings.join(", ")) }
    }

    /// Returns the metrics, each with the largest error of its checks against the recorded kernel. A metric of zero that
    /// the kernel does not contradict is left out on the first screen.
    fn metrics(&self) -> Table {
        let columns = vec![
            Column::words("measure"),
            Column::words("unit"),
            Column::numbers("value"),
            Column::words("error of its checks against the kernel"),
        ];
        let compared = rows::as_recorded(&self.outcome);
        let rows =
            compared.iter().filter(|(_, row)| self.detail == Detail::All || is_news(row)).map(|(metric, row)| {
                let difference = match (row.unjudged, row.replay_error) {
                    (Some(_), Some(error)) => Value::Judged(change(Some(error)), Verdict::Worse),
                    (Some(reason), None) => Value::Faint(reason.text().to_owned()),
                    (None, _) => Value::text("within bounds"),
                };
                let value = row.a.map_or(Value::None, Value::Number);
                vec![Value::text(metric.title()), Value::Faint(metric.unit().to_owned()), value, difference]
            });
        Table::new("", columns, rows)
    }

    /// Returns a line if requests compacted, in the recorded kernel or in the engine, but the recording has no events of
    /// the decisions.
    fn uncompared_compaction(&self) -> Option<String> {
        let stalls = FidelityMeasure::Vmstat(VmstatCounter::CompactStall);
        let mut rows = self.outcome.fidelity.iter().filter(|row| row.measure == stalls);
        let compacts = rows.any(|row| row.recorded > 0.0 || row.replayed > 0.0);
        (compacts && self.outcome.course.compaction.is_none()).then(|| compaction::NO_EVENTS.to_owned())
    }

    fn unreplayed(&self) -> Table {
        let columns = vec![Column::words("not replayed exactly"), Column::numbers("events")];
        let entries = self.outcome.unreplayed.iter();
        Table::new("", columns, entries.map(|(what, events)| vec![Value::text(what), Value::count(*events)]))
    }
}

impl Document for ReplayReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let outcome = &self.outcome;
        let compared = outcome.course.compaction.clone().unwrap_or_default();
        let title = "Difference from the recorded kernel".to_owned();
        let fidelity = tables::fidelity(title, outcome.fidelity.iter(), outcome.course.uncompared.iter());
        let mut tables = vec![
            fidelity,
            tables::failures(&outcome.course.failures),
            tables::divergence(&outcome.course.divergence),
            compaction::differences(&compared),
            self.unreplayed(),
        ];
        let examples = compaction::examples(&compared);
        let mut answers = vec![self.metrics(), tables::decisions(&outcome.course.decisions), examples];
        for tables in [&mut tables, &mut answers] {
            tables.retain(|table| !table.rows.is_empty());
        }
        let short = outcome.course.out_of_memory.as_ref().map(|short| {
            format!(
                "{} The recorded kernel allocated them. If the policy has the recorded kernel's rules, this is an \
                 error of the replay.",
                short.sentence(&outcome.policy)
            )
        });
        let guessed = (!self.recording.guesses.is_empty()).then(|| {
            "Imported; the state of memory at the start is partly guessed, see `Assumptions` (--all).".to_owned()
        });
        let side = [PolicyCourse { name: &outcome.policy, course: &outcome.course }];
        let recording = name_of(&self.recording.file);
        let view = CourseView { recording: &recording, sides: &side };
        let stalls = outcome.course.stalls.as_ref().and_then(describe_stalls);
        let exact = outcome.unreplayed.is_empty().then(|| "Everything was replayed exactly.".to_owned());
        Cow::Owned(vec![Report {
            subject: vec![self.under()],
            cases: Some(brief::recordings(
                std::slice::from_ref(&self.recording),
                outcome.fidelity.iter().map(|row| (&*self.recording.file, &*outcome.policy, row)),
                |facts| facts.file.clone(),
            )),
            answers,
            tables,
            plots: view.plots(),
            maps: view.map().into_iter().collect(),
            caveats: vec![Caveats { title: "Assumptions".into(), sentences: outcome.assumptions.clone() }],
            verdict: short.into_iter().chain(guessed).collect(),
            next: vec![NEXT.to_owned()],
            detail: self.detail,
            reading: exact.into_iter().chain(self.uncompared_compaction()).chain(stalls).collect(),
            ..Report::default()
        }])
    }
}

/// Returns whether a value is not zero, or differs from the recorded kernel's.
fn is_news(row: &Row) -> bool {
    row.replay_error.is_some() || row.a.is_some_and(|value| value.value() != 0.0)
}

/// Describes the stall times of requests and the delay of the work; `None` if no request stalled.
fn describe_stalls(stalls: &Stalls) -> Option<String> {
    let Stalls { recorded, replayed, later_at_least, later_at_most } = stalls;
    let direction = if *later_at_most < 0 { "sooner" } else { "later" };
    let all = format!("{} {direction}", format_ms(later_at_most.unsigned_abs()));
    (replayed.requests + recorded.requests > 0).then(|| {
        format!(
            "Stalls, replayed: {}. Stalls, recorded: {}. End of the work: {} later if tasks do not wait for each \
             other, {all} if every stall delays all tasks.",
            describe_times(replayed),
            describe_times(recorded),
            format_ms(*later_at_least)
        )
    })
}

fn describe_times(times: &StallTimes) -> String {
    let [total, median, p99, max] = [times.total, times.median, times.p99, times.max].map(format_ms);
    format!("{} requests, {total} in total (median {median}, p99 {p99}, maximum {max})", times.requests)
}

fn format_ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}
