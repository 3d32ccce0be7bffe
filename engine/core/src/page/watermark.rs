//! Watermarks in use: the check before a zone is asked for a block, and the computation when its size changes.
//!
//! linux: mm/page_alloc.c:zone_watermark_fast, __zone_watermark_ok, setup_per_zone_wmarks

use core::sync::atomic::Ordering::Relaxed;

use super::PageAllocator;
use super::zone::{PAGES_MAX, Zone, ZoneFlag, bit};
use crate::base::{MigrateType, Order, RawLock, ZoneKind};
use crate::platform::{Platform, Request};
use crate::policy::PcpPolicy;
use crate::policy::flags::AllocFlags;
use crate::policy::pcp::{Limits, ZoneFacts};
use crate::policy::watermark::{self, Level, Watermarks};

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

impl<L: RawLock> Zone<L> {
    #[inline]
    fn level(&self, highest: ZoneKind) -> Level {
        Level {
            free: self.stock.free.load(Relaxed),
            free_highatomic: if self.counts_reserve() { 0 } else { self.stock.free_highatomic.load(Relaxed) },
            free_cma: self.stock.free_cma.load(Relaxed),
            lowmem_reserve: self.lowmem_reserve(highest),
        }
    }

    /// Whether a request may take a block of `order` and leave `mark` pages: enough pages, and above order 0 also a
    /// block of a type it may use.
    #[inline]
    pub fn watermark_ok(&self, order: Order, mark: u64, highest: ZoneKind, flags: AllocFlags) -> bool {
        self.level(highest).is_above(mark.min(PAGES_MAX), flags, order.pages())
            && (order == Order::ZERO || self.has_block(order, flags))
    }

    /// The same, with a short cut for single pages, and a second chance at the unboosted mark for requests that may dip
    /// into the reserve.
    #[inline]
    pub(super) fn watermark_fast(&self, order: Order, mark: u64, highest: ZoneKind, flags: AllocFlags) -> bool {
        if order == Order::ZERO {
            let level = self.level(highest);
            let usable = level.free - level.free.min(level.unusable(flags, 1));
            if usable > (mark + level.lowmem_reserve) as i64 {
                return true;
            }
        }
        self.watermark_ok(order, mark, highest, flags) || self.unboosted_ok(order, highest, flags)
    }

    fn unboosted_ok(&self, order: Order, highest: ZoneKind, flags: AllocFlags) -> bool {
        order == Order::ZERO
            && flags.contains(AllocFlags::MIN_RESERVE)
            && flags.is_at_min()
            && self.watermark_ok(order, self.watermarks().min, highest, flags)
    }

    /// Whether single pages would be above a mark if so many more pages were free.
    pub(super) fn would_pass(&self, mark: u64, highest: ZoneKind, flags: AllocFlags, more: u64) -> bool {
        let mut level = self.level(highest);
        level.free += more.min(PAGES_MAX) as i64;
        level.is_above(mark, flags, Order::ZERO.pages())
    }

    /// Whether a request would pass the min mark if so many more pages were free.
    pub(super) fn would_pass_min(&self, more: u64, request: &Request, flags: AllocFlags) -> bool {
        let mut level = self.level(request.highest);
        level.free += more.min(PAGES_MAX) as i64;
        let mark = self.watermarks().min + self.boost();
        let enough = level.is_above(mark, flags, request.order.pages());
        enough && (request.order == Order::ZERO || self.has_block(request.order, flags))
    }

    /// Whether some list holds a block that the request may use. Looks without the lock, as a hint.
    #[inline]
    pub(super) fn has_block(&self, order: Order, flags: AllocFlags) -> bool {
        let mut types = bit(MigrateType::Unmovable) | bit(MigrateType::Movable) | bit(MigrateType::Reclaimable);
        if flags.contains(AllocFlags::CMA) {
            types |= bit(MigrateType::Cma);
        }
        if flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::OOM) || self.opens_reserve(order, flags) {
            types |= bit(MigrateType::HighAtomic);
        }
        self.has_block_of(order, types)
    }

    /// The mark that the flags name, with the boost of the moment.
    #[inline]
    pub(super) fn mark(&self, flags: AllocFlags) -> u64 {
        self.watermark_of(flags) + self.boost()
    }

    /// Once enough is free again, per-CPU lists may grow; whether that is so just now.
    pub(super) fn clear_below_high_if_met(&self) -> bool {
        if !self.has(ZoneFlag::BelowHigh) {
            return false;
        }
        let mark = self.mark(AllocFlags::WMARK_HIGH);
        let is_met = self.watermark_ok(Order::ZERO, mark, ZoneKind::Movable, AllocFlags::empty());
        is_met && self.clear(ZoneFlag::BelowHigh)
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Computes all that depends on the size of zones: watermarks, lowmem reserves, limits of the per-CPU lists, and
    /// whether types are kept apart. Call it after memory came online. Resets boosts.
    pub fn set_up_watermarks(&self, min_free: MinFree) {
        let by_size = watermark::min_free_pages(self.lowmem(), self.page_size);
        match min_free {
            MinFree::Pages(pages) => self.keep_free(pages),
            MinFree::BySize => self.keep_free(by_size),
            MinFree::ForHugePages => {
                // What is recommended depends on the marks that the size alone would give.
                self.keep_free(by_size);
                let zones = self.zones.iter().filter(|zone| is_low(zone) && zone.is_populated()).count();
                let recommended = watermark::recommended_pages(zones as u64, self.pageblock_pages(), self.lowmem());
                if recommended > by_size {
                    self.keep_free(recommended);
                }
            }
        }
        self.set_up_lowmem_reserves();
        self.set_up_grouping();
    }

    /// Divides the pages to keep free between the zones, by their size. linux: __setup_per_zone_wmarks
    fn keep_free(&self, min_pages: u64) {
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
                Limits::of(facts, self.page_size, &self.policy.numbers)
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
        let above_high = |zone: &Zone<P::Lock>| zone.managed().saturating_sub(zone.watermarks().high);
        let pages: u64 = self.zones.iter().map(above_high).sum();
        let off = pages < self.pageblock_pages() * MigrateType::COUNT as u64;
        self.grouping_off.store(off, Relaxed);
    }

    /// Managed pages above the high watermark in zones up to Normal. linux: nr_free_buffer_pages
    fn lowmem(&self) -> u64 {
        let above = |zone: &Zone<P::Lock>| zone.managed().saturating_sub(zone.watermarks().high);
        self.zones.iter().filter(|zone| is_low(zone)).map(above).sum()
    }
}

fn is_low<L>(zone: &Zone<L>) -> bool {
    zone.kind() <= ZoneKind::Normal
}
