//! The document of `freehold replay`: one recording under one policy.

use freehold_measure::number;
use freehold_measure::output::Report;
use freehold_measure::report::terminal;
use freehold_measure::terminal::{Column, Style, Tone, table_text};
use freehold_trace::recording::RecordingFacts;
use serde::Serialize;

use super::comparison::{assumptions_text, title};
use super::model::ReplayOutcome;
use super::tables;

/// The whole document. Its JSON is that of [`ReplayOutcome`] with the recording in front.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The recording that was replayed.
    pub recording: RecordingFacts,
    /// What the replay found.
    #[serde(flatten)]
    pub outcome: ReplayOutcome,
}

impl ReplayReport {
    fn metrics_text(&self, style: Style) -> String {
        let mut table = style.table(&[Column::Text("metric"), Column::Text("unit"), Column::Number("value")]);
        for metric in self.outcome.metrics.reported() {
            table.add_row(vec![
                style.cell(metric.name(), Tone::Plain),
                style.cell(metric.unit(), Tone::Faint),
                style.cell(number::quantity(self.outcome.metrics.get(metric)), Tone::Plain),
            ]);
        }
        table_text(&table)
    }

    fn unreplayed_text(&self, style: Style) -> String {
        if self.outcome.unreplayed.is_empty() {
            return "\nEverything was replayed exactly.\n".to_owned();
        }
        let mut table = style.table(&[Column::Text("not replayed exactly"), Column::Number("events")]);
        for (what, events) in &self.outcome.unreplayed {
            table.add_row(vec![style.cell(what, Tone::Plain), style.cell(number::count(*events), Tone::Plain)]);
        }
        format!("\n{}", table_text(&table))
    }
}

impl Report for ReplayReport {
    fn text(&self, style: Style) -> String {
        let mut text = style.heading(&title(&self.recording));
        text += &format!("\nPolicy {}\n\n", self.outcome.policy);
        text += &self.metrics_text(style);
        if !self.outcome.fidelity.is_empty() {
            let table = tables::fidelity("Against the recorded kernel:".to_owned(), self.outcome.fidelity.iter());
            text += &format!("\n{}\n\n{}", table.title, terminal::of_table(&table, style));
        }
        text += &self.unreplayed_text(style);
        text + &assumptions_text(&self.outcome.assumptions, style)
    }
}
