//! The watermark check: decides from a zone's counters and lists, without its lock, whether the zone can spare a block.
//!
//! linux: mm/page_alloc.c:zone_watermark_fast, __zone_watermark_ok

use core::sync::atomic::Ordering::Relaxed;

use super::{PAGES_MAX, Zone, ZoneFlag, bit};
use crate::base::{MigrateType, Order, RawLock, ZoneKind};
use crate::platform::Request;
use crate::policy::flags::AllocFlags;
use crate::policy::watermark::Level;

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

    /// Returns whether a request may take a block of `order` and leave at least `mark` usable pages in addition to the
    /// lowmem reserve. `mark` is lowered if the flags open a part of the reserves. Above order 0 there must also be a
    /// block of a type that the request may use.
    #[inline(never)]
    pub fn watermark_ok(&self, order: Order, mark: u64, highest: ZoneKind, flags: AllocFlags) -> bool {
        self.level(highest).is_above(mark.min(PAGES_MAX), flags, order.pages())
            && (order == Order::ZERO || self.has_block(order, flags))
    }

    /// Checks a watermark like [`watermark_ok`](Self::watermark_ok), with a short cut for single pages. Requests for
    /// single pages at the min watermark that may use the min reserve are checked again without the boost.
    /// linux: mm/page_alloc.c:zone_watermark_fast
    #[inline]
    pub(in crate::page) fn watermark_fast(
        &self,
        order: Order,
        mark: u64,
        highest: ZoneKind,
        flags: AllocFlags,
    ) -> bool {
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

    /// Returns whether requests of order 0 would be above a mark if `more` pages more were free.
    pub(in crate::page) fn would_pass(&self, mark: u64, highest: ZoneKind, flags: AllocFlags, more: u64) -> bool {
        let mut level = self.level(highest);
        level.free += more.min(PAGES_MAX) as i64;
        level.is_above(mark, flags, Order::ZERO.pages())
    }

    /// Returns whether a request would be above the min watermark, boost included, if `more` pages more were free.
    /// Above order 0 there must also be a block that the request may use already.
    pub(in crate::page) fn would_pass_min(&self, more: u64, request: &Request, flags: AllocFlags) -> bool {
        let mut level = self.level(request.highest);
        level.free += more.min(PAGES_MAX) as i64;
        let mark = self.watermarks().min + self.boost();
        let enough = level.is_above(mark, flags, request.order.pages());
        enough && (request.order == Order::ZERO || self.has_block(request.order, flags))
    }

    /// Returns whether a free list has a block of this order or a larger one that a request with these flags may use.
    /// The answer is a hint, read without the lock.
    #[inline]
    pub(in crate::page) fn has_block(&self, order: Order, flags: AllocFlags) -> bool {
        let mut types = bit(MigrateType::Unmovable) | bit(MigrateType::Movable) | bit(MigrateType::Reclaimable);
        if flags.contains(AllocFlags::CMA) {
            types |= bit(MigrateType::Cma);
        }
        if flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::OOM) || self.opens_reserve(order, flags) {
            types |= bit(MigrateType::HighAtomic);
        }
        self.has_block_of(order, types)
    }

    /// Returns the watermark that the flags select, with the current boost.
    #[inline]
    pub(in crate::page) fn mark(&self, flags: AllocFlags) -> u64 {
        self.watermark_of(flags) + self.boost()
    }

    /// Clears [`ZoneFlag::BelowHigh`] if the zone is above its high watermark, boost included, so that per-CPU lists
    /// may grow. Returns whether the flag was cleared by this call.
    pub(in crate::page) fn clear_below_high_if_met(&self) -> bool {
        if !self.has(ZoneFlag::BelowHigh) {
            return false;
        }
        let mark = self.mark(AllocFlags::WMARK_HIGH);
        let is_met = self.watermark_ok(Order::ZERO, mark, ZoneKind::Movable, AllocFlags::empty());
        is_met && self.clear(ZoneFlag::BelowHigh)
    }
}
