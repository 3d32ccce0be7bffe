//! What is known of each page frame, by frame number.
//!
//! Frames are kept in chunks of 64 behind a hash directory, because a recording names few of the frames
//! that a machine could have: a build on a 24 GiB machine touches a tenth of them. A frame costs 16 bytes
//! once its chunk is touched, a look-up one hash of a small integer.

use rustc_hash::FxHashMap;

/// Frames in a chunk.
const CHUNK: u64 = 64;

/// Where a frame stands, as far as the events tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No event has named the frame as the head of a block.
    #[default]
    Untouched,
    /// Head of an allocated block.
    Live,
    /// Head of a piece of an allocated block that is being freed piece by piece.
    LivePart,
    /// Head of a block that was freed, as far as known onto a per-CPU list.
    Freed,
    /// Head of a block that lies in the zone's free lists, or a frame inside a larger block.
    InZone,
    /// Head of a block that left the zone's free lists and was not seen allocated yet.
    Taken,
}

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// When the block was allocated, in ns since the start; meaningful while live.
    pub time: u64,
    /// The CPU that allocated it; meaningful while live.
    pub cpu: u16,
    /// The block's order.
    pub order: u8,
    /// Where the frame stands.
    pub state: State,
}

impl Frame {
    /// Whether the frame is the head of an allocated block or of a piece of one.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, State::Live | State::LivePart)
    }
}

/// Every frame that an event named.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    directory: FxHashMap<u64, u32>,
    chunks: Vec<[Frame; CHUNK as usize]>,
}

impl Frames {
    /// What is known of a frame.
    #[inline]
    pub(crate) fn get(&self, pfn: u64) -> Frame {
        match self.directory.get(&(pfn / CHUNK)) {
            Some(&chunk) => self.chunks[chunk as usize][(pfn % CHUNK) as usize],
            None => Frame::default(),
        }
    }

    /// The frame, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, pfn: u64) -> &mut Frame {
        let chunk = *self.directory.entry(pfn / CHUNK).or_insert_with(|| {
            self.chunks.push([Frame::default(); CHUNK as usize]);
            (self.chunks.len() - 1) as u32
        });
        &mut self.chunks[chunk as usize][(pfn % CHUNK) as usize]
    }

    /// Calls `visit` for each frame of `[start, end)`.
    pub(crate) fn visit(&mut self, start: u64, end: u64, mut visit: impl FnMut(&mut Frame)) {
        for pfn in start..end {
            visit(self.get_mut(pfn));
        }
    }

    /// Every live block's frame, in no particular order.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Frame> {
        self.chunks.iter().flatten().filter(|frame| frame.is_live())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_keeps_what_was_said_of_it() {
        let mut frames = Frames::default();
        assert_eq!(frames.get(77), Frame::default());
        frames.get_mut(77).state = State::Live;
        assert!(frames.get(77).is_live());
        assert_eq!(frames.get(78).state, State::Untouched);
        assert_eq!(frames.live().count(), 1);
    }

    #[test]
    fn a_visit_reaches_every_frame_across_chunks() {
        let mut frames = Frames::default();
        frames.visit(60, 70, |frame| frame.order += 1);
        let orders: Vec<_> = (58..72).map(|pfn| frames.get(pfn).order).collect();
        assert_eq!(orders, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn far_apart_frames_cost_their_chunks_only() {
        let mut frames = Frames::default();
        frames.get_mut((1 << 52) - 1).order = 3;
        frames.get_mut(0).order = 4;
        assert_eq!((frames.get((1 << 52) - 1).order, frames.chunks.len()), (3, 2));
    }
}
