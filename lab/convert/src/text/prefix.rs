//! Prefixes that logs add to a line: the time, the host, and the program.
//!
//! ```text
//! <4>[   12.000000][  T77]                          the kernel's log
//! [Thu Nov 26 12:00:00 2026]                        dmesg -T
//! Nov 26 12:00:00 host kernel:                      syslog
//! 2026-11-26T12:00:00.123456+00:00 host kernel:     journalctl -o short-iso, rsyslog
//! ```

/// Months in syslog's format.
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Removes the prefix of a log from a line; `None` if there is none.
pub(super) fn strip(line: &[u8]) -> Option<&[u8]> {
    let without_host = syslog(line).or_else(|| iso(line)).unwrap_or(line);
    let rest = kernel(without_host).unwrap_or(without_host);
    (rest.len() < line.len()).then_some(rest)
}

/// Removes `Mon DD HH:MM:SS host program: `.
fn syslog(line: &[u8]) -> Option<&[u8]> {
    let month = line.get(..3)?;
    let clock = line.get(7..15)?;
    let is_date = MONTHS.contains(&month) && clock[2] == b':' && clock[5] == b':' && clock[0].is_ascii_digit();
    is_date.then(|| after_program(&line[15..]))?
}

/// Removes `YYYY-MM-DDTHH:MM:SS.. host program: `, or the time alone.
fn iso(line: &[u8]) -> Option<&[u8]> {
    let is_date = line.get(..11)?.iter().enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        10 => matches!(byte, b'T' | b' '),
        _ => byte.is_ascii_digit(),
    });
    is_date.then_some(())?;
    let end = 11 + memchr::memchr(b' ', &line[11..])?;
    Some(after_program(&line[end..]).unwrap_or(&line[end..]))
}

/// Removes ` host program: `. The program is one word, possibly with its process id in brackets.
fn after_program(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start();
    let host = memchr::memchr(b' ', text)?;
    let program = &text[host + 1..];
    let end = memchr::memchr(b' ', program)?;
    program[..end].ends_with(b":").then(|| &program[end + 1..])
}

/// Removes `<4>[ 12.000000][ T77] `, or a date in brackets.
fn kernel(line: &[u8]) -> Option<&[u8]> {
    let mut rest = match line.strip_prefix(b"<") {
        Some(level) => &level[level.iter().take(4).position(|byte| *byte == b'>')? + 1..],
        None => line,
    };
    rest = in_brackets(rest, is_kernel_time)?;
    rest = in_brackets(rest, is_caller).unwrap_or(rest);
    Some(rest.strip_prefix(b" ").unwrap_or(rest))
}

/// Removes a bracket whose contents satisfy `is_expected`.
fn in_brackets(text: &[u8], is_expected: fn(&[u8]) -> bool) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', &inside[..inside.len().min(40)])?;
    is_expected(inside[..end].trim_ascii()).then(|| &inside[end + 1..])
}

/// Returns whether a text is seconds with a fraction, or a date.
fn is_kernel_time(text: &[u8]) -> bool {
    let is_seconds =
        text.contains(&b'.') && text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'+'));
    let is_date = text.len() > 8 && text.iter().filter(|byte| **byte == b':').count() == 2;
    is_seconds || is_date
}

/// Returns whether a text is the caller of a log line, a task or a CPU: `T77`, `C1`.
fn is_caller(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'T' | b'C')) && text.len() > 1 && text[1..].iter().all(u8::is_ascii_digit)
}

/// Returns whether a line has the prefix of a log.
pub(super) fn is_log(line: &[u8]) -> bool {
    strip(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_prefixes_are_stripped() {
        for prefix in [
            "[   12.000001] ",
            "<4>[   12.000001] ",
            "[   12.000001][  T77] ",
            "[Thu Nov 26 12:00:00 2026] ",
            "Nov 26 12:00:00 host7 kernel: ",
            "Nov  6 12:00:00 host7 kernel: [   12.000001] ",
            "2026-11-26T12:00:00.123456+00:00 host7 kernel: ",
            "2026-11-26T12:00:00+0000 host7 kernel[1]: [   12.000001] ",
        ] {
            let line = format!("{prefix}   load-77 [000] 1.0: x:");
            let rest = strip(line.as_bytes()).map(|rest| str::from_utf8(rest).unwrap().trim());
            assert_eq!(rest, Some("load-77 [000] 1.0: x:"), "{prefix}");
        }
        for line in ["", "   load-77 [000] 1.0: x:", "[000] 1", "<idle>-0 [000] 1.0: x:", "Nov", "2026-11-26"] {
            assert_eq!(strip(line.as_bytes()), None, "{line}");
        }
    }
}
