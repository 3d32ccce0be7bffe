//! Roles of the threads: some own blocks, some allocate ranges, one uses a CMA area.

use fastrand::Rng;
use freehold::base::{Gfp, NodeId, Order, Pfn};
use freehold::page::{Background, CmaArea, ContigError, FreeError, PageAllocator, Placement};
use freehold::platform::Platform;
use parking_lot::Mutex;

use super::platform::{Block, Moving, Owner, Sabotage};
use super::{Classes, Encounters};

pub(super) type Engine<'m> = PageAllocator<'m, Moving>;
pub(super) type Area<'m> = CmaArea<'m, <Moving as Platform>::Lock>;

/// Maximum number of blocks per thread.
const BLOCKS_MAX: usize = 35;
/// Maximum number of ranges per thread.
const RANGES_MAX: usize = 4;
/// Number of frames from which all threads request ranges.
const HOT: u32 = 256;

/// An allocated block. If it is movable, the platform knows its place.
pub(super) struct HeldBlock {
    owner: Owner,
    fixed: Option<Block>,
}

/// An allocated range.
struct HeldRange {
    owner: Owner,
    pfn: Pfn,
    pages: u32,
    gfp: Gfp,
    frozen: bool,
}

/// State of one thread.
pub(super) struct Worker<'w, 'm> {
    pub engine: &'w Engine<'m>,
    pub area: &'w Area<'m>,
    pub rng: Rng,
    pub classes: Classes,
    pub seen: &'w Encounters,
    /// Blocks that any thread may take.
    pub mailbox: &'w Mutex<Vec<HeldBlock>>,
    pub mine: Vec<HeldBlock>,
}

impl<'m> Worker<'_, 'm> {
    fn platform(&self) -> &Moving {
        self.engine.platform()
    }

    /// Reports an unexpected error.
    fn expect(&self, result: Result<(), FreeError>, what: &str) {
        if let Err(error) = result {
            self.platform().report(format!("{what}: {error}"));
        }
    }

    /// Allocates and frees blocks.
    pub(super) fn own_blocks(mut self, steps: u32) {
        for _ in 0..steps {
            if self.platform().is_stopped() {
                return;
            }
            match self.rng.u32(0..100) {
                0..50 if self.mine.len() < BLOCKS_MAX => self.alloc(),
                0..80 => self.free_any(),
                80..90 => self.pass_on(),
                90..98 => self.collect(),
                98 => self.poison(),
                _ if self.rng.bool() => self.engine.drain_all_pages(),
                _ => self.compact(),
            }
        }
        while !self.mine.is_empty() && !self.platform().is_stopped() {
            self.free_any();
        }
    }

    /// Runs kcompactd's timer work, which a kernel does twice a second. It returns at once while another thread runs
    /// it.
    fn compact(&self) {
        self.engine.tick_kcompactd(NodeId(0));
        while self.engine.run_kcompactd(NodeId(0)) == Background::Working {}
    }

    fn alloc(&mut self) {
        let gfp = self.classes.draw(&mut self.rng);
        let order = Order::new([0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6][self.rng.usize(0..11)]);
        let refs = self.rng.u32(0..3);
        let taken = match refs {
            0 => self.engine.alloc_frozen_pages(gfp, order),
            _ => self.engine.alloc_pages(gfp, order),
        };
        let Ok(pfn) = taken else { return };
        if refs == 2 {
            self.expect(self.engine.get_page(pfn), "a reference to a block that was just allocated");
        }
        self.own(Block { pfn, order, refs, compound: gfp.contains(Gfp::COMP) }, gfp);
    }

    fn own(&mut self, block: Block, gfp: Gfp) {
        let owner = self.platform().owner();
        self.platform().stamp(block.pfn, block.order.pages(), 0, owner);
        let movable = gfp.contains(Gfp::MOVABLE);
        if movable {
            self.platform().add(owner, block);
        }
        self.mine.push(HeldBlock { owner, fixed: (!movable).then_some(block) });
    }

    fn free_any(&mut self) {
        if !self.mine.is_empty() {
            let held = self.mine.swap_remove(self.rng.usize(0..self.mine.len()));
            self.free(held);
        }
    }

    pub(super) fn free(&mut self, HeldBlock { owner, fixed }: HeldBlock) {
        let Some(block) = fixed.or_else(|| self.platform().remove(owner)) else {
            return self.platform().report(format!("the block of owner {owner} is gone"));
        };
        let Block { pfn, order, refs, compound } = block;
        self.platform().stamp(pfn, order.pages(), owner, 0);
        if self.platform().sabotage == Sabotage::FreesTwice && self.rng.u32(0..200) == 0 {
            self.mine.push(HeldBlock { owner, fixed: Some(block) });
        }
        if refs == 2 {
            self.expect(self.engine.put_page(pfn), "the second reference");
        }
        let range = pfn..pfn.offset(order.pages());
        let way = self.rng.u32(0..4);
        let freed = match (refs, way) {
            (0, 0) if !compound => self.free_in_parts(pfn, order.pages()),
            (0, 1) => self.engine.free_contig_frozen_range(range),
            (0, _) => self.engine.free_frozen_pages(pfn, order),
            (_, 0) if !compound => {
                self.engine.split_page(pfn, order).and_then(|()| self.free_shuffled(pfn, order.pages()))
            }
            (_, 1) => self.engine.free_contig_range(range),
            (_, 2) => self.engine.put_page(pfn),
            (_, _) => self.engine.free_pages(pfn, order),
        };
        self.expect(freed, "a block of one's own");
    }

    /// Frees frozen frames in two parts, the upper part first.
    fn free_in_parts(&mut self, pfn: Pfn, pages: u32) -> Result<(), FreeError> {
        let middle = pfn.offset(self.rng.u32(0..pages));
        let (lower, upper) = (pfn..middle, middle..pfn.offset(pages));
        self.engine.free_contig_frozen_range(upper)?;
        if lower.is_empty() { Ok(()) } else { self.engine.free_contig_frozen_range(lower) }
    }

    /// Frees single pages, in order or shuffled.
    fn free_shuffled(&mut self, pfn: Pfn, pages: u32) -> Result<(), FreeError> {
        let mut slice: Vec<Pfn> = pfn.up_to(pfn.offset(pages)).collect();
        if self.rng.bool() {
            self.rng.shuffle(&mut slice);
        }
        self.engine.free_pages_bulk(&slice)
    }

    fn pass_on(&mut self) {
        if let Some(held) = self.mine.pop() {
            self.mailbox.lock().push(held);
        }
    }

    fn collect(&mut self) {
        let held = self.mailbox.lock().pop();
        if let Some(held) = held {
            self.free(held);
        }
    }

    /// Poisons one frame of a block, and records it.
    fn poison_one(&self, block: Block, luck: u32) {
        let pfn = block.pfn.offset(luck % block.order.pages());
        self.expect(self.engine.poison(pfn), "a frame to be poisoned");
        self.seen.broken.lock().insert(pfn);
    }

    /// Poisons a frame of one of this thread's blocks. The block is neither freed nor moved meanwhile.
    fn poison(&mut self) {
        if self.seen.broken.lock().len() >= 12 {
            return;
        }
        let Some(held) = self.mine.last() else { return };
        let luck = self.rng.u32(..);
        match held.fixed {
            Some(block) => self.poison_one(block, luck),
            None => {
                if self.platform().with(held.owner, |block| self.poison_one(block, luck)).is_none() {
                    self.platform().report(format!("the block of owner {} is gone", held.owner));
                }
            }
        }
    }

    /// Allocates and frees ranges.
    pub(super) fn take_ranges(mut self, steps: u32) {
        let mut ranges = Vec::new();
        for _ in 0..steps {
            if self.platform().is_stopped() {
                return;
            }
            if ranges.len() < RANGES_MAX && self.rng.u32(0..3) > 0 {
                ranges.extend(self.take());
            } else if !ranges.is_empty() {
                let range = ranges.swap_remove(self.rng.usize(0..ranges.len()));
                self.give_back(range);
            }
            self.collect();
        }
        ranges.into_iter().for_each(|range| self.give_back(range));
        while !self.mine.is_empty() && !self.platform().is_stopped() {
            self.free_any();
        }
    }

    fn take(&mut self) -> Option<HeldRange> {
        let compound = self.rng.u32(0..5) == 0;
        let pages = if compound { 1 << self.rng.u32(0..8) } else { self.rng.u32(1..100) };
        let space = if self.rng.bool() { HOT } else { super::FRAMES };
        let start = self.rng.u32(0..space - pages);
        let start = if compound { start / pages * pages } else { start };
        let mut gfp = [Gfp::KERNEL, Gfp::KERNEL | Gfp::MOVABLE][self.rng.usize(0..2)];
        gfp.set(Gfp::COMP, compound);
        let (range, frozen) = (Pfn::new(start)..Pfn::new(start + pages), self.rng.bool());
        let taken = match (self.rng.u32(0..10), frozen) {
            (0, false) => self.engine.alloc_contig_pages(gfp, pages, Placement::ANYWHERE),
            (0, true) => self.engine.alloc_contig_frozen_pages(gfp, pages, Placement::ANYWHERE),
            (_, false) => self.engine.alloc_contig_range(range.clone(), gfp).map(|()| range.start),
            (_, true) => self.engine.alloc_contig_frozen_range(range.clone(), gfp).map(|()| range.start),
        };
        self.seen.count(taken.err());
        let pfn = taken.ok()?;
        let owner = self.platform().owner();
        self.platform().stamp(pfn, pages, 0, owner);
        Some(HeldRange { owner, pfn, pages, gfp, frozen })
    }

    fn give_back(&mut self, HeldRange { owner, pfn, pages, gfp, frozen }: HeldRange) {
        self.platform().stamp(pfn, pages, owner, 0);
        let compound = gfp.contains(Gfp::COMP);
        if gfp.contains(Gfp::MOVABLE) && !compound && !frozen && self.rng.bool() {
            return self.scatter(pfn, pages);
        }
        let range = pfn..pfn.offset(pages);
        let freed = match (frozen, compound) {
            (true, false) if self.rng.bool() => self.free_in_parts(pfn, pages),
            (true, _) => self.engine.free_contig_frozen_range(range),
            (false, false) if self.rng.u32(0..3) == 0 => self.free_shuffled(pfn, pages),
            (false, false) if self.rng.u32(0..3) == 0 => self.free_shared(pfn, pages),
            (false, _) => self.engine.free_contig_range(range),
        };
        self.expect(freed, "a range of one's own");
    }

    /// Frees a range while one of its pages has an additional reference, and then drops that reference.
    fn free_shared(&mut self, pfn: Pfn, pages: u32) -> Result<(), FreeError> {
        let shared = pfn.offset(self.rng.u32(0..pages));
        self.engine.get_page(shared)?;
        self.engine.free_contig_range(pfn..pfn.offset(pages))?;
        self.engine.put_page(shared)
    }

    /// Gives each page of a range a separate owner. The pages may be moved from now on.
    fn scatter(&mut self, pfn: Pfn, pages: u32) {
        for page in pfn.up_to(pfn.offset(pages)) {
            self.own(Block { pfn: page, order: Order::ZERO, refs: 1, compound: false }, Gfp::MOVABLE);
        }
        while self.mine.len() > BLOCKS_MAX {
            self.pass_on();
        }
    }

    /// Allocates ranges from the CMA area, and releases them.
    pub(super) fn live_on_area(mut self, steps: u32) {
        let mut ranges: Vec<(Owner, Pfn, u32)> = Vec::new();
        for _ in 0..steps {
            if self.platform().is_stopped() {
                return;
            }
            if ranges.len() < RANGES_MAX && self.rng.bool() {
                let pages = self.rng.u32(1..200);
                let taken = self.engine.cma_alloc(self.area, pages, 1 << self.rng.u32(0..6), Gfp::KERNEL);
                if !matches!(taken, Ok(_) | Err(ContigError::NoRange)) {
                    self.platform().report(format!("the area said {taken:?}"));
                }
                if let Ok(pfn) = taken {
                    let owner = self.platform().owner();
                    self.platform().stamp(pfn, pages, 0, owner);
                    ranges.push((owner, pfn, pages));
                }
                self.seen.count_area(taken.is_ok());
            } else if !ranges.is_empty() {
                let range = ranges.swap_remove(self.rng.usize(0..ranges.len()));
                self.release(range);
            }
        }
        ranges.into_iter().for_each(|range| self.release(range));
    }

    fn release(&mut self, (owner, pfn, pages): (Owner, Pfn, u32)) {
        self.platform().stamp(pfn, pages, owner, 0);
        self.expect(self.engine.cma_release(self.area, pfn, pages), "a range of the area");
    }
}
