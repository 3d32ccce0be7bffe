//! Direct reclaims, reclaims of control groups and failed requests by mechanism, each sum with the number of its
//! episodes or requests.

use freehold_report::report::{Column, Table, Value};
use freehold_stats::verdict::EVENTS_MIN;
use freehold_trace::mechanism::{EpisodeSum, MechanismCounts, ReclaimClass, RequestClass, RequestSum};
use serde::Serialize;

/// One mechanism.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MechanismRow {
    /// The mechanism.
    pub mechanism: &'static str,
    /// Direct reclaims, reclaims of control groups, or requests; `None` if the recording lacks their events.
    pub count: Option<u64>,
    /// Pages that were scanned on inactive lists; `None` for requests.
    pub scanned: Option<u64>,
    /// Pages that were freed; `None` for requests.
    pub reclaimed: Option<u64>,
    /// Requests that failed; `None` for reclaim.
    pub failures: Option<u64>,
    /// Label of the row; `None` if the numbers can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
}

/// Label of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// There are fewer than [`EVENTS_MIN`] direct reclaims, or failed requests.
    TooFewEvents,
    /// The counters show direct reclaims, and the recording has none of their events.
    NeedsReclaimEvents,
}

impl Label {
    fn text(self) -> &'static str {
        match self {
            Label::TooFewEvents => "too few events",
            Label::NeedsReclaimEvents => "needs events of direct reclaim",
        }
    }
}

/// Returns a row for each mechanism. `allocstall` is the kernel's counter of direct reclaims, if it is known.
pub(crate) fn rows(counts: &MechanismCounts, allocstall: Option<u64>) -> Vec<MechanismRow> {
    let lacks_events = !counts.has_reclaims() && allocstall > Some(0);
    let reclaims = ReclaimClass::ALL.map(|class| match lacks_events {
        true => unknown_row(class),
        false => reclaim_row(class.title(), counts.reclaims(class)),
    });
    let requests = RequestClass::ALL.map(|class| request_row(class, counts.requests(class)));
    let control_groups = reclaim_row("reclaim of control groups", counts.control_groups);
    reclaims.into_iter().chain([control_groups]).chain(requests).collect()
}

fn unknown_row(class: ReclaimClass) -> MechanismRow {
    let label = Some(Label::NeedsReclaimEvents);
    MechanismRow { mechanism: class.title(), count: None, scanned: None, reclaimed: None, failures: None, label }
}

fn reclaim_row(mechanism: &'static str, sum: EpisodeSum) -> MechanismRow {
    let (scanned, reclaimed) = (Some(sum.scanned), Some(sum.reclaimed));
    let (count, label) = (Some(sum.episodes), few(sum.episodes));
    MechanismRow { mechanism, count, scanned, reclaimed, failures: None, label }
}

fn request_row(class: RequestClass, sum: RequestSum) -> MechanismRow {
    let RequestSum { requests, failures } = sum;
    let (mechanism, label) = (class.title(), few(failures));
    let (count, failures) = (Some(requests), Some(failures));
    MechanismRow { mechanism, count, scanned: None, reclaimed: None, failures, label }
}

/// Returns a label for a number of events that is too small for any statement. Without events there is no label.
fn few(events: u64) -> Option<Label> {
    (events > 0 && (events as f64) < EVENTS_MIN).then_some(Label::TooFewEvents)
}

/// Returns the table of all mechanisms that occurred.
pub(crate) fn table(rows: &[MechanismRow]) -> Table {
    let shown = rows.iter().filter(|row| match row.failures {
        Some(failures) => failures > 0,
        None => row.count > Some(0) || row.label.is_some(),
    });
    let cells = shown.map(|row| {
        let sums = [row.count, row.scanned, row.reclaimed, row.failures];
        let sums = sums.map(|sum| sum.map_or(Value::None, Value::count));
        let label = row.label.map_or(Value::None, |label| Value::text(label.text()));
        [vec![Value::text(row.mechanism)], sums.to_vec(), vec![label]].concat()
    });
    let columns =
        [Column::several(&["mechanism"], &["count", "scanned", "freed", "failed"]), vec![Column::words("label")]];
    Table::new(
        "Direct reclaims and requests by mechanism (pages: by events of the inactive lists)",
        columns.concat(),
        cells,
    )
}

#[cfg(test)]
mod tests {
    use freehold_trace::mechanism::Mechanisms;
    use freehold_trace::{Kind, Row};

    use super::*;

    #[test]
    fn few_events_and_missing_events_are_labelled() {
        let mut mechanisms = Mechanisms::default();
        for task in 0..21 {
            let begin = Row { task, order: if task < 20 { 0 } else { 9 }, ..Row::new(Kind::DirectReclaimBegin) };
            mechanisms.observe(&begin);
            mechanisms.observe(&Row { task, args: [1, 0, 0], ..Row::new(Kind::DirectReclaimEnd) });
        }
        let some = rows(&mechanisms.counts(), Some(21));
        assert_eq!((some[0].label, some[0].count), (Some(Label::TooFewEvents), Some(1)));
        assert_eq!((some[2].label, some[2].count, some[2].reclaimed), (None, Some(20), Some(20)));
        let none = rows(&MechanismCounts::default(), Some(21));
        assert!(none[..3].iter().all(|row| row.label == Some(Label::NeedsReclaimEvents) && row.count.is_none()));
        assert!(none[3..].iter().all(|row| row.label.is_none()));
        assert!(rows(&MechanismCounts::default(), Some(0)).iter().all(|row| row.label.is_none()));
    }
}
