//! Watermarks, lowmem reserves and limits of per-CPU lists, computed when a zone's size changes. The check before a
//! zone is asked for a block is in `zone/watermark`.
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

/// How the amount of memory to keep free is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinFree {
    /// By the square root of the machine's size.
    BySize,
    /// As by size, raised so that huge pages stay available.
    ForHugePages,
    /// This many pages, whatever the machine's size.
    Pages(u64),
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Computes all that depends on the size of zones: watermarks, lowmem reserves, limits of the per-CPU lists, and
    /// whether types are kept apart. Call it after memory came online. Resets boosts.
    pub fn set_up_watermarks(&self, min_free: MinFree) {
        let by_size = watermark::min_free_pages(self.lowmem(), self.page_size);
        match min_free {
            MinFree::Pages(pages) => self.setup_per_zone_wmarks(pages),
            MinFree::BySize => self.setup_per_zone_wmarks(by_size),
            MinFree::ForHugePages => {
                // What is recommended depends on the marks that the size alone would give.
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

    /// Divides the pages to keep free between the zones, by their size. linux: __setup_per_zone_wmarks
    fn setup_per_zone_wmarks(&self, min_pages: u64) {
        let scale = self.policy.numbers.watermark_scale_factor.unwrap_or(watermark::SCALE_FACTOR);
        let managed = self.zones.iter().filter(|zone| is_low(zone)).map(Zone::managed).sum();
        for zone in self.zones {
            let marks = Watermarks::compute(zone.kind(), zone.managed(), min_pages, managed, scale);
            self.set_watermarks(zone, marks);
        }
    }

    /// Gives a zone the watermarks of a recorded one, and its per-CPU lists the limits that follow.
    ///
    /// # Panics
    /// If the zone is another allocator's.
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

    /// Gives a zone the lowmem reserve of a recorded one, against requests whose highest zone is `highest`.
    ///
    /// # Panics
    /// If the zone is another allocator's.
    pub fn set_lowmem_reserve(&self, zone: &Zone<P::Lock>, highest: ZoneKind, pages: u64) {
        self.own(zone).set_lowmem_reserve(highest, pages);
    }

    /// Keeps pages of each zone from requests that could use a higher one.
    pub fn set_up_lowmem_reserves(&self) {
        for node in self.zones.chunks(ZoneKind::COUNT) {
            for (low, zone) in node.iter().enumerate() {
                let mut above = 0;
                for high in &node[low + 1..] {
                    above += high.managed();
                    let ratio = watermark::LOWMEM_RESERVE_RATIO[low];
                    let clear = ratio == 0 || zone.managed() == 0;
                    zone.set_lowmem_reserve(high.kind(), if clear { 0 } else { above / ratio });
                }
            }
        }
    }

    /// Small machines do not keep types apart. linux: build_all_zonelists
    pub fn set_up_grouping(&self) {
        let pages: u64 = self.zones.iter().map(pages_above_high).sum();
        let off = pages < self.pageblock_pages() * MigrateType::COUNT as u64;
        self.grouping_off.store(off, Relaxed);
    }

    /// Managed pages above the high watermark in zones up to Normal. linux: nr_free_buffer_pages
    fn lowmem(&self) -> u64 {
        self.zones.iter().filter(|zone| is_low(zone)).map(pages_above_high).sum()
    }
}

fn is_low<L>(zone: &Zone<L>) -> bool {
    zone.kind() <= ZoneKind::Normal
}

/// Managed pages of a zone beyond its high watermark.
fn pages_above_high<L>(zone: &Zone<L>) -> u64 {
    zone.managed().saturating_sub(zone.watermarks().high)
}
