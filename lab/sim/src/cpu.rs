//! A simulated CPU, as a workload uses it: it allocates, frees, works, and sends blocks to other CPUs.
//!
//! A workload does everything through this interface. It counts each operation, and times it if the executor can, but
//! only within the measured [`Window`](super::window::Window) of the run. The memory model counts atomic requests
//! during the whole run. The same code runs in virtual time and on real threads.

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

/// Single pages that are freed together when a process ends. linux: include/linux/pagevec.h:PAGEVEC_SIZE
const FREE_BATCH: usize = 31;

/// Picoseconds in a nanosecond.
pub(crate) const PS_PER_NS: u64 = 1000;
/// Picoseconds between two decays of the limits of a CPU's lists. linux: mm/vmstat.c:sysctl_stat_interval
const TICK: u64 = 1_000_000_000 * PS_PER_NS;

/// A CPU of a run.
pub struct Cpu<'a, 'm, X: Executor> {
    allocator: &'a PageAllocator<'m, X>,
    world: &'a World,
    number: u16,
    rng: fastrand::Rng,
    tally: Tally,
    singles: Vec<Pfn>,
    /// Reusable buffer for blocks that are about to be freed.
    buffer: Vec<Block>,
    /// Time of the next decay of this CPU's lists, in picoseconds.
    tick: Cell<u64>,
}

impl<'a, 'm, X: Executor> Cpu<'a, 'm, X> {
    /// Creates CPU `number` of a run with this seed. The executor must run it as CPU `number`.
    pub fn new(allocator: &'a PageAllocator<'m, X>, world: &'a World, number: u16, seed: u64) -> Cpu<'a, 'm, X> {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let rng = fastrand::Rng::with_seed(seeds.u64(..) ^ (u64::from(number) << 48 | u64::from(number)));
        let (tally, singles) = (Tally::default(), Vec::with_capacity(FREE_BATCH));
        Cpu { allocator, world, number, rng, tally, singles, buffer: Vec::new(), tick: Cell::new(TICK) }
    }

    /// Returns the number of this CPU.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the number of CPUs of the run.
    pub fn cpus(&self) -> u16 {
        self.world.cpus
    }

    /// Returns the node of a CPU.
    pub fn node_of(&self, cpu: u16) -> NodeId {
        self.allocator.node_of(CpuId(cpu))
    }

    /// Returns the limit (`high`) of the list of CPU 0 in the first zone with memory, right after boot, in pages.
    pub fn list_high(&self) -> u32 {
        self.world.list_high
    }

    /// Returns the number of pages that the machine's allocator manages.
    pub fn memory_pages(&self) -> u64 {
        self.allocator.zones().iter().map(Zone::managed).sum()
    }

    /// Returns the recording to play, if the workload is one.
    pub fn play(&self) -> Option<&'a Play> {
        self.world.play.as_ref()
    }

    /// Returns the picoseconds since the run began.
    pub fn now(&self) -> u64 {
        self.executor().now()
    }

    /// Returns whether the run's time is over.
    pub fn is_over(&self) -> bool {
        self.executor().is_over()
    }

    /// Announces the value that this CPU reads when its next step is done; see [`Executor::expect`].
    #[inline]
    pub fn expect_next<'v, T: 'v>(&self, find: impl FnOnce() -> &'v T) {
        self.executor().expect(find);
    }

    /// Returns the random generator of this CPU. It gives the same numbers in every run with the same seed.
    pub fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.rng
    }

    /// Draws another CPU with a probability of `percent` percent. Returns `None` otherwise, or if this CPU is the only
    /// one.
    pub(crate) fn draw_other_cpu(&mut self, percent: u32) -> Option<u16> {
        let (own, cpus) = (self.number(), self.cpus());
        if cpus < 2 || !occurs(self.rng(), percent) {
            return None;
        }
        let distance = self.rng().u16(1..cpus);
        Some(((u32::from(own) + u32::from(distance)) % u32::from(cpus)) as u16)
    }

    /// Spends `nanoseconds` on other work. Once a second, it lets the limits of this CPU's lists decay first.
    pub fn work(&self, nanoseconds: u64) {
        if self.now() >= self.tick.get() {
            self.look_after_lists();
        }
        self.executor().work(nanoseconds * PS_PER_NS);
    }

    /// Allocates a block. Returns `None` if there is no memory for it. Requests and failures within the window are
    /// counted.
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
    ///
    /// # Panics
    /// Panics if the block is not allocated.
    pub fn free(&mut self, block: Block) {
        self.count_free(&block);
        self.expect(&block);
        self.executor().touch(block.pfn);
        self.executor().charge(Step::Free);
        let freed = self.allocator.free_pages(block.pfn, block.order);
        freed.unwrap_or_else(|error| panic!("a workload freed a block that it does not own: {error}"));
    }

    /// Frees all blocks, single pages in batches, as when a process ends. The vector is empty afterwards and keeps its
    /// capacity.
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

    /// Sends blocks to another CPU. Returns `None` if they were sent, or the blocks if that CPU's mailbox is full or
    /// the run is over.
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

    /// Sends blocks to another CPU, and waits while its mailbox is full. Frees the blocks instead if the run is over.
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

    /// Receives the oldest parcel of blocks that another CPU sent, and waits for one. Returns `None` if the run is over
    /// and no parcel is left.
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

    /// Receives like [`receive`](Cpu::receive), but does not wait: returns `None` if there is no parcel.
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

    /// Returns the operations of this CPU within the window.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    fn executor(&self) -> &'a X {
        self.allocator.platform()
    }

    /// Returns the model of the memory above the allocator, if the executor has one.
    pub(super) fn model(&self) -> Option<&'a Model> {
        self.executor().memory()
    }

    /// Keeps a block until the run is over.
    pub(super) fn keep(&self, block: Block) {
        self.world.keep(block);
    }

    /// Frees the blocks that `fill` puts into a buffer. The buffer is reused.
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

    /// Announces that the block is freed next, after other CPUs have had their turns.
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
        freed.unwrap_or_else(|error| panic!("a workload freed a block that it does not own: {error}"));
        self.singles.clear();
    }
}

/// Returns whether a request has high priority and cannot wait.
fn is_atomic(gfp: Gfp) -> bool {
    gfp.contains(Gfp::HIGH) && !gfp.contains(Gfp::DIRECT_RECLAIM)
}
