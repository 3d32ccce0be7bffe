//! A workload that reaches all parts of the engine: it fills and drains per-CPU lists; owns, claims, steals from and
//! reserves pageblocks; uses ranges, an area and broken frames; compacts, reclaims, and calls the last resort; and
//! takes memory online and offline.
//!
//! The machine has two zones of small pageblocks, and two CPUs simulated by one thread. The script records each
//! allocation at once, so that reclaim can free it, compaction can move it, and an interrupted script can be cleaned
//! up.

use core::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Background, CmaArea, Config, MinFree, Mobility, Placement};
use freehold::platform::host::{CheckedSpinLock, run_on_cpu};
use freehold::platform::{FreePages, Migrated, Migration, Reclaimed};
use freehold::policy::{Numbers, PcpPolicy};

use crate::attackers::machine::{Engine, Hooks, Memory, build, range};

const FRAMES: u32 = 3072;
const MOVABLE: u32 = 4096;
const END: u32 = 5120;

/// Recorded allocations, and the number of times that [`Script::give_some`] was called.
#[derive(Default)]
pub(super) struct Script(Mutex<Vec<(Pfn, Order)>>, AtomicU32);

/// Number of calls of reclaim that free memory.
const GIFTS: u32 = 12;

impl Script {
    fn note(&self, pfn: Pfn, order: Order) {
        self.held().push((pfn, order));
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<(Pfn, Order)>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Frees the two pages that were allocated first, in the first [`GIFTS`] calls.
    pub(super) fn give_some(&self, pages: &dyn FreePages) -> Reclaimed {
        if self.1.fetch_add(1, Relaxed) >= GIFTS {
            return Reclaimed::default();
        }
        let given: Vec<_> = self.held().extract_if(.., |(_, order)| *order == Order::ZERO).take(2).collect();
        given.iter().for_each(|&(pfn, order)| pages.free_pages(pfn, order));
        Reclaimed { pages: given.len() as u64, scanned: given.len() as u64 }
    }

    /// Moves a block if it is recorded, and refuses otherwise.
    pub(super) fn migrate(&self, migration: &Migration) -> Migrated {
        let mut held = self.held();
        let Some(block) = held.iter_mut().find(|(pfn, order)| (*pfn, *order) == (migration.from, migration.order))
        else {
            return Migrated::Refused;
        };
        block.0 = migration.to;
        Migrated::Moved
    }
}

/// A script, the machine on which it runs, and the machine's CMA area.
pub(super) struct Stage<'a, 'm, 'h> {
    pub engine: &'a Engine<'m, 'h>,
    script: &'a Script,
    area: &'a CmaArea<'m, CheckedSpinLock>,
    cpu: Cell<u16>,
}

/// Builds the stage under a policy.
pub(super) fn with_script<'h, R>(
    pcp: PcpPolicy,
    script: &Script,
    hooks: &'h dyn Hooks,
    run: impl FnOnce(&Stage<'_, '_, 'h>) -> R,
) -> R {
    let numbers = Numbers { pcp_batch: Some(8), ..Policy::FREEHOLD.numbers };
    let config = Config {
        cpu_nodes: &[NodeId(0); 2],
        end: Pfn::new(END),
        pageblock_order: Order::new(4),
        policy: Policy { pcp, numbers, ..Policy::FREEHOLD },
        ..Config::default()
    };
    let ranges = [range(ZoneKind::Normal, 0, 0, FRAMES), range(ZoneKind::Movable, 0, MOVABLE, MOVABLE + 64)];
    let mut memory = Memory::new(&config, &ranges);
    let mut bitmap = [core::mem::MaybeUninit::uninit(); 64];
    run_on_cpu(CpuId(0));
    let (engine, _) = build(&config, &ranges, &mut memory);
    let area =
        engine.reserve_cma(Pfn::new(64)..Pfn::new(128), Order::ZERO, &mut bitmap).expect("the frames must be Reserved");
    engine.release(Pfn::new(128), Pfn::new(3000)).expect("the frames must be Reserved");
    engine.set_up_watermarks(MinFree::Pages(24));
    engine.platform().answer_with(hooks);
    run(&Stage { engine: &engine, script, area: &area, cpu: Cell::new(0) })
}

impl Stage<'_, '_, '_> {
    /// Plays the whole script.
    pub(super) fn play(&self) {
        self.bring_memory();
        self.fill_and_drain();
        self.mix_types();
        self.take_ranges();
        self.break_frames();
        self.run_dry();
        self.clear_away();
    }

    /// Frees everything that is recorded, releases more memory, and checks that requests succeed.
    pub(super) fn play_on(&self) {
        self.clear_away();
        self.engine.release(Pfn::new(0), Pfn::new(64)).expect("the frames must be Reserved");
        for gfp in [Gfp::KERNEL | Gfp::MEMALLOC, Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC] {
            let pages = [0, 1, 3].map(|order| {
                let order = Order::new(order);
                (self.engine.alloc_pages(gfp, order).expect("enough memory must be free"), order)
            });
            pages
                .iter()
                .for_each(|&(pfn, order)| self.engine.free_pages(pfn, order).expect("the test holds these pages"));
        }
        self.engine.drain_all_pages();
    }

    /// Frees all recorded blocks. Each record is removed before its block is freed, so a panic loses no other block.
    fn clear_away(&self) {
        loop {
            let last = self.script.held().pop();
            let Some((pfn, order)) = last else { break };
            _ = self.engine.free_pages(pfn, order);
        }
        self.engine.drain_all_pages();
    }

    fn change_cpu(&self) {
        self.cpu.set(1 - self.cpu.get());
        run_on_cpu(CpuId(self.cpu.get()));
    }

    fn take(&self, gfp: Gfp, order: u8) -> bool {
        let block = self.engine.alloc_pages(gfp | Gfp::NOWARN, Order::new(order));
        block.map(|pfn| self.script.note(pfn, Order::new(order))).is_ok()
    }

    fn drop_every(&self, nth: usize) {
        let left = self.script.held().len() / nth;
        for at in 0..left {
            let (pfn, order) = self.script.held().remove(at * (nth - 1));
            self.engine.free_pages(pfn, order).expect("the script must hold the block");
        }
    }

    fn bring_memory(&self) {
        let late = range(ZoneKind::Normal, 0, FRAMES, FRAMES + 64);
        self.engine.online(&late, &mut []).expect("the metadata must suffice");
        self.engine.release(Pfn::new(3000), Pfn::new(FRAMES + 8)).expect("the frames must be Reserved");
        self.engine.adopt(Pfn::new(FRAMES + 8), Order::new(2), Mobility::Movable).expect("the frames must be Reserved");
        self.script.note(Pfn::new(FRAMES + 8), Order::new(2));
        _ = self.engine.offline(Pfn::new(FRAMES)..Pfn::new(FRAMES + 64));
        self.engine.cpu_dead(CpuId(1));
        self.engine.cpu_online(CpuId(1));
    }

    fn fill_and_drain(&self) {
        (0..90).for_each(|_| _ = self.take(Gfp::KERNEL, 0));
        (0..12).for_each(|_| _ = self.take(Gfp::KERNEL, 2));
        (0..20).for_each(|_| _ = self.take(Gfp::HIGHUSER_MOVABLE, 0));
        self.change_cpu();
        self.drop_every(2);
        (0..20).for_each(|_| _ = self.take(Gfp::KERNEL, 0));
        self.change_cpu();
        let mut pages = [Pfn::new(0); 24];
        let came = self.engine.alloc_pages_bulk(Gfp::KERNEL, &mut pages);
        pages[..came].sort_unstable();
        self.engine.free_pages_bulk(&pages[..came]).expect("the test holds these pages");
        self.engine.decay_pcp(CpuId(0), self.engine.zone(NodeId(0), ZoneKind::Normal));
        self.clear_away();
    }

    fn mix_types(&self) {
        self.run_low(Gfp::MOVABLE);
        self.drop_every(16);
        (0..30).for_each(|at| _ = self.take(Gfp::NOWAIT, at % 3));
        (0..6).for_each(|_| _ = self.take(Gfp::ATOMIC, 2));
        self.drop_every(16);
        (0..3).for_each(|_| _ = self.take(Gfp::KERNEL, 3));
        self.clear_away();
        self.run_low(Gfp::empty());
        self.drop_every(8);
        self.engine.drain_all_pages();
        (0..10).for_each(|_| _ = self.take(Gfp::MOVABLE | Gfp::MEMALLOC, 0));
        self.clear_away();
    }

    /// Allocates nearly all memory.
    fn run_low(&self, gfp: Gfp) {
        for (order, most) in [(6, 60), (3, 60), (0, 200)] {
            _ = (0..most).all(|_| self.take(gfp | Gfp::NOWAIT, order));
        }
        // Splits all blocks into single pages, so that freed memory is in pieces.
        let mut held = self.script.held();
        let blocks: Vec<_> = held.extract_if(.., |(_, order)| *order > Order::ZERO).collect();
        for (pfn, order) in blocks {
            self.engine.split_page(pfn, order).expect("the script must hold the block");
            held.extend(pfn.up_to(pfn.offset(order.pages())).map(|page| (page, Order::ZERO)));
        }
    }

    fn take_ranges(&self) {
        let (engine, range) = (self.engine, Pfn::new(200)..Pfn::new(260));
        (0..16).for_each(|_| _ = self.take(Gfp::HIGHUSER_MOVABLE, 0));
        if engine.alloc_contig_range(range.clone(), Gfp::KERNEL).is_ok() {
            engine.free_contig_range(range.clone()).expect("the test holds these pages");
        }
        let large = Pfn::new(130)..Pfn::new(2990);
        self.clear_away();
        engine.alloc_contig_frozen_range(large, Gfp::KERNEL).expect("the range must be free");
        engine.free_contig_frozen_range(Pfn::new(300)..Pfn::new(2777)).expect("the test holds these pages");
        engine.free_contig_frozen_range(Pfn::new(130)..Pfn::new(300)).expect("the test holds these pages");
        engine.free_contig_frozen_range(Pfn::new(2777)..Pfn::new(2990)).expect("the test holds these pages");
        let page = engine.cma_alloc(self.area, 20, 4, Gfp::KERNEL).expect("the area must be free");
        engine.cma_release(self.area, page, 20).expect("the test holds these pages");
        let pages = engine
            .alloc_contig_pages(Gfp::KERNEL | Gfp::COMP, 32, Placement::ANYWHERE)
            .expect("enough memory must be free");
        engine.free_contig_range(pages..pages.offset(32)).expect("the test holds these pages");
    }

    fn break_frames(&self) {
        let engine = self.engine;
        let block = engine.alloc_pages(Gfp::KERNEL, Order::new(3)).expect("enough memory must be free");
        engine.poison(block.offset(3)).expect("the frames must be online");
        engine.get_page(block).expect("the test holds this block");
        engine.free_pages(block, Order::new(3)).expect("the test holds these pages");
        engine.free_pages(block, Order::ZERO).expect("the test holds these pages");
        engine.poison(Pfn::new(700)).expect("the frames must be online");
        let frozen = engine.alloc_frozen_pages(Gfp::KERNEL, Order::new(2)).expect("enough memory must be free");
        engine.split_page(frozen, Order::new(2)).expect("the test holds these pages");
        engine.free_contig_frozen_range(frozen..frozen.offset(4)).expect("the test holds these pages");
    }

    fn run_dry(&self) {
        self.run_low(Gfp::MOVABLE);
        (0..4).for_each(|_| _ = self.take(Gfp::ATOMIC, 1));
        _ = self.take(Gfp::KERNEL, 0);
        self.drop_every(4);
        self.engine.drain_all_pages();
        _ = self.take(Gfp::KERNEL, 4);
        _ = self.take(Gfp::TRANSHUGE, 4);
        _ = (0..300).all(|_| self.take(Gfp::NOWAIT, 0));
        _ = self.take(Gfp::KERNEL, 2);
        _ = self.take(Gfp::KERNEL, 0);
        for _ in 0..64 {
            if self.engine.run_kswapd(NodeId(0)) == Background::Asleep {
                break;
            }
        }
        self.engine.tick_kcompactd(NodeId(0));
        _ = self.engine.run_kcompactd(NodeId(0));
    }
}
