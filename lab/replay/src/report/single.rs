//! The document of `freehold replay`: one recording under one policy.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::{Caveats, Column, Report, Table, Value};
use freehold_trace::recording::{RecordingFacts, name_of};
use serde::Serialize;

use super::comparison::title;
use super::course::{StallTimes, Stalls};
use super::outcome::ReplayOutcome;
use super::tables;
use super::view::{CourseView, PolicyCourse};

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
}

impl ReplayReport {
    fn under(&self) -> String {
        let policy = format!("Policy {}", self.outcome.policy);
        if self.settings.is_empty() { policy } else { format!("{policy}, with {}", self.settings.join(", ")) }
    }

    fn metrics(&self) -> Table {
        let columns = vec![Column::words("metric"), Column::words("unit"), Column::numbers("value")];
        let metrics = &self.outcome.metrics;
        let rows = metrics.reported().map(|metric| {
            let value = metrics.get(metric).map_or(Value::None, Value::Number);
            vec![Value::text(metric.name()), Value::Faint(metric.unit().to_owned()), value]
        });
        Table::new("", columns, rows)
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
        let fidelity = tables::fidelity("Difference from the recorded kernel".to_owned(), outcome.fidelity.iter());
        let mut tables =
            vec![self.metrics(), fidelity, tables::divergence(&outcome.course.divergence), self.unreplayed()];
        tables.insert(2, tables::failures(&outcome.course.failures));
        tables.insert(3, tables::decisions(&outcome.course.decisions));
        tables.retain(|table| !table.rows.is_empty());
        let short = outcome.course.out_of_memory.as_ref().map(|short| {
            format!(
                "{} The recorded kernel allocated them. Under its own rules, this is an error of the replay.",
                short.sentence(&outcome.policy)
            )
        });
        let side = [PolicyCourse { name: &outcome.policy, course: &outcome.course }];
        let recording = name_of(&self.recording.file);
        let view = CourseView { recording: &recording, sides: &side };
        let exact = outcome.unreplayed.is_empty().then(|| "Everything was replayed exactly.".to_owned());
        Cow::Owned(vec![Report {
            subject: vec![title(&self.recording), self.under()],
            tables,
            plots: view.plots(),
            maps: view.map().into_iter().collect(),
            caveats: vec![Caveats { title: "Assumptions".into(), sentences: outcome.assumptions.clone() }],
            verdict: short.into_iter().collect(),
            reading: exact.into_iter().chain(outcome.course.stalls.as_ref().and_then(describe_stalls)).collect(),
            ..Report::default()
        }])
    }
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
