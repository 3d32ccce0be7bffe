//! Frames of a pageblock: what each of them is, in runs.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameState {
    /// Free, in the zone.
    Free,
    /// Free, on a CPU's list.
    Listed,
    /// In use; it can be moved.
    Movable,
    /// In use; it cannot be moved.
    Fixed,
    /// Nothing is known of it but that it is there.
    Unknown,
    /// In nobody's use, and not the allocator's either.
    Reserved,
    /// Not there.
    Absent,
}

impl FrameState {
    /// All, in the order of their numbers.
    pub const ALL: [FrameState; 7] = [
        FrameState::Free,
        FrameState::Listed,
        FrameState::Movable,
        FrameState::Fixed,
        FrameState::Unknown,
        FrameState::Reserved,
        FrameState::Absent,
    ];

    /// The letter that stands for it.
    pub fn letter(self) -> char {
        match self {
            FrameState::Free => '.',
            FrameState::Listed => 'l',
            FrameState::Movable => 'M',
            FrameState::Fixed => 'U',
            FrameState::Unknown => '?',
            FrameState::Reserved => 'R',
            FrameState::Absent => '-',
        }
    }

    /// What it is, in words.
    pub fn about(self) -> &'static str {
        match self {
            FrameState::Free => "free, in the zone",
            FrameState::Listed => "free, on a CPU's list",
            FrameState::Movable => "in use, can be moved",
            FrameState::Fixed => "in use, cannot be moved",
            FrameState::Unknown => "not known",
            FrameState::Reserved => "reserved",
            FrameState::Absent => "not there",
        }
    }
}

/// Frames one after the other that are in the same state, in blocks of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// What they are.
    pub state: FrameState,
    /// Order of the blocks that they form.
    pub order: u8,
    /// How many.
    pub pages: u16,
}

/// Frames of some blocks, by the block's number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(BTreeMap<u32, Vec<Run>>);

impl Frames {
    /// Numbers of the blocks whose frames are known.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }

    /// The frames of a block, if they are known.
    pub fn get(&self, block: u32) -> Option<&[Run]> {
        self.0.get(&block).map(Vec::as_slice)
    }

    /// Says what the next pages of a block are.
    pub fn push(&mut self, block: u32, next: Run) {
        let runs = self.0.entry(block).or_default();
        match runs.last_mut() {
            Some(last) if (last.state, last.order) == (next.state, next.order) => last.pages += next.pages,
            _ => runs.push(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        let run = |state, order, pages| Run { state, order, pages };
        let mut frames = Frames::default();
        for next in [run(FrameState::Free, 2, 4), run(FrameState::Free, 2, 4), run(FrameState::Fixed, 0, 1)] {
            frames.push(7, next);
        }
        assert_eq!(frames.get(7), Some([run(FrameState::Free, 2, 8), run(FrameState::Fixed, 0, 1)].as_slice()));
        assert_eq!((frames.get(6), frames.blocks().collect::<Vec<_>>()), (None, vec![7]));
    }
}
