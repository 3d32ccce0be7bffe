//! The document of `freehold replay`: one recording under one policy.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::{Caveats, Column, Report, Table, Value};
use freehold_trace::recording::{RecordingFacts, name_of};
use serde::Serialize;

use super::comparison::title;
use super::course::{StallTimes, Stalls};
use super::outcome::ReplayOutcome;
use super::seen::{Seen, Watching};
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
        let mut tables =
            vec![self.metrics(), fidelity, tables::divergence(&outcome.course.divergence), self.unreplayed()];
        tables.insert(2, tables::failures(&outcome.course.failures));
        tables.insert(3, tables::decisions(&outcome.course.decisions));
        tables.retain(|table| !table.rows.is_empty());
        let short = outcome.course.out_of_memory.as_ref().map(|short| {
            format!(
                "{} The recorded kernel had them: under its own rules this is the replay's error.",
                short.sentence(&outcome.policy)
            )
        });
        let side = [Watching { name: &outcome.policy, course: &outcome.course }];
        let of = name_of(&self.recording.file);
        let seen = Seen { of: &of, sides: &side };
        let exact = outcome.unreplayed.is_empty().then(|| "Everything was replayed exactly.".to_owned());
        Cow::Owned(vec![Report {
            subject: vec![title(&self.recording), self.under()],
            tables,
            plots: seen.plots(),
            maps: seen.map().into_iter().collect(),
            caveats: vec![Caveats { title: "Taken for granted".into(), sentences: outcome.assumptions.clone() }],
            verdict: short.into_iter().collect(),
            reading: exact.into_iter().chain(outcome.course.stalls.as_ref().and_then(waiting)).collect(),
            ..Report::default()
        }])
    }
}

/// How long requests stalled, and what that makes of the work; nothing where none did.
fn waiting(stalls: &Stalls) -> Option<String> {
    let Stalls { recorded, replayed, later_at_least, later_at_most } = stalls;
    let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    let times = |of: &StallTimes| {
        format!(
            "{} requests stalled for {} (half {}, p99 {}, at most {})",
            of.requests,
            ms(of.total),
            ms(of.median),
            ms(of.p99),
            ms(of.max)
        )
    };
    let all = format!("{} {}", ms(later_at_most.unsigned_abs()), if *later_at_most < 0 { "sooner" } else { "later" });
    (replayed.requests + recorded.requests > 0).then(|| {
        format!(
            "{}; recorded, {}. The work is done {} later if tasks do not wait for each other, and {all} if every stall delays all: \
             the recording does not tell which.",
            times(replayed), times(recorded), ms(*later_at_least)
        )
    })
}
