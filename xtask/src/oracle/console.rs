//! The guest's console: messages to us among the kernel's own lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, on_file};

/// Lines of the console that an error shows.
const TAIL: usize = 25;
/// What the kernel prints when a CPU meets a breakpoint that nobody set.
const SLIP: &str = "Oops: int3";

/// One line of the console, understood.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `oracle: SENTENCE`: for the person who waits.
    Progress(&'a str),
    /// `oracle-done: BYTES`: the recording is out.
    Done(u64),
    /// `oracle-failed: SENTENCE`: the guest gave up.
    Failed(&'a str),
    /// A line that is not for us.
    Noise,
}

impl Message<'_> {
    /// What one line of the console says.
    pub fn parse(line: &str) -> Message<'_> {
        if let Some(sentence) = line.strip_prefix("oracle: ") {
            Message::Progress(sentence)
        } else if let Some(sentence) = line.strip_prefix("oracle-failed: ") {
            Message::Failed(sentence)
        } else if let Some(bytes) = line.strip_prefix("oracle-done: ").and_then(|text| text.parse().ok()) {
            Message::Done(bytes)
        } else {
            Message::Noise
        }
    }
}

/// The console so far: all of it in a file, its end in memory.
pub struct Console {
    path: PathBuf,
    log: File,
    tail: VecDeque<String>,
    slipped: bool,
}

impl Console {
    /// An empty console whose log is `path`.
    pub fn create(path: &Path) -> Result<Console, Error> {
        let log = File::create(path).map_err(on_file("create", path))?;
        Ok(Console { path: path.to_owned(), log, tail: VecDeque::new(), slipped: false })
    }

    /// Writes a line to the log, and keeps it among the last ones.
    pub fn keep(&mut self, line: &str) -> Result<(), Error> {
        writeln!(self.log, "{line}").map_err(on_file("write", &self.path))?;
        self.slipped |= line.contains(SLIP);
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
        Ok(())
    }

    /// Whether the kernel died of a breakpoint that was no longer there: the emulator's fault.
    pub fn shows_slip(&self) -> bool {
        self.slipped
    }

    /// An error that shows the end of the console.
    pub fn failure(&self, sentence: &str) -> Error {
        let mut text = format!("{sentence}; the console's last lines (all of it: {}):", self.path.display());
        for line in &self.tail {
            text.push_str("\n  | ");
            text.push_str(line);
        }
        Error::Failed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_are_understood() {
        assert_eq!(Message::parse("oracle: recording"), Message::Progress("recording"));
        assert_eq!(Message::parse("oracle-done: 123"), Message::Done(123));
        assert_eq!(Message::parse("oracle-done: many"), Message::Noise);
        assert_eq!(Message::parse("oracle-failed: no disk"), Message::Failed("no disk"));
        assert_eq!(Message::parse("[    0.0] Linux version"), Message::Noise);
    }

    #[test]
    fn only_a_stray_breakpoint_counts_as_a_slip() {
        let folder = tempfile::tempdir().unwrap();
        let mut console = Console::create(&folder.path().join("console.txt")).unwrap();
        console.keep("Oops: general protection fault").unwrap();
        assert!(!console.shows_slip());
        console.keep("[    2.302332] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI").unwrap();
        assert!(console.shows_slip());
    }

    #[test]
    fn failure_shows_only_the_end_of_the_console() {
        let folder = tempfile::tempdir().unwrap();
        let mut console = Console::create(&folder.path().join("console.txt")).unwrap();
        for number in 0..100 {
            console.keep(&format!("line {number}")).unwrap();
        }
        let sentence = console.failure("it broke").to_string();
        assert!(sentence.starts_with("it broke; "), "{sentence}");
        assert!(sentence.contains("line 99") && !sentence.contains("line 50"), "{sentence}");
    }
}
