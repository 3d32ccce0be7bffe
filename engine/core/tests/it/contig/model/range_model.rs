//! Model of one machine: the owner of every frame, and the state that the engine should report for it. The model has no
//! lists and no locks.

use std::collections::{BTreeMap, BTreeSet};

use freehold::base::{Gfp, Order, Pfn, State, ZoneKind};
use freehold::page::{ContigError, RangeError};
use freehold::platform::{Migrated, Migration};

use super::world::World;
use crate::contig::chunks;

/// Key of a holding: the step that made it, and a number within that step. It is equal on both machines.
pub(super) type Holder = (usize, u32);

/// Kinds of blocks of which a holding consists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// One block of an order.
    Block,
    /// Single pages.
    Pages,
    /// The largest blocks that fit.
    Largest,
}

/// Neighbouring frames with one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub pfn: u32,
    pub pages: u32,
    pub unit: Unit,
    pub gfp: Gfp,
    /// References of the owner to each block.
    pub refs: u32,
    pub from_area: bool,
    /// Offsets of blocks with an additional reference.
    pub shared: BTreeSet<u32>,
    /// Offsets of broken frames.
    pub broken: BTreeSet<u32>,
}

impl Holding {
    pub(super) fn end(&self) -> u32 {
        self.pfn + self.pages
    }

    pub(super) fn blocks(&self) -> Vec<(u32, Order)> {
        match self.unit {
            Unit::Block => vec![(self.pfn, Order::new(self.pages.ilog2() as u8))],
            Unit::Pages => (self.pfn..self.end()).map(|pfn| (pfn, Order::ZERO)).collect(),
            Unit::Largest => chunks(self.pfn, self.end()),
        }
    }

    pub(super) fn is_compound(&self) -> bool {
        self.gfp.contains(Gfp::COMP)
    }

    fn is_broken(&self, (head, order): (u32, Order)) -> bool {
        let at = head - self.pfn;
        self.broken.range(at..at + order.pages()).next().is_some()
    }

    /// Returns the state that the engine should report for a block.
    pub(super) fn state(&self, block: (u32, Order)) -> State {
        State::Allocated {
            order: block.1,
            refs: self.refs + u32::from(self.shared.contains(&(block.0 - self.pfn))),
            movable: self.gfp.contains(Gfp::MOVABLE),
            compound: self.is_compound(),
            poisoned: self.is_broken(block),
            slab: false,
        }
    }

    /// Returns whether the holding is one block without additional references.
    pub(super) fn is_unshared_block(&self) -> bool {
        self.unit == Unit::Block && self.shared.is_empty()
    }

    /// Returns the frames between two offsets as a separate holding.
    pub(super) fn part(&self, from: u32, to: u32) -> Holding {
        let [shared, broken] =
            [&self.shared, &self.broken].map(|set| set.range(from..to).map(|at| at - from).collect());
        Holding { pfn: self.pfn + from, pages: to - from, shared, broken, ..self.clone() }
    }
}

/// State of a frame in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Free,
    Held(Holder),
    Withheld,
}

/// All holdings of one machine.
pub(super) struct RangeModel {
    world: World,
    frames: BTreeMap<u32, Frame>,
    pub held: BTreeMap<Holder, Holding>,
    pub withheld: u64,
}

impl RangeModel {
    pub(super) fn new(world: &World) -> RangeModel {
        let frames = world.zones.iter().flat_map(|zone| zone.start.raw()..zone.end.raw());
        let frames = frames.map(|pfn| (pfn, Frame::Free)).collect();
        RangeModel { world: world.clone(), frames, held: BTreeMap::new(), withheld: 0 }
    }

    pub(super) fn allocated(&self) -> u64 {
        self.held.values().map(|holding| u64::from(holding.pages)).sum()
    }

    /// Records frames that the engine allocated. Returns an error unless all of them were free.
    pub(super) fn give(&mut self, holder: Holder, holding: Holding) -> Result<(), String> {
        for pfn in holding.pfn..holding.end() {
            match self.frames.insert(pfn, Frame::Held(holder)) {
                Some(Frame::Free) => {}
                other => return Err(format!("frame {pfn:#x} was given to {holder:?}, and is {other:?}")),
            }
        }
        self.held.insert(holder, holding);
        Ok(())
    }

    /// Records a holding, or a part of one, under another key.
    pub(super) fn rename(&mut self, holder: Holder, holding: Holding) {
        for pfn in holding.pfn..holding.end() {
            self.frames.insert(pfn, Frame::Held(holder));
        }
        self.held.insert(holder, holding);
    }

    /// Records a freed holding: its frames become free, and its broken frames are withheld. Blocks with additional
    /// references stay as holdings of `step`.
    pub(super) fn take_back(&mut self, step: usize, holding: &Holding) {
        for pfn in holding.pfn..holding.end() {
            let is_broken = holding.broken.contains(&(pfn - holding.pfn));
            self.withheld += u64::from(is_broken);
            self.frames.insert(pfn, if is_broken { Frame::Withheld } else { Frame::Free });
        }
        for (head, order) in holding.blocks() {
            let at = head - holding.pfn;
            if holding.shared.contains(&at) {
                // In a block that is not compound, additional references are to its head only.
                let pages = if holding.is_compound() { order.pages() } else { 1 };
                let left = Holding { unit: Unit::Block, from_area: false, ..holding.part(at, at + pages) };
                let left = Holding { shared: BTreeSet::new(), ..left };
                self.rename((step, 1 + at), left);
            }
        }
    }

    /// Withholds a broken frame if it was free. Returns whether it was.
    pub(super) fn withhold(&mut self, pfn: u32) -> bool {
        let was_free = self.frames.get(&pfn) == Some(&Frame::Free);
        if was_free {
            self.frames.insert(pfn, Frame::Withheld);
            self.withheld += 1;
        }
        was_free
    }

    pub(super) fn is_held(&self, pfn: u32) -> bool {
        matches!(self.frames.get(&pfn), Some(Frame::Held(_)))
    }

    /// Returns the block around a frame, and its holding.
    fn block_at(&self, pfn: u32) -> Option<(&Holding, (u32, Order))> {
        let Some(Frame::Held(holder)) = self.frames.get(&pfn) else { return None };
        let holding = &self.held[holder];
        let block = holding.blocks().into_iter().find(|(head, order)| (*head..head + order.pages()).contains(&pfn));
        Some((holding, block.expect("blocks tile a holding")))
    }

    /// Moves a block if it is as described in the request.
    pub(super) fn migrate(&mut self, migration: &Migration) -> Result<Migrated, String> {
        let Migration { from, to, order, refs, .. } = *migration;
        let Some(Frame::Held(holder)) = self.frames.get(&from.raw()).copied() else { return Ok(Migrated::Refused) };
        let mut holding = self.held[&holder].clone();
        let refs_held = holding.refs + u32::from(holding.shared.contains(&0));
        if holding.unit != Unit::Block || (holding.pfn, holding.pages, refs_held) != (from.raw(), order.pages(), refs) {
            return Ok(Migrated::Refused);
        }
        if !holding.gfp.contains(Gfp::MOVABLE) || !holding.broken.is_empty() {
            return Err(format!("the engine asked to move {holding:?}"));
        }
        self.take_back(0, &Holding { shared: BTreeSet::new(), ..holding.clone() });
        holding.pfn = to.raw();
        self.give(holder, holding).map(|()| Migrated::Moved)
    }

    /// Returns the error with which the request for a range must fail, or `None` if it may succeed.
    pub(super) fn refusal(
        &self,
        start: u32,
        pages: u32,
        gfp: Gfp,
        state: impl Fn(u32) -> State,
    ) -> Option<ContigError> {
        if gfp.migratetype().is_none() {
            return Some(ContigError::Flags);
        }
        let (head, end) = (Pfn::new(start), start + pages);
        if pages == 0 {
            return Some(RangeError::Empty { start: head }.into());
        }
        let zone = self.world.zone_of(start);
        let other = (start..end).find(|&pfn| self.world.zone_of(pfn) != zone || zone.is_none());
        if let Some(raw) = other {
            let pfn = Pfn::new(raw);
            return Some(match self.world.zone_of(raw) {
                None => RangeError::OutOfRange { pfn }.into(),
                Some(_) => RangeError::CrossesZone { pfn, state: state(raw) }.into(),
            });
        }
        if gfp.contains(Gfp::COMP) && !pages.is_power_of_two() {
            return Some(RangeError::PowerOfTwo { pages }.into());
        }
        if gfp.contains(Gfp::COMP) && !start.is_multiple_of(pages) {
            return Some(RangeError::Misaligned { pfn: head, pages }.into());
        }
        if let Some(raw) = (start..end).find(|pfn| self.world.area.contains(pfn)) {
            return Some(ContigError::Cma { pfn: Pfn::new(raw), state: state(raw) });
        }
        let stays = (start..end).find_map(|pfn| match self.frames[&pfn] {
            Frame::Free => None,
            Frame::Withheld => Some(pfn),
            Frame::Held(_) => {
                let (holding, block) = self.block_at(pfn)?;
                let moves = holding.gfp.contains(Gfp::MOVABLE) && !holding.is_broken(block);
                (!moves).then_some(block.0)
            }
        })?;
        Some(ContigError::Unmovable { pfn: Pfn::new(stays), state: state(stays) })
    }

    /// Returns the first frame for which a free of the range must fail, if there is one.
    pub(super) fn misfit(&self, start: u32, end: u32, frozen: bool) -> Option<u32> {
        let mut at = start;
        while at < end {
            let Some((holding, (head, order))) = self.block_at(at) else { return Some(at) };
            // Frozen blocks may be freed in part, unless they are compound.
            let divisible = frozen && holding.refs == 0 && !holding.is_compound();
            let (cut_before, cut_after) = (head < at, head + order.pages() > end);
            if cut_before && !(divisible && at == start) {
                return Some(at);
            }
            if (cut_after && !divisible)
                || (!frozen && holding.refs == 0 && !holding.shared.contains(&(head - holding.pfn)))
            {
                return Some(at);
            }
            at = head + order.pages();
        }
        None
    }

    /// Returns whether all frames of a range are free, with none allocated or withheld.
    pub(super) fn is_free(&self, start: u32, pages: u32) -> bool {
        (start..start + pages).all(|pfn| self.frames.get(&pfn) == Some(&Frame::Free))
    }

    /// Returns the first range before `end` whose frames are free, which no search may miss: in zone Normal and outside
    /// of the CMA area.
    pub(super) fn first_free(&self, pages: u32, align: u32, end: u32) -> Option<u32> {
        let mut starts = self.world.start()..end.min(self.world.end()).saturating_sub(pages - 1);
        let area = &self.world.area;
        starts.find(|&start| {
            start.is_multiple_of(align)
                && self.world.zone_of(start) == Some(ZoneKind::Normal)
                && self.is_in_one_zone(start, start + pages)
                && (start + pages <= area.start || start >= area.end)
                && self.is_free(start, pages)
        })
    }

    /// Returns whether all of a range is in one zone.
    pub(super) fn is_in_one_zone(&self, start: u32, end: u32) -> bool {
        let zone = self.world.zone_of(start);
        zone.is_some() && (start..end).all(|pfn| self.world.zone_of(pfn) == zone)
    }
}
