//! Damage to a zone: its free lists, its counters, and the hints that are read without a lock.

use core::ops::Range;

use super::{Damage, ZoneCounter};
use crate::base::{MigrateType, Order, Pfn};
use crate::page::zone::Zone;
use crate::platform::Platform;
use crate::policy::watermark::Watermarks;

impl<P: Platform> Damage<'_, '_, P> {
    /// Stores the ends of a free list.
    pub fn set_free_list(
        &self,
        zone: &Zone<P::Lock>,
        list: (Order, MigrateType),
        first: Option<Pfn>,
        last: Option<Pfn>,
    ) {
        zone.areas.lock().plant(list.0, list.1).0.plant_ends(first, last);
    }

    /// Stores the number of blocks that is counted for a free list.
    pub fn set_blocks(&self, zone: &Zone<P::Lock>, list: (Order, MigrateType), blocks: u32) {
        *zone.areas.lock().plant(list.0, list.1).1 = blocks;
    }

    /// Stores the hint about the types with free blocks of an order, one bit per type.
    pub fn set_occupied(&self, zone: &Zone<P::Lock>, order: Order, types: u8) {
        zone.plant_occupied(order, types);
    }

    /// Stores one of a zone's counters, in pages.
    pub fn set_counter(&self, zone: &Zone<P::Lock>, counter: ZoneCounter, pages: i64) {
        zone.plant_counter(counter, pages);
    }

    /// Stores a zone's span; `None` means that it has no frames.
    pub fn set_span(&self, zone: &Zone<P::Lock>, span: Option<Range<Pfn>>) {
        zone.set_span(span);
    }

    /// Stores the watermarks, without the values that depend on them.
    pub fn set_marks(&self, zone: &Zone<P::Lock>, marks: Watermarks) {
        zone.set_watermarks(marks);
    }
}
