//! Random actions of each thread.

use fastrand::Rng;
use freehold::base::{CpuId, Gfp, Order, Pfn};
use freehold::page::PageAllocator;

use super::CPUS;
use super::platform::Floating;
use crate::common::holders::{Beside, Block, Hold};

pub(super) type Engine<'m> = PageAllocator<'m, Floating>;

/// Maximum number of blocks per thread, except while it uses up the memory.
const BLOCKS_MAX: usize = 120;
/// Maximum number of broken frames, by all threads together.
const BROKEN_MAX: u64 = 12;
/// Number of frames at the start from which many threads request ranges.
const HOT: u32 = 256;

/// A fault planted to show that the threads find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// Some blocks are freed but stay with their holder.
    FreesTwice,
    /// Some blocks are neither freed nor held any more.
    LosesABlock,
}

/// State of one thread.
pub(super) struct Worker<'w, 'm> {
    pub engine: &'w Engine<'m>,
    pub beside: &'w Beside,
    pub rng: Rng,
    pub sabotage: Sabotage,
    pub mine: Vec<Block>,
}

impl Worker<'_, '_> {
    /// Takes steps, and then puts all held blocks into the mailbox.
    pub(super) fn work(mut self, steps: u32) {
        for _ in 0..steps {
            match self.rng.u32(0..1000) {
                0..400 => self.alloc(),
                400..600 => self.free_any(),
                600..700 => self.post(),
                700..830 => self.collect(),
                830..870 => self.alloc_bulk(),
                870..920 => self.free_bulk(),
                920..950 => self.free_in_ranges(),
                950..970 => self.take_range(),
                970..974 => self.break_one(),
                974..980 => self.use_up(),
                980..992 => self.tend_one(),
                992..994 => self.engine.drain_all_pages(),
                994..997 => self.engine.cpu_dead(self.any_cpu()),
                _ => (0..CPUS).for_each(|cpu| self.engine.cpu_online(CpuId(cpu))),
            }
        }
        while !self.mine.is_empty() {
            self.post();
        }
    }

    fn any_cpu(&mut self) -> CpuId {
        CpuId(self.rng.u16(0..CPUS))
    }

    fn hold(&mut self, block: Block) {
        self.beside.mark(block, Hold::Taken);
        self.mine.push(block);
    }

    fn alloc(&mut self) {
        const CLASSES: [Gfp; 5] = [
            Gfp::HIGHUSER_MOVABLE,
            Gfp::HIGHUSER_MOVABLE,
            Gfp::KERNEL,
            Gfp::ATOMIC,
            Gfp::KERNEL.union(Gfp::RECLAIMABLE),
        ];
        if self.mine.len() < BLOCKS_MAX {
            let gfp = CLASSES[self.rng.usize(0..CLASSES.len())];
            let order = Order::new([0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6][self.rng.usize(0..12)]);
            if let Ok(pfn) = self.engine.alloc_pages(gfp, order) {
                self.hold((pfn, order));
            }
        }
    }

    fn alloc_bulk(&mut self) {
        let mut pages = [Pfn::new(0); 24];
        let wanted = self.rng.usize(1..pages.len());
        let came = self.engine.alloc_pages_bulk(Gfp::HIGHUSER_MOVABLE, &mut pages[..wanted]);
        pages[..came].iter().for_each(|&pfn| self.hold((pfn, Order::ZERO)));
    }

    /// Allocates every page that a request may use, and keeps the pages.
    fn use_up(&mut self) {
        let gfp = [Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC, Gfp::ATOMIC][self.rng.usize(0..2)];
        while let Ok(pfn) = self.engine.alloc_pages(gfp, Order::ZERO) {
            self.hold((pfn, Order::ZERO));
        }
    }

    /// Takes one of the held blocks.
    fn pick(&mut self) -> Option<Block> {
        let held = self.mine.len();
        (held > 0).then(|| self.mine.swap_remove(self.rng.usize(0..held)))
    }

    fn free_any(&mut self) {
        let many = 1 + self.mine.len().saturating_sub(BLOCKS_MAX);
        for _ in 0..many {
            let Some(block) = self.pick() else { return };
            self.free(block);
        }
    }

    fn free(&mut self, block: Block) {
        let (pfn, order) = block;
        self.beside.mark(block, Hold::Dropped);
        match (self.sabotage, self.rng.u32(0..500)) {
            (Sabotage::FreesTwice, 0) => self.mine.push(block),
            (Sabotage::LosesABlock, 0) => return,
            _ => {}
        }
        let freed = if self.rng.bool() { self.engine.free_pages(pfn, order) } else { self.engine.put_page(pfn) };
        freed.expect("this thread holds the block");
    }

    fn post(&mut self) {
        if let Some(block) = self.mine.pop() {
            self.beside.post(block);
        }
    }

    /// Takes a block from the mailbox, and frees it or keeps it.
    fn collect(&mut self) {
        match self.beside.collect() {
            Some(block) if self.rng.bool() => self.free(block),
            Some(block) => self.mine.push(block),
            None => {}
        }
    }

    /// Frees all held single pages, in the order of addresses or of allocation.
    fn free_bulk(&mut self) {
        let (pages, rest): (Vec<Block>, _) = self.mine.drain(..).partition(|&(_, order)| order == Order::ZERO);
        self.mine = rest;
        let mut pages: Vec<Pfn> = pages.into_iter().map(|(pfn, _)| pfn).collect();
        if self.rng.bool() {
            pages.sort_unstable();
        }
        pages.iter().for_each(|&pfn| self.beside.mark((pfn, Order::ZERO), Hold::Dropped));
        self.engine.free_pages_bulk(&pages).expect("this thread holds the pages");
    }

    /// Frees a block as single pages, in two ranges.
    fn free_in_ranges(&mut self) {
        let Some(at) = self.mine.iter().position(|&(_, order)| order > Order::ZERO) else { return };
        let (pfn, order) = self.mine.swap_remove(at);
        let (middle, end) = (pfn.offset(self.rng.u32(1..order.pages())), pfn.offset(order.pages()));
        self.beside.mark((pfn, order), Hold::Dropped);
        self.engine.split_page(pfn, order).expect("this thread holds the block");
        self.engine.free_contig_range(middle..end).expect("this thread holds the pages");
        self.engine.free_contig_range(pfn..middle).expect("this thread holds the pages");
    }

    /// Allocates a given range, and frees it or keeps its pages.
    fn take_range(&mut self) {
        let pages = self.rng.u32(1..64);
        let start = Pfn::new(self.rng.u32(0..HOT));
        let range = start..start.offset(pages);
        if self.engine.alloc_contig_range(range.clone(), Gfp::KERNEL).is_err() {
            return;
        }
        let blocks: Vec<Block> = start.up_to(range.end).map(|pfn| (pfn, Order::ZERO)).collect();
        if self.rng.bool() {
            return blocks.into_iter().for_each(|block| self.hold(block));
        }
        blocks.iter().for_each(|&block| self.beside.mark(block, Hold::Taken));
        blocks.iter().for_each(|&block| self.beside.mark(block, Hold::Dropped));
        self.engine.free_contig_range(range).expect("this thread holds the range");
    }

    /// Breaks a frame of a held block.
    fn break_one(&mut self) {
        if self.engine.platform().counts().withheld >= BROKEN_MAX {
            return;
        }
        if let Some(&(pfn, order)) = self.mine.last() {
            self.engine.poison(pfn.offset(self.rng.u32(0..order.pages()))).expect("the frame must be online");
        }
    }

    fn tend_one(&mut self) {
        let zones = self.engine.zones();
        let (cpu, zone) = (self.any_cpu(), &zones[self.rng.usize(0..zones.len())]);
        if self.rng.bool() {
            self.engine.decay_pcp(cpu, zone);
        } else {
            self.engine.drain_pages_zone(cpu, zone);
        }
    }
}
