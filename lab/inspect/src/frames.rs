//! State of each page frame, by frame number.
//!
//! Frames are stored in chunks of 64, which are found through a hash table, because a recording names few of the frames
//! of a machine: a build on a 24 GiB machine touches a tenth of them. A frame takes 16 bytes as soon as its chunk is
//! touched. A look-up costs one hash of a small integer.

use rustc_hash::FxHashMap;

/// Number of frames in a chunk.
const CHUNK: u64 = 64;

/// State of a frame according to the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No event has named the frame as the head of a block.
    #[default]
    Untouched,
    /// Head of an allocated block.
    Live,
    /// Head of a part of an allocated block that is freed in parts.
    LivePart,
    /// Head of a block that was freed, presumably to a per-CPU list.
    Freed,
    /// Head of a block in the zone's free lists, or a frame inside a larger block.
    InZone,
    /// Head of a block that left the zone's free lists and was not seen allocated yet.
    Taken,
}

/// A page frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Time of the allocation, in ns since the start; valid while the block is live.
    pub time: u64,
    /// CPU that allocated the block; valid while the block is live.
    pub cpu: u16,
    /// Order of the block.
    pub order: u8,
    /// State of the frame.
    pub state: State,
}

impl Frame {
    /// Returns whether the frame is the head of an allocated block or of a part of one.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, State::Live | State::LivePart)
    }
}

/// All frames that an event named.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    directory: FxHashMap<u64, u32>,
    chunks: Vec<[Frame; CHUNK as usize]>,
}

impl Frames {
    /// Returns the state of a frame.
    #[inline]
    pub(crate) fn get(&self, pfn: u64) -> Frame {
        match self.directory.get(&(pfn / CHUNK)) {
            Some(&chunk) => self.chunks[chunk as usize][(pfn % CHUNK) as usize],
            None => Frame::default(),
        }
    }

    /// Returns a mutable reference to a frame. Its chunk is created if necessary.
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

    /// Returns the head frames of all live blocks, in no particular order.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Frame> {
        self.chunks.iter().flatten().filter(|frame| frame.is_live())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_state_is_stored() {
        let mut frames = Frames::default();
        assert_eq!(frames.get(77), Frame::default());
        frames.get_mut(77).state = State::Live;
        assert!(frames.get(77).is_live());
        assert_eq!(frames.get(78).state, State::Untouched);
        assert_eq!(frames.live().count(), 1);
    }

    #[test]
    fn visit_reaches_every_frame_across_chunks() {
        let mut frames = Frames::default();
        frames.visit(60, 70, |frame| frame.order += 1);
        let orders: Vec<_> = (58..72).map(|pfn| frames.get(pfn).order).collect();
        assert_eq!(orders, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn distant_frames_allocate_only_their_chunks() {
        let mut frames = Frames::default();
        frames.get_mut((1 << 52) - 1).order = 3;
        frames.get_mut(0).order = 4;
        assert_eq!((frames.get((1 << 52) - 1).order, frames.chunks.len()), (3, 2));
    }
}
