//! Threads on real locks: more threads than CPUs, so that trylocks fail; blocks are passed between threads, so that
//! other CPUs free them; drains and decay run continuously.
//!
//! A mark outside the engine records whether each frame is held. A frame with two holders is detected when the second
//! one marks it, and the check at the end detects lost frames.

use std::thread;

use fastrand::Rng;
use freehold::Policy;
use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, ZoneKind};
use freehold::machine;
use freehold::page::{Config, MinFree, PageAllocator, Range, Zone};
use freehold::platform::Platform;
use freehold::platform::host::{Threads, run_on_cpu};
use freehold::policy::{Numbers, PcpPolicy};
use freehold::stats::{Counters, Counts};

use crate::common::holders::{Beside, Block, Hold};
use crate::common::{join_all, range};

const CPUS: u16 = 4;
/// More threads than CPUs, so that some share a CPU.
const THREADS: u16 = 6;
const STEPS: u32 = 60_000;
const END: u32 = 1 << 14;

type Host = Threads<Counters>;

/// State of one thread.
struct Worker<'w, 'm> {
    engine: &'w PageAllocator<'m, Host>,
    beside: &'w Beside,
    rng: Rng,
    mine: Vec<Block>,
}

impl Worker<'_, '_> {
    fn run(mut self) {
        for _ in 0..STEPS {
            match self.rng.u32(0..1000) {
                0..450 => self.alloc(),
                450..700 => self.free(),
                700..850 => self.post(),
                850..985 => self.collect(),
                985..992 => self.tend(|engine, cpu, zone| engine.decay_pcp(cpu, zone)),
                992..998 => self.tend(|engine, cpu, zone| engine.drain_pages_zone(cpu, zone)),
                998 => self.engine.cpu_dead(CpuId(CPUS - 1)),
                _ => self.engine.drain_all_pages(),
            }
        }
        while !self.mine.is_empty() {
            self.free();
        }
    }

    fn alloc(&mut self) {
        const CLASSES: [Gfp; 5] = [
            Gfp::KERNEL,
            Gfp::HIGHUSER_MOVABLE,
            Gfp::ATOMIC,
            Gfp::TRANSHUGE_LIGHT,
            Gfp::KERNEL.union(Gfp::RECLAIMABLE),
        ];
        let gfp = CLASSES[self.rng.usize(0..CLASSES.len())];
        let order = Order::new([0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 10][self.rng.usize(0..13)]);
        if let Ok(pfn) = self.engine.alloc_pages(gfp, order) {
            self.beside.mark((pfn, order), Hold::Taken);
            self.mine.push((pfn, order));
        }
    }

    fn free(&mut self) {
        if !self.mine.is_empty() {
            let block = self.mine.swap_remove(self.rng.usize(0..self.mine.len()));
            self.give_back(block);
        }
    }

    /// Frees a block, half of the time by `free_pages` and half of the time by dropping its last reference.
    fn give_back(&mut self, (pfn, order): Block) {
        self.beside.mark((pfn, order), Hold::Dropped);
        let freed = if self.rng.bool() { self.engine.free_pages(pfn, order) } else { self.engine.put_page(pfn) };
        freed.expect("this thread holds the block");
    }

    /// Puts a block into the mailbox.
    fn post(&mut self) {
        if let Some(block) = self.mine.pop() {
            self.beside.post(block);
        }
    }

    /// Frees a block from the mailbox.
    fn collect(&mut self) {
        if let Some(block) = self.beside.collect() {
            self.give_back(block);
        }
    }

    fn tend(&mut self, act: impl Fn(&PageAllocator<'_, Host>, CpuId, &Zone<<Host as Platform>::Lock>)) {
        let zones = self.engine.zones();
        act(self.engine, CpuId(self.rng.u16(0..CPUS)), &zones[self.rng.usize(0..zones.len())]);
    }
}

/// Runs all threads on a machine with two zones and with small pageblocks and lists, so that the threads contend
/// everywhere. Returns the engine's counts.
fn run(pcp: PcpPolicy) -> Counts {
    let policy = Policy { pcp, numbers: Numbers { pcp_batch: Some(3), ..Numbers::default() }, ..Policy::LINUX_6_12 };
    let cpu_nodes = [NodeId(0); CPUS as usize];
    let config = Config { cpu_nodes: &cpu_nodes, policy, pageblock_order: Order::new(5), ..Config::default() };
    let ranges = [range(ZoneKind::Dma32, 0, 0, 1 << 12), range(ZoneKind::Normal, 0, 1 << 12, END)];
    machine::with_ranges(Host::default(), &config, &ranges, |engine| {
        for Range { start, end, .. } in ranges {
            engine.release(start, end).expect("the range is online");
        }
        engine.set_up_watermarks(MinFree::BySize);
        work(engine);
        engine.drain_all_pages();
        let census = engine.check().expect("the check must find no error");
        assert_eq!((census.free, census.allocated, census.cached), (u64::from(END), 0, 0));
        let whole: u32 = engine.zones().iter().map(largest_blocks).sum();
        assert!(whole > 0, "everything was freed, so large blocks should have merged");
        engine.platform().probe().counts()
    })
    .expect("the configuration must be valid")
}

fn largest_blocks(zone: &Zone<<Host as Platform>::Lock>) -> u32 {
    zone.inspect(|areas| MigrateType::ALL.iter().map(|&t| areas.area(Order::MAX).len(t)).sum())
}

fn work(engine: &PageAllocator<'_, Host>) {
    let beside = Beside::new(END);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let worker = Worker { engine, beside: &beside, rng: Rng::with_seed(u64::from(number)), mine: Vec::new() };
            threads.push(scope.spawn(move || {
                run_on_cpu(CpuId(number % CPUS));
                worker.run();
            }));
        }
        join_all(threads);
    });
    while let Some((pfn, order)) = beside.collect() {
        engine.free_pages(pfn, order).expect("the block was left");
    }
}

#[test]
fn linux_lists_refill_and_drain() {
    let counts = run(PcpPolicy::Linux);
    assert!(counts.pcp_refills > 0 && counts.pcp_drains > 0, "{counts:?}");
}

#[test]
fn merge_lists_refill_and_drain() {
    let counts = run(PcpPolicy::Merge);
    assert!(counts.pcp_refills > 0 && counts.pcp_drains > 0, "{counts:?}");
}

#[test]
fn owned_pageblocks_refill_and_drain() {
    let counts = run(PcpPolicy::Owned);
    assert!(counts.pcp_refills > 0 && counts.pcp_drains > 0, "{counts:?}");
}

#[test]
fn owned_remote_pageblocks_push_to_stacks() {
    let counts = run(PcpPolicy::OwnedRemote);
    assert!(counts.pcp_refills > 0 && counts.pcp_drains > 0 && counts.stack_pushes > 0, "{counts:?}");
}

#[test]
fn no_lists_never_refill_or_drain() {
    let counts = run(PcpPolicy::Off);
    assert_eq!((counts.pcp_refills, counts.pcp_drains), (0, 0));
}
