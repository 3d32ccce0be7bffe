//! Watermarks, lowmem reserves and limits of per-CPU lists. They depend on the sizes of the zones, and are computed
//! when the user of the allocator calls [`set_up_watermarks`](PageAllocator::set_up_watermarks).
//!
//! The watermark check of an allocation is in `zone/watermark`.
//!
//! linux: mm/page_alloc.c:setup_per_zone_wmarks, setup_per_zone_lowmem_reserve

use core::sync::atomic::Ordering::Relaxed;

use super::allocator::PageAllocator;
use super::zone::Zone;
use crate::base::{MigrateType, ZoneKind};
use crate::platform::Platform;
use crate::policy::PcpPolicy;
use crate::policy::pcp::{Limits, ZoneFacts};
use crate::policy::watermark::{self, Watermarks};

/// Rule for the amount of memory to keep free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinFree {
    /// Proportional to the square root of the memory in zones up to Normal, within fixed bounds.
    BySize,
    /// Like `BySize`, but raised so that huge pages stay available.
    ForHugePages,
    /// This many pages, regardless of the machine's size.
    Pages(u64),
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Computes everything that depends on the size of zones: watermarks, lowmem reserves, limits of per-CPU lists, and
    /// whether pages are grouped by type. Must be called after memory was released, adopted or taken offline. Resets
    /// boosts.
    pub fn set_up_watermarks(&self, min_free: MinFree) {
        let by_size = watermark::min_free_pages(self.lowmem(), self.page_size);
        match min_free {
            MinFree::Pages(pages) => self.setup_per_zone_wmarks(pages),
            MinFree::BySize => self.setup_per_zone_wmarks(by_size),
            MinFree::ForHugePages => {
                // The recommended amount depends on the watermarks that follow from the size alone.
                self.setup_per_zone_wmarks(by_size);
                let zones = self.zones.iter().filter(|zone| is_low(zone) && zone.is_populated()).count();
                let recommended = watermark::recommended_pages(zones as u64, self.pageblock_pages(), self.lowmem());
                if recommended > by_size {
                    self.setup_per_zone_wmarks(recommended);
                }
            }
        }
        self.set_up_lowmem_reserves();
        self.set_up_grouping();
    }

    /// Distributes the pages to keep free over the zones, in proportion to their sizes. linux: __setup_per_zone_wmarks
    fn setup_per_zone_wmarks(&self, min_pages: u64) {
        let scale = self.policy.numbers.watermark_scale_factor.unwrap_or(watermark::SCALE_FACTOR);
        let managed = self.zones.iter().filter(|zone| is_low(zone)).map(Zone::managed).sum();
        for zone in self.zones {
            let marks = Watermarks::compute(zone.kind(), zone.managed(), min_pages, managed, scale);
            self.set_watermarks(zone, marks);
        }
    }

    /// Sets the watermarks of a zone, for example to recorded ones, and the limits of its per-CPU lists that follow
    /// from them. Resets the zone's boost.
    ///
    /// # Panics
    /// If the zone belongs to another allocator.
    pub fn set_watermarks(&self, zone: &Zone<P::Lock>, marks: Watermarks) {
        let zone = self.own(zone);
        zone.set_watermarks(marks);
        let limits = match self.rules().pcp {
            PcpPolicy::Off => Limits::NONE,
            PcpPolicy::Linux | PcpPolicy::Merge | PcpPolicy::Owned | PcpPolicy::OwnedRemote => {
                let facts = ZoneFacts { managed: zone.managed(), low: marks.low, cpus: zone.cpus() };
                Limits::for_zone(facts, self.page_size, &self.policy.numbers)
            }
        };
        for cpu in 0..self.cpus() {
            self.pcp_at(crate::base::CpuId(cpu), zone).set_limits(limits, &self.policy.numbers, self.policy.pcp);
        }
    }

    /// Sets the lowmem reserve of a zone, for example to a recorded one, against requests whose highest zone is
    /// `highest`.
    ///
    /// # Panics
    /// If the zone belongs to another allocator.
    pub fn set_lowmem_reserve(&self, zone: &Zone<P::Lock>, highest: ZoneKind, pages: u64) {
        self.own(zone).set_lowmem_reserve(highest, pages);
    }

    /// Computes the pages that each zone keeps from requests that could use a higher zone.
    pub fn set_up_lowmem_reserves(&self) {
        for node in self.zones.chunks(ZoneKind::COUNT) {
            for (low, zone) in node.iter().enumerate() {
                let mut above = 0;
                for high in &node[low + 1..] {
                    above += high.managed();
                    let ratio = watermark::LOWMEM_RESERVE_RATIO[low];
                    zone.set_lowmem_reserve(high.kind(), watermark::lowmem_reserve(zone.managed(), above, ratio));
                }
            }
        }
    }

    /// Switches grouping by type off if the machine is small, and on otherwise. It is small if fewer pages are above
    /// the zones' high watermarks than one pageblock for each type has. linux: build_all_zonelists
    pub fn set_up_grouping(&self) {
        let pages: u64 = self.zones.iter().map(pages_above_high).sum();
        let off = pages < self.pageblock_pages() * MigrateType::COUNT as u64;
        self.grouping_off.store(off, Relaxed);
    }

    /// Returns the number of managed pages above the high watermark in zones up to Normal. linux: nr_free_buffer_pages
    fn lowmem(&self) -> u64 {
        self.zones.iter().filter(|zone| is_low(zone)).map(pages_above_high).sum()
    }
}

fn is_low<L>(zone: &Zone<L>) -> bool {
    zone.kind() <= ZoneKind::Normal
}

/// Returns the number of managed pages of a zone above its high watermark.
fn pages_above_high<L>(zone: &Zone<L>) -> u64 {
    zone.managed().saturating_sub(zone.watermarks().high)
}
