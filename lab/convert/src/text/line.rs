//! A line of an event.
//!
//! ```text
//! trace_pipe, trace       comm-pid [cpu] flags secs.usecs: event: key=value ..
//! trace-cmd report        comm-pid [cpu] secs.usecs: event: key=value ..
//! perf script             comm tid [cpu] secs.usecs: system:event: key=value ..
//! ```
//!
//! A task's name may hold anything, brackets and colons too; so the CPU is the first number in brackets after a number
//! of a thread and before a time.

use crate::item::Item;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub task: &'a [u8],
    pub pid: u32,
    pub cpu: u16,
    /// Nanoseconds.
    pub time: u64,
    /// Its name, without its system.
    pub event: &'a [u8],
    /// What follows.
    pub values: &'a [u8],
}

impl<'a> Line<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        memchr::memchr_iter(b'[', line).find_map(|open| Line::around(line, open))
    }

    /// The event whose CPU stands in the bracket that opens here.
    fn around(line: &'a [u8], open: usize) -> Option<Line<'a>> {
        let (before, inside) = (line[..open].trim_ascii(), &line[open + 1..]);
        let close = memchr::memchr(b']', &inside[..inside.len().min(6)])?;
        let cpu = number(inside[..close].trim_ascii())?;
        let (task, pid) = task(before)?;
        let (time, rest) = time(&inside[close + 1..])?;
        let colon = memchr::memchr(b' ', rest).unwrap_or(rest.len()).checked_sub(1).filter(|at| rest[*at] == b':')?;
        let name = &rest[..colon];
        let event = memchr::memrchr(b':', name).map_or(name, |at| &name[at + 1..]);
        (!event.is_empty()).then_some(())?;
        Some(Line { task, pid, cpu: u16::try_from(cpu).ok()?, time, event, values: &rest[colon + 1..] })
    }

    /// The value of a key, as it stands.
    pub(super) fn value(&self, key: &[u8]) -> Option<&'a [u8]> {
        let starts = memchr::memmem::find_iter(self.values, key);
        let place = starts.into_iter().find(|&at| {
            let is_first = at == 0 || matches!(self.values[at - 1], b' ' | b',' | b'(');
            is_first && matches!(self.values.get(at + key.len()), Some(b'=' | b':'))
        })?;
        let value = self.values[place + key.len() + 1..].trim_ascii_start();
        let end = value.iter().position(|byte| matches!(byte, b' ' | b',' | b')')).unwrap_or(value.len());
        Some(&value[..end])
    }

    /// The number that a key has: hexadecimal after `0x`, else decimal.
    pub(super) fn number(&self, key: &[u8]) -> Option<i64> {
        let value = self.value(key)?;
        match value.strip_prefix(b"0x") {
            Some(digits) => u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok().map(u64::cast_signed),
            None => {
                let text = str::from_utf8(value).ok()?;
                text.parse().ok().or_else(|| text.parse::<u64>().ok().map(u64::cast_signed))
            }
        }
    }
}

/// The name and the number of a task: `comm-pid`, `comm-pid (tgid)`, `comm tid` or `comm pid/tid`.
fn task(text: &[u8]) -> Option<(&[u8], u32)> {
    let text = match text.last() {
        Some(b')') => text[..memchr::memrchr(b'(', text)?].trim_ascii_end(),
        _ => text,
    };
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, pid) = text.split_at(text.len() - digits);
    let pid = u32::try_from(number(pid)?).ok()?;
    let padded = match before.split_last()? {
        (b'-' | b' ', name) => name,
        (b'/', process) => {
            &process[..process.len() - process.iter().rev().take_while(|byte| byte.is_ascii_digit()).count()]
        }
        _ => return None,
    };
    let name = padded.trim_ascii();
    Some((if name == b"<idle>" { b"swapper" } else { name }, pid))
}

/// The time in `flags secs.fraction: rest`, and the rest.
fn time(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut from_time = text.trim_ascii_start();
    // One word of flags may stand before it.
    if !from_time.first()?.is_ascii_digit() || !is_time(word(from_time)) {
        from_time = from_time[word(from_time).len()..].trim_ascii_start();
    }
    let stamp = word(from_time);
    let rest = from_time[stamp.len()..].trim_ascii_start();
    let (seconds, fraction) = str::from_utf8(stamp.strip_suffix(b":")?).ok()?.split_once('.')?;
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits as u32);
    let time = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    Some((time, rest))
}

fn is_time(word: &[u8]) -> bool {
    word.last() == Some(&b':') && word.contains(&b'.')
}

fn word(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b' ', text).unwrap_or(text.len())]
}

fn number(digits: &[u8]) -> Option<u64> {
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| str::from_utf8(digits).ok()?.parse().ok())?
}

/// What a line says of lost events: `[LOST n EVENTS]`, `CPU:n [LOST n EVENTS]`, or perf's `PERF_RECORD_LOST lost n`.
pub(super) fn lost(line: &[u8]) -> Option<Item> {
    let text = str::from_utf8(line).ok()?;
    if let Some((_, rest)) = text.split_once("[LOST ") {
        let count = rest.split_once(" EVENTS]").map(|(count, _)| count.parse());
        return match count {
            Some(Ok(count)) => Some(Item::Lost(count)),
            _ => rest.starts_with("EVENTS]").then_some(Item::Gap),
        };
    }
    let marked =
        text.split_once("PERF_RECORD_LOST lost ").or_else(|| text.split_once("PERF_RECORD_LOST_SAMPLES lost "));
    let (_, rest) = marked?;
    rest.split_ascii_whitespace().next()?.parse().ok().map(Item::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(&str, u32, u16, u64, &str)> {
        let line = Line::parse(line.as_bytes())?;
        Some((str::from_utf8(line.task).unwrap(), line.pid, line.cpu, line.time, str::from_utf8(line.event).unwrap()))
    }

    #[test]
    fn every_tool_prints_in_its_own_way() {
        let expected = Some(("sh", 12520, 1, 56_854_976_975_000, "mm_page_free"));
        for line in [
            "              sh-12520   [001] d..2. 56854.976975: mm_page_free: page=0 pfn=0x1 order=0",
            "              sh-12520   (12520) [001] .... 56854.976975: mm_page_free: page=0 pfn=1 order=0",
            "              sh-12520   [001] 56854.976975: mm_page_free:         page=0 pfn=1 order=0",
            "sh 12520 [001] 56854.976975:  kmem:mm_page_free: page=0 pfn=0x1 order=0",
            "sh 12520/12520 [001] 56854.976975000: kmem:mm_page_free: page=0 pfn=0x1 order=0",
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
        assert_eq!(parse("<idle>-0 [000] d.h. 1.5: x: ").map(|line| line.0), Some("swapper"));
    }

    #[test]
    fn names_may_hold_anything() {
        for name in ["a b", "[0] 1.0: x: ", "kworker/0:1-a", "-", "x [000]", "<b>&\u{1b}[2J"] {
            let line = format!("{name}-7 [001] d..1. 1.000001: mm_page_free: pfn=1");
            assert_eq!(parse(&line), Some((name.trim(), 7, 1, 1_000_001_000, "mm_page_free")), "{name}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in
            ["", "[", "[]", "a [0]", "x-1 [000]", "x-1 [000] 1.0", "x-1 [000] 1.0: x", "x [000] 1.0: x: y", "# a"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let line = Line::parse(b"x-1 [0] 1.0: e: alloc_order=3 order=0x10, mode=a failed: -1 end").unwrap();
        assert_eq!(
            (line.number(b"order"), line.number(b"alloc_order"), line.number(b"failed")),
            (Some(16), Some(3), Some(-1))
        );
        assert_eq!((line.value(b"mode"), line.value(b"end"), line.number(b"mode")), (Some(&b"a"[..]), None, None));
    }

    #[test]
    fn losses_are_told_in_three_ways() {
        assert_eq!(lost(b"CPU:1 [LOST 34 EVENTS]"), Some(Item::Lost(34)));
        assert_eq!(lost(b"CPU:0 [LOST EVENTS]"), Some(Item::Gap));
        assert_eq!(lost(b"x 1 [000] 1.0: PERF_RECORD_LOST lost 9"), Some(Item::Lost(9)));
        assert_eq!(lost(b"[LOST many EVENTS]"), None);
    }
}
