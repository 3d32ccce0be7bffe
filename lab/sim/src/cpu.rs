//! A CPU as a workload sees it: it allocates, frees, works, and hands blocks to other CPUs.
//!
//! Everything a workload does goes through here and is counted and timed on the way, but only while the run is measured
//! (see [`Window`](super::window::Window)). The same code runs in virtual time and on real threads.

use std::cell::Cell;
use std::mem;

use freehold::PageAllocator;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn};
use freehold::page::Zone;

use super::block::Block;
use super::executor::{Executor, Step};
use super::memory::Model;
use super::outcome::tally::Tally;
use super::playback::Play;
use super::random::occurs;
use super::world::World;

/// Pages that go back at once when a process ends. linux: include/linux/pagevec.h:PAGEVEC_SIZE
const FREE_BATCH: usize = 31;

/// Picoseconds in a nanosecond.
pub(crate) const PS_PER_NS: u64 = 1000;
/// How often per-CPU lists are looked after. linux: mm/vmstat.c:sysctl_stat_interval
const TICK: u64 = 1_000_000_000 * PS_PER_NS;

/// A CPU.
pub struct Cpu<'a, 'm, X: Executor> {
    allocator: &'a PageAllocator<'m, X>,
    world: &'a World,
    number: u16,
    rng: fastrand::Rng,
    tally: Tally,
    singles: Vec<Pfn>,
    /// Room for blocks that are about to be freed.
    buffer: Vec<Block>,
    /// When it looks after its lists next.
    tick: Cell<u64>,
}

impl<'a, 'm, X: Executor> Cpu<'a, 'm, X> {
    /// A CPU of a run with this seed. The executor must run it as CPU `number`.
    pub fn new(allocator: &'a PageAllocator<'m, X>, world: &'a World, number: u16, seed: u64) -> Cpu<'a, 'm, X> {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let rng = fastrand::Rng::with_seed(seeds.u64(..) ^ (u64::from(number) << 48 | u64::from(number)));
        let (tally, singles) = (Tally::default(), Vec::with_capacity(FREE_BATCH));
        Cpu { allocator, world, number, rng, tally, singles, buffer: Vec::new(), tick: Cell::new(TICK) }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> u16 {
        self.world.cpus
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: u16) -> NodeId {
        self.allocator.node_of(CpuId(cpu))
    }

    /// The limit of a per-CPU list as the machine comes up, in pages.
    pub fn list_high(&self) -> u32 {
        self.world.list_high
    }

    /// Pages that the machine's allocator manages.
    pub fn memory_pages(&self) -> u64 {
        self.allocator.zones().iter().map(Zone::managed).sum()
    }

    /// What is played, if the workload is a recording.
    pub fn play(&self) -> Option<&'a Play> {
        self.world.play.as_ref()
    }

    /// Picoseconds since the run began.
    pub fn now(&self) -> u64 {
        self.executor().now()
    }

    /// Whether the run's time is up.
    pub fn is_over(&self) -> bool {
        self.executor().is_over()
    }

    /// Says what this CPU looks at when its next step is done. See [`Executor::expect`].
    #[inline]
    pub fn expect_next<'v, T: 'v>(&self, find: impl FnOnce() -> &'v T) {
        self.executor().expect(find);
    }

    /// Numbers by chance: this CPU's own, and the same in every run with the same seed.
    pub fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.rng
    }

    /// Draws another CPU, in so many percent of all cases, if there is one.
    pub(crate) fn draw_other_cpu(&mut self, percent: u32) -> Option<u16> {
        let (own, cpus) = (self.number(), self.cpus());
        if cpus < 2 || !occurs(self.rng(), percent) {
            return None;
        }
        let distance = self.rng().u16(1..cpus);
        Some(((u32::from(own) + u32::from(distance)) % u32::from(cpus)) as u16)
    }

    /// Does something else for so many nanoseconds; looks after its lists before, once a second.
    pub fn work(&self, nanoseconds: u64) {
        if self.now() >= self.tick.get() {
            self.look_after_lists();
        }
        self.executor().work(nanoseconds * PS_PER_NS);
    }

    /// Allocates a block; `None` if there is no memory for it, which is counted.
    pub fn alloc(&mut self, gfp: Gfp, order: Order) -> Option<Block> {
        let executor = self.executor();
        let begin = executor.stopwatch();
        executor.charge(Step::Alloc);
        let found = self.allocator.alloc_pages(gfp, order).ok();
        if let Some(pfn) = found {
            executor.touch(pfn);
        }
        if is_atomic(gfp)
            && order > Order::ZERO
            && let Some(model) = executor.memory()
        {
            model.count_atomic(order);
            if found.is_none() {
                model.count_atomic_failure(order);
            }
        }
        if self.is_measured() {
            self.tally.count_alloc(order, found.is_some());
            if let Some(begin) = begin {
                self.tally.time_alloc(executor.now() - begin);
            }
        }
        Some(Block { pfn: found?, order, from: self.number })
    }

    /// Frees a block.
    pub fn free(&mut self, block: Block) {
        self.count_free(&block);
        self.expect(&block);
        self.executor().touch(block.pfn);
        self.executor().charge(Step::Free);
        let freed = self.allocator.free_pages(block.pfn, block.order);
        freed.unwrap_or_else(|error| panic!("a workload freed what it does not have: {error}"));
    }

    /// Frees all of these, single pages in batches, as when a process ends; the vector is empty then, and keeps its
    /// room.
    pub fn free_all(&mut self, blocks: &mut Vec<Block>) {
        for block in blocks.drain(..) {
            if block.order > Order::ZERO {
                self.free(block);
                continue;
            }
            self.count_free(&block);
            self.expect(&block);
            self.executor().touch(block.pfn);
            self.executor().charge(Step::Free);
            self.singles.push(block.pfn);
            if self.singles.len() == FREE_BATCH {
                self.free_singles();
            }
        }
        self.free_singles();
    }

    /// Hands blocks to another CPU, unless its mailbox is full or the run is over: then they come back.
    pub fn try_send(&mut self, to: u16, blocks: Vec<Block>) -> Option<Vec<Block>> {
        let executor = self.executor();
        executor.take_turn();
        if executor.is_over() {
            return Some(blocks);
        }
        match self.world.mailboxes.offer(to, blocks) {
            Ok(()) => {
                executor.charge(Step::Parcel);
                executor.wake(CpuId(to));
                None
            }
            Err(back) => Some(back),
        }
    }

    /// Hands blocks to another CPU; waits while its mailbox is full. When the run is over they are freed instead.
    pub fn send(&mut self, to: u16, blocks: Vec<Block>) {
        let executor = self.executor();
        executor.charge(Step::Parcel);
        let mut parcel = blocks;
        loop {
            executor.take_turn();
            if executor.is_over() {
                return self.free_all(&mut parcel);
            }
            match self.world.mailboxes.put(to, parcel, self.number) {
                Ok(()) => return executor.wake(CpuId(to)),
                Err(back) => parcel = back,
            }
            executor.wait();
        }
    }

    /// Blocks that another CPU sent, the oldest parcel first; waits for one. `None` when the run is over and nothing is
    /// left.
    pub fn receive(&mut self) -> Option<Vec<Block>> {
        loop {
            if let Some(blocks) = self.try_receive() {
                return Some(blocks);
            }
            if self.is_over() {
                return None;
            }
            self.executor().wait();
        }
    }

    /// As [`receive`](Cpu::receive), without waiting.
    pub fn try_receive(&mut self) -> Option<Vec<Block>> {
        let executor = self.executor();
        executor.take_turn();
        let (blocks, sender) = self.world.mailboxes.take(self.number)?;
        if let Some(sender) = sender {
            executor.wake(CpuId(sender));
        }
        executor.charge(Step::Parcel);
        Some(blocks)
    }

    /// What this CPU did while it was measured.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    fn executor(&self) -> &'a X {
        self.allocator.platform()
    }

    /// The machine's memory above the allocator, if the executor has a model of it.
    pub(super) fn model(&self) -> Option<&'a Model> {
        self.executor().memory()
    }

    /// Keeps a block until the run is over.
    pub(super) fn keep(&self, block: Block) {
        self.world.keep(block);
    }

    /// Frees blocks that `fill` gathers in a buffer, which is used again.
    pub(super) fn free_gathered(&mut self, fill: impl FnOnce(&mut Vec<Block>)) {
        let mut blocks = mem::take(&mut self.buffer);
        fill(&mut blocks);
        self.free_all(&mut blocks);
        self.buffer = blocks;
    }

    /// Lets the limits of this CPU's lists decay. linux: mm/vmstat.c:vmstat_update
    #[cold]
    fn look_after_lists(&self) {
        self.tick.set(self.now() + TICK);
        let zones = self.allocator.zones().iter().filter(|zone| zone.is_populated());
        zones.for_each(|zone| self.allocator.decay_pcp(CpuId(self.number), zone));
    }

    /// Says that the block is freed next, after others have had their turns.
    #[inline]
    fn expect(&self, block: &Block) {
        let (map, pfn) = (self.allocator.map(), block.pfn);
        self.executor().expect(|| {
            map.prefetch(pfn);
            map.frame(pfn)
        });
    }

    fn is_measured(&self) -> bool {
        self.world.window.contains(self.now())
    }

    fn count_free(&mut self, block: &Block) {
        if self.is_measured() {
            self.tally.count_free(block.order, block.from != self.number);
        }
    }

    fn free_singles(&mut self) {
        let freed = self.allocator.free_pages_bulk(&self.singles);
        freed.unwrap_or_else(|error| panic!("a workload freed what it does not have: {error}"));
        self.singles.clear();
    }
}

/// Whether a request is of high priority and cannot wait.
fn is_atomic(gfp: Gfp) -> bool {
    gfp.contains(Gfp::HIGH) && !gfp.contains(Gfp::DIRECT_RECLAIM)
}
