//! The document of `freehold replay`: one recording under one policy.

use std::borrow::Cow;

use freehold_measure::formats::Document;
use freehold_measure::report::{Caveats, Column, Report, Table, Value};
use freehold_trace::recording::RecordingFacts;
use serde::Serialize;

use super::comparison::title;
use super::model::ReplayOutcome;
use super::tables;

/// The whole document. Its JSON is that of [`ReplayOutcome`] with the recording in front.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The recording that was replayed.
    pub recording: RecordingFacts,
    /// Settings that are not as they were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// What the replay found.
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
        let row = |metric| {
            let value = metrics.get(metric).map_or(Value::None, Value::Number);
            vec![Value::text(metric.name()), Value::Faint(metric.unit().to_owned()), value]
        };
        Table::new("", columns, metrics.reported().map(row))
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
        let fidelity = tables::fidelity("Against the recorded kernel".to_owned(), outcome.fidelity.iter());
        let mut tables = vec![self.metrics(), fidelity, self.unreplayed()];
        tables.retain(|table| !table.rows.is_empty());
        let exact = outcome.unreplayed.is_empty().then(|| "Everything was replayed exactly.".to_owned());
        Cow::Owned(vec![Report {
            subject: vec![title(&self.recording), self.under()],
            tables,
            caveats: vec![Caveats { title: "Taken for granted".into(), sentences: outcome.assumptions.clone() }],
            reading: exact.into_iter().collect(),
            ..Report::default()
        }])
    }
}
