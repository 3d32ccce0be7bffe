//! `freehold heap PID --watch`: live, cached, kept and returned memory of a process, at each interval.
//!
//! A terminal gets a screen that is refreshed, with the totals and the largest sizes. A pipe or a file gets one line of
//! totals each time, below a line of headings. The command ends when the process ends.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use freehold_heap_inspector::states::HEADINGS;
use freehold_heap_inspector::{Caches, HeapError, HeapMap, MapLimits, Target};
use freehold_report::number::ABSENT;
use freehold_report::report::terminal;
use freehold_report::terminal::Style;
use freehold_report::{notes, output};

use crate::error::Error;

/// Least and most seconds between two rows.
const SECONDS_MIN: f64 = 0.1;
const SECONDS_MAX: f64 = 86_400.0;
/// Most sizes on a screen.
const SIZES: usize = 16;
/// Consecutive reads that may fail while the process runs, because its tables change meanwhile.
const FAILURES_MAX: u32 = 3;
/// Codes that move the cursor of a terminal to the first place, and erase what follows it.
const HOME: &str = "\u{1b}[H";
const ERASE: &str = "\u{1b}[J";
/// Bytes of a KiB.
const KIB: u64 = 1 << 10;

/// Width of a column of a line.
const WIDTH: usize = 12;

/// Parses the seconds between two rows.
///
/// # Errors
/// If the text is not a number of seconds in the permitted range.
pub(super) fn interval(text: &str) -> Result<Duration, Error> {
    let seconds = text.parse().ok().filter(|seconds| (SECONDS_MIN..=SECONDS_MAX).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        Error::Input(format!("--watch: `{text}` is not usable; give a number of seconds from 0.1 to 86400"))
    })
}

/// Prints the memory of a process every `interval`, until it ends.
pub(super) fn run(pid: u32, interval: Duration, style: Style) -> Result<(), Error> {
    let mut target = Target::open(pid)?;
    let watch = Watch { pid, started: target.started(), caches: Caches::for_this_version()?, interval };
    let mut next = Some(watch.read_from(&mut target)?);
    let is_terminal = io::stdout().is_terminal();
    if !is_terminal {
        output::print(headings().as_bytes())?;
    }
    while let Some(map) = next {
        let text = if is_terminal { screen(&map, style) } else { line(&map) };
        output::print(text.as_bytes())?;
        next = watch.wait_and_read()?;
    }
    notes::print(&format!("process {pid} has ended"));
    Ok(())
}

/// A process that is read again and again.
struct Watch {
    pid: u32,
    /// Start time of the process, which distinguishes it from a later process with the same number.
    started: u64,
    caches: Caches,
    interval: Duration,
}

impl Watch {
    fn read_from(&self, target: &mut Target) -> Result<HeapMap, HeapError> {
        HeapMap::read(target, &self.caches, MapLimits { blocks: 0 })
    }

    /// Waits for the interval, and reads the heap; returns `None` if the process has ended. Waits again if the process
    /// changed its tables during the read, or has just executed another program.
    fn wait_and_read(&self) -> Result<Option<HeapMap>, HeapError> {
        let mut failures = 0;
        loop {
            thread::sleep(self.interval);
            // The process is opened each time, because a program that it executes has other memory.
            let Some(mut target) = self.open()? else { return Ok(None) };
            match self.read_from(&mut target) {
                Ok(map) => return Ok(Some(map)),
                Err(_) if self.open()?.is_none() => return Ok(None),
                Err(HeapError::Unreadable { .. } | HeapError::NoHeap(_)) if failures < FAILURES_MAX => failures += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the process; returns `None` if it has ended.
    fn open(&self) -> Result<Option<Target>, HeapError> {
        match Target::open(self.pid) {
            Ok(target) => Ok(Some(target).filter(|target| target.started() == self.started)),
            Err(HeapError::NoProcess(_) | HeapError::Ended(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn headings() -> String {
    let headings = HEADINGS.map(|heading| format!("{heading} KiB"));
    let columns = headings.iter().map(String::as_str).chain(["resident KiB"]);
    format!(
        "{}  most live memory in\n",
        columns.map(|heading| format!("{heading:>WIDTH$} ")).collect::<String>().trim_end()
    )
}

/// Returns the line of a heap: totals, resident memory of the process, and the size with most live memory.
fn line(map: &HeapMap) -> String {
    let numbers = map.states.total.in_order().into_iter().chain([map.process.resident]);
    let numbers: String = numbers.map(|bytes| format!("{:>WIDTH$} ", bytes.div_ceil(KIB))).collect();
    let largest = map.states.largest(1).first().map_or_else(|| ABSENT.to_owned(), |row| row.label());
    format!("{}  {largest}\n", numbers.trim_end())
}

/// Returns a screen of a heap: totals, and the sizes with most live memory.
fn screen(map: &HeapMap, style: Style) -> String {
    format!("{HOME}{ERASE}{}", terminal::text(&map.report_states(SIZES), style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_a_number_of_seconds() {
        assert_eq!(interval("1").ok(), Some(Duration::from_secs(1)));
        assert_eq!(interval("0.5").ok(), Some(Duration::from_millis(500)));
        for wrong in ["0", "-1", "x", "", "nan", "inf", "1e9"] {
            let sentence = interval(wrong).expect_err("the interval must be refused").to_string();
            assert!(sentence.contains("from 0.1 to 86400"), "{sentence}");
        }
    }
}
