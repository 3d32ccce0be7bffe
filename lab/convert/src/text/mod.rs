//! Reader of printed events: `perf script`, `trace-cmd report`, and the kernel's files `trace` and `trace_pipe`.
//!
//! ```text
//! line     a line: task, CPU, time, event, and `key=value`
//! prefix   prefixes that logs add to a line
//! events   conversion of each event's values to a row
//! heading  lines that begin with `#`
//! sort     events in order of time
//! form     descriptions of formats that cannot be read
//! ```
//!
//! A line that cannot be read is counted by its reason. Lines that tools print between events, such as call stacks, are
//! skipped, and so are lines before the first event. Such a text has less information than the file from which it was
//! printed: times are in microseconds, and facts about the machine are only in headings.

mod events;
mod form;
mod heading;
mod line;
mod prefix;
mod sort;

use std::io::{BufRead, BufReader};
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::drops::Counted;
use crate::error::Error;
use crate::input::Input;
use crate::item::{Item, Sink, SourceFacts};
use events::Outcome;
use line::{Line, Missing, Stamp};
use sort::Sorter;

pub(crate) const FORMAT: &str = "text of events";

/// Bytes of a line that are read; the rest is cut off.
const LINE_MAX: u64 = 1 << 16;
/// Largest number of event names that are counted.
const NAMES_MAX: usize = 4096;
/// Bytes that are read at a time.
const BUFFER: usize = 1 << 20;
/// Byte order mark of a text in UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns whether a file that begins with `head` has a line of an event.
pub(crate) fn is_text(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| Line::parse(line.trim_ascii_end()).is_ok())
}

/// Returns whether `head` names an event, in a line that cannot be parsed.
pub(crate) fn names_events(head: &[u8]) -> bool {
    events::named_in(head).is_some()
}

/// Returns the description of a text without an event line, and a suggested action; `None` if the format is not known.
pub(crate) fn describe(head: &[u8]) -> Option<(&'static str, &'static str)> {
    form::describe(&String::from_utf8_lossy(head))
}

/// Reads a file to its end.
///
/// # Errors
/// If it cannot be read, most of its lines are in reverse order, or too many events are in it twice.
pub(crate) fn read(path: &Path, input: Input, sink: Sink<'_>) -> Result<SourceFacts, Error> {
    let mut file = BufReader::with_capacity(BUFFER, input);
    let mut parser = EventParser::default();
    let mut bytes = Vec::new();
    while let Some(end) = next_line(&mut file, &mut bytes).map_err(Error::read(path))? {
        let line = if parser.lines == 0 { bytes.strip_prefix(UTF8_MARK).unwrap_or(&bytes) } else { &bytes };
        parser.line(line.trim_ascii_end(), end, sink)?;
    }
    parser.sorter.flush(0, sink)?;
    parser.expect_order(path)?;
    Ok(parser.finish())
}

/// End of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Newline,
    /// The line is longer than [`LINE_MAX`].
    TooLong,
    /// The file ends before the line does.
    File,
}

/// Reads a line without its end; `None` at the end of the file. A line that is too long is cut off.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<End>> {
    line.clear();
    let read = std::io::Read::take(&mut *file, LINE_MAX).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(End::Newline));
    }
    if read as u64 == LINE_MAX {
        file.skip_until(b'\n')?;
        return Ok(Some(End::TooLong));
    }
    Ok(Some(End::File))
}

#[derive(Default)]
struct EventParser {
    source: SourceFacts,
    sorter: Sorter,
    /// Number of lines (first field), and of those with an event (second field).
    lines: u64,
    events: u64,
    /// Last name of each thread.
    names: FxHashMap<u32, Vec<u8>>,
    passed: FxHashMap<Vec<u8>, u64>,
    /// Whether the file has numeric GFP flags (first field), or names of tasks in the latency format (second field).
    has_numeric_flags: bool,
    has_short_names: bool,
    /// The first line, if it cannot be parsed and names an event. A file may begin in the middle of a line.
    first: Option<(Counted, String, String)>,
}

impl EventParser {
    fn line(&mut self, bytes: &[u8], end: End, sink: Sink<'_>) -> Result<(), Error> {
        self.lines += 1;
        if end == End::File {
            self.source.notes.push("the last line has no end, so its last value may be incomplete".to_owned());
        }
        match parse_logged(bytes) {
            Ok(line) => self.event(&line, bytes, end, sink),
            Err(missing) => self.no_event(bytes, missing, end, sink),
        }
    }

    fn event(&mut self, line: &Line<'_>, bytes: &[u8], end: End, sink: Sink<'_>) -> Result<(), Error> {
        self.events += 1;
        let known = events::kind(line.event);
        let reason = match (line.time, known) {
            (_, Some(_)) if line.task.len() > line::NAME_MAX => Some("there is unknown text before the task's name"),
            (Stamp::Ticks, Some(_)) => Some(
                "the time is a count of ticks (trace clock `counter`, `uptime` or `x86-tsc`); record with \
                 `echo mono > /sys/kernel/tracing/trace_clock`",
            ),
            (Stamp::Negative, Some(_)) => Some("the time is negative"),
            _ => None,
        };
        if let (Some(reason), Some(kind)) = (reason, known) {
            self.source.drops.add(Counted::Events(kind), reason, || lossy(bytes));
            return Ok(());
        }
        let Stamp::Nanoseconds(time) = line.time else {
            self.pass_over(line.event);
            return Ok(());
        };
        match events::row(line, time) {
            Outcome::Row(row) => {
                self.note_values(line, known.is_some());
                self.name(line, time, sink)?;
                self.sorter.push(time, Item::Row { pid: line.pid, row }, &mut self.source.drops, sink)
            }
            Outcome::Unusable(kind, reason) => {
                // A cut line is reported as such, and is not counted as a drop.
                if end == End::File {
                    self.source.is_cut = true;
                } else {
                    self.source.drops.add(Counted::Events(kind), &reason, || lossy(bytes));
                }
                Ok(())
            }
            Outcome::Other => {
                self.name(line, time, sink)?;
                self.begin_task(line, time, sink)?;
                self.pass_over(line.event);
                Ok(())
            }
        }
    }

    /// Emits the name of a line's task, if it is new.
    fn name(&mut self, line: &Line<'_>, time: u64, sink: Sink<'_>) -> Result<(), Error> {
        let is_named = !line.task.is_empty() && line.task != b"<...>" && line.task.len() <= line::NAME_MAX;
        if !is_named || self.names.get(&line.pid).is_some_and(|name| name == line.task) {
            return Ok(());
        }
        self.names.insert(line.pid, line.task.to_vec());
        let named = Item::Named { pid: line.pid, name: lossy(line.task) };
        self.sorter.push(time, named, &mut self.source.drops, sink)
    }

    /// Emits the start of a task, if the line is such an event.
    fn begin_task(&mut self, line: &Line<'_>, time: u64, sink: Sink<'_>) -> Result<(), Error> {
        let key = match line.event {
            b"task_newtask" => "pid",
            b"sched_process_fork" => "child_pid",
            _ => return Ok(()),
        };
        let child = line.value(key).and_then(line::integer).and_then(|pid| u32::try_from(pid).ok());
        let Some(pid) = child else { return Ok(()) };
        self.names.remove(&pid);
        let born = Item::Born { pid, parent: line.pid, name: String::new() };
        self.sorter.push(time, born, &mut self.source.drops, sink)
    }

    /// Collects information of an event about the whole file.
    fn note_values(&mut self, line: &Line<'_>, is_known: bool) {
        if let Some(period) = line.period.filter(|period| is_known && *period != 1) {
            let name = lossy(line.event);
            if self.source.sampling.iter().all(|(known, _)| *known != name) {
                self.source.sampling.push((name, crate::coverage::Sampling::Period(period)));
            }
        }
        self.has_short_names |= line.is_latency;
        if !self.has_numeric_flags {
            let flags = line.value("gfp_flags|gfp_mask");
            self.has_numeric_flags = flags.is_some_and(|flags| flags.first().is_some_and(u8::is_ascii_digit));
        }
    }

    /// Counts an event of which no row is made. The number of names is limited, in case the names are invented.
    fn pass_over(&mut self, event: &[u8]) {
        let has_room = self.passed.len() < NAMES_MAX;
        match self.passed.get_mut(event) {
            Some(count) => *count += 1,
            None if has_room => drop(self.passed.insert(event.to_vec(), 1)),
            None => {}
        }
    }

    /// Handles a line in which no event is recognised.
    fn no_event(&mut self, bytes: &[u8], missing: Missing, end: End, sink: Sink<'_>) -> Result<(), Error> {
        if let Some(lost) = line::lost(bytes) {
            return sink(lost);
        }
        if bytes.first() == Some(&b'#') {
            let overwritten = heading::take(&lossy(bytes), &mut self.source);
            return overwritten.map_or(Ok(()), |events| sink(Item::Lost(events)));
        }
        // A file that was cut may begin and end in the middle of a line.
        let is_expected = form::is_expected(bytes);
        if end == End::File || is_expected {
            self.source.is_cut |= !is_expected;
            return Ok(());
        }
        if let Some((_, name)) = events::named_in(bytes) {
            let kind = events::kind(name.as_bytes()).expect("the event is known");
            let reason = form::reason(bytes, missing);
            if self.lines == 1 {
                self.first = Some((Counted::Events(kind), reason, lossy(bytes)));
            } else {
                self.source.drops.add(Counted::Events(kind), &reason, || lossy(bytes));
            }
            return Ok(());
        }
        if self.lines == 1 && memchr::memmem::find(bytes, b" pfn=").is_some() {
            self.source.is_cut = true;
            return Ok(());
        }
        if missing == Missing::Event && !ends_in_a_name(bytes) {
            self.pass_over(b"(lines without an event)");
            return Ok(());
        }
        // Tools print lines about themselves before the first event, and logs contain other lines between events.
        if (self.events == 0 && missing == Missing::Header) || prefix::is_log(bytes) {
            self.source.preamble += 1;
            return Ok(());
        }
        let reason = if end == End::TooLong { "longer than 65,536 bytes" } else { "neither an event nor a heading" };
        self.source.drops.add(Counted::Lines, reason, || lossy(bytes));
        Ok(())
    }

    /// Checks that the events could be sorted, and that each is in the file only once.
    ///
    /// # Errors
    /// [`Error::Refused`] if not.
    fn expect_order(&self, path: &Path) -> Result<(), Error> {
        let sorter = &self.sorter;
        if sorter.is_reversed() {
            let reason = "its lines are in reverse order of time".to_owned();
            return Err(Error::refused(path, reason, "reverse the lines with `tac FILE`"));
        }
        if sorter.doubled >= DOUBLED_MIN && sorter.doubled.saturating_mul(100) > sorter.rows {
            let reason = format!("{} of its {} events are in it twice, at the same time", sorter.doubled, sorter.rows);
            return Err(Error::refused(path, reason, "give each recording once"));
        }
        Ok(())
    }

    fn finish(self) -> SourceFacts {
        let EventParser {
            mut source, passed, lines, events, sorter, has_numeric_flags, has_short_names, first, ..
        } = self;
        match first {
            Some(_) if events > 0 => source.is_cut = true,
            Some((counted, reason, example)) => source.drops.add(counted, &reason, || example),
            None => {}
        }
        source.passed = passed.into_iter().map(|(name, count)| (lossy(&name), count)).collect();
        source.lines = lines;
        source.sorted = sorter.backward;
        source.has_old_frees = events::OLD_FREES.iter().any(|name| source.passed.contains_key(&lossy(name)));
        source.notes.push("read from a text with times in microseconds".to_owned());
        if has_short_names {
            source.notes.push("the latency format has only the first 8 characters of a task's name".to_owned());
        }
        if has_numeric_flags {
            source.notes.push(
                "GFP flags are numbers in the file, which were decoded as those of Linux 5.0 and later".to_owned(),
            );
        }
        source
    }
}

/// Largest number of events that may be in a file twice by chance, whatever their share.
const DOUBLED_MIN: u64 = 3;

/// Parses a line, with or without the prefix of a log.
fn parse_logged(bytes: &[u8]) -> Result<Line<'_>, Missing> {
    match Line::parse(bytes) {
        Ok(line) if line.task.len() <= line::NAME_MAX => Ok(line),
        plain => match prefix::strip(bytes).map(Line::parse) {
            Some(Ok(line)) => Ok(line),
            _ => plain,
        },
    }
}

/// Returns whether a line ends within the name of an event, or before it.
fn ends_in_a_name(bytes: &[u8]) -> bool {
    let last = memchr::memrchr(b' ', bytes).map_or(bytes, |at| &bytes[at + 1..]);
    last.last() == Some(&b':') || events::begins_a_name(last.rsplit(|byte| *byte == b':').next().unwrap_or(last))
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
        let mut sink = |item| {
            items.push(item);
            Ok(())
        };
        for line in text.lines() {
            parser.line(line.as_bytes(), End::Newline, &mut sink).unwrap();
        }
        parser.sorter.flush(0, &mut sink).unwrap();
        (items, parser.finish())
    }

    const EVENT: &str = "mm_page_free: page=0 pfn=0x10 order=1";

    #[test]
    fn events_become_rows_and_renames_are_reported_on_change() {
        let text = format!(
            "  sh-7 [001] d..2. 1.000002: {EVENT}\n  sh-7 [001] ..... 1.000003: {EVENT}\n\
             cc1-7 [001] 1.000004: {EVENT}\n\
             \tffffffff81 __free (vmlinux)\n<...>-8 [000] 1.5: kfree: ptr=0\nCPU:1 [LOST 12 EVENTS]\n"
        );
        let (items, source) = items(&text);
        let mut kinds: Vec<&str> = items
            .iter()
            .map(|item| match item {
                Item::Named { name, .. } => name,
                Item::Row { row, .. } if row.kind == Kind::Free && row.pfn == 16 && row.order == 1 => "free",
                Item::Lost(12) => "lost",
                other => panic!("{other:?}"),
            })
            .collect();
        kinds.retain(|kind| *kind != "lost");
        assert_eq!((kinds, items.len()), (vec!["sh", "free", "free", "cc1", "free"], 6));
        assert_eq!(source.drops.rows(), []);
    }

    #[test]
    fn births_are_read_from_both_events() {
        let text = "sh-7 [001] 1.1: task_newtask: pid=8 comm=sh clone_flags=0\n\
                    sh-7 [001] 1.2: sched_process_fork: comm=sh pid=7 child_comm=sh child_pid=9\n";
        let born = items(text).0.into_iter().filter_map(|item| match item {
            Item::Born { pid, parent, .. } => Some((pid, parent)),
            _ => None,
        });
        assert!(born.eq([(8, 7), (9, 7)]));
    }

    #[test]
    fn unreadable_lines_are_counted_by_reason() {
        let text = format!(
            "$ cat trace\nsh-7 [001] 1.1: {EVENT}\nhello\nsh-7 [001] 1.2: mm_page_free: page=0 pfn=z order=1\n\
             sh-7 [001] 12345: {EVENT}\nsh-7 [001] -1.5: {EVENT}\na very long word before sh-7 [001] 1.6: {EVENT}\n\
             sh-7 [001] 1.7: mm_page_fr\nsh-7 [001] 1.8: vfs_read <-ksys_read\n{EVENT}\nsh 7 1.9: kmem:{EVENT}\n"
        );
        let source = items(&text).1;
        let reasons: Vec<String> = source.drops.rows().into_iter().map(|row| row.reason).collect();
        assert_eq!((source.drops.count(Counted::Lines), source.drops.events()), (2, 6), "{reasons:?}");
        assert_eq!((source.preamble, source.passed.values().sum::<u64>()), (1, 1));
        for part in ["`pfn`", "trace_clock", "negative", "before the task's name", "nocontext-info", "perf script -F"] {
            assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:?}");
        }
    }

    #[test]
    fn log_prefixes_are_not_part_of_a_name() {
        let text = format!(
            "Nov 26 12:00:00 host7 kernel:           load-77   [000] ..... 1.1: {EVENT}\n\
             [   12.000000]     load-77        0d..2. 1200000us : {EVENT}\n[   12.1] usb 1-1: new device\n"
        );
        let (items, source) = items(&text);
        let names = items.iter().filter_map(|item| match item {
            Item::Named { name, .. } => Some(name.as_str()),
            _ => None,
        });
        assert!(names.eq(["load"]));
        assert_eq!((source.drops.rows(), source.preamble), (vec![], 1));
    }

    #[test]
    fn overlong_line_is_cut() {
        let long = [vec![b'x'; LINE_MAX as usize + 9], b"\nshort\nlast".to_vec()].concat();
        let (mut file, mut line) = (&long[..], Vec::new());
        assert_eq!(next_line(&mut file, &mut line).unwrap(), Some(End::TooLong));
        assert_eq!(line.len() as u64, LINE_MAX);
        assert!(next_line(&mut file, &mut line).unwrap() == Some(End::Newline) && line == b"short");
        assert_eq!(next_line(&mut file, &mut line).unwrap(), Some(End::File));
        assert_eq!(next_line(&mut file, &mut line).unwrap(), None);
    }
}
