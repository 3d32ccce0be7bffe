//! Descriptions of texts and lines that cannot be read: their format, and the command that prints a supported one.

use super::line::{Missing, word};
use super::{events, prefix};

/// Commands that print a supported format.
pub(super) const PERF_COMMAND: &str = "perf script -F comm,tid,cpu,time,event,trace";
pub(super) const FTRACE_COMMAND: &str = "cat /sys/kernel/tracing/trace";

/// Marks of a text, its description, and a suggested action. One mark is enough.
type Form = (&'static [&'static str], &'static str, &'static str);

/// Texts without events in a supported format, whatever else they contain.
const FORMS: [Form; 6] = [
    (
        &["page allocation failure:", "Mem-Info:", "invoked oom-killer:", "Out of memory: Killed"],
        "a kernel log with an out-of-memory report but no events",
        "record events with `freehold record`, or the time before the next report with `freehold record --flight 60s \
         --on failure`",
    ),
    (
        &["Performance counter stats for", "seconds time elapsed"],
        "the counts of `perf stat` without the events",
        "record them with `perf record -a -e 'kmem:*'`",
    ),
    (
        &["# Samples:", "# Overhead  "],
        "the summary of `perf report` without the events",
        "print them with `perf script -F comm,tid,cpu,time,event,trace`",
    ),
    (
        &["PERF_RECORD_SAMPLE(", ". ... raw event:"],
        "a dump of records by `perf script -D`",
        "print events with `perf script -F comm,tid,cpu,time,event,trace`",
    ),
    (&["<!DOCTYPE", "<html"], "an HTML page", "give the recorded file"),
    (
        &["# tracer: function_graph", "  |  /* mm_page"],
        "a trace of the tracer function_graph, which prints events without task and time",
        "record with `echo nop > /sys/kernel/tracing/current_tracer`",
    ),
];

/// Texts of tools whose output can have events, if they name none.
const EMPTY_FORMS: [Form; 2] = [
    (
        &["# tracer:", "entries-in-buffer/entries-written:"],
        "a trace with headings but no event",
        "enable events with `echo 1 > /sys/kernel/tracing/events/kmem/enable`, and read the trace afterwards",
    ),
    (
        &["# captured on", "# cmdline :"],
        "a text of `perf script` with a header but no event",
        "record events with `perf record -a -e 'kmem:*'`",
    ),
];

/// A text with the headings of a tool and lines without events.
const UNREADABLE: (&str, &str) = (
    "a trace without event names, as with the trace options `hex`, `raw` and `bin`",
    "disable these options, for example with `echo nohex > /sys/kernel/tracing/trace_options`, and print it again",
);

/// Returns the description of a text without an event line, and a suggested action; `None` if the format is not known.
pub(super) fn describe(text: &str) -> Option<(&'static str, &'static str)> {
    let find = |forms: &'static [Form]| forms.iter().find(|(marks, ..)| marks.iter().any(|mark| text.contains(mark)));
    let names_events = events::named_in(text.as_bytes()).is_some();
    let has_lines = text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let found = find(&FORMS).or_else(|| find(&EMPTY_FORMS).filter(|_| !names_events));
    match found {
        Some((_, what, _)) if has_lines && EMPTY_FORMS.iter().any(|(_, empty, _)| what == empty) => {
            return Some(UNREADABLE);
        }
        Some((_, what, instead)) => return Some((what, instead)),
        None => {}
    }
    if names_events {
        return None;
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let (all, logged) = lines
        .fold((0_u32, 0_u32), |(all, logged), line| (all + 1, logged + u32::from(prefix::is_log(line.as_bytes()))));
    (all > 0 && logged * 2 > all).then_some(("a kernel log without events", "record events with `freehold record`"))
}

/// Returns the reason why a known event in a line cannot be read.
pub(super) fn reason(line: &[u8], missing: Missing) -> String {
    let is_perf = memchr::memmem::find(line, b"kmem:").is_some() || has_system(line);
    let command = if is_perf { PERF_COMMAND } else { FTRACE_COMMAND };
    if memchr::memmem::find(line, b"/* ").is_some() {
        return "an event in a comment of the tracer function_graph; record with the tracer `nop`".to_owned();
    }
    if events::named_in(line).is_some_and(|(at, name)| line.get(at + name.len()) == Some(&b'(')) {
        return format!("an event in the form of `perf trace`; print with `{PERF_COMMAND}`");
    }
    match missing {
        Missing::Header if is_bare(line) => {
            format!(
                "no task, CPU and time before the event (trace option `nocontext-info`, or a line that is cut off); \
                     print with `{command}`"
            )
        }
        Missing::Header => format!("no task, CPU or time before the event; print with `{command}`"),
        Missing::Time => format!("no time before the event; print with `{command}`"),
        Missing::Event => "the line ends within the event's name".to_owned(),
    }
}

/// Returns whether no number precedes the name of the event.
fn is_bare(line: &[u8]) -> bool {
    events::named_in(line).is_some_and(|(at, _)| !line[..at].iter().any(|byte| byte.is_ascii_digit()))
}

/// Returns whether the event's name follows its subsystem, as perf prints it.
fn has_system(line: &[u8]) -> bool {
    events::named_in(line).is_some_and(|(at, _)| at > 0 && line[at - 1] == b':')
}

/// Returns whether a line without an event is one that tools print between events: a stack, a separator, or a record of
/// perf.
pub(super) fn is_expected(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let first = word(text);
    let is_address = first.len() >= 6 && first.iter().all(u8::is_ascii_hexdigit);
    let is_stack = (is_address && line.first().is_some_and(u8::is_ascii_whitespace))
        || text.starts_with(b"=> ")
        || text.starts_with(b"<stack trace>")
        || text.starts_with(b"<user stack");
    let is_separator = text.iter().all(|byte| matches!(byte, b'-' | b'=' | b'.'));
    text.is_empty() || is_stack || is_separator || memchr::memmem::find(text, b"PERF_RECORD_").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_events_are_identified() {
        for (text, expected) in [
            ("[ 1976.217652] worker/3: page allocation failure: order:4, mode:0x40dc0\n", "kernel log"),
            ("[    1.000000] Linux version 6.12\n[    1.000001] Command line: x\n", "kernel log"),
            ("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n", "no event"),
            ("# ========\n# captured on    : Thu Nov 26\n# ========\n", "no event"),
            ("# tracer: nop\n#\n0000004d 00000001 0000abcd\n", "`hex`"),
            (" Performance counter stats for 'system wide':\n", "perf stat"),
            ("# tracer: function_graph\n 0)               |  /* mm_page_free: pfn=1 */\n", "function_graph"),
        ] {
            assert!(describe(text).is_some_and(|(what, _)| what.contains(expected)), "{text}");
        }
        assert_eq!(describe("hello\n"), None);
    }

    #[test]
    fn unreadable_lines_have_a_reason() {
        for (line, missing, expected) in [
            ("load 77 1000.5: kmem:mm_page_alloc: page=0 pfn=1", Missing::Header, "perf script -F"),
            ("load 77 [000] kmem:mm_page_alloc: page=0 pfn=1", Missing::Time, "perf script -F"),
            ("mm_page_alloc: page=0 pfn=0x1", Missing::Header, "nocontext-info"),
            ("0.123 ( 0.004 ms): load/77 kmem:mm_page_alloc(pfn: 4096)", Missing::Header, "perf trace"),
            (" 0)   |  /* mm_page_free: page=0 pfn=0x1 order=0 */", Missing::Header, "function_graph"),
        ] {
            let reason = reason(line.as_bytes(), missing);
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }

    #[test]
    fn stacks_and_separators_are_expected_lines() {
        for line in ["", "\tffffffff81 __free (vmlinux)", "   7f12ab34cd main", " => __alloc_pages", "-------"] {
            assert!(is_expected(line.as_bytes()), "{line}");
        }
        assert!(!is_expected(b"hello") && !is_expected(b"deadbeef"));
    }
}
