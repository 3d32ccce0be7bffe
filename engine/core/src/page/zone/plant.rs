//! Deliberate damage to a zone's state (feature `damage`).

use core::sync::atomic::Ordering::Relaxed;

use super::Zone;
use crate::base::Order;

/// Counters of a zone that can be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCounter {
    /// Pages of the zone that are online.
    Present,
    /// Pages that were released or adopted.
    Managed,
    /// Pages of the zone that are in CMA areas.
    Cma,
    /// Pages of the high-atomic reserve.
    Reserved,
    /// Free pages of all types.
    Free,
    /// Free pages of CMA areas.
    FreeCma,
    /// Free pages of the high-atomic reserve.
    FreeReserved,
}

impl<L> Zone<L> {
    /// Stores a counter of the zone, in pages.
    pub(in crate::page) fn plant_counter(&self, counter: ZoneCounter, pages: i64) {
        match counter {
            ZoneCounter::Present => self.present.store(pages as u64, Relaxed),
            ZoneCounter::Managed => self.managed.store(pages as u64, Relaxed),
            ZoneCounter::Cma => self.cma.store(pages as u64, Relaxed),
            ZoneCounter::Reserved => self.stock.reserved_highatomic.store(pages as u64, Relaxed),
            ZoneCounter::Free => self.stock.free.store(pages, Relaxed),
            ZoneCounter::FreeCma => self.stock.free_cma.store(pages, Relaxed),
            ZoneCounter::FreeReserved => self.stock.free_highatomic.store(pages, Relaxed),
        }
    }

    /// Stores the hint about the types with free blocks of an order, one bit per type.
    pub(in crate::page) fn plant_occupied(&self, order: Order, types: u8) {
        self.stock.occupied[order.index()].store(types, Relaxed);
    }
}
