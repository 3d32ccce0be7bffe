//! Compaction: each rule in a scene of its own, and machines by chance in which nothing may be lost.
//!
//! The platform of these tests knows the owner of each block and moves what it is asked to, but for what a scene pins.
//! So a block that the engine handed out twice, or freed although it was not moved, is found out by its owner.

mod chance;
mod mover;
mod pictures;
mod requests;
mod scanners;

use freehold::Policy;
use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PageAllocator, Zone};
use freehold::platform::Platform;
use freehold::policy::PcpPolicy;

use crate::common::{Host, Memory, build, range};
use mover::Mover;

type Engine<'m, 'h> = PageAllocator<'m, Host<'h>>;
type OneZone<'h> = Zone<<Host<'h> as Platform>::Lock>;

/// Frames of a pageblock.
const BLOCK: u32 = 512;

/// The pinned kernel on one CPU, without lists before the zone, so that every page is where a scene put it.
fn config() -> Config<'static> {
    Config { policy: Policy { pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, ..Config::default() }
}

/// A machine of so many pageblocks in one Normal zone, all of them allocated as movable single pages of the mover's,
/// with almost no watermarks.
fn with_full_machine(blocks: u32, config: &Config<'_>, act: impl FnOnce(&Engine<'_, '_>, &Mover)) {
    let frames = blocks * config.pageblock_order.pages();
    let mover = Mover::default();
    let ranges = [range(ZoneKind::Normal, 0, 0, frames)];
    let mut memory = Memory::new(config, &ranges);
    let engine = build(config, &ranges, &mut memory);
    engine.release(Pfn::new(0), Pfn::new(frames)).expect("the range is online");
    engine.set_up_watermarks(MinFree::Pages(8));
    engine.platform().answer_with(&mover);
    for pfn in 0..frames {
        mover.own(&engine, pfn);
    }
    act(&engine, &mover);
    engine.check().expect("nothing is lost");
    mover.free_all(&engine);
    engine.drain_all_pages();
    assert_eq!(engine.check().expect("nothing is lost").allocated, 0, "everything came back");
}

/// About half of the pages of these pageblocks, the first of each among them, in no order that a stride could follow.
fn half_of(blocks: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
    (blocks.start * BLOCK..blocks.end * BLOCK)
        .filter(|&pfn| pfn.is_multiple_of(BLOCK) || pfn.wrapping_mul(0x9e37_79b1).count_ones() % 2 == 0)
}

fn zone<'m, 'h>(engine: &Engine<'m, 'h>) -> &'m OneZone<'h> {
    engine.zone(NodeId(0), ZoneKind::Normal)
}

fn whole_pageblocks(engine: &Engine<'_, '_>) -> u32 {
    zone(engine).inspect(|areas| areas.area(Order::new(9)).nr_free() + 2 * areas.area(Order::MAX).nr_free())
}

fn type_at(engine: &Engine<'_, '_>, pfn: u32) -> MigrateType {
    engine.map().pageblock(Pfn::new(pfn)).migratetype()
}

/// Allocates a huge page, and gives it back.
fn huge_page(engine: &Engine<'_, '_>, gfp: Gfp) -> Option<u32> {
    let pfn = engine.alloc_pages(gfp, Order::new(9)).ok()?;
    engine.free_pages(pfn, Order::new(9)).expect("it was just allocated");
    Some(pfn.raw())
}
