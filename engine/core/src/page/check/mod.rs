//! Consistency check: a walk over every frame and every list.
//!
//! The walk takes the locks of the lists and zones one after the other, so other CPUs can continue. Counts may then
//! differ because of work in progress, so the check should be called when nothing else runs. It verifies the following:
//!
//! - Every word is valid, and every frame is exactly one of: a head, an inner frame of the preceding head's block,
//!   Reserved, Withheld or Absent. Every block is aligned to its order, is in one zone, and within the span of this
//!   zone ([`frames`]).
//! - Every pageblock has a type, and a zone and an owner that exist, or none. Its type is Isolate exactly while a range
//!   isolates it ([`blocks`]).
//! - Every list has as many blocks as its length states, each once, linked in both directions, with a word that names
//!   this list. The hints about free lists that are read without a lock are right ([`lists`], [`cpus`]).
//! - The zones' counters equal the sums over their lists, and the lists' counts equal theirs. Limits and watermarks are
//!   in order.
//! - No two free buddies of one type are unmerged below pageblock order.
//! - Every free block is on the list of its pageblocks' type.
//! - The high-atomic reserve is as large as its pageblocks, including isolated ones, and CMA areas are as large as
//!   theirs. (In Linux, an isolated pageblock leaves the reserve but stays in its count, so the two need not agree.)
//! - Managed pages = free + on per-CPU lists + allocated + claimed + withheld. Present pages = these and Reserved
//!   pages.

mod blocks;
mod cpus;
mod frames;
mod lists;
mod violation;

pub use violation::Violation;

use super::allocator::PageAllocator;
use super::zone::Zone;
use crate::base::pageblock::NO_ZONE;
use crate::base::{Pfn, State, ZoneKind};
use crate::platform::Platform;

/// Number of zones with a census of their own: the zones of 64 nodes.
const ZONES_MAX: usize = 64 * ZoneKind::COUNT;

/// Pages by state, over all zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Pages on the zones' free lists.
    pub free: u64,
    /// Pages on per-CPU lists and on stacks.
    pub cached: u64,
    /// Pages in use: allocated, by reference or frozen.
    pub allocated: u64,
    /// Pages withheld: broken, or freed while they had references.
    pub withheld: u64,
    /// Pages claimed by calls in progress, or by calls that ended in a panic of the platform.
    pub claimed: u64,
    /// Pages that are online, but were not given to the allocator.
    pub reserved: u64,
    /// Pages that are not online, but have metadata.
    pub absent: u64,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Checks the whole allocator. Returns the census, or the first violation found. Cost: a few steps per frame.
    ///
    /// # Errors
    /// See [`Violation`].
    pub fn check(&self) -> Result<Census, Violation> {
        let mut sum = Census::default();
        let mut per_zone = [Census::default(); ZONES_MAX];
        self.check_pageblocks()?;
        self.walk_frames(&mut sum, &mut per_zone)?;
        let blocks = self.special_blocks();
        for zone in self.zones {
            let census = &per_zone[zone.index()];
            let [reserved, cma] = blocks[zone.index()].map(|blocks| u64::from(blocks) * self.pageblock_pages());
            counter("reserved_highatomic", zone.index(), zone.reserved_highatomic(), reserved)?;
            counter("cma", zone.index(), zone.cma(), cma)?;
            self.check_free_lists(zone, census)?;
            self.check_pcps(zone, census)?;
            check_sizes(zone, census)?;
        }
        Ok(sum)
    }

    fn walk_frames(&self, sum: &mut Census, per_zone: &mut [Census]) -> Result<(), Violation> {
        for section in self.map.present_sections() {
            let (mut at, end) = (section.start, section.end);
            while at < end {
                let pfn = Pfn::new(at as u32);
                let zone = self.map.pageblock(pfn).zone();
                let pages = if zone == NO_ZONE { self.check_hole(pfn)? } else { self.check_head(pfn)? };
                for census in core::iter::once(&mut *sum).chain(per_zone.get_mut(usize::from(zone))) {
                    census.count(self.map.frame(pfn).word().state(), pages);
                }
                at += u64::from(pages);
            }
        }
        Ok(())
    }
}

/// Checks the sizes and watermarks of a zone against the pages that were found.
fn check_sizes<L>(zone: &Zone<L>, census: &Census) -> Result<(), Violation> {
    let found = census.free + census.cached + census.allocated + census.withheld + census.claimed;
    counter("managed", zone.index(), zone.managed(), found)?;
    counter("present", zone.index(), zone.present(), found + census.reserved)?;
    let marks = zone.watermarks();
    let are_sorted = [marks.min, marks.low, marks.high, marks.promo].is_sorted();
    if are_sorted { Ok(()) } else { Err(Violation::Marks { zone: zone.index() }) }
}

impl Census {
    fn count(&mut self, state: State, pages: u32) {
        *match state {
            State::ZoneFree { .. } => &mut self.free,
            State::PcpCached { .. } | State::RemotePending { .. } => &mut self.cached,
            State::Allocated { .. } => &mut self.allocated,
            State::Withheld => &mut self.withheld,
            State::Claimed { .. } => &mut self.claimed,
            State::Reserved => &mut self.reserved,
            State::Absent | State::Interior => &mut self.absent,
        } += u64::from(pages);
    }
}

fn counter(name: &'static str, zone: usize, counted: u64, found: u64) -> Result<(), Violation> {
    if counted == found { Ok(()) } else { Err(Violation::Counter { name, zone, counted, found }) }
}
