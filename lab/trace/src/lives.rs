//! Consistency of the rows: each frame is in one block of the start state, and no frame is allocated or freed twice.
//!
//! *The start state* names each frame once. Its rows may be in any order. The check takes one bit a frame until the
//! first event.
//!
//! *The events* are in the order in which they happened. Times cannot show this if a writer sorted the times without
//! their rows. But a page in use is not allocated again, and a free page is not freed. Every recording has a few such
//! contradictions, since the kernel passes pages on without an event. Other events report most of these cases:
//! migrations, and areas for `vmalloc`. The remaining contradictions are 4 to 6 % of the events under pressure, and a
//! quarter to a half if rows were shuffled. The check takes two bits a frame.

use std::ops::Range;

use crate::batch::Batch;
use crate::bounds::{BLOCK_ORDER_MAX, Bounds};
use crate::error::Fault;
use crate::event::{Kind, Row};

/// Number of frames that are checked: 1 TiB of 4 KiB pages.
const WATCHED_MAX: u64 = 1 << 28;
/// Bytes of the smallest page, which gives the largest number of pages in an area.
const PAGE_MIN: i64 = 4096;
/// Number of contradictions below which they count as chance, whatever their share.
const CLASHES_MIN: u64 = 100;
/// Events per contradiction. If there are fewer, the events are not in the order in which they happened.
const EVENTS_PER_CLASH: u64 = 6;

/// Checker of every frame of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lives {
    /// Bitmap of the frames that rows of the start state name; empty after the first event.
    named: Vec<u64>,
    /// State of the frames, 64 in each entry.
    states: Vec<State>,
    events: u64,
    clashes: u64,
    /// Pages that were passed on without an event, according to other events.
    migrated: u64,
    compacted: u64,
    mapped: u64,
}

/// State of a frame, as far as events show it.
#[derive(Clone, Copy, Debug)]
enum Life {
    Used,
    Free,
}

/// Bits of 64 frames, one word for each [`Life`]. A frame of unknown state has neither bit.
type State = [u64; 2];

/// Number of events that contradict each other, and of all events that could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clashes {
    pub clashes: u64,
    pub events: u64,
}

impl Lives {
    /// Checks a row of the start state.
    ///
    /// # Errors
    /// Returns the first frame that another row already named.
    pub(crate) fn start(&mut self, row: &Row, bounds: &Bounds) -> Result<(), Fault> {
        let Some((start, pages)) = bounds.frames(row).filter(|_| row.kind != Kind::StartPageblock) else {
            return Ok(());
        };
        let frames = start..start.saturating_add(pages).min(WATCHED_MAX);
        for (word, mask) in masks(&frames) {
            if word >= self.named.len() {
                self.named.resize(word + 1 + word / 2, 0);
            }
            let twice = self.named[word] & mask;
            if twice != 0 {
                return Err(Fault::NamedTwice { pfn: 64 * word as u64 + u64::from(twice.trailing_zeros()) });
            }
            self.named[word] |= mask;
        }
        match row.kind {
            Kind::StartFree => self.set(&frames, Life::Free),
            Kind::StartAllocated => self.set(&frames, Life::Used),
            _ => {}
        }
        Ok(())
    }

    /// Checks events.
    pub(crate) fn events(&mut self, batch: &Batch, events: Range<usize>) {
        self.named = Vec::new();
        for index in events {
            match batch.kind()[index] {
                Kind::Alloc => self.event(batch.pfn()[index], batch.order()[index], Life::Used),
                Kind::Free => self.event(batch.pfn()[index], batch.order()[index], Life::Free),
                Kind::MigratePages => add(&mut self.migrated, batch.arg(0)[index]),
                Kind::CompactionMigrate => add(&mut self.compacted, batch.arg(0)[index]),
                Kind::AllocVmapArea => add(&mut self.mapped, batch.arg(0)[index] / PAGE_MIN),
                _ => {}
            }
        }
    }

    /// Handles an event that gives a block a new state. It is a contradiction if its first page already has that state.
    #[inline]
    fn event(&mut self, pfn: u64, order: u8, life: Life) {
        let Some(frames) = watched(pfn, order) else { return };
        let state = self.states.get((pfn / 64) as usize).copied().unwrap_or_default();
        self.events += 1;
        self.clashes += state[life as usize] >> (pfn % 64) & 1;
        self.set(&frames, life);
    }

    #[inline]
    fn set(&mut self, frames: &Range<u64>, life: Life) {
        masks(frames).for_each(|(word, mask)| {
            let state = self.state_mut(word);
            state[life as usize] |= mask;
            state[1 - life as usize] &= !mask;
        });
    }

    #[inline]
    fn state_mut(&mut self, word: usize) -> &mut State {
        if word >= self.states.len() {
            self.states.resize(word + 1 + word / 2, State::default());
        }
        &mut self.states[word]
    }

    /// Returns the contradictions after all events; `None` if they may be chance.
    pub(crate) fn check_end(&self) -> Option<Clashes> {
        let told = self.migrated.max(self.compacted).saturating_add(self.mapped);
        let clashes = self.clashes.saturating_sub(told);
        let shuffled = clashes >= CLASHES_MIN && clashes.saturating_mul(EVENTS_PER_CLASH) > self.events;
        shuffled.then_some(Clashes { clashes, events: self.events })
    }
}

/// Returns the frames of a block; `None` if the row names none or they are not checked.
#[inline]
fn watched(pfn: u64, order: u8) -> Option<Range<u64>> {
    let end = pfn.checked_add(1 << order.min(BLOCK_ORDER_MAX)).filter(|&end| end <= WATCHED_MAX);
    end.map(|end| pfn..end)
}

fn add(sum: &mut u64, pages: i64) {
    *sum = sum.saturating_add_signed(pages.max(0));
}

/// Returns the words that hold the bits of these frames, and the mask in each.
#[inline]
fn masks(frames: &Range<u64>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (start, end) = (frames.start, frames.end.max(frames.start));
    let words = start / 64..if start == end { start / 64 } else { end.div_ceil(64) };
    words.map(move |word| {
        let from = start.saturating_sub(word * 64);
        let left = (end - word * 64).min(64);
        (word as usize, (u64::MAX >> (64 - left)) & (u64::MAX << from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, pfn: u64, order: u8) -> Row {
        Row { pfn, order, ..Row::new(kind) }
    }

    #[test]
    fn frame_ranges_map_to_word_masks() {
        assert_eq!(masks(&(60..130)).collect::<Vec<_>>(), [(0, 0xf << 60), (1, u64::MAX), (2, 3)]);
        assert_eq!((masks(&(7..7)).count(), masks(&(64..65)).collect::<Vec<_>>()), (0, vec![(1, 1)]));
    }

    fn start_all(rows: &[Row]) -> Result<(), Fault> {
        let mut lives = Lives::default();
        rows.iter().try_for_each(|row| lives.start(row, &Bounds::none()))
    }

    #[test]
    fn overlapping_start_rows_are_a_fault() {
        let (free, block) = (event(Kind::StartFree, 512, 9), event(Kind::StartPageblock, 512, 0));
        let [one, before, next, last, far] =
            [1024, 508, 8, 1023, WATCHED_MAX].map(|pfn| Row { args: [4, 0, 0], ..event(Kind::StartAllocated, pfn, 0) });
        assert_eq!(start_all(&[one, free, block, block, before]), Ok(()));
        assert_eq!(start_all(&[free, next, free]), Err(Fault::NamedTwice { pfn: 512 }));
        assert_eq!(start_all(&[last, free]), Err(Fault::NamedTwice { pfn: 1023 }));
        assert_eq!(start_all(&[far, far]), Ok(()), "too far up to be watched");
    }

    /// Returns the contradictions of 300 pages that are allocated and freed, in the order given by `key`.
    fn clashes(key: impl Fn(u64) -> u64, more: &[Row]) -> Option<Clashes> {
        let mut rows: Vec<_> =
            (0..300).flat_map(|pfn| [event(Kind::Alloc, pfn, 0), event(Kind::Free, pfn, 0)]).collect();
        let mut numbers = 0;
        rows.sort_by_cached_key(|_| {
            numbers += 1;
            key(numbers)
        });
        let mut lives = Lives::default();
        lives.start(&event(Kind::StartFree, 0, 9), &Bounds::none()).unwrap();
        rows.extend(more);
        lives.events(&Batch::from_rows(&rows), 0..rows.len());
        lives.check_end()
    }

    #[test]
    fn shuffled_rows_clash() {
        assert_eq!(clashes(|number| number, &[]), None);
        assert_eq!(clashes(|number| u64::MAX - number, &[]), Some(Clashes { clashes: 300, events: 600 }));
        let told = Row { args: [300, 0, 0], ..Row::new(Kind::MigratePages) };
        assert_eq!(clashes(|number| u64::MAX - number, &[told]), None, "the recording tells why");
    }
}
