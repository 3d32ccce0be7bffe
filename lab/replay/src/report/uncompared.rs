//! Fidelity measures that cannot be compared with the recorded kernel, with the reason.

use serde::Serialize;

use super::fidelity::FidelityMeasure;

/// A measure of which only one side is known, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UncomparedRow {
    /// The measure.
    #[serde(rename = "name")]
    pub measure: FidelityMeasure,
    /// Value of the recorded kernel, if it is known.
    pub recorded: Option<f64>,
    /// Value of the replay, if the engine has the mechanism.
    pub replayed: Option<f64>,
    /// Reason for which the values are not compared.
    pub reason: UncomparedReason,
}

/// Reason for which a measure is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UncomparedReason {
    /// The recording lacks the events of direct reclaim, although its counters show some.
    NeedsReclaimEvents,
    /// The engine does not have the mechanism.
    NotModelled,
}

impl UncomparedReason {
    /// All reasons.
    pub const ALL: [UncomparedReason; 2] = [UncomparedReason::NeedsReclaimEvents, UncomparedReason::NotModelled];

    /// Returns the label of the reason.
    pub fn label(self) -> &'static str {
        match self {
            UncomparedReason::NeedsReclaimEvents => "needs events of direct reclaim",
            UncomparedReason::NotModelled => "not modelled",
        }
    }
}

/// A row with its recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UncomparedEntry {
    /// The recording's file.
    pub recording: String,
    /// The measure, and the reason.
    #[serde(flatten)]
    pub row: UncomparedRow,
}
