//! Simple model of an allocator: the owner of each frame. It cannot predict which frame the engine returns, but it
//! checks every result: the block must be aligned, in a zone that the flags allow, free before, and never withheld.

use std::collections::BTreeSet;

use freehold::base::{Gfp, Order, Pfn, State, ZoneKind};

use crate::model::world::World;

/// An allocated block.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub pfn: u32,
    pub order: u8,
    pub refs: u32,
    pub movable: bool,
    pub compound: bool,
    /// The block is marked as containing broken frames.
    pub poisoned: bool,
}

impl Live {
    /// Returns the state that the engine should report for the block's first frame.
    pub(super) fn state(&self) -> State {
        let Live { order, refs, movable, compound, poisoned, .. } = *self;
        State::Allocated { order: Order::new(order), refs, movable, compound, poisoned, slab: false }
    }

    pub(super) fn head(&self) -> Pfn {
        Pfn::new(self.pfn)
    }

    pub(super) fn order(&self) -> Order {
        Order::new(self.order)
    }
}

/// Owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Never released.
    Nobody,
    /// The allocator.
    Allocator,
    /// A live block.
    User,
    /// Out of use.
    Withheld,
}

/// All allocated blocks, and the owner of every frame.
pub(super) struct FrameModel {
    world: World,
    frames: Vec<Owner>,
    broken: BTreeSet<u32>,
    pub live: Vec<Live>,
    pub allocated: u64,
    pub withheld: u64,
    pub released: u64,
}

impl FrameModel {
    pub(super) fn new(world: &World) -> FrameModel {
        let mut frame_model = FrameModel {
            world: world.clone(),
            frames: vec![Owner::Nobody; world.end() as usize],
            broken: BTreeSet::new(),
            live: Vec::new(),
            allocated: 0,
            withheld: 0,
            released: 0,
        };
        for (start, end) in world.released() {
            frame_model.frames[start as usize..end as usize].fill(Owner::Allocator);
            frame_model.released += u64::from(end - start);
        }
        frame_model
    }

    /// Returns the index of the block that a random number selects.
    pub(super) fn pick(&self, pick: u32) -> Option<usize> {
        (!self.live.is_empty()).then(|| pick as usize % self.live.len())
    }

    /// Returns the live block that starts at a frame.
    pub(super) fn live_at(&self, pfn: u32) -> Option<&Live> {
        self.live.iter().find(|live| live.pfn == pfn)
    }

    /// Checks a block that the engine returned, and records it.
    pub(super) fn give(&mut self, pfn: u32, order: u8, gfp: Gfp, node: u8, refs: u32) -> Result<(), String> {
        if pfn & ((1 << order) - 1) != 0 {
            return Err(format!("block {pfn:#x} is not aligned to order {order}"));
        }
        let Some(range) = self.world.range_of(pfn) else {
            return Err(format!("frame {pfn:#x} is in no zone"));
        };
        let highest = gfp.highest_zone().ok_or("contradictory flags got a block")?;
        if range.kind > highest || (highest < ZoneKind::Movable && range.kind == ZoneKind::Movable) {
            return Err(format!("frame {pfn:#x} is in zone {:?}, the request may go up to {highest:?}", range.kind));
        }
        if gfp.contains(Gfp::THISNODE) && range.node.0 != node {
            return Err(format!("frame {pfn:#x} is not on node {node}"));
        }
        for at in pfn..pfn + (1 << order) {
            match self.frames.get(at as usize) {
                Some(Owner::Allocator) => {}
                other => return Err(format!("frame {at:#x} of block {pfn:#x} order {order} belongs to {other:?}")),
            }
        }
        self.frames[pfn as usize..][..1 << order].fill(Owner::User);
        self.allocated += 1 << order;
        let (movable, compound) = (gfp.contains(Gfp::MOVABLE), gfp.contains(Gfp::COMP));
        self.live.push(Live { pfn, order, refs, movable, compound, poisoned: false });
        Ok(())
    }

    /// Removes a freed block. Returns its parts without broken frames, in the order in which they are freed. Broken
    /// frames are withheld.
    pub(super) fn take_back(&mut self, pfn: u32, order: u8) -> Vec<(u32, u8)> {
        self.allocated -= 1 << order;
        let end = pfn + (1 << order);
        let mut parts = Vec::new();
        let mut start = pfn;
        for at in self.broken.range(pfn..end).copied().chain([end]) {
            while start < at {
                let part = start.trailing_zeros().min((at - start).ilog2());
                parts.push((start, part as u8));
                start += 1 << part;
            }
            start = at + 1;
        }
        for &(at, part) in &parts {
            self.frames[at as usize..][..1 << part].fill(Owner::Allocator);
        }
        for at in self.broken.range(pfn..end) {
            self.frames[*at as usize] = Owner::Withheld;
            self.withheld += 1;
        }
        parts
    }

    /// Moves a block in the record. Returns `false` if the target is not possible.
    pub(super) fn relocate(&mut self, from: u32, to: u32, order: u8) -> bool {
        let size = 1 << order;
        let is_free = self.frames.get(to as usize..(to + size) as usize);
        let is_free = is_free.is_some_and(|frames| frames.iter().all(|owner| *owner == Owner::Allocator));
        let stays =
            self.world.range_of(from).map(|range| range.start) == self.world.range_of(to).map(|range| range.start);
        self.frames[from as usize..][..size as usize].fill(Owner::Allocator);
        if is_free {
            self.frames[to as usize..][..size as usize].fill(Owner::User);
        }
        is_free && stays && to & (size - 1) == 0
    }

    /// Takes a whole block out of use.
    pub(super) fn withhold(&mut self, pfn: u32, order: u8) {
        self.allocated -= 1 << order;
        self.withheld += 1 << order;
        self.frames[pfn as usize..][..1 << order].fill(Owner::Withheld);
    }

    /// Marks a frame as broken. Returns whether it was free and is therefore withheld at once, or `None` if it was
    /// never released.
    pub(super) fn poison(&mut self, pfn: u32) -> Option<bool> {
        match self.frames[pfn as usize] {
            Owner::Nobody => None,
            Owner::Withheld => Some(false),
            Owner::Allocator => {
                self.frames[pfn as usize] = Owner::Withheld;
                self.withheld += 1;
                Some(true)
            }
            Owner::User => {
                self.broken.insert(pfn);
                let block = self.live.iter_mut().find(|live| (live.pfn..live.pfn + (1 << live.order)).contains(&pfn));
                block.expect("a user's frame is in a block").poisoned = true;
                Some(false)
            }
        }
    }

    /// Returns whether a block has a broken frame.
    pub(super) fn has_broken(&self, pfn: u32, order: u8) -> bool {
        self.broken.range(pfn..pfn + (1 << order)).next().is_some()
    }
}
