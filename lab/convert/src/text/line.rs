//! Parser of an event's line.
//!
//! ```text
//! trace_pipe, trace       comm-pid [cpu] flags secs.usecs: event: key=value ..
//! trace-cmd report        comm-pid [cpu] secs.usecs: event: key=value ..
//! perf script             comm tid [cpu] secs.usecs: period system:event: key=value ..
//! latency format          comm-pid cpuflags usecs-us: event: key=value ..
//! ```
//!
//! The CPU is the first number in brackets after a thread id and before a time, since a task's name may contain
//! anything, including brackets and colons. In the latency format the CPU and the flags are one word without brackets.

use crate::item::Item;

/// Longest name of a task in bytes. linux: include/linux/sched.h:TASK_COMM_LEN, without the zero at its end
pub(super) const NAME_MAX: usize = 15;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub task: &'a [u8],
    pub pid: u32,
    pub cpu: u16,
    pub time: Stamp,
    /// Number of events that this one stands for, if perf prints it.
    pub period: Option<u64>,
    /// Whether the line is in the latency format, which has 8 characters of a task's name.
    pub is_latency: bool,
    /// Name of the event, without its subsystem.
    pub event: &'a [u8],
    /// Text after the name.
    pub values: &'a [u8],
}

/// Time of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    Nanoseconds(u64),
    /// A count of a clock that does not measure time: `counter`, `uptime` or `x86-tsc`.
    Ticks,
    Negative,
}

/// Missing part of a line that is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Missing {
    /// A task, a CPU or a time.
    Header,
    /// A time after the CPU.
    Time,
    /// The name of an event after the time.
    Event,
}

impl<'a> Line<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Line<'a>, Missing> {
        let mut missing = Missing::Header;
        for open in memchr::memchr_iter(b'[', line) {
            match Line::around(line, open) {
                Ok(found) => return Ok(found),
                Err(lack) => missing = missing.max(lack),
            }
        }
        match Line::latency(line) {
            Ok(found) => Ok(found),
            Err(lack) => Err(missing.max(lack)),
        }
    }

    /// Parses the event whose CPU is in the bracket that opens at `open`.
    fn around(line: &'a [u8], open: usize) -> Result<Line<'a>, Missing> {
        let (before, inside) = (line[..open].trim_ascii(), &line[open + 1..]);
        let close = memchr::memchr(b']', &inside[..inside.len().min(6)]).ok_or(Missing::Header)?;
        let cpu = number(inside[..close].trim_ascii()).ok_or(Missing::Header)?;
        Line::after(before, cpu, &inside[close + 1..])
    }

    /// Parses an event whose CPU and flags are one word, such as `0d..2`.
    fn latency(line: &'a [u8]) -> Result<Line<'a>, Missing> {
        let mut missing = Missing::Header;
        let mut start = 0;
        while start < line.len() {
            let end = start + word(&line[start..]).len();
            if start > 0
                && let Some(cpu) = cpu_with_flags(&line[start..end])
            {
                match Line::after(line[..start].trim_ascii(), cpu, &line[end..]) {
                    Ok(found) => return Ok(Line { is_latency: true, ..found }),
                    Err(lack) => missing = missing.max(lack),
                }
            }
            start = end + 1;
        }
        Err(missing)
    }

    /// Parses the event of this task on this CPU, whose time and name are in `rest`.
    fn after(task_text: &'a [u8], cpu: u64, rest: &'a [u8]) -> Result<Line<'a>, Missing> {
        let (task, pid) = task(task_text).ok_or(Missing::Header)?;
        let cpu = u16::try_from(cpu).map_err(|_| Missing::Header)?;
        let (time, rest) = time(rest).ok_or(Missing::Time)?;
        let rest = without_difference(rest);
        let (period, rest) = period(rest);
        let (event, values) = event(rest).ok_or(Missing::Event)?;
        Ok(Line { task, pid, cpu, time, period, is_latency: false, event, values })
    }

    /// Returns the text of a key's value. `keys` may list several keys, separated by `|`; the first existing one
    /// counts.
    pub(super) fn value(&self, keys: &str) -> Option<&'a [u8]> {
        keys.split('|').find_map(|key| self.value_of(key.as_bytes()))
    }

    fn value_of(&self, key: &[u8]) -> Option<&'a [u8]> {
        let starts = memchr::memmem::find_iter(self.values, key);
        let place = starts.into_iter().find(|&at| {
            let is_first = at == 0 || matches!(self.values[at - 1], b' ' | b',' | b'(');
            is_first && matches!(self.values.get(at + key.len()), Some(b'=' | b':'))
        })?;
        let value = self.values[place + key.len() + 1..].trim_ascii_start();
        let end = value.iter().position(|byte| matches!(byte, b' ' | b',' | b')')).unwrap_or(value.len());
        Some(&value[..end])
    }

    /// Returns whether another event of the kernel's memory management begins within the values.
    pub(super) fn has_another_event(&self) -> bool {
        [&b": mm_"[..], b":mm_"].iter().any(|mark| memchr::memmem::find(self.values, mark).is_some())
    }
}

/// Parses a number: hexadecimal after `0x`, else decimal. Numbers above 63 bits keep their bits.
pub(super) fn integer(value: &[u8]) -> Option<i64> {
    let text = str::from_utf8(value).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok().or_else(|| text.parse::<u64>().ok().map(u64::cast_signed)),
    }
}

/// Parses the name and the id of a task: `comm-pid`, `comm-pid (tgid)`, `comm tid`, `comm pid/tid`, or `tid` alone.
fn task(text: &[u8]) -> Option<(&[u8], u32)> {
    let text = match text.last() {
        Some(b')') => text[..memchr::memrchr(b'(', text)?].trim_ascii_end(),
        _ => text,
    };
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, pid) = text.split_at(text.len() - digits);
    let pid = u32::try_from(number(pid)?).ok()?;
    let padded = match before.split_last() {
        None => before,
        Some((b'-' | b' ', name)) => name,
        Some((b'/', process)) => {
            &process[..process.len() - process.iter().rev().take_while(|byte| byte.is_ascii_digit()).count()]
        }
        _ => return None,
    };
    let name = padded.trim_ascii();
    Some((if name == b"<idle>" { b"swapper" } else { name }, pid))
}

/// Parses the CPU of a word such as `12d.h2`: the number before the flags irqs-off, need-resched and context, and one
/// or two depths.
fn cpu_with_flags(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (cpu, flags) = word.split_at(digits);
    let is_flag = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'#');
    let are_flags = (3..=6).contains(&flags.len())
        && matches!(flags[0], b'.' | b'd' | b'D' | b'X' | b'b' | b'B')
        && flags.iter().all(is_flag);
    are_flags.then(|| number(cpu))?
}

/// Parses the time in `flags secs.fraction: rest`. Also returns the rest. One word of flags may precede the time.
fn time(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let text = text.trim_ascii_start();
    stamp(text).or_else(|| stamp(text[word(text).len()..].trim_ascii_start()))
}

/// Parses the time at the start of a text: seconds with a fraction, microseconds with a mark for the delay, or ticks.
fn stamp(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let (is_negative, unsigned) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let (whole, rest) = digits(unsigned)?;
    let (stamp, rest) = match rest.first()? {
        b':' => (Stamp::Ticks, &rest[1..]),
        b'.' => {
            let (fraction, rest) = digits(&rest[1..])?;
            (Stamp::Nanoseconds(nanoseconds(whole, fraction)?), rest.strip_prefix(b":")?)
        }
        b'u' => {
            let marked = rest.strip_prefix(b"us")?;
            let colon = marked.iter().take(2).position(|byte| *byte == b':')?;
            (
                Stamp::Nanoseconds(str::from_utf8(whole).ok()?.parse::<u64>().ok()?.checked_mul(1000)?),
                &marked[colon + 1..],
            )
        }
        _ => return None,
    };
    Some((if is_negative { Stamp::Negative } else { stamp }, rest.trim_ascii_start()))
}

fn nanoseconds(seconds: &[u8], fraction: &[u8]) -> Option<u64> {
    let (seconds, fraction) = (str::from_utf8(seconds).ok()?, str::from_utf8(fraction).ok()?);
    (1..=9).contains(&fraction.len()).then_some(())?;
    let below = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - fraction.len() as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(below)
}

/// Splits off the digits at the start of a text; `None` if there are none.
fn digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| text.split_at(count))
}

/// Skips the difference to the previous line, `(+123)`, which `trace-cmd report --ts-diff` prints.
fn without_difference(text: &[u8]) -> &[u8] {
    let end = text.starts_with(b"(+").then(|| memchr::memchr(b')', text)).flatten();
    end.map_or(text, |end| text[end + 1..].trim_ascii_start())
}

/// Parses the number of events that a printed event represents, which perf prints before the event's name on request.
/// Also returns the rest.
fn period(text: &[u8]) -> (Option<u64>, &[u8]) {
    let first = word(text);
    match number(first) {
        Some(period) => (Some(period), text[first.len()..].trim_ascii_start()),
        None => (None, text),
    }
}

/// Parses the name of an event at the start of a text, without its subsystem. Also returns its values. The name is
/// followed by a bracket or an arrow for events of system calls, and by a colon for all others.
fn event(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = word(text);
    if first.starts_with(b"sys_") {
        let end = first.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(first.len());
        let (name, rest) = text.split_at(end);
        if rest.starts_with(b"(") || rest.starts_with(b" -> ") {
            return Some((name, rest));
        }
    }
    let name = first.strip_suffix(b":")?;
    let event = memchr::memrchr(b':', name).map_or(name, |at| &name[at + 1..]);
    (!event.is_empty()).then(|| (event, &text[first.len()..]))
}

pub(super) fn word(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len())]
}

fn number(digits: &[u8]) -> Option<u64> {
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| str::from_utf8(digits).ok()?.parse().ok())?
}

/// Texts around the number of lost events: in ftrace's text and in that of `trace-cmd report` (first constant), and in
/// perf's (second constant).
const LOSSES: [(&str, &str); 2] = [("LOST ", " EVENTS]"), ("", " EVENTS DROPPED]")];
const PERF_LOSSES: [&str; 2] = ["PERF_RECORD_LOST lost ", "PERF_RECORD_LOST_SAMPLES lost "];

/// Parses a line about lost events: `CPU:n [LOST n EVENTS]`, `CPU:n [n EVENTS DROPPED]`, these without a number, or
/// perf's `PERF_RECORD_LOST lost n`.
pub(super) fn lost(line: &[u8]) -> Option<Item> {
    let text = str::from_utf8(line).ok()?;
    if let Some((_, rest)) = text.split_once('[').filter(|_| text.trim_end().ends_with(']')) {
        if matches!(rest, "LOST EVENTS]" | "EVENTS DROPPED]") {
            return Some(Item::Gap);
        }
        let counts = LOSSES.iter().filter_map(|(before, after)| rest.strip_prefix(before)?.strip_suffix(after));
        return counts.filter_map(|count| count.parse().ok()).map(Item::Lost).next();
    }
    let (_, rest) = PERF_LOSSES.iter().find_map(|mark| text.split_once(mark))?;
    rest.split_ascii_whitespace().next()?.parse().ok().map(Item::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(&str, u32, u16, u64, &str)> {
        let line = Line::parse(line.as_bytes()).ok()?;
        let Stamp::Nanoseconds(time) = line.time else { return None };
        Some((str::from_utf8(line.task).unwrap(), line.pid, line.cpu, time, str::from_utf8(line.event).unwrap()))
    }

    #[test]
    fn lines_of_every_tool_are_parsed() {
        let expected = Some(("sh", 12520, 1, 56_854_976_975_000, "mm_page_free"));
        for line in [
            "              sh-12520   [001] d..2. 56854.976975: mm_page_free: page=0 pfn=0x1 order=0",
            "              sh-12520   (12520) [001] .... 56854.976975: mm_page_free: page=0 pfn=1 order=0",
            "              sh-12520   (-----) [001] .... 56854.976975: mm_page_free: page=0 pfn=1 order=0",
            "              sh-12520   [001] 56854.976975: mm_page_free:         page=0 pfn=1 order=0",
            "              sh-12520   [001] 56854.976975:  (+12)    mm_page_free:   page=0 pfn=1 order=0",
            "sh 12520 [001] 56854.976975:  kmem:mm_page_free: page=0 pfn=0x1 order=0",
            "sh 12520/12520 [001] 56854.976975000: kmem:mm_page_free: page=0 pfn=0x1 order=0",
            "sh 12520 [001] 56854.976975:          1 kmem:mm_page_free: page=0 pfn=0x1 order=0",
            "sh 12520 [001] K    56854.976975: kmem:mm_page_free: page=0 pfn=0x1 order=0",
            "      sh-12520     1d..2. 56854976975us+: mm_page_free: page=0 pfn=0x1 order=0",
            "      sh-12520     1d..2. 56854976975us : mm_page_free: page=0 pfn=0x1 order=0",
            "      sh-12520     1d..2 56854.976975: mm_page_free:      page=0 pfn=0x1 order=0",
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
        assert_eq!(parse("<idle>-0 [000] d.h. 1.5: x: ").map(|line| line.0), Some("swapper"));
        assert_eq!(parse("   7 [000] 1.5: kmem:mm_page_free: ").map(|line| (line.0, line.1)), Some(("", 7)));
        assert_eq!(parse("sh-1 [000] 1.5: sys_write(fd: 1, buf: 2)").map(|line| line.4), Some("sys_write"));
        assert_eq!(parse("sh-1 [000] 1.5: sys_write -> 0x3").map(|line| line.4), Some("sys_write"));
    }

    #[test]
    fn task_names_may_contain_any_text() {
        for name in ["a b", "[0] 1.0: x: ", "kworker/0:1-a", "-", "x [000]", "<b>&\u{1b}[2J"] {
            let line = format!("{name}-7 [001] d..1. 1.000001: mm_page_free: pfn=1");
            assert_eq!(parse(&line), Some((name.trim(), 7, 1, 1_000_001_000, "mm_page_free")), "{name}");
        }
    }

    #[test]
    fn missing_part_of_a_line_is_reported() {
        for (line, expected) in [
            ("", Missing::Header),
            ("[", Missing::Header),
            ("a [0]", Missing::Header),
            ("x [000] 1.0: x: y", Missing::Header),
            ("sh 7 1.000001: kmem:mm_page_free: pfn=1", Missing::Header),
            ("x-1 [000]", Missing::Time),
            ("x-1 [000] 1.0", Missing::Time),
            ("x-1 [000] 99999999999999999999.0: x:", Missing::Time),
            ("x-1 [000] 1.0: x", Missing::Event),
            ("x-1 [000] 1.0: vfs_read <-ksys_read", Missing::Event),
        ] {
            assert_eq!(Line::parse(line.as_bytes()).unwrap_err(), expected, "{line}");
        }
    }

    #[test]
    fn unusual_timestamps_are_classified() {
        for (time, expected) in
            [("12345", Stamp::Ticks), ("-1.5", Stamp::Negative), ("0.5", Stamp::Nanoseconds(500_000_000))]
        {
            let line = format!("sh-1 [000] ..... {time}: mm_page_free: pfn=1");
            assert_eq!(Line::parse(line.as_bytes()).unwrap().time, expected, "{time}");
        }
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let line = Line::parse(b"x-1 [0] 1.0: e: alloc_order=3 order=0x10, mode=a failed: -1 end").unwrap();
        let number = |keys| line.value(keys).and_then(integer);
        assert_eq!((number("order"), number("alloc_order"), number("failed")), (Some(16), Some(3), Some(-1)));
        assert_eq!((line.value("mode"), line.value("end"), number("mode")), (Some(&b"a"[..]), None, None));
        assert_eq!(number("none|failed"), Some(-1));
        assert!(!line.has_another_event());
        let two = Line::parse(b"x-1 [0] 1.0: mm_page_free: pfn=1 order=0  x-1 [0] 1.0: mm_page_free: pfn=2 order=0");
        assert!(two.unwrap().has_another_event());
    }

    #[test]
    fn loss_messages_are_parsed_in_every_form() {
        assert_eq!(lost(b"CPU:1 [LOST 34 EVENTS]"), Some(Item::Lost(34)));
        assert_eq!(lost(b"CPU:1 [34 EVENTS DROPPED]"), Some(Item::Lost(34)));
        assert_eq!(lost(b"CPU:0 [LOST EVENTS]"), Some(Item::Gap));
        assert_eq!(lost(b"CPU:0 [EVENTS DROPPED]"), Some(Item::Gap));
        assert_eq!(lost(b"x 1 [000] 1.0: PERF_RECORD_LOST lost 9"), Some(Item::Lost(9)));
        assert_eq!(lost(b"[LOST many EVENTS]"), None);
    }
}
