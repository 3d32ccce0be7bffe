//! Conversion of the outcome of a replay to rows and back. The rows contain every number on which a verdict depends.
//!
//! | section | `measure`, `at` | contents |
//! |---|---|---|
//! | `measure` | metric | value of the replay |
//! | `nudged` | metric, index of the nudge | value with watermarks varied by up to 1 % |
//! | `recorded`, `replayed`, `bound` | fidelity measure | value of the kernel, value of the replay, and the bound |
//! | `recorded_events`, `replayed_events` | fidelity measure | events behind the two values |
//! | `uncompared` | fidelity measure | reason for which a measure is not compared |
//! | `uncompared_recorded`, `uncompared_replayed` | fidelity measure | the one value of such a measure that is known |
//! | `unreplayed` | kind | number of events that were not replayed exactly |
//! | `guess` | | sentence on an assumption of an imported recording |
//! | `assumption` | | sentence on an assumption of the replay |
//! | `out_of_memory` | `time`, `task`, `pages`; index of the nudge | time, task and size of the request that failed |
//! | `fact` | name | fact about the recording or the replay |

use freehold_replay::report::course::{Course, OutOfMemory};
use freehold_replay::report::fidelity::{FidelityMeasure, FidelityRow};
use freehold_replay::report::metrics::{Metric, Metrics};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_replay::report::uncompared::{UncomparedReason, UncomparedRow};
use freehold_report::number::Quantity;
use freehold_trace::recording::RecordingFacts;

use crate::part::Row;

/// Section of measured values, in every kind of sweep.
pub(crate) const MEASURE: &str = "measure";
/// Section of the events behind measures that are not counts of events, such as shares; only for simulated runs.
pub(crate) const EVENTS: &str = "events";
/// Section of facts about a task.
pub(crate) const FACT: &str = "fact";
const NUDGED: &str = "nudged";
const RECORDED: &str = "recorded";
const REPLAYED: &str = "replayed";
const BOUND: &str = "bound";
const RECORDED_EVENTS: &str = "recorded_events";
const REPLAYED_EVENTS: &str = "replayed_events";
const UNCOMPARED: &str = "uncompared";
const UNCOMPARED_RECORDED: &str = "uncompared_recorded";
const UNCOMPARED_REPLAYED: &str = "uncompared_replayed";
const GUESS: &str = "guess";
const UNREPLAYED: &str = "unreplayed";
const ASSUMPTION: &str = "assumption";
const OUT_OF_MEMORY: &str = "out_of_memory";

/// A replay: its recording and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    /// Facts about the recording.
    pub facts: RecordingFacts,
    /// Outcome of the replay, under the full name of the policy.
    pub outcome: ReplayOutcome,
}

/// Returns the rows of a replay.
pub(crate) fn rows(replayed: &Replay) -> Vec<Row> {
    let Replay { facts, outcome } = replayed;
    let mut rows = facts_rows(facts, outcome);
    for (at, replay) in (0..).zip(outcome.replays()) {
        let section = if at == 0 { MEASURE } else { NUDGED };
        for metric in Metric::ALL {
            let number = replay.metrics.get(metric);
            rows.extend(number.map(|number| Row::number(section, metric.name(), metric.unit(), number).numbered(at)));
        }
        rows.extend(replay.course.out_of_memory.iter().flat_map(|short| out_of_memory_rows(short, at)));
    }
    rows.extend(outcome.fidelity.iter().flat_map(fidelity_rows));
    rows.extend(outcome.course.uncompared.iter().flat_map(uncompared_rows));
    let unreplayed = outcome.unreplayed.iter();
    rows.extend(unreplayed.map(|(what, events)| Row::number(UNREPLAYED, what, "events", Quantity::Count(*events))));
    rows.extend(outcome.assumptions.iter().map(|sentence| Row::text(ASSUMPTION, "", sentence)));
    rows
}

fn facts_rows(facts: &RecordingFacts, outcome: &ReplayOutcome) -> Vec<Row> {
    let mut rows = vec![
        Row::text(FACT, "file", &facts.file),
        Row::text(FACT, "kernel_release", &facts.kernel_release),
        count_row(FACT, "cpus", "CPUs", facts.cpus.into()),
        count_row(FACT, "replay_cpus", "CPUs", facts.replay_cpus.into()),
        Row::number(FACT, "duration", "seconds", Quantity::Ratio(facts.duration_seconds)),
        count_row(FACT, "rows", "rows", facts.rows),
        Row::text(FACT, "policy", &outcome.policy),
        count_row(FACT, "nudges", "replays", outcome.nudged.len() as u64),
    ];
    rows.extend(facts.guesses.iter().map(|guess| Row::text(GUESS, "", guess)));
    rows
}

/// Returns a row of a count.
pub(crate) fn count_row(section: &str, name: &str, unit: &str, count: u64) -> Row {
    Row::number(section, name, unit, Quantity::Count(count))
}

fn out_of_memory_rows(short: &OutOfMemory, at: u32) -> [Row; 3] {
    let time = count_row(OUT_OF_MEMORY, "time", "ns", short.time);
    let task = Row::text(OUT_OF_MEMORY, "task", &short.task);
    let pages = count_row(OUT_OF_MEMORY, "pages", "pages", short.pages);
    [time, task, pages].map(|row| row.numbered(at))
}

fn fidelity_rows(row: &FidelityRow) -> Vec<Row> {
    let [recorded_events, replayed_events] = [0, 1].map(|side| row.events.map(|events| events[side]));
    let numbers = [
        (RECORDED, Some(row.recorded)),
        (REPLAYED, Some(row.replayed)),
        (BOUND, row.bound),
        (RECORDED_EVENTS, recorded_events),
        (REPLAYED_EVENTS, replayed_events),
    ];
    let present = numbers.into_iter().filter_map(|(section, number)| Some((section, number?)));
    present.map(|(section, number)| Row::number(section, row.measure.name(), "", Quantity::Ratio(number))).collect()
}

fn uncompared_rows(row: &UncomparedRow) -> Vec<Row> {
    let name = row.measure.name();
    let numbers = [(UNCOMPARED_RECORDED, row.recorded), (UNCOMPARED_REPLAYED, row.replayed)];
    let numbers = numbers.into_iter().filter_map(|(section, number)| Some((section, number?)));
    let numbers = numbers.map(|(section, number)| Row::number(section, name, "", Quantity::Ratio(number)));
    [Row::text(UNCOMPARED, name, row.reason.label())].into_iter().chain(numbers).collect()
}

/// Reads a replay from its rows; returns `None` if something is missing.
pub(crate) fn from_rows(rows: &[Row]) -> Option<Replay> {
    let facts = Facts { rows };
    let nudges = u32::try_from(facts.count("nudges")?).ok()?;
    let nudged = (1..=nudges).map(|at| outcome_at(&facts, at)).collect::<Option<Vec<_>>>()?;
    let unreplayed = rows.iter().filter(|row| row.section == UNREPLAYED);
    let outcome = ReplayOutcome {
        nudged,
        fidelity: read_fidelity(rows)?,
        unreplayed: unreplayed.map(|row| Some((row.measure.clone(), row.count?))).collect::<Option<_>>()?,
        assumptions: texts(rows, ASSUMPTION)?,
        ..outcome_at(&facts, 0)?
    };
    let course = Course { uncompared: read_uncompared(rows)?, ..outcome.course };
    Some(Replay { facts: facts.recording()?, outcome: ReplayOutcome { course, ..outcome } })
}

/// Reads the outcome of the replay itself (0) or of a nudge (from 1), without the fields that are stored once for all
/// of them.
fn outcome_at(facts: &Facts<'_>, at: u32) -> Option<ReplayOutcome> {
    Some(ReplayOutcome {
        policy: facts.text("policy")?.to_owned(),
        metrics: metrics(facts.rows, at)?,
        nudged: Vec::new(),
        fidelity: Vec::new(),
        unreplayed: Vec::new(),
        assumptions: Vec::new(),
        course: Course { out_of_memory: shortage(facts.rows, at), ..Course::default() },
    })
}

/// Returns the sentences of a section; `None` if a row of the section has no sentence.
fn texts(rows: &[Row], section: &str) -> Option<Vec<String>> {
    rows.iter().filter(|row| row.section == section).map(|row| row.text.clone()).collect()
}

/// Rows with facts.
struct Facts<'r> {
    rows: &'r [Row],
}

impl<'r> Facts<'r> {
    fn row(&self, name: &str) -> Option<&'r Row> {
        self.rows.iter().find(|row| row.section == FACT && row.measure == name)
    }

    fn text(&self, name: &str) -> Option<&'r str> {
        self.row(name)?.text.as_deref()
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.row(name)?.count
    }

    fn recording(&self) -> Option<RecordingFacts> {
        Some(RecordingFacts {
            file: self.text("file")?.to_owned(),
            kernel_release: self.text("kernel_release")?.to_owned(),
            cpus: self.count("cpus")?.try_into().ok()?,
            replay_cpus: self.count("replay_cpus")?.try_into().ok()?,
            duration_seconds: self.row("duration")?.value?,
            rows: self.count("rows")?,
            guesses: texts(self.rows, GUESS)?,
        })
    }
}

fn metrics(rows: &[Row], at: u32) -> Option<Metrics> {
    let section = if at == 0 { MEASURE } else { NUDGED };
    let mut metrics = Metrics::new();
    for row in rows.iter().filter(|row| row.section == section && row.at == at) {
        metrics = metrics.with(Metric::parse(&row.measure)?, row.quantity()?);
    }
    Some(metrics)
}

fn shortage(rows: &[Row], at: u32) -> Option<OutOfMemory> {
    let [time, task, pages] = ["time", "task", "pages"]
        .map(|name| rows.iter().find(|row| row.section == OUT_OF_MEMORY && row.at == at && row.measure == name));
    Some(OutOfMemory { time: time?.count?, task: task?.text.clone()?, pages: pages?.count? })
}

fn read_fidelity(rows: &[Row]) -> Option<Vec<FidelityRow>> {
    let mut fidelity = Vec::new();
    for recorded in rows.iter().filter(|row| row.section == RECORDED) {
        let name = &recorded.measure;
        let replayed = value_in(rows, REPLAYED, name)?;
        let events = value_in(rows, RECORDED_EVENTS, name).zip(value_in(rows, REPLAYED_EVENTS, name));
        let measure = FidelityMeasure::parse(name)?;
        let row = FidelityRow::new(measure, recorded.value?, replayed, value_in(rows, BOUND, name));
        fidelity.push(row.with_events(events.map(<[f64; 2]>::from)));
    }
    Some(fidelity)
}

fn read_uncompared(rows: &[Row]) -> Option<Vec<UncomparedRow>> {
    let reasons = rows.iter().filter(|row| row.section == UNCOMPARED);
    reasons
        .map(|row| {
            let reason =
                UncomparedReason::ALL.into_iter().find(|reason| row.text.as_deref() == Some(reason.label()))?;
            Some(UncomparedRow {
                measure: FidelityMeasure::parse(&row.measure)?,
                recorded: value_in(rows, UNCOMPARED_RECORDED, &row.measure),
                replayed: value_in(rows, UNCOMPARED_REPLAYED, &row.measure),
                reason,
            })
        })
        .collect()
}

/// Returns the number of a fidelity measure in a section.
fn value_in(rows: &[Row], section: &str, name: &str) -> Option<f64> {
    rows.iter().find(|row| row.section == section && row.measure == name)?.value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> ReplayOutcome {
        let metrics = Metrics::new().with_count(Metric::AllocStalls, 3).with_ratio(Metric::CompactSuccess, 1, 3);
        ReplayOutcome {
            policy: "linux-6.12".to_owned(),
            metrics,
            nudged: Vec::new(),
            fidelity: vec![
                FidelityRow::new(FidelityMeasure::FreePages, 3.0, 2.0, Some(0.1)),
                FidelityRow::new(FidelityMeasure::Failures, 0.0, 2.0, None).with_events(Some([0.0, 2.0])),
            ],
            unreplayed: vec![("bulk allocation".to_owned(), 7)],
            assumptions: vec!["Memory was drawn.".to_owned()],
            course: Course::default(),
        }
    }

    #[test]
    fn replay_outcome_round_trips() {
        let short = OutOfMemory { time: 5, task: "cc1".to_owned(), pages: 9 };
        let nudged = ReplayOutcome {
            course: Course { out_of_memory: Some(short), ..Course::default() },
            fidelity: Vec::new(),
            unreplayed: Vec::new(),
            assumptions: Vec::new(),
            ..outcome()
        };
        let facts = RecordingFacts {
            file: "a.parquet".to_owned(),
            kernel_release: "6.12.1".to_owned(),
            cpus: 2,
            replay_cpus: 8,
            duration_seconds: 0.1,
            rows: 11,
            guesses: vec!["The release.".to_owned()],
        };
        let uncompared = UncomparedRow {
            measure: FidelityMeasure::AllocStalls,
            recorded: None,
            replayed: Some(3.0),
            reason: UncomparedReason::NeedsReclaimEvents,
        };
        let course = Course { uncompared: vec![uncompared], ..Course::default() };
        let outcome = ReplayOutcome { nudged: vec![outcome_alone(), nudged], course, ..outcome() };
        let replayed = Replay { facts, outcome };
        assert_eq!(from_rows(&rows(&replayed)), Some(replayed));
    }

    fn outcome_alone() -> ReplayOutcome {
        ReplayOutcome { fidelity: Vec::new(), unreplayed: Vec::new(), assumptions: Vec::new(), ..outcome() }
    }

    #[test]
    fn incomplete_rows_are_not_a_replay() {
        assert_eq!(from_rows(&[]), None);
        assert_eq!(from_rows(&[Row::text(FACT, "file", "a")]), None);
    }
}
