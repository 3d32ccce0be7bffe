//! What tools print: `perf script`, `trace-cmd report`, and the kernel's files `trace` and `trace_pipe`.
//!
//! ```text
//! line    a line: task, CPU, time, event, and `key=value`
//! events  what is made of the values of each event
//! ```
//!
//! Such a text says less than the file that it was printed from: times in microseconds, nothing of the machine but what
//! a heading tells, no results of compaction. A line that is no event, of a call stack for instance, is passed over.

mod events;
mod line;

use std::io::{BufRead, BufReader};
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::input::Input;
use crate::item::{Item, Sink, SourceFacts};
use line::Line;

pub(crate) const FORMAT: &str = "text of events";

/// Bytes of a line that are looked at.
const LINE_MAX: u64 = 1 << 16;
/// Names of events that are counted.
const NAMES_MAX: usize = 4096;
/// Bytes that are read at a time.
const BUFFER: usize = 1 << 20;

/// Whether a file that begins so has a line of an event.
pub(crate) fn is_text(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| Line::parse(line).is_some())
}

/// Reads a file to its end.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read(path: &Path, input: Input, sink: Sink<'_>) -> Result<SourceFacts, Error> {
    let mut file = BufReader::with_capacity(BUFFER, input);
    let mut parser = EventParser::default();
    let mut bytes = Vec::new();
    let mut is_cut = false;
    while next_line(&mut file, &mut bytes, &mut is_cut).map_err(Error::read(path))? {
        parser.line(&bytes, sink)?;
    }
    let mut source = SourceFacts { is_cut, ..parser.source };
    source.passed = parser.passed.into_iter().map(|(name, count)| (lossy(&name), count)).collect();
    source.notes.push("read from a text, which has times in microseconds and no results of compaction".to_owned());
    Ok(source)
}

/// Reads a line without its end; false if there is none. What is too long is cut. `is_cut` says whether the last one had
/// no end.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>, is_cut: &mut bool) -> std::io::Result<bool> {
    line.clear();
    let read = std::io::Read::take(&mut *file, LINE_MAX).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read as u64 == LINE_MAX {
        file.skip_until(b'\n')?;
    } else {
        *is_cut = read > 0;
    }
    Ok(read > 0)
}

#[derive(Default)]
struct EventParser {
    source: SourceFacts,
    /// The name that each thread had last.
    names: FxHashMap<u32, Vec<u8>>,
    passed: FxHashMap<Vec<u8>, u64>,
}

impl EventParser {
    fn line(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<(), Error> {
        if let Some(line) = Line::parse(bytes) {
            return self.event(&line, sink);
        }
        if let Some(lost) = line::lost(bytes) {
            return sink(lost);
        }
        if bytes.first() == Some(&b'#') {
            return self.heading(&lossy(bytes), sink);
        }
        // Stacks are set in, and what has no name of an event is no event.
        let is_set_in = bytes.first().is_none_or(u8::is_ascii_whitespace);
        self.source.not_understood += u64::from(!is_set_in);
        Ok(())
    }

    fn event(&mut self, line: &Line<'_>, sink: Sink<'_>) -> Result<(), Error> {
        let is_named = !line.task.is_empty() && line.task != b"<...>";
        if is_named && self.names.get(&line.pid).is_none_or(|name| name != line.task) {
            self.names.insert(line.pid, line.task.to_vec());
            sink(Item::Named { pid: line.pid, name: lossy(line.task) })?;
        }
        match events::row(line) {
            Some(row) => sink(Item::Row { pid: line.pid, row }),
            None => {
                // Names of events are few, unless somebody made them up.
                let has_room = self.passed.len() < NAMES_MAX;
                match self.passed.get_mut(line.event) {
                    Some(count) => *count += 1,
                    None if has_room => drop(self.passed.insert(line.event.to_vec(), 1)),
                    None => {}
                }
                Ok(())
            }
        }
    }

    /// What the headings of `perf script --header` and of `trace` say.
    fn heading(&mut self, line: &str, sink: Sink<'_>) -> Result<(), Error> {
        if let Some((name, value)) = line.trim_start_matches(['#', ' ']).split_once(" : ") {
            let value = value.trim();
            match name.trim() {
                "os release" => self.source.kernel_release = Some(value.to_owned()),
                "arch" => self.source.machine = Some(value.to_owned()),
                "nrcpus online" => self.source.cpus = value.parse().ok(),
                "total memory" => self.source.memory = kib(value),
                _ => {}
            }
        }
        if let Some((_, cpus)) = line.split_once("#P:") {
            self.source.cpus = cpus.trim().parse().ok();
        }
        match line.split_once("entries-in-buffer/entries-written:").and_then(|(_, counts)| overwritten(counts)) {
            Some(events) => sink(Item::Lost(events)),
            None => Ok(()),
        }
    }
}

/// Bytes of a number of KiB.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Events that the ring had no room for: what was written, less what is there.
fn overwritten(counts: &str) -> Option<u64> {
    let (kept, written) = counts.split_ascii_whitespace().next()?.split_once('/')?;
    let lost = written.parse::<u64>().ok()?.checked_sub(kept.parse().ok()?)?;
    (lost > 0).then_some(lost)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use freehold_trace::Kind;

    use super::*;

    fn items(text: &str) -> (Vec<Item>, SourceFacts) {
        let mut items = Vec::new();
        let mut parser = EventParser::default();
        for line in text.lines() {
            let mut sink = |item| {
                items.push(item);
                Ok(())
            };
            parser.line(line.as_bytes(), &mut sink).unwrap();
        }
        (items, parser.source)
    }

    #[test]
    fn headings_tell_of_the_machine_and_of_what_was_lost() {
        let (items, source) = items(
            "# os release : 6.18.4\n# arch : x86_64\n# nrcpus online : 4\n# total memory : 2048 kB\n\
             # entries-in-buffer/entries-written: 10/17   #P:2\n",
        );
        assert_eq!(items, [Item::Lost(7)]);
        assert_eq!(
            (source.kernel_release.as_deref(), source.cpus, source.memory),
            (Some("6.18.4"), Some(2), Some(2 << 20))
        );
    }

    #[test]
    fn events_are_rows_and_names_are_told_when_they_change() {
        let event = "mm_page_free: page=0 pfn=0x10 order=1";
        let text = format!(
            "  sh-7 [001] d..2. 1.000002: {event}\n  sh-7 [001] ..... 1.000003: {event}\n\
             cc1-7 [001] 1.000004: {event}\n\
             \tffffffff81 __free (vmlinux)\n<...>-8 [000] 1.5: kfree: ptr=0\nCPU:1 [LOST 12 EVENTS]\n"
        );
        let (items, _) = items(&text);
        let kinds: Vec<&str> = items
            .iter()
            .map(|item| match item {
                Item::Named { name, .. } => name,
                Item::Row { row, .. } if row.kind == Kind::Free && row.pfn == 16 && row.order == 1 => "free",
                Item::Lost(12) => "lost",
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["sh", "free", "free", "cc1", "free", "lost"]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let long = [vec![b'x'; LINE_MAX as usize + 9], b"\nshort".to_vec()].concat();
        let (mut file, mut line) = (&long[..], Vec::new());
        assert!(next_line(&mut file, &mut line, &mut false).unwrap() && line.len() as u64 == LINE_MAX);
        assert!(next_line(&mut file, &mut line, &mut false).unwrap() && line == b"short");
        assert!(!next_line(&mut file, &mut line, &mut false).unwrap());
    }
}
