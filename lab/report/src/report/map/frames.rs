//! States of the frames of a pageblock, as runs.

use std::collections::BTreeMap;

use serde::Serialize;

/// State of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameState {
    /// Free, in the zone.
    Free,
    /// On a per-CPU list, or taken by a call in progress; nothing uses it.
    Listed,
    /// In use and movable.
    Movable,
    /// In use and not movable.
    Fixed,
    /// Present, but its state is not known.
    Unknown,
    /// Neither free nor allocated: never managed by the allocator, or withdrawn from it. A cell counts such frames as
    /// in use.
    Reserved,
    /// Absent.
    Absent,
}

impl FrameState {
    /// All states, in the order of their numbers.
    pub const ALL: [FrameState; 7] = [
        FrameState::Free,
        FrameState::Listed,
        FrameState::Movable,
        FrameState::Fixed,
        FrameState::Unknown,
        FrameState::Reserved,
        FrameState::Absent,
    ];

    /// Returns the letter of the state in a map.
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

    /// Returns a description of the state.
    pub fn about(self) -> &'static str {
        match self {
            FrameState::Free => "free, in the zone",
            FrameState::Listed => "free, on a per-CPU list",
            FrameState::Movable => "in use, movable",
            FrameState::Fixed => "in use, not movable",
            FrameState::Unknown => "unknown",
            FrameState::Reserved => "reserved",
            FrameState::Absent => "absent",
        }
    }
}

/// Consecutive frames in the same state, in blocks of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// State of the frames.
    pub state: FrameState,
    /// Order of the blocks of the run.
    pub order: u8,
    /// Number of frames.
    pub pages: u16,
}

/// Frames of some pageblocks, by the number of the pageblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(BTreeMap<u32, Vec<Run>>);

impl Frames {
    /// Returns the numbers of the pageblocks whose frames are known.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }

    /// Returns the frames of a pageblock, if they are known.
    pub fn get(&self, block: u32) -> Option<&[Run]> {
        self.0.get(&block).map(Vec::as_slice)
    }

    /// Appends a run to a pageblock. A run that continues the last one is merged with it.
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
    fn equal_neighbours_form_a_run() {
        let run = |state, order, pages| Run { state, order, pages };
        let mut frames = Frames::default();
        for next in [run(FrameState::Free, 2, 4), run(FrameState::Free, 2, 4), run(FrameState::Fixed, 0, 1)] {
            frames.push(7, next);
        }
        assert_eq!(frames.get(7), Some([run(FrameState::Free, 2, 8), run(FrameState::Fixed, 0, 1)].as_slice()));
        assert_eq!((frames.get(6), frames.blocks().collect::<Vec<_>>()), (None, vec![7]));
    }
}
