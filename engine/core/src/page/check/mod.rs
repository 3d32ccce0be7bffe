//! The proof that nothing is lost: a walk over every frame and every list.
//!
//! It holds the locks of all lists and zones it looks at in turn, so other CPUs may go on, but then counts
//! may differ by what is under way: call it when nothing runs. It proves that
//!
//! - every word is that of a state, and every frame in exactly one: a head, inside the block of the head before it,
//!   reserved, withheld or absent; every block begins where one of its order may, lies in one zone, and in that one's
//!   span ([`frames`]);
//! - every pageblock has a type, a zone that there is and an owner that there is, or none; it is for Isolate while
//!   somebody isolates it, and only then ([`blocks`]);
//! - every list holds what its length says, each block once, linked both ways, with a word that names this list; what
//!   is said of free lists without a lock is so ([`lists`], [`cpus`]);
//! - the zones' counters equal the sums over their lists, the lists' counts theirs; limits and watermarks are in order;
//! - no two free buddies of one type are left unmerged below pageblock order;
//! - every block's free list is that of its pageblocks' type;
//! - the high-atomic reserve is as large as its pageblocks, isolated ones too (in Linux, one that was isolated leaves
//!   the reserve and stays in its count, so there the two need not agree), and CMA areas as large as theirs;
//! - managed pages = free + on per-CPU lists + allocated + claimed + withheld; present ones = these and Reserved ones.

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

/// Zones that are counted apart: those of 64 nodes.
const ZONES_MAX: usize = 64 * ZoneKind::COUNT;

/// Pages by state, over all zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Pages on the zones' free lists.
    pub free: u64,
    /// Pages on per-CPU lists and on their way there.
    pub cached: u64,
    /// Pages in use: allocated, by reference or frozen.
    pub allocated: u64,
    /// Pages withheld: broken, or freed while referred to.
    pub withheld: u64,
    /// In the hands of calls that are under way, or that a panic of the platform's ended.
    pub claimed: u64,
    /// Online, and not given to the allocator.
    pub reserved: u64,
    /// Not online, though there is metadata for them.
    pub absent: u64,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Walks everything; says what there is, or the first thing that is wrong. Cost: a few steps a frame.
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

/// Checks what a zone says of its size against what was found.
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
