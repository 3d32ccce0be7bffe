//! State of each frame after its last event, and the row of that event.
//!
//! Most frames of a machine are in the start state and in no event. The rows of the start state are therefore kept as
//! runs of frames, and searched only when a frame's row is requested, which is rare. The table has only rows of events,
//! and takes memory only for frames near which events occurred.

use std::cell::OnceCell;
use std::hint::black_box;
use std::ops::Range;

use freehold::base::zeroed::Zeroed;

/// State of a frame after its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Frame {
    /// Not RAM, or never managed by the allocator.
    Outside,
    /// On a free list.
    Free,
    /// On a per-CPU list.
    Cached,
    /// Allocated.
    Live,
    /// RAM without flags, and no event yet.
    Unknown,
}

impl Frame {
    const ALL: [Frame; 5] = [Frame::Outside, Frame::Free, Frame::Cached, Frame::Live, Frame::Unknown];
}

/// States of all frames. One byte per frame, and four more for frames near those that events name.
#[derive(Debug)]
pub(crate) struct Frames {
    states: Zeroed<u8>,
    /// Row of the last event on each frame; 0 if there was none. Row 0 needs no distinction, although it may hold an
    /// event.
    last: Zeroed<u32>,
    /// Rows of the start state: frames and row, in order of the rows.
    start: Vec<(Range<u32>, u32)>,
    /// Rows of the start state in order of the frames, sorted at the first lookup.
    sorted: OnceCell<Vec<(Range<u32>, u32)>>,
}

impl Frames {
    /// Creates the states of frames below `end`, all of them outside.
    pub(crate) fn new(end: usize) -> Frames {
        Frames { states: Zeroed::dense(end), last: Zeroed::dense(end), start: Vec::new(), sorted: OnceCell::new() }
    }

    /// Returns the number of frames; frames below it are known.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns the state of a frame.
    #[inline]
    pub(crate) fn state(&self, frame: usize) -> Frame {
        Frame::ALL[usize::from(self.states[frame])]
    }

    /// Reads the state of these frames, so that their cache misses overlap. Changes nothing.
    #[inline]
    pub(crate) fn look_ahead(&self, pfns: &[u64]) {
        for frame in pfns.iter().filter_map(|&pfn| usize::try_from(pfn).ok()) {
            black_box((self.states.get(frame).copied(), self.last.get(frame).copied()));
        }
    }

    /// Sets the state of frames without a row.
    pub(crate) fn mark(&mut self, frames: Range<usize>, state: Frame) {
        self.states[frames].fill(state as u8);
    }

    /// Sets the state of frames by a row of the start state. Must not be called after [`last`](Self::last).
    pub(crate) fn start(&mut self, frames: Range<usize>, state: Frame, row: u32) {
        match self.start.last_mut() {
            Some((known, same)) if *same == row && known.end == frames.start as u32 => known.end = frames.end as u32,
            _ => self.start.push((frames.start as u32..frames.end as u32, row)),
        }
        self.mark(frames, state);
    }

    /// Sets the state of frames by an event.
    #[inline]
    pub(crate) fn settle(&mut self, frames: Range<usize>, state: Frame, row: u32) {
        // Most blocks are single pages, for which a fill would be a function call.
        if frames.len() == 1 {
            (self.last[frames.start], self.states[frames.start]) = (row, state as u8);
            return;
        }
        self.last[frames.clone()].fill(row);
        self.mark(frames, state);
    }

    /// Returns the last row that named a frame; 0 if none did.
    pub(crate) fn last(&self, frame: usize) -> u32 {
        match self.last.get(frame).copied().unwrap_or(0) {
            0 => self.started(frame as u32),
            row => row,
        }
    }

    /// Returns the last row of the start state that named a frame. Cost: a binary search, and a sort at the first call.
    fn started(&self, frame: u32) -> u32 {
        let sorted = self.sorted.get_or_init(|| {
            let mut sorted = self.start.clone();
            sorted.sort_by_key(|(frames, row)| (frames.start, *row));
            sorted
        });
        let next = sorted.partition_point(|(frames, _)| frames.start <= frame);
        match next.checked_sub(1).map(|at| &sorted[at]) {
            Some((frames, row)) if frames.contains(&frame) => *row,
            _ => 0,
        }
    }

    /// Returns the frames without flags or events, in order.
    pub(crate) fn untouched(&self) -> Vec<u32> {
        let states = (0..).zip(self.states.iter());
        states.filter(|&(_, &state)| state == Frame::Unknown as u8).map(|(pfn, _)| pfn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_state_is_that_of_the_last_row() {
        let mut frames = Frames::new(64);
        frames.start(32..40, Frame::Free, 1);
        frames.start(8..9, Frame::Live, 2);
        frames.start(9..12, Frame::Live, 2);
        frames.mark(16..18, Frame::Unknown);
        frames.settle(34..35, Frame::Cached, 9);
        let found = [0, 8, 11, 12, 16, 32, 34, 39, 99].map(|frame| frames.last(frame));
        assert_eq!(found, [0, 2, 2, 0, 0, 1, 9, 1, 0]);
        assert_eq!(
            [0, 11, 17, 34].map(|frame| frames.state(frame)),
            [Frame::Outside, Frame::Live, Frame::Unknown, Frame::Cached]
        );
        assert_eq!(frames.untouched(), [16, 17]);
    }
}
