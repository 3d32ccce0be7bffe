//! State of each frame when the recording started.
//!
//! The rows of state describe runs of frames and are stored as runs: a few hundred thousand intervals, sorted once.
//! They are searched only if a frame is freed that no event had allocated.

use freehold_trace::event::class;
use freehold_trace::{Kind, Row};

/// Holder of a frame in the start state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// An allocated block.
    Allocated,
    /// Offline or in a balloon, and not allocated.
    Balloon,
    /// Unknown: on a per-CPU list, or allocated without page flags.
    Unknown,
    /// Free, or not in the start state.
    Free,
}

/// Start state, as intervals of frames that were not free.
#[derive(Debug, Default)]
pub(crate) struct StartState {
    runs: Vec<(u64, u64, Holder)>,
    sorted: bool,
}

impl StartState {
    /// Adds a row of the start state; other rows are ignored.
    pub(crate) fn observe(&mut self, row: &Row) {
        let (holder, order) = match row.kind {
            Kind::StartAllocated if row.args[1] & class::OFFLINE != 0 => (Holder::Balloon, u32::from(row.order)),
            Kind::StartAllocated => (Holder::Allocated, u32::from(row.order)),
            Kind::StartUnknown => (Holder::Unknown, 0),
            _ => return,
        };
        let blocks = u64::try_from(row.args[0]).unwrap_or(0);
        let pages = blocks.saturating_mul(1u64.checked_shl(order).unwrap_or(u64::MAX));
        let end = row.pfn.saturating_add(pages);
        match self.runs.last_mut() {
            Some(last) if last.1 == row.pfn && last.2 == holder => last.1 = end,
            _ => self.runs.push((row.pfn, end, holder)),
        }
        self.sorted = false;
    }

    /// Returns the holder of a frame. Cost: logarithmic in the number of runs, after sorting on the first call.
    pub(crate) fn holder(&mut self, pfn: u64) -> Holder {
        if !self.sorted {
            self.runs.sort_unstable_by_key(|run| run.0);
            self.sorted = true;
        }
        let next = self.runs.partition_point(|run| run.0 <= pfn);
        match next.checked_sub(1).map(|index| self.runs[index]) {
            Some((_, end, holder)) if pfn < end => holder,
            _ => Holder::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, pfn: u64, order: u8, blocks: i64) -> Row {
        Row { pfn, order, args: [blocks, 0, 0], ..Row::new(kind) }
    }

    #[test]
    fn frame_holder_is_the_covering_run() {
        let mut start = StartState::default();
        start.observe(&row(Kind::StartUnknown, 100, 0, 3));
        start.observe(&row(Kind::StartAllocated, 8, 2, 2));
        start.observe(&row(Kind::StartFree, 200, 3, 0));
        assert_eq!(start.holder(7), Holder::Free);
        assert_eq!(start.holder(8), Holder::Allocated);
        assert_eq!(start.holder(15), Holder::Allocated);
        assert_eq!(start.holder(16), Holder::Free);
        assert_eq!(start.holder(102), Holder::Unknown);
        assert_eq!(start.holder(200), Holder::Free);
    }

    #[test]
    fn balloon_frames_are_not_allocated() {
        let mut start = StartState::default();
        start.observe(&Row { args: [2, class::OFFLINE, 0], ..row(Kind::StartAllocated, 8, 0, 2) });
        assert_eq!((start.holder(9), start.holder(10)), (Holder::Balloon, Holder::Free));
    }

    #[test]
    fn extreme_runs_are_clipped() {
        let mut start = StartState::default();
        start.observe(&row(Kind::StartAllocated, u64::MAX - 1, 63, i64::MAX));
        start.observe(&row(Kind::StartAllocated, 5, 0, -7));
        assert_eq!(start.holder(5), Holder::Free);
    }
}
