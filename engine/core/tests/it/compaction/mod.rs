//! Compaction: one scene per rule, and random machines in which no page may be lost.
//!
//! The platform of these tests knows the owner of each block. It moves every block as requested, except for those that
//! a scene pins. A block that is allocated twice, or freed without having been moved, is therefore detected by its
//! owner.

mod isolation;
mod mover;
mod random;
mod requests;
mod scanners;
mod zone_drawings;

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

/// Returns the configuration of the pinned kernel on one CPU, without per-CPU lists, so that every page stays where a
/// scene put it.
fn config() -> Config<'static> {
    Config { policy: Policy { pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, ..Config::default() }
}

/// Runs `act` on a machine of `blocks` pageblocks in one Normal zone, with very low watermarks. All of its memory is
/// allocated as movable single pages that the mover owns.
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
    engine.check().expect("the check must find no error");
    mover.free_all(&engine);
    engine.drain_all_pages();
    assert_eq!(engine.check().expect("the check must find no error").allocated, 0, "all pages must be free again");
}

/// Returns about half of the pages of these pageblocks, including the first page of each, in an irregular pattern.
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

/// Allocates a huge page, and frees it.
fn huge_page(engine: &Engine<'_, '_>, gfp: Gfp) -> Option<u32> {
    let pfn = engine.alloc_pages(gfp, Order::new(9)).ok()?;
    engine.free_pages(pfn, Order::new(9)).expect("the block was just allocated");
    Some(pfn.raw())
}
