//! Decisions about compaction, request by request: those of the recorded kernel beside those of the engine.
//!
//! The decisions of a request are a list of [steps](CompactionStep) in order of time. The first step in which the two
//! lists differ is the first difference of the request. Later steps are mostly its consequences, so only first
//! differences are counted.

use freehold::base::ZoneKind;
use freehold::platform::CompactEffort;
use freehold::platform::probe::ZoneOutcome;
use freehold_report::number::Quantity;
use freehold_report::report::{Column, Table, Value};
use freehold_trace::mechanism::ReclaimClass;
use serde::{Serialize, Serializer};

/// A step of a request that compacts or reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum CompactionStep {
    /// The request begins to compact the zones that it may use.
    Compact {
        /// Effort of the compaction.
        #[serde(serialize_with = "serialize_effort")]
        effort: CompactEffort,
    },
    /// A zone is skipped, or a run in it has ended.
    Zone {
        /// Number of the zone's node.
        node: u8,
        /// Kind of the zone.
        #[serde(serialize_with = "serialize_kind")]
        zone: ZoneKind,
        /// Effort of the compaction.
        #[serde(serialize_with = "serialize_effort")]
        effort: CompactEffort,
        /// Reason for which the zone is skipped, or result of the run.
        #[serde(serialize_with = "serialize_outcome")]
        outcome: ZoneOutcome,
    },
    /// The request reclaims.
    Reclaim,
    /// Reclaim of a request above order 3 ends at once, since every zone is ready for compaction.
    ReclaimReady,
    /// The request is served.
    Served,
    /// The request fails.
    Refused,
}

impl CompactionStep {
    /// Returns the last step of a request.
    pub(crate) fn end(is_served: bool) -> CompactionStep {
        if is_served { CompactionStep::Served } else { CompactionStep::Refused }
    }

    /// Returns the step of a reclaim of this kind.
    pub(crate) fn of_reclaim(class: ReclaimClass) -> CompactionStep {
        match class {
            ReclaimClass::CostlyReady => CompactionStep::ReclaimReady,
            ReclaimClass::Costly | ReclaimClass::Small => CompactionStep::Reclaim,
        }
    }

    /// Returns the label for people.
    pub fn label(self) -> String {
        match self {
            CompactionStep::Compact { effort } => format!("compacts, {}", effort_label(effort)),
            CompactionStep::Zone { node, zone, effort, outcome } => {
                let node = if node > 0 { format!(" of node {node}") } else { String::new() };
                format!("{}{node}, {}: {}", zone.name(), effort_label(effort), outcome_label(outcome))
            }
            CompactionStep::Reclaim => "reclaims".to_owned(),
            CompactionStep::ReclaimReady => "reclaim ends at once, zones are ready".to_owned(),
            CompactionStep::Served => "is served".to_owned(),
            CompactionStep::Refused => "fails".to_owned(),
        }
    }
}

fn effort_label(effort: CompactEffort) -> &'static str {
    match effort {
        CompactEffort::Async => "async",
        CompactEffort::SyncLight => "sync light",
        CompactEffort::SyncFull => "sync full",
    }
}

/// Returns the label of an outcome, in the kernel's terms. linux: include/trace/events/compaction.h
fn outcome_label(outcome: ZoneOutcome) -> &'static str {
    match outcome {
        ZoneOutcome::Deferred => "deferred",
        ZoneOutcome::HasBlock => "has a block",
        ZoneOutcome::NoOwnRoom => "skipped, too few free pages outside CMA",
        ZoneOutcome::NoRoom => "skipped, too few free pages",
        ZoneOutcome::NotFragmented => "skipped, not fragmented",
        ZoneOutcome::Made => "ran, success",
        ZoneOutcome::Complete => "ran, complete",
        ZoneOutcome::Partial => "ran, partial",
        ZoneOutcome::Stopped => "ran, contended",
    }
}

fn serialize_effort<S: Serializer>(effort: &CompactEffort, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match effort {
        CompactEffort::Async => "async",
        CompactEffort::SyncLight => "sync_light",
        CompactEffort::SyncFull => "sync_full",
    })
}

fn serialize_kind<S: Serializer>(kind: &ZoneKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn serialize_outcome<S: Serializer>(outcome: &ZoneOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match outcome {
        ZoneOutcome::Deferred => "deferred",
        ZoneOutcome::HasBlock => "has_block",
        ZoneOutcome::NoOwnRoom => "no_own_room",
        ZoneOutcome::NoRoom => "no_room",
        ZoneOutcome::NotFragmented => "not_fragmented",
        ZoneOutcome::Made => "success",
        ZoneOutcome::Complete => "complete",
        ZoneOutcome::Partial => "partial",
        ZoneOutcome::Stopped => "contended",
    })
}

/// Comparison of the decisions of all requests above order 3, and of all others that compact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactionDecisions {
    /// Number of requests that were compared.
    pub requests: u64,
    /// Number of these that neither reclaim nor compact on either side, and have the same result.
    pub at_once: u64,
    /// Number of the other requests that have the same steps on both sides.
    pub same: u64,
    /// First differences, the most frequent ones first.
    pub differences: Vec<FirstDifference>,
    /// First request of each difference, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ComparedRequest>,
}

/// A pair of steps in which requests differ first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    /// Step of the recorded kernel.
    pub recorded: CompactionStep,
    /// Step of the engine.
    pub replayed: CompactionStep,
    /// Number of requests.
    pub requests: u64,
}

/// All steps of one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedRequest {
    /// Nanoseconds from the start of the recording to the request's event.
    pub time: u64,
    /// Name of the task.
    pub task: String,
    /// Order of the requested block.
    pub order: u8,
    /// Steps of the recorded kernel.
    pub recorded: Vec<CompactionStep>,
    /// Steps of the engine.
    pub replayed: Vec<CompactionStep>,
    /// Index of the first step that differs.
    pub first_difference: usize,
}

/// Line of a report about a recording without these events.
pub(crate) const NO_EVENTS: &str = "Compaction for requests is not compared decision by decision: the recording has no \
                                    events of these decisions (`freehold record --events compaction`).";

/// Returns the table of first differences.
pub(crate) fn differences(decisions: &CompactionDecisions) -> Table {
    let CompactionDecisions { requests, at_once, same, .. } = decisions;
    let title = format!(
        "Compaction for requests: first decision that differs ({same} of {} requests that are not answered at once have \
         the same decisions)",
        requests - at_once
    );
    let columns = [["recorded kernel", "engine"].map(Column::words).to_vec(), vec![Column::numbers("requests")]];
    let rows = decisions.differences.iter().map(|difference| {
        let steps = [difference.recorded, difference.replayed].map(|step| Value::text(step.label()));
        [steps.to_vec(), vec![Value::count(difference.requests)]].concat()
    });
    Table::new(title, columns.concat(), rows)
}

/// Largest number of requests whose steps are printed.
const EXAMPLES_MAX: usize = 10;

/// Returns the table of the steps of the first request of each difference.
pub(crate) fn examples(decisions: &CompactionDecisions) -> Table {
    let numbers = ["seconds", "order"].map(Column::numbers).to_vec();
    let words = ["task", "recorded kernel", "engine", "label"].map(Column::words).to_vec();
    let rows = decisions.examples.iter().take(EXAMPLES_MAX).flat_map(example_rows);
    Table::new(
        "Compaction for requests: decisions of the first request of each difference",
        [numbers, words].concat(),
        rows,
    )
}

/// Returns a row for each step of a request. The first row names the request.
fn example_rows(request: &ComparedRequest) -> impl Iterator<Item = Vec<Value>> + use<'_> {
    (0..request.recorded.len().max(request.replayed.len())).map(|at| {
        let mut row = [const { Value::None }; 3].to_vec();
        if at == 0 {
            let seconds = Value::Number(Quantity::Ratio(request.time as f64 / 1e9));
            row = vec![seconds, Value::count(u64::from(request.order)), Value::text(&request.task)];
        }
        for steps in [&request.recorded, &request.replayed] {
            row.push(steps.get(at).map_or(Value::None, |step| Value::text(step.label())));
        }
        row.push(if at == request.first_difference { Value::text("first difference") } else { Value::None });
        row
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(node: u8, outcome: ZoneOutcome) -> CompactionStep {
        CompactionStep::Zone { node, zone: ZoneKind::Normal, effort: CompactEffort::Async, outcome }
    }

    fn decisions() -> CompactionDecisions {
        let [recorded, replayed] = [zone(0, ZoneOutcome::Deferred), zone(0, ZoneOutcome::Complete)];
        let begin = CompactionStep::Compact { effort: CompactEffort::SyncLight };
        let example = ComparedRequest {
            time: 1_500_000_000,
            task: "dd".to_owned(),
            order: 9,
            recorded: vec![begin, recorded, CompactionStep::Refused],
            replayed: vec![begin, replayed, CompactionStep::ReclaimReady, CompactionStep::Served],
            first_difference: 1,
        };
        let differences = vec![FirstDifference { recorded, replayed, requests: 3 }];
        CompactionDecisions { requests: 20, at_once: 10, same: 7, differences, examples: vec![example] }
    }

    fn texts(table: &Table) -> Vec<String> {
        table.rows.iter().map(|row| row.iter().map(Value::shown).collect::<Vec<_>>().join(" | ")).collect()
    }

    #[test]
    fn each_pair_of_decisions_is_a_row_with_its_requests() {
        let table = differences(&decisions());
        assert!(table.title.contains("7 of 10 requests"), "{}", table.title);
        assert_eq!(texts(&table), ["Normal, async: deferred | Normal, async: ran, complete | 3"]);
    }

    #[test]
    fn example_shows_both_lists_of_steps() {
        let rows = texts(&examples(&decisions()));
        assert_eq!(rows[0], "1.500 | 9 | dd | compacts, sync light | compacts, sync light | -");
        assert!(rows[1].ends_with("Normal, async: deferred | Normal, async: ran, complete | first difference"));
        assert_eq!(
            rows[2..],
            ["- | - | - | fails | reclaim ends at once, zones are ready | -", "- | - | - | - | is served | -"]
        );
    }

    #[test]
    fn json_names_the_parts_of_a_step() {
        let json = serde_json::to_value(zone(1, ZoneOutcome::NoRoom)).unwrap();
        let expected = r#"{"effort":"async","node":1,"outcome":"no_room","step":"zone","zone":"Normal"}"#;
        assert_eq!(json, serde_json::from_str::<serde_json::Value>(expected).unwrap());
        assert_eq!(zone(1, ZoneOutcome::NoRoom).label(), "Normal of node 1, async: skipped, too few free pages");
    }
}
