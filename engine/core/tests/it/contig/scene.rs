//! Machines for scenes: one zone, possibly with a CMA area, and a platform that moves blocks.

use core::cell::RefCell;
use core::mem::MaybeUninit;
use core::ops::Range;

use freehold::Policy;
use freehold::base::lock::SoloLock;
use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{CmaArea, Config, MinFree, PageAllocator};
use freehold::platform::{Isolation, Migrated, Migration};
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::common::owners::Owners;
use crate::common::{self, Hooks, Host, Memory, range};

pub(super) type Engine<'m, 'h> = PageAllocator<'m, Host<'h>>;

pub(super) const BOTH: [ContigPolicy; 2] = [ContigPolicy::OneByOne, ContigPolicy::Batched];

/// Flags of movable pages.
pub(super) const MOVABLE: Gfp = Gfp::HIGHUSER_MOVABLE;

/// Returns the configuration of the pinned kernel on two CPUs, with a given policy of freeing ranges.
pub(super) fn config(contig: ContigPolicy) -> Config<'static> {
    let policy = Policy { contig, ..Policy::LINUX_6_12 };
    Config { policy, cpu_nodes: &[NodeId(0); 2], ..Config::default() }
}

/// Returns the same configuration without per-CPU lists.
pub(super) fn bare(contig: ContigPolicy) -> Config<'static> {
    let policy = Policy { contig, pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 };
    Config { policy, ..config(contig) }
}

/// Runs `run` on a machine with one zone of `frames` free frames.
pub(super) fn with_frames<'h, R>(config: &Config<'_>, frames: u32, run: impl FnOnce(&Engine<'_, 'h>) -> R) -> R {
    common::with_machine(config, &[range(ZoneKind::Normal, 0, 0, frames)], MinFree::Pages(64), run)
}

/// Like [`with_frames`], with a CMA area from `start` to `end` whose units are blocks of `order`.
pub(super) fn with_area<'h, R>(
    config: &Config<'_>,
    frames: u32,
    (start, end, order): (u32, u32, u8),
    run: impl for<'m> FnOnce(&Engine<'m, 'h>, &CmaArea<'m, SoloLock>) -> R,
) -> R {
    let ranges = [range(ZoneKind::Normal, 0, 0, frames)];
    let mut memory = Memory::new(config, &ranges);
    let mut bitmap = bitmap(end - start, order);
    let engine = common::build(config, &ranges, &mut memory);
    let area = engine.reserve_cma(Pfn::new(start)..Pfn::new(end), Order::new(order), &mut bitmap);
    let area = area.expect("the area can be reserved");
    for (start, end) in [(0, start), (end, frames)] {
        engine.release(Pfn::new(start), Pfn::new(end)).expect("the range is online");
    }
    engine.set_up_watermarks(MinFree::Pages(64));
    run(&engine, &area)
}

/// Returns the number of times that `act` takes the zone lock.
pub(super) fn holds(engine: &Engine<'_, '_>, act: impl FnOnce()) -> u64 {
    let before = engine.platform().events.counts();
    act();
    engine.platform().events.counts().since(&before).zone_lock_acquisitions
}

/// Allocates a block, splits it, and returns its pages.
pub(super) fn split(engine: &Engine<'_, '_>, gfp: Gfp, order: Order) -> Range<Pfn> {
    let block = engine.alloc_pages(gfp, order).expect("enough memory must be free");
    engine.split_page(block, order).expect("the pages must be allocated");
    block..block.offset(order.pages())
}

/// Allocates the bytes of the bitmap of an area of `pages` pages.
pub(super) fn bitmap(pages: u32, order: u8) -> Box<[MaybeUninit<u8>]> {
    let layout = CmaArea::<SoloLock>::layout(pages, Order::new(order));
    Box::new_uninit_slice(layout.size() + layout.align())
}

/// A platform that moves every block that it owns, except for pinned ones.
#[derive(Default)]
pub(super) struct Mover {
    pub owners: RefCell<Owners>,
    pub pinned: RefCell<Vec<u32>>,
    /// Blocks that are refused before there is a place for them.
    pub isolated_never: RefCell<Vec<u32>>,
    /// All requested moves, including refused ones.
    pub asked: RefCell<Vec<Migration>>,
}

impl Mover {
    /// Allocates the block at `pfn`, and becomes its owner.
    pub(super) fn own(&self, engine: &Engine<'_, '_>, pfn: u32, order: u8, gfp: Gfp) -> u32 {
        take(engine, pfn, order, gfp);
        self.owners.borrow_mut().add(Pfn::new(pfn), Order::new(order), 1)
    }

    /// Returns the current place of a block.
    pub(super) fn place(&self, owner: u32) -> u32 {
        self.owners.borrow().place(owner).raw()
    }

    /// Frees a block at its current place.
    pub(super) fn free(&self, engine: &Engine<'_, '_>, owner: u32) {
        let (pfn, order) = self.owners.borrow_mut().remove(owner);
        engine.free_pages(pfn, order).expect("the block was owned");
    }
}

impl Hooks for Mover {
    fn can_isolate(&self, isolation: &Isolation) -> bool {
        !self.isolated_never.borrow().contains(&isolation.pfn.raw())
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        self.asked.borrow_mut().push(*migration);
        if self.pinned.borrow().contains(&migration.from.raw()) {
            return Migrated::Refused;
        }
        self.owners.borrow_mut().migrate(migration)
    }
}

/// Allocates the block at `pfn`, which must be free.
#[track_caller]
pub(super) fn take(engine: &Engine<'_, '_>, pfn: u32, order: u8, gfp: Gfp) {
    engine.drain_all_pages();
    let taken = engine.isolate_free_page(Pfn::new(pfn), Order::new(order), gfp);
    assert_eq!(taken, Ok(true), "block {pfn:#x} of order {order} is free");
}

#[track_caller]
pub(super) fn state(engine: &Engine<'_, '_>, pfn: u32) -> State {
    engine.state(Pfn::new(pfn)).expect("the frame is online")
}

pub(super) fn type_at(engine: &Engine<'_, '_>, pfn: u32) -> MigrateType {
    engine.map().pageblock(Pfn::new(pfn)).migratetype()
}

/// Returns the state of an allocated page with one reference.
pub(super) fn page(gfp: Gfp) -> State {
    held(Order::ZERO, 1, gfp)
}

/// Returns the state of an allocated block that is not poisoned.
pub(super) fn held(order: Order, refs: u32, gfp: Gfp) -> State {
    let (movable, compound) = (gfp.contains(Gfp::MOVABLE), gfp.contains(Gfp::COMP));
    State::Allocated { order, refs, movable, compound, poisoned: false, slab: false }
}

/// Returns whether a frame is free: on a free list or a per-CPU list, as the head of a block or inside one.
pub(super) fn is_free(engine: &Engine<'_, '_>, pfn: u32) -> bool {
    let mut heads = Order::all().map(|order| Pfn::new(pfn).align_down(order));
    heads.any(|head| match engine.state(head) {
        Some(State::ZoneFree { order, .. } | State::PcpCached { order, .. }) => head.offset(order.pages()).raw() > pfn,
        _ => false,
    })
}
