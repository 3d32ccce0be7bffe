//! The files that a recorder wrote, as a document: the final output of `freehold record`.

use std::borrow::Cow;
use std::path::Path;

use freehold_record::Summary;
use freehold_report::formats::Document;
use freehold_report::report::{Caveats, Column, Report, Table, Value};
use freehold_report::terminal::Style;
use indicatif::HumanCount;
use serde::Serialize;

/// Files that a recorder wrote: one, or as many as the triggers of a flight recorder caused.
#[derive(Debug, Serialize)]
pub(super) struct Recorded {
    /// The files, oldest first.
    pub recordings: Vec<RecordedFile>,
}

/// A file that was written.
#[derive(Debug, Serialize)]
pub(super) struct RecordedFile {
    file: String,
    bytes: u64,
    events: u64,
    rows: u64,
    /// Events that the kernel dropped.
    lost: u64,
    seconds: f64,
    /// Name of the command, if there was one.
    command: Option<String>,
    /// Exit status of the command; `None` without a command, or while it is still running.
    status: Option<String>,
    notes: Vec<String>,
}

impl RecordedFile {
    /// Summarizes the recording at `path`.
    pub(super) fn new(summary: &Summary, path: &Path) -> RecordedFile {
        RecordedFile {
            file: path.display().to_string(),
            bytes: path.metadata().map_or(0, |metadata| metadata.len()),
            events: summary.events,
            rows: summary.rows,
            lost: summary.lost,
            seconds: summary.duration.as_secs_f64(),
            command: summary.command.clone(),
            status: summary.status.map(|status| status.to_string()),
            notes: summary.notes.clone(),
        }
    }

    /// Formats the end of the command; `None` without a command.
    fn ending(&self) -> Option<String> {
        let command = self.command.as_ref()?;
        Some(match &self.status {
            Some(status) => format!("{command}: {status}"),
            None => format!("{command}: still running after SIGTERM"),
        })
    }

    fn in_short(&self) -> String {
        format!(
            "{}: {} events in {:.1} s, {} rows, {:.1} bytes a row; {}",
            self.file,
            HumanCount(self.events),
            self.seconds,
            HumanCount(self.rows),
            self.bytes as f64 / self.rows.max(1) as f64,
            lost(self.lost),
        )
    }

    fn row(&self) -> Vec<Value> {
        let numbers = [self.bytes, self.events, self.rows, self.lost].map(Value::count);
        [Value::text(&self.file)].into_iter().chain(numbers).chain([Value::decimal(Some(self.seconds))]).collect()
    }
}

fn lost(events: u64) -> String {
    match events {
        0 => "no event was lost".to_owned(),
        _ => format!("{} EVENTS WERE LOST; give a larger --ring", HumanCount(events)),
    }
}

impl Document for Recorded {
    fn reports(&self) -> Cow<'_, [Report]> {
        let columns = Column::several(&["file"], &["bytes", "events", "rows", "lost", "seconds"]);
        let files_with_notes = self.recordings.iter().filter(|file| !file.notes.is_empty());
        Cow::Owned(vec![Report {
            subject: self.recordings.iter().flat_map(RecordedFile::ending).collect(),
            verdict: self.recordings.iter().map(RecordedFile::in_short).collect(),
            tables: vec![Table::new("Recordings", columns, self.recordings.iter().map(RecordedFile::row))],
            caveats: files_with_notes
                .map(|file| Caveats { title: file.file.clone().into(), sentences: file.notes.clone() })
                .collect(),
            ..Report::default()
        }])
    }

    fn text(&self, _: Style) -> String {
        let lines = self.recordings.iter().flat_map(|file| {
            let notes = file.notes.iter().map(|note| format!("  {note}"));
            file.ending().into_iter().chain([file.in_short()]).chain(notes)
        });
        lines.map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn summary() -> Summary {
        Summary {
            events: 1_234_567,
            rows: 1_300_000,
            lost: 0,
            duration: Duration::from_millis(2500),
            command: None,
            status: None,
            ended_by_itself: false,
            notes: vec!["a note".to_owned()],
        }
    }

    fn ending_of(summary: &Summary) -> String {
        Recorded { recordings: vec![RecordedFile::new(summary, Path::new("/no/such/file"))] }.text(Style::PLAIN)
    }

    #[test]
    fn lost_events_are_reported_prominently() {
        let quiet = ending_of(&summary());
        assert!(quiet.contains("1,234,567 events in 2.5 s") && quiet.contains("no event was lost"), "{quiet}");
        assert!(quiet.ends_with("\n  a note\n"), "{quiet}");
        let loud = ending_of(&Summary { lost: 3, ..summary() });
        assert!(loud.contains("3 EVENTS WERE LOST") && loud.contains("--ring"), "{loud}");
    }

    #[test]
    fn still_running_command_is_reported() {
        let text = ending_of(&Summary { command: Some("sleep".to_owned()), ..summary() });
        assert!(text.starts_with("sleep: still running"), "{text}");
    }
}
