//! What each frame was when last heard of, and by which row.
//!
//! Most frames of a machine are in the start state and in no event. So the rows of the start state are kept as runs of
//! frames, and looked up in the seldom case that somebody asks for one; the table has rows of events alone, and
//! its memory is that of the frames on which something happened.

use std::cell::OnceCell;
use std::hint::black_box;
use std::ops::Range;

use freehold::base::zeroed::Zeroed;

/// What one frame was when last heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Frame {
    /// Not RAM, or never the allocator's.
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

/// The frames. A byte each, and four more for those near which events name some.
#[derive(Debug)]
pub(crate) struct Frames {
    states: Zeroed<u8>,
    /// Row of the last event on each frame, 0 if there was none: no event is in row 0, but perhaps one that does not
    /// need to be told from it.
    last: Zeroed<u32>,
    /// Rows of the start state: frames and row, in order of the rows.
    start: Vec<(Range<u32>, u32)>,
    /// The same in order of the frames, once it is asked for.
    sorted: OnceCell<Vec<(Range<u32>, u32)>>,
}

impl Frames {
    /// Frames below `end`, all of them outside.
    pub(crate) fn new(end: usize) -> Frames {
        Frames { states: Zeroed::dense(end), last: Zeroed::dense(end), start: Vec::new(), sorted: OnceCell::new() }
    }

    /// Frames below this number are known.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// What a frame is.
    #[inline]
    pub(crate) fn state(&self, frame: usize) -> Frame {
        Frame::ALL[usize::from(self.states[frame])]
    }

    /// Reads what is known of these frames, so that the waits for memory are one wait. Changes nothing.
    #[inline]
    pub(crate) fn look_ahead(&self, pfns: &[u64]) {
        for frame in pfns.iter().filter_map(|&pfn| usize::try_from(pfn).ok()) {
            black_box((self.states.get(frame).copied(), self.last.get(frame).copied()));
        }
    }

    /// Says what frames are, and nothing about a row.
    pub(crate) fn mark(&mut self, frames: Range<usize>, state: Frame) {
        self.states[frames].fill(state as u8);
    }

    /// Says what frames are by a row of the start state. Not to be called any more when [`last`](Self::last) was.
    pub(crate) fn start(&mut self, frames: Range<usize>, state: Frame, row: u32) {
        match self.start.last_mut() {
            Some((known, same)) if *same == row && known.end == frames.start as u32 => known.end = frames.end as u32,
            _ => self.start.push((frames.start as u32..frames.end as u32, row)),
        }
        self.mark(frames, state);
    }

    /// Says what frames are by an event.
    #[inline]
    pub(crate) fn settle(&mut self, frames: Range<usize>, state: Frame, row: u32) {
        // Most blocks are single pages, for which a fill is a call.
        if frames.len() == 1 {
            (self.last[frames.start], self.states[frames.start]) = (row, state as u8);
            return;
        }
        self.last[frames.clone()].fill(row);
        self.mark(frames, state);
    }

    /// The last row that named a frame; 0 if none did.
    pub(crate) fn last(&self, frame: usize) -> u32 {
        match self.last.get(frame).copied().unwrap_or(0) {
            0 => self.started(frame as u32),
            row => row,
        }
    }

    /// The row of the start state that named a frame, the last one if there are several: a binary search, after a sort.
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

    /// Frames without flags or events, in order.
    pub(crate) fn untouched(&self) -> Vec<u32> {
        let states = (0..).zip(self.states.iter());
        states.filter(|&(_, &state)| state == Frame::Unknown as u8).map(|(pfn, _)| pfn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_the_last_row_said() {
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
