//! Estimate of the number of holds of the zone lock.
//!
//! Linux has events for blocks that leave or enter a zone, but not for the lock around them. Blocks that are moved
//! under one hold are close together in time, so they are clustered. **The rule:** two consecutive events of one CPU
//! belong to one hold if they are of one kind (blocks leaving, blocks entering), of one zone and one task, of one order
//! if blocks leave, at most [`GAP_NS`] apart, and if there is no allocation or free event of that CPU between them. A
//! block of an order without per-CPU list is a hold of its own. So is each free of such an order, which has no zone
//! event at all.
//!
//! The estimate is too low if two holds follow each other within the gap, and too high if an interrupt interrupts a
//! hold for longer than the gap. Holds that move no block are not counted.

use freehold_trace::{Kind, Row};
use serde::Serialize;

use super::pairing::fits_per_cpu_list;

/// Longest pause between two blocks that are moved under one hold, in nanoseconds. Moving a block costs well below a
/// microsecond even while it is traced, and a new hold needs a new request, so pauses between one and four microseconds
/// are rare on a real machine. Under emulation such pauses are common, and the estimate is too high.
pub(crate) const GAP_NS: u64 = 4_000;

/// Purpose of a hold of the zone lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Refill,
    Drain,
    DirectAllocation,
    DirectFree,
}

const PURPOSES: [(Purpose, &str); 4] = [
    (Purpose::Refill, "refill_of_a_per_cpu_list"),
    (Purpose::Drain, "drain_of_a_per_cpu_list"),
    (Purpose::DirectAllocation, "allocation_past_the_lists"),
    (Purpose::DirectFree, "free_past_the_lists"),
];

/// Estimated holds for one purpose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SectionRow {
    /// Purpose of the holds.
    pub purpose: &'static str,
    /// Estimated number of holds.
    pub sections: u64,
    /// Blocks moved under these holds.
    pub blocks: u64,
    /// Pages moved under these holds.
    pub pages: u64,
    /// Average number of pages moved under one hold.
    pub pages_per_section: Option<f64>,
}

/// Estimate of the holds of the zone lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SectionReport {
    /// Longest pause within one hold, in nanoseconds.
    pub gap_ns: u64,
    /// Holds for all purposes.
    pub sections: u64,
    /// Holds for each 1000 allocations and frees.
    pub sections_per_1000_operations: Option<f64>,
    /// Holds by purpose.
    pub by_purpose: Vec<SectionRow>,
}

/// Hold to which the latest zone event of a CPU belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    purpose: Purpose,
    zone: usize,
    task: u32,
    order: u8,
    last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sections: u64,
    blocks: u64,
    pages: u64,
}

/// Collector that clusters zone events into holds of the zone lock.
#[derive(Debug)]
pub(crate) struct Sections {
    zones: Vec<(u64, u64)>,
    open: Vec<Option<Hold>>,
    tallies: [Tally; PURPOSES.len()],
    operations: u64,
}

impl Sections {
    /// Creates a collector for zones given as ranges of frames `[start, end)`.
    pub(crate) fn new(zones: Vec<(u64, u64)>) -> Sections {
        Sections { zones, open: Vec::new(), tallies: Default::default(), operations: 0 }
    }

    /// Adds an allocation or a free, which ends the current hold of its CPU.
    #[inline]
    pub(crate) fn operation(&mut self, row: &Row) {
        self.operations += 1;
        *self.open_on(row.cpu) = None;
        if row.kind == Kind::Free && !fits_per_cpu_list(row.order) {
            self.add(Purpose::DirectFree, row.order, Membership::Opens);
        }
    }

    /// Adds a block that left or entered a zone.
    pub(crate) fn moved(&mut self, row: &Row) {
        let purpose = match row.kind {
            Kind::PcpuDrain => Purpose::Drain,
            _ if row.args[0] == 0 => Purpose::DirectAllocation,
            _ => Purpose::Refill,
        };
        let zone = self.zone_of(row.pfn);
        let hold = Hold { purpose, zone, task: row.task, order: row.order, last: row.time };
        let open = self.open_on(row.cpu).replace(hold);
        let membership = match open {
            Some(before) if before.covers(&hold) => Membership::Joins,
            _ => Membership::Opens,
        };
        self.add(purpose, row.order, membership);
    }

    /// Returns the estimate, after all events were added.
    pub(crate) fn report(&self) -> SectionReport {
        let by_purpose: Vec<_> = PURPOSES.iter().zip(&self.tallies).map(|((_, name), tally)| tally.row(name)).collect();
        let sections = by_purpose.iter().map(|row| row.sections).sum();
        SectionReport {
            gap_ns: GAP_NS,
            sections,
            sections_per_1000_operations: (self.operations > 0)
                .then(|| sections as f64 * 1000.0 / self.operations as f64),
            by_purpose,
        }
    }

    fn add(&mut self, purpose: Purpose, order: u8, membership: Membership) {
        let tally = &mut self.tallies[purpose as usize];
        tally.sections += u64::from(membership == Membership::Opens);
        tally.blocks += 1;
        tally.pages = tally.pages.saturating_add(1u64 << order.min(63));
    }

    #[inline]
    fn open_on(&mut self, cpu: u16) -> &mut Option<Hold> {
        let index = usize::from(cpu);
        if index >= self.open.len() {
            self.open.resize(index + 1, None);
        }
        &mut self.open[index]
    }

    fn zone_of(&self, pfn: u64) -> usize {
        self.zones.iter().position(|&(start, end)| start <= pfn && pfn < end).unwrap_or(usize::MAX)
    }
}

/// Relation of a block to the current hold: it starts a new hold, or belongs to the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    Opens,
    Joins,
}

impl Hold {
    /// Returns whether `next`, the following zone event of this CPU, was under this hold.
    fn covers(&self, next: &Hold) -> bool {
        let alike = self.purpose == next.purpose && self.zone == next.zone && self.task == next.task;
        let order_fits = self.purpose == Purpose::Drain || self.order == next.order;
        let near = next.last.saturating_sub(self.last) <= GAP_NS;
        alike && order_fits && near && self.purpose != Purpose::DirectAllocation
    }
}

impl Tally {
    fn row(&self, purpose: &'static str) -> SectionRow {
        SectionRow {
            purpose,
            sections: self.sections,
            blocks: self.blocks,
            pages: self.pages,
            pages_per_section: (self.sections > 0).then(|| self.pages as f64 / self.sections as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(kind: Kind, time: u64, pfn: u64) -> Row {
        Row { time, pfn, args: [1, 0, 0], ..Row::new(kind) }
    }

    fn sections(rows: &[Row]) -> Vec<(u64, u64)> {
        let mut sections = Sections::new(vec![(0, 1000), (1000, 2000)]);
        for row in rows {
            match row.kind {
                Kind::Alloc | Kind::Free => sections.operation(row),
                _ => sections.moved(row),
            }
        }
        sections.report().by_purpose.iter().map(|row| (row.sections, row.blocks)).collect()
    }

    #[test]
    fn nearby_events_share_a_lock_hold() {
        let near = moved(Kind::ZoneLocked, GAP_NS, 2);
        let far = moved(Kind::ZoneLocked, 2 * GAP_NS + 1, 3);
        assert_eq!(sections(&[moved(Kind::ZoneLocked, 0, 1), near, far])[0], (2, 3));
    }

    #[test]
    fn allocation_or_change_of_zone_task_or_order_ends_a_hold() {
        let first = moved(Kind::ZoneLocked, 0, 1);
        let second = moved(Kind::ZoneLocked, 1, 2);
        let alloc = Row { time: 1, ..Row::new(Kind::Alloc) };
        assert_eq!(sections(&[first, second])[0], (1, 2));
        assert_eq!(sections(&[first, alloc, second])[0], (2, 2));
        assert_eq!(sections(&[first, Row { pfn: 1500, ..second }])[0], (2, 2));
        assert_eq!(sections(&[first, Row { task: 3, ..second }])[0], (2, 2));
        assert_eq!(sections(&[first, Row { order: 1, ..second }])[0], (2, 2));
        assert_eq!(sections(&[first, Row { cpu: 1, ..second }])[0], (2, 2));
    }

    #[test]
    fn drain_may_mix_orders_in_a_hold() {
        let first = moved(Kind::PcpuDrain, 0, 1);
        let second = Row { order: 2, ..moved(Kind::PcpuDrain, 1, 4) };
        assert_eq!(sections(&[first, second])[1], (1, 2));
    }

    #[test]
    fn orders_without_lists_are_separate_holds() {
        let alloc = Row { order: 5, args: [0; 3], ..moved(Kind::ZoneLocked, 0, 32) };
        let free = Row { order: 5, pfn: 32, ..Row::new(Kind::Free) };
        assert_eq!(sections(&[alloc, alloc, free])[2..], [(2, 2), (1, 1)]);
    }
}
