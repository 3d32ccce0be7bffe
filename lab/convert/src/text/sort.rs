//! Sorting of events by time.
//!
//! Tools print events in order, but a text may consist of several files, one for each CPU. Events are sorted within a
//! window, so that memory is bounded: at most twice [`WINDOW`] events wait. An event that is older than the last one
//! that left the window cannot be sorted and is dropped.

use freehold_trace::{Kind, Row};

use crate::drops::{Counted, Drops};
use crate::error::Error;
use crate::item::{Item, Sink};

/// Items that wait for older ones.
const WINDOW: usize = 1 << 16;

/// Items sorted by time.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    waiting: Vec<(u64, Item)>,
    /// Time of the latest item that has left.
    gone: u64,
    /// Time of the latest line, and numbers of lines that are later or earlier than the previous one.
    latest: u64,
    pub forward: u64,
    pub backward: u64,
    /// Events with the latest time among those that have left.
    moment: Vec<(u32, Row)>,
    /// Events that are in the file twice.
    pub doubled: u64,
    pub rows: u64,
}

impl Sorter {
    /// Adds the item of a line.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub(super) fn push(&mut self, time: u64, item: Item, drops: &mut Drops, sink: Sink<'_>) -> Result<(), Error> {
        if let Item::Row { row, .. } = &item {
            self.forward += u64::from(time > self.latest);
            self.backward += u64::from(time < self.latest);
            self.latest = time;
            if time < self.gone {
                let reason = format!(
                    "more than {WINDOW} events too late in the file; print all CPUs in order of time with \
                     `{}`, or with `perf script`",
                    super::form::FTRACE_COMMAND
                );
                drops.add(Counted::Events(row.kind), &reason, || format!("at {} ns", row.time));
                return Ok(());
            }
        }
        self.waiting.push((time, item));
        if self.waiting.len() >= 2 * WINDOW { self.flush(WINDOW, sink) } else { Ok(()) }
    }

    /// Passes all but the latest `kept` items to `sink`.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub(super) fn flush(&mut self, kept: usize, sink: Sink<'_>) -> Result<(), Error> {
        // The sort is stable, and fast if the items are already in order.
        self.waiting.sort_by_key(|(time, _)| *time);
        let leaving = self.waiting.len().saturating_sub(kept);
        for (time, item) in self.waiting.drain(..leaving) {
            if let Item::Row { pid, row } = &item {
                if time > self.gone {
                    self.moment.clear();
                }
                self.doubled += u64::from(is_doubled(&self.moment, *pid, row));
                self.moment.push((*pid, *row));
                self.rows += 1;
            }
            self.gone = self.gone.max(time);
            sink(item)?;
        }
        Ok(())
    }

    /// Returns whether most lines are in reverse order of time.
    pub(super) fn is_reversed(&self) -> bool {
        self.backward > self.forward.saturating_mul(4)
    }
}

/// Returns whether an event repeats the last one on its page at this time. A page is not allocated twice without a free
/// between, nor freed twice.
fn is_doubled(moment: &[(u32, Row)], pid: u32, row: &Row) -> bool {
    let is_of_page = |kind| matches!(kind, Kind::Alloc | Kind::Free);
    let last = moment.iter().rev().find(|(_, other)| is_of_page(other.kind) && other.pfn == row.pfn);
    is_of_page(row.kind) && last.is_some_and(|(other_pid, other)| (*other_pid, other) == (pid, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(times: impl Iterator<Item = u64>) -> (Vec<u64>, Sorter, Drops) {
        let (mut out, mut sorter, mut drops) = (Vec::new(), Sorter::default(), Drops::default());
        let mut sink = |item| {
            if let Item::Row { row, .. } = item {
                out.push(row.time);
            }
            Ok(())
        };
        for time in times {
            let row = Row { time, pfn: time, ..Row::new(Kind::Free) };
            sorter.push(time, Item::Row { pid: 1, row }, &mut drops, &mut sink).unwrap();
        }
        sorter.flush(0, &mut sink).unwrap();
        (out, sorter, drops)
    }

    #[test]
    fn files_of_several_cpus_are_merged() {
        let (out, sorter, _) = sorted((0..100).step_by(2).chain((1..100).step_by(2)));
        assert!(out.iter().copied().eq(0..100));
        assert_eq!((sorter.backward, sorter.doubled, sorter.is_reversed()), (1, 0, false));
        assert!(sorted((0..100).rev()).1.is_reversed());
    }

    #[test]
    fn late_events_are_dropped_and_counted() {
        let many = 3 * WINDOW as u64;
        let (out, _, drops) = sorted((10..many).chain([1, many]));
        assert_eq!((out.len() as u64, drops.count(Counted::Events(Kind::Free))), (many - 9, 1));
        assert!(out.is_sorted());
    }

    #[test]
    fn duplicated_file_is_detected() {
        assert_eq!(sorted((0..50).chain(0..50)).1.doubled, 50);
    }
}
