//! Summary of an import, for users and for programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use freehold_report::formats::Document;
use freehold_report::number::count;
use freehold_report::report::{Caveats, Column, Report, Table, Value};
use freehold_trace::Facts;
use serde::Serialize;

use crate::drops::{Counted, DropRow};
use crate::error::Error;
use crate::item::SourceFacts;
use crate::survey::Survey;

/// Source of the start state of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartKind {
    /// No file: the state was drawn at random.
    Drawn,
    /// A Freehold snapshot or recording.
    Snapshot,
    /// A copy of `/proc/kpageflags`.
    PageFlags,
    /// A copy of `/sys/kernel/debug/page_owner`.
    PageOwner,
}

/// Events for each event that may name a frame that the machine does not have.
const EVENTS_PER_STRAY: u64 = 100;

/// The outcome of an import.
#[derive(Clone, Debug, Serialize)]
pub struct ImportSummary {
    /// Path of the imported file.
    pub file: String,
    /// Format of the imported file.
    pub format: &'static str,
    /// Path of the recording.
    pub out: String,
    /// Release of the recorded kernel.
    pub kernel_release: String,
    /// CPUs of the recorded machine.
    pub cpus: u16,
    /// Time from the first event to the last, in seconds.
    pub duration_seconds: f64,
    /// Rows of the recording: events and state.
    pub rows: u64,
    /// Events in the recording.
    pub events: u64,
    /// Events in the recording, by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Events of which no rows are made, by name.
    pub passed_over: BTreeMap<String, u64>,
    /// Events that the kernel lost.
    pub lost: u64,
    /// Whether the file begins or ends in the middle of a record or a line.
    pub is_cut: bool,
    /// Events that could not be used, and lines that are neither events nor headings, by reason. Each row has its first
    /// example.
    pub dropped: Vec<DropRow>,
    /// Events that could not be used.
    pub dropped_events: u64,
    /// Lines that are neither events nor headings.
    pub not_understood: u64,
    /// Lines before the first event, and lines of a log between events.
    pub other_lines: u64,
    /// Events after a later one in a text, which were sorted.
    pub sorted: u64,
    /// Events that the tool counted but that are not in the file.
    pub absent: u64,
    /// Sentence about the part of the machine that the file covers; `None` if it covers the whole machine.
    pub partial: Option<String>,
    /// Places where an unknown number of events was lost.
    pub gaps: u64,
    /// Events on frames that the machine does not have, which were left out.
    pub outside: u64,
    /// Events older than the previous one, which got its time.
    pub backward: u64,
    /// Allocations and frees by their partners.
    pub unpaired: PairCounts,
    /// Source of the start state.
    pub start: StartKind,
    /// Guesses about unknown facts, in sentences.
    pub guesses: Vec<String>,
    /// Other remarks, in sentences.
    pub notes: Vec<String>,
}

/// Allocations and frees with and without a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PairCounts {
    /// Frees of pages whose allocation is in the file.
    pub paired: u64,
    /// Frees of pages that were allocated before the file begins.
    pub freed_from_before: u64,
    /// Pages that were allocated and not freed before the file ends.
    pub pages_kept: u64,
    /// Allocations of pages that were in use, so that a free is missing.
    pub allocated_twice: u64,
    /// Frees of pages that were free, so that an allocation is missing.
    pub freed_twice: u64,
}

impl ImportSummary {
    /// Builds the summary from the survey of the events; [`complete`](Self::complete) adds the rest.
    pub(crate) fn new(
        file: &Path,
        format: &'static str,
        out: &Path,
        start: StartKind,
        survey: &Survey,
        source: &SourceFacts,
    ) -> ImportSummary {
        let pairs = &survey.pairs;
        ImportSummary {
            file: file.display().to_string(),
            format,
            out: out.display().to_string(),
            kernel_release: String::new(),
            cpus: 0,
            duration_seconds: survey.duration as f64 / 1e9,
            rows: 0,
            events: survey.spool.rows(),
            kinds: survey.counts.iter().map(|(kind, &count)| (format!("{kind:?}"), count)).collect(),
            passed_over: source.passed.clone(),
            is_cut: source.is_cut,
            dropped: survey.drops.rows(),
            dropped_events: survey.drops.events(),
            not_understood: survey.drops.count(Counted::Lines),
            other_lines: source.preamble,
            sorted: source.sorted,
            absent: source.absent,
            partial: None,
            lost: survey.lost,
            gaps: survey.gaps,
            outside: 0,
            backward: survey.backward,
            unpaired: PairCounts {
                paired: pairs.paired,
                freed_from_before: pairs.from_before,
                pages_kept: pairs.kept(),
                allocated_twice: pairs.in_use_already,
                freed_twice: pairs.free_already,
            },
            start,
            guesses: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Records the number of events on frames that the machine does not have.
    ///
    /// # Errors
    /// If there are too many for one machine.
    pub(crate) fn leave_out(&mut self, outside: u64, file: &Path) -> Result<(), Error> {
        self.outside = outside;
        if outside.saturating_mul(EVENTS_PER_STRAY) <= self.events {
            self.events -= outside;
            return Ok(());
        }
        Err(Error::Machine(format!(
            "{outside} of {} events in {} name frames that the machine does not have, so the events are from another \
             machine; give the start state and the zones of the traced machine, or none",
            self.events,
            file.display()
        )))
    }

    /// Returns sentences about missing and dropped parts, for the recording's notes.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let counts = [
            (self.not_understood, "lines that are neither events nor headings"),
            (self.other_lines, "lines before the first event, or log lines between events"),
            (self.dropped_events, "events that could not be used"),
            (self.absent, "events that the kernel counted, but that are missing in the file"),
            (self.sorted, "events after a later one, which were sorted"),
            (self.gaps, "gaps in the events, where an unknown number was lost"),
            (self.outside, "events on frames that the machine does not have, which were left out"),
            (self.backward, "events older than the previous one, which got its time"),
            (self.unpaired.allocated_twice, "allocations of pages in use, so a free is missing"),
            (self.unpaired.freed_twice, "frees of free pages, so an allocation is missing"),
        ];
        let missing = counts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{} {what}", count(number)));
        let cut = "the file begins or ends in the middle of a record or a line, so a part is missing";
        self.is_cut.then(|| cut.to_owned()).into_iter().chain(missing).collect()
    }

    /// Adds the recording's facts about its machine.
    pub(crate) fn complete(&mut self, facts: &Facts, rows: u64) {
        self.rows = rows;
        self.kernel_release.clone_from(&facts.kernel_release);
        self.cpus = facts.cpus;
        self.guesses.clone_from(&facts.guesses);
        self.notes.clone_from(&facts.notes);
    }

    /// Returns the first line: the number of events, and all losses.
    fn counts_line(&self) -> String {
        let missing = [
            (self.dropped_events, "events dropped"),
            (self.outside, "events outside of memory"),
            (self.not_understood, "lines not understood"),
            (self.absent, "events missing in the file"),
        ];
        let mut parts = vec![format!("{} events in {:.3} s", count(self.events), self.duration_seconds)];
        parts.extend(
            missing.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{} {what}", count(*number))),
        );
        if self.is_cut {
            parts.push("THE FILE IS CUT OFF in the middle of a line or record".to_owned());
        }
        parts.push(match (self.lost, self.gaps) {
            (0, 0) if self.is_cut => "no events lost in the rest".to_owned(),
            (0, 0) => "no event was lost".to_owned(),
            (0, gaps) => format!("AN UNKNOWN NUMBER OF EVENTS WAS LOST, at {} places", count(gaps)),
            (lost, _) => format!("{} EVENTS WERE LOST: record with larger buffers", count(lost)),
        });
        format!("{}.", parts.join("; "))
    }

    fn verdict(&self) -> Vec<String> {
        let mut verdict = vec![self.counts_line()];
        verdict.extend(self.partial.clone());
        if self.start == StartKind::Drawn {
            verdict.push(
                "The state of memory at the start is guessed, so replays are less accurate than those of a recording; \
                 see `Guesses`."
                    .to_owned(),
            );
        }
        verdict
    }

    fn dropped_table(&self) -> Table {
        let rows = self.dropped.iter().map(|row| {
            vec![
                Value::text(row.event),
                Value::Text(count(row.count)),
                Value::Text(row.reason.clone()),
                Value::Text(row.example.clone()),
            ]
        });
        let columns = vec![
            Column::words("event"),
            Column::numbers("dropped"),
            Column::words("reason"),
            Column::words("first example"),
        ];
        Table::new("Events and lines that were dropped", columns, rows)
    }

    fn table(title: &'static str, counts: &BTreeMap<String, u64>) -> Table {
        let rows = counts.iter().map(|(name, number)| vec![Value::Text(name.clone()), Value::Text(count(*number))]);
        Table::new(title, vec![Column::words("event"), Column::numbers("events")], rows)
    }
}

impl Document for ImportSummary {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut tables = vec![
            ImportSummary::table("Imported events", &self.kinds),
            ImportSummary::table("Skipped events", &self.passed_over),
            self.dropped_table(),
        ];
        tables.retain(|table| !table.rows.is_empty());
        let caveats =
            [("Guesses", &self.guesses), ("Notes", &self.notes)].into_iter().filter(|(_, lines)| !lines.is_empty());
        Cow::Owned(vec![Report {
            subject: vec![format!(
                "{} ({} of Linux {}, {} CPUs), imported as {}",
                self.file, self.format, self.kernel_release, self.cpus, self.out
            )],
            verdict: self.verdict(),
            tables,
            caveats: caveats
                .map(|(title, sentences)| Caveats { title: title.into(), sentences: sentences.clone() })
                .collect(),
            ..Report::default()
        }])
    }
}
