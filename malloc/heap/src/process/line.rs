//! Line of statistics that a process writes at exit.
//!
//! The line is written by a single system call, so that lines of processes that exit at the same time do not mix.

use core::fmt::{self, Write};

use super::stats::Summary;
use super::usage::Usage;

/// Writes the line of a process and its malloc.
pub fn write(usage: &Usage, summary: &Summary, to: &mut dyn Write) {
    let mut line = Line { bytes: [0; LINE_MAX], count: 0 };
    let _written = writeln!(line, "freehold: {usage}; malloc, MiB: {summary}");
    let text = core::str::from_utf8(&line.bytes[..line.count]).unwrap_or_default();
    let _written = to.write_str(text);
}

/// Most bytes of a line.
const LINE_MAX: usize = 320;

/// Buffer of a line.
struct Line {
    bytes: [u8; LINE_MAX],
    count: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.count + text.len();
        self.bytes.get_mut(self.count..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.count = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;

    use super::*;

    #[test]
    fn longest_line_is_complete() {
        let usage = Usage::longest();
        let most = usize::MAX;
        let summary = Summary {
            objects: most,
            cached_objects: most,
            idle_in_slabs: most,
            runs: most,
            cached_runs: most,
            free: most,
            returned: most,
        };
        let mut text = String::new();
        write(&usage, &summary, &mut text);
        assert!(
            text.starts_with("freehold: process -2147483648 (xxxxxxxxxxxxxxx): peak 17592186044416.0 MiB"),
            "{text}"
        );
        assert!(text.ends_with("returned 17592186044416.0\n"), "{text}");
    }
}
