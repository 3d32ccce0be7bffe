//! What a replay found, as rows and back: all that a verdict stands on, number by number.
//!
//! | section | `measure`, `at` | what the row has |
//! |---|---|---|
//! | `measure` | a metric | what the replay measured |
//! | `nudged` | a metric, which nudge | what it measured with watermarks that are a hundredth off |
//! | `recorded`, `replayed`, `bound` | a row of fidelity | what the kernel did, what the replay, and the bound |
//! | `unreplayed` | what it was | how often it could not be replayed exactly |
//! | `guess` | | a sentence on what was guessed of an imported recording |
//! | `assumption` | | a sentence on what is taken for granted |
//! | `out_of_memory` | `time`, `task`, `pages`; which nudge | when nothing was left, for whom, and how much |
//! | `fact` | a name | something about the recording or the replay |

use freehold_replay::report::course::{Course, OutOfMemory};
use freehold_replay::report::fidelity::{FidelityMeasure, FidelityRow};
use freehold_replay::report::metrics::{Metric, Metrics};
use freehold_replay::report::outcome::ReplayOutcome;
use freehold_report::number::Quantity;
use freehold_trace::recording::RecordingFacts;

use crate::part::Row;

/// Section of what was measured: that of every kind of sweep.
pub const MEASURE: &str = "measure";
/// Section of what is known of a task.
pub const FACT: &str = "fact";
const NUDGED: &str = "nudged";
const RECORDED: &str = "recorded";
const REPLAYED: &str = "replayed";
const BOUND: &str = "bound";
const GUESS: &str = "guess";
const UNREPLAYED: &str = "unreplayed";
const ASSUMPTION: &str = "assumption";
const OUT_OF_MEMORY: &str = "out_of_memory";

/// A replay as it is told of: what was replayed, and what that brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The recording.
    pub facts: RecordingFacts,
    /// What came of it, under the policy's whole name.
    pub outcome: ReplayOutcome,
}

/// All of it as rows.
pub fn rows(replayed: &Replayed) -> Vec<Row> {
    let Replayed { facts, outcome } = replayed;
    let mut rows = facts_rows(facts, outcome);
    for (at, replay) in (0..).zip(outcome.replays()) {
        let section = if at == 0 { MEASURE } else { NUDGED };
        let of = |metric: Metric| {
            Some(Row::of(section, metric.name(), metric.unit(), replay.metrics.get(metric)?).numbered(at))
        };
        rows.extend(Metric::ALL.into_iter().filter_map(of));
        rows.extend(replay.course.out_of_memory.iter().flat_map(|short| out_of_memory(short, at)));
    }
    rows.extend(outcome.fidelity.iter().flat_map(fidelity));
    let unreplayed = outcome.unreplayed.iter();
    rows.extend(unreplayed.map(|(what, events)| Row::of(UNREPLAYED, what, "events", Quantity::Count(*events))));
    rows.extend(outcome.assumptions.iter().map(|sentence| Row::words(ASSUMPTION, "", sentence)));
    rows
}

fn facts_rows(facts: &RecordingFacts, outcome: &ReplayOutcome) -> Vec<Row> {
    let count = |name, unit, count| Row::of(FACT, name, unit, Quantity::Count(count));
    let mut rows = vec![
        Row::words(FACT, "file", &facts.file),
        Row::words(FACT, "kernel_release", &facts.kernel_release),
        count("cpus", "CPUs", facts.cpus.into()),
        count("replay_cpus", "CPUs", facts.replay_cpus.into()),
        Row::of(FACT, "duration", "seconds", Quantity::Ratio(facts.duration_seconds)),
        count("rows", "rows", facts.rows),
        Row::words(FACT, "policy", &outcome.policy),
        count("nudges", "replays", outcome.nudged.len() as u64),
    ];
    rows.extend(facts.guesses.iter().map(|guess| Row::words(GUESS, "", guess)));
    rows
}

fn out_of_memory(short: &OutOfMemory, at: u32) -> [Row; 3] {
    let count = |name, unit, count| Row::of(OUT_OF_MEMORY, name, unit, Quantity::Count(count)).numbered(at);
    let task = Row::words(OUT_OF_MEMORY, "task", &short.task).numbered(at);
    [count("time", "ns", short.time), task, count("pages", "pages", short.pages)]
}

fn fidelity(row: &FidelityRow) -> Vec<Row> {
    let of = |section, number| Row::of(section, row.measure.name(), "", Quantity::Ratio(number));
    let both = [of(RECORDED, row.recorded), of(REPLAYED, row.replayed)];
    both.into_iter().chain(row.bound.map(|bound| of(BOUND, bound))).collect()
}

/// The replay that these rows tell of; nothing if they tell of none.
pub fn of_rows(rows: &[Row]) -> Option<Replayed> {
    let facts = Facts { rows };
    let number = |at: u32| -> Option<ReplayOutcome> {
        Some(ReplayOutcome {
            policy: facts.words("policy")?.to_owned(),
            metrics: metrics(rows, at)?,
            nudged: Vec::new(),
            fidelity: Vec::new(),
            unreplayed: Vec::new(),
            assumptions: Vec::new(),
            course: Course { out_of_memory: shortage(rows, at), ..Course::default() },
        })
    };
    let nudges = u32::try_from(facts.count("nudges")?).ok()?;
    let nudged = (1..=nudges).map(number).collect::<Option<Vec<_>>>()?;
    let unreplayed = rows.iter().filter(|row| row.section == UNREPLAYED);
    let outcome = ReplayOutcome {
        nudged,
        fidelity: fidelity_of(rows)?,
        unreplayed: unreplayed.map(|row| Some((row.measure.clone(), row.count?))).collect::<Option<_>>()?,
        assumptions: texts(rows, ASSUMPTION)?,
        ..number(0)?
    };
    Some(Replayed { facts: facts.of_recording()?, outcome })
}

/// The sentences of a section; nothing if one of its rows has none.
fn texts(rows: &[Row], section: &str) -> Option<Vec<String>> {
    rows.iter().filter(|row| row.section == section).map(|row| row.text.clone()).collect()
}

/// Rows about what is known.
struct Facts<'r> {
    rows: &'r [Row],
}

impl<'r> Facts<'r> {
    fn row(&self, name: &str) -> Option<&'r Row> {
        self.rows.iter().find(|row| row.section == FACT && row.measure == name)
    }

    fn words(&self, name: &str) -> Option<&'r str> {
        self.row(name)?.text.as_deref()
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.row(name)?.count
    }

    fn of_recording(&self) -> Option<RecordingFacts> {
        Some(RecordingFacts {
            file: self.words("file")?.to_owned(),
            kernel_release: self.words("kernel_release")?.to_owned(),
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
    let of_replay = rows.iter().filter(|row| row.section == section && row.at == at);
    of_replay.map(|row| Some((Metric::parse(&row.measure)?, row.quantity()?))).try_fold(
        Metrics::new(),
        |metrics, row| {
            let (metric, value) = row?;
            Some(metrics.with(metric, value))
        },
    )
}

fn shortage(rows: &[Row], at: u32) -> Option<OutOfMemory> {
    let row = |name| rows.iter().find(|row| row.section == OUT_OF_MEMORY && row.at == at && row.measure == name);
    Some(OutOfMemory { time: row("time")?.count?, task: row("task")?.text.clone()?, pages: row("pages")?.count? })
}

fn fidelity_of(rows: &[Row]) -> Option<Vec<FidelityRow>> {
    let mut fidelity = Vec::new();
    let mut rows = rows.iter().filter(|row| [RECORDED, REPLAYED, BOUND].contains(&row.section.as_str())).peekable();
    while let Some(recorded) = rows.next() {
        let replayed = rows.next().filter(|row| row.section == REPLAYED && row.measure == recorded.measure)?;
        let bound = rows.next_if(|row| row.section == BOUND).and_then(|row| row.value);
        fidelity.push(FidelityRow::new(
            FidelityMeasure::parse(&recorded.measure)?,
            recorded.value?,
            replayed.value?,
            bound,
        ));
    }
    Some(fidelity)
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
                FidelityRow::new(FidelityMeasure::Failures, 0.0, 2.0, None),
            ],
            unreplayed: vec![("bulk allocation".to_owned(), 7)],
            assumptions: vec!["Memory was drawn.".to_owned()],
            course: Course::default(),
        }
    }

    #[test]
    fn what_comes_back_is_what_was_found() {
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
        let replayed =
            Replayed { facts, outcome: ReplayOutcome { nudged: vec![outcome_alone(), nudged], ..outcome() } };
        assert_eq!(of_rows(&rows(&replayed)), Some(replayed));
    }

    fn outcome_alone() -> ReplayOutcome {
        ReplayOutcome { fidelity: Vec::new(), unreplayed: Vec::new(), assumptions: Vec::new(), ..outcome() }
    }

    #[test]
    fn rows_that_tell_of_no_replay_are_none() {
        assert_eq!(of_rows(&[]), None);
        assert_eq!(of_rows(&[Row::words(FACT, "file", "a")]), None);
    }
}
