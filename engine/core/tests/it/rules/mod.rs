//! The rules of the pinned kernel, one scene per rule, each small enough to follow by hand.
//!
//! The model test shows that the engine follows the rules as a second implementation interprets them. These scenes show
//! what the rules *mean*: which request gets memory when it is short, which end of a list a block joins, when a
//! pageblock changes its type, how many pages move at once.

mod buddy;
mod bulk;
mod defrag;
mod fallback;
mod highatomic;
mod kernels;
mod kswapd;
mod lists;
mod merge;
mod owned;
mod owner_returns;
mod recheck_under_lock;
mod reclaim;
mod reserve;
mod slowpath;
mod watermarks;

use freehold::Policy;
use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, PageAllocator, Zone};
use freehold::platform::Platform;
use freehold::policy::PcpPolicy;

use crate::common::Host;

type Engine<'m, 'h> = PageAllocator<'m, Host<'h>>;
type OneZone<'h> = Zone<<Host<'h> as Platform>::Lock>;

/// Returns the configuration of the pinned kernel on one CPU.
fn linux() -> Config<'static> {
    Config { policy: Policy::LINUX_6_12, ..Config::default() }
}

/// Returns the configuration of the pinned kernel without per-CPU lists.
fn bare() -> Config<'static> {
    Config { policy: Policy { pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, ..Config::default() }
}

fn zone<'m, 'h>(engine: &Engine<'m, 'h>, kind: ZoneKind) -> &'m OneZone<'h> {
    engine.zone(NodeId(0), kind)
}

/// Returns the first frames of the blocks on a free list, in order.
fn free_list(engine: &Engine<'_, '_>, zone: &OneZone<'_>, order: u8, migratetype: MigrateType) -> Vec<u32> {
    zone.inspect(|areas| areas.area(Order::new(order)).list(migratetype).iter(engine.map()).map(Pfn::raw).collect())
}

fn type_at(engine: &Engine<'_, '_>, pfn: u32) -> MigrateType {
    engine.map().pageblock(Pfn::new(pfn)).migratetype()
}

/// Allocates blocks until a request with these flags fails. Returns the blocks.
fn exhaust(engine: &Engine<'_, '_>, gfp: Gfp, order: u8) -> Vec<Pfn> {
    core::iter::from_fn(|| engine.alloc_pages(gfp, Order::new(order)).ok()).collect()
}

fn alloc(engine: &Engine<'_, '_>, gfp: Gfp, order: u8) -> u32 {
    engine.alloc_pages(gfp, Order::new(order)).expect("enough memory must be free").raw()
}

fn free(engine: &Engine<'_, '_>, pfn: u32, order: u8) {
    engine.free_pages(Pfn::new(pfn), Order::new(order)).expect("the block is allocated");
}
