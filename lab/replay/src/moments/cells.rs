//! Cells of a memory map: the counts of every pageblock, taken from the engine.

use freehold::base::pageblock::{NO_ZONE, Pageblock};
use freehold::base::{Frame, Order, Pfn, State};
use freehold_report::report::map::frames::Run;
use freehold_report::report::map::{ABSENT, Cell, FrameState, Frames, Side, Stretch};

use super::super::Engine;
use crate::report::course::WatchedMemory;

/// Moments at which a pageblock is counted again after a page was moved from or to it. Compaction frees the old place
/// later than the move.
const COUNTED_AGAIN: u8 = 8;

/// Pageblocks of a machine, and their counts at each moment so far.
#[derive(Debug)]
pub(crate) struct Cells {
    /// First frames of the pageblocks, in order.
    blocks: Vec<Pfn>,
    stretches: Vec<Stretch>,
    order: Order,
    now: Vec<Cell>,
    taken: Vec<Vec<Cell>>,
    /// Changes of each pageblock.
    changes: Vec<Changes>,
    frames: Frames,
}

/// Changes of a pageblock.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    /// Whether the pageblock changed since the first moment.
    any: bool,
    /// Number of further moments at which the pageblock is counted again.
    count_cell: u8,
}

impl Cells {
    /// Lists every pageblock that is in a zone. No frame is counted yet.
    pub(crate) fn count(engine: &Engine<'_>) -> Cells {
        let map = engine.map();
        let (mut blocks, mut stretches) = (Vec::new(), Vec::<(u8, Stretch)>::new());
        for pfn in map.pageblocks() {
            let zone = map.pageblock(pfn).zone();
            if zone == NO_ZONE {
                continue;
            }
            let pages = map.pageblock_order().pages();
            let follows = blocks.last().is_some_and(|last: &Pfn| last.offset(pages) == pfn);
            match stretches.last_mut().filter(|(before, _)| *before == zone && follows) {
                Some((_, stretch)) => stretch.blocks += 1,
                None => {
                    stretches
                        .push((zone, Stretch { zone: name(engine, zone), first: u64::from(pfn.raw()), blocks: 1 }));
                }
            }
            blocks.push(pfn);
        }
        Cells {
            now: vec![Cell::default(); blocks.len()],
            changes: vec![Changes::default(); blocks.len()],
            blocks,
            stretches: stretches.into_iter().map(|(_, stretch)| stretch).collect(),
            order: map.pageblock_order(),
            taken: Vec::new(),
            frames: Frames::default(),
        }
    }

    /// Records one moment. At the first moment all pageblocks are counted; later, those in which a frame was allocated
    /// or freed since the last moment, or a page was moved within the last [`COUNTED_AGAIN`] moments. The type and the
    /// owner of every pageblock are read at each moment.
    pub(crate) fn take(&mut self, engine: &Engine<'_>) {
        let mut memory = engine.platform().memory();
        let (is_first, pages) = (self.taken.is_empty(), self.order.pages());
        for ((&pfn, cell), changes) in self.blocks.iter().zip(&mut self.now).zip(&mut self.changes) {
            if memory.identity.moved().is_touched(pfn.raw(), pages) {
                changes.count_cell = COUNTED_AGAIN;
            } else if memory.identity.touched().is_touched(pfn.raw(), pages) {
                changes.count_cell = changes.count_cell.max(1);
            }
            changes.any |= changes.count_cell > 0 && !is_first;
            if is_first || changes.count_cell > 0 {
                *cell = count_cell(engine, pfn, self.order);
                changes.count_cell = changes.count_cell.saturating_sub(1);
            }
            let (migratetype, owner) = standing(engine.map().pageblock(pfn));
            (cell.migratetype, cell.owner) = (migratetype, owner);
        }
        memory.identity.touched().forget();
        memory.identity.moved().forget();
        self.taken.push(self.now.clone());
    }

    /// Records the frames of every pageblock that changed, or of pageblock `only`. Called at the end of a replay. In
    /// debug builds, checks that the incremental counts agree with a full count.
    pub(crate) fn take_frames(&mut self, engine: &Engine<'_>, only: Option<usize>) {
        debug_assert_eq!(self.missed(engine), None, "the map missed a change in the block of this first frame");
        for (number, &pfn) in self.blocks.iter().enumerate() {
            let is_wanted = only.map_or(self.changes[number].any, |only| only == number);
            if is_wanted {
                walk(engine, pfn, self.order, |run| self.frames.push(number as u32, run));
            }
        }
    }

    /// Returns the first frame of a pageblock whose cell differs from a full count; `None` if all agree.
    fn missed(&self, engine: &Engine<'_>) -> Option<Pfn> {
        let missed = self.blocks.iter().zip(&self.now).find(|&(&pfn, cell)| {
            let now = count_cell(engine, pfn, self.order);
            (now.used, now.movable) != (cell.used, cell.movable)
        });
        missed.map(|(&pfn, _)| pfn)
    }

    /// Returns the pageblocks, their cells at all moments, and the recorded frames.
    pub(crate) fn into_watched_memory(self) -> WatchedMemory {
        WatchedMemory {
            block_pages: self.order.pages() as u16,
            stretches: self.stretches,
            side: Side { cells: self.taken, frames: self.frames, ..Side::default() },
        }
    }
}

/// Returns a zone's name, with its node if there are several nodes.
fn name(engine: &Engine<'_>, zone: u8) -> String {
    let Some(zone) = engine.zones().get(usize::from(zone)) else { return String::new() };
    if engine.nodes() > 1 {
        format!("{} of node {}", zone.kind().name(), zone.node().0)
    } else {
        zone.kind().name().to_owned()
    }
}

/// Returns the number of a pageblock's type, and its owner's CPU number plus one (0 for none). Neither depends on the
/// frames of the pageblock.
fn standing(pageblock: &Pageblock) -> (u8, u16) {
    let migratetype = if pageblock.zone() == NO_ZONE { ABSENT } else { pageblock.migratetype() as u8 };
    (migratetype, pageblock.owner().map_or(0, |cpu| cpu.0 + 1))
}

/// Counts the frames of a pageblock.
fn count_cell(engine: &Engine<'_>, first: Pfn, order: Order) -> Cell {
    let mut cell = Cell::default();
    walk(engine, first, order, |run| match run.state {
        FrameState::Movable => {
            cell.used += run.pages;
            cell.movable += run.pages;
        }
        FrameState::Fixed | FrameState::Reserved => cell.used += run.pages,
        FrameState::Free | FrameState::Listed | FrameState::Unknown | FrameState::Absent => {}
    });
    cell
}

/// Walks over a pageblock's frames, one block of the allocator at a time.
fn walk(engine: &Engine<'_>, first: Pfn, order: Order, mut each: impl FnMut(Run)) {
    let map = engine.map();
    let mut at = 0;
    // A block that begins before this pageblock and reaches into it.
    if let Some((head, word)) = map.block_around(first).filter(|(head, _)| *head < first) {
        let (state, of) = frame_state(word.state());
        at = (head.raw() + of.pages() - first.raw()).min(order.pages());
        each(Run { state, order: of.get(), pages: at as u16 });
    }
    let mut slices = map.frames(&(first..first.offset(order.pages())));
    let frames: &[Frame] = slices.next().expect("a pageblock has frames, all in one section");
    // Neighbouring words are mostly equal, so a word is interpreted once per run.
    let mut last = frames[0].word();
    let mut meaning = frame_state(last.state());
    while at < order.pages() {
        let word = frames[at as usize].word();
        if word != last {
            (last, meaning) = (word, frame_state(word.state()));
        }
        let (state, of) = meaning;
        let pages = of.pages().min(order.pages() - at);
        each(Run { state, order: of.get(), pages: pages as u16 });
        at += pages;
    }
}

/// Returns the state of a frame in a map, and the order of the block that begins at the frame.
fn frame_state(state: State) -> (FrameState, Order) {
    match state {
        State::ZoneFree { order, .. } => (FrameState::Free, order),
        // A claimed block, such as the free pages that compaction moves others to, is in use by a call and has no owner
        // yet.
        State::PcpCached { order, .. } | State::RemotePending { order } | State::Claimed { order } => {
            (FrameState::Listed, order)
        }
        State::Allocated { order, movable: true, .. } => (FrameState::Movable, order),
        State::Allocated { order, movable: false, .. } => (FrameState::Fixed, order),
        State::Reserved | State::Interior | State::Withheld => (FrameState::Reserved, Order::ZERO),
        State::Absent => (FrameState::Absent, Order::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::MigrateType;
    use freehold_report::report::map::TYPES;

    #[test]
    fn map_types_are_numbered_as_migrate_types() {
        assert_eq!(MigrateType::ALL.map(MigrateType::name), TYPES);
    }
}
