//! A zone's state written on purpose (feature `damage`).

use core::sync::atomic::Ordering::Relaxed;

use super::Zone;
use crate::base::Order;

/// What a zone counts, and may be made to count wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCounter {
    /// Pages of the zone that are online.
    Present,
    /// Pages released or adopted into use.
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
    /// Writes a counter of the zone, in pages.
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

    /// Writes of which types blocks of an order are said to be there: a bit for each.
    pub(in crate::page) fn plant_occupied(&self, order: Order, types: u8) {
        self.stock.occupied[order.index()].store(types, Relaxed);
    }
}
