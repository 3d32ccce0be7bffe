//! Events and lines of a file that are not in the recording, counted by reason.
//!
//! The first example of each reason is kept. A few damaged events do no harm and are reported. A file with many of them
//! is refused by [`crate::expect`], since its recording would differ from the file.

use std::collections::BTreeMap;

use freehold_trace::Kind;
use serde::Serialize;

/// Largest size of an example in bytes.
const EXAMPLE_MAX: usize = 160;

/// Counted items: events of a kind, or lines without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    /// Events of which rows of this kind are made.
    Events(Kind),
    /// Lines of a text in which no event is recognised.
    Lines,
}

impl Counted {
    /// Returns the name for users: that of the kernel's event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Counted::Events(kind) => kind.event().unwrap_or("state"),
            Counted::Lines => "lines",
        }
    }
}

/// Events that were dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropRow {
    /// Name of the kernel's event, or `lines`.
    pub event: &'static str,
    /// Reason of the drop.
    pub reason: String,
    /// Number of dropped events.
    pub count: u64,
    /// The first dropped event.
    pub example: String,
}

/// Number of drops, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tally {
    count: u64,
    example: String,
}

/// All drops of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    tallies: BTreeMap<Counted, BTreeMap<String, Tally>>,
}

impl Drops {
    /// Counts a drop. `example` is called for the first one of its reason.
    pub(crate) fn add(&mut self, counted: Counted, reason: &str, example: impl FnOnce() -> String) {
        self.add_many(counted, reason, 1, example);
    }

    /// Counts several drops of one reason.
    pub(crate) fn add_many(&mut self, counted: Counted, reason: &str, count: u64, example: impl FnOnce() -> String) {
        let reasons = self.tallies.entry(counted).or_default();
        match reasons.get_mut(reason) {
            Some(tally) => tally.count = tally.count.saturating_add(count),
            None if count > 0 => drop(reasons.insert(reason.to_owned(), Tally { count, example: shorten(&example()) })),
            None => {}
        }
    }

    /// Adds the drops of another part of the import.
    pub(crate) fn merge(&mut self, other: Drops) {
        for (counted, reasons) in other.tallies {
            for (reason, tally) in reasons {
                self.add_many(counted, &reason, tally.count, || tally.example);
            }
        }
    }

    /// Returns the number of dropped events of a kind, or of lines.
    pub(crate) fn count(&self, counted: Counted) -> u64 {
        let reasons = self.tallies.get(&counted).into_iter().flat_map(BTreeMap::values);
        reasons.map(|tally| tally.count).fold(0, u64::saturating_add)
    }

    /// Returns the number of dropped events of all kinds.
    pub(crate) fn events(&self) -> u64 {
        let kinds = self.tallies.keys().filter(|counted| matches!(counted, Counted::Events(_)));
        kinds.map(|&counted| self.count(counted)).fold(0, u64::saturating_add)
    }

    /// Returns the table rows, the most frequent reasons of each event first.
    pub(crate) fn rows(&self) -> Vec<DropRow> {
        let mut rows: Vec<DropRow> = self
            .tallies
            .iter()
            .flat_map(|(counted, reasons)| {
                reasons.iter().map(|(reason, tally)| DropRow {
                    event: counted.name(),
                    reason: reason.clone(),
                    count: tally.count,
                    example: tally.example.clone(),
                })
            })
            .collect();
        rows.sort_by_key(|row| (row.event, std::cmp::Reverse(row.count)));
        rows
    }

    /// Returns each counted item and the number of its drops.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (Counted, u64)> {
        self.tallies.keys().map(|&counted| (counted, self.count(counted)))
    }
}

/// Shortens an example to at most [`EXAMPLE_MAX`] bytes on one line.
fn shorten(example: &str) -> String {
    let clean: String = example.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let end = clean.char_indices().map(|(at, _)| at).find(|at| *at >= EXAMPLE_MAX);
    match end {
        Some(end) => format!("{}...", &clean[..end]),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREES: Counted = Counted::Events(Kind::Free);

    #[test]
    fn first_example_of_each_reason_is_kept() {
        let mut drops = Drops::default();
        for (reason, example) in [("a", "one"), ("b", "two\u{1b}"), ("a", "three")] {
            drops.add(FREES, reason, || example.to_owned());
        }
        let mut all = Drops::default();
        all.add(Counted::Lines, "c", || "x".repeat(1000));
        all.merge(drops);
        let rows: Vec<_> = all.rows().into_iter().map(|row| (row.event, row.reason, row.count, row.example)).collect();
        assert_eq!(rows[1], ("mm_page_free", "a".to_owned(), 2, "one".to_owned()));
        assert_eq!(rows[2], ("mm_page_free", "b".to_owned(), 1, "two".to_owned()));
        assert!(rows[0].3.len() < 200 && (all.count(FREES), all.events()) == (3, 3));
    }
}
