//! Rules for the rows of a recording, shared by the writer and the reader.
//!
//! The writer checks rows before it stores them, so that it never writes a file that the reader refuses. The reader
//! checks them again, since it trusts no file. A [`Checker`] sees the rows in file order. It keeps the current section
//! and time, and counts the rows. Cost: constant time per row.

use std::collections::BTreeMap;

use crate::batch::{Batch, Misfit};
use crate::bounds::Bounds;
use crate::error::Fault;
use crate::event::{Kind, NO_PFN, Row, Section, migratetype};

/// Highest order in a row of allocated memory. A large page of hugetlbfs consists of several blocks.
pub const ORDER_MAX: u8 = 63;

/// Upper limit of frame numbers: 2^52 frames of 4 KiB fill a 64-bit address space.
pub const PFN_LIMIT: u64 = 1 << 52;

/// Largest migratetype.
const MIGRATETYPE_MAX: i8 = migratetype::ISOLATE;

/// Checker of rows in file order.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    bounds: Bounds,
    section: Section,
    time: u64,
    counts: [u64; 128],
    /// Highest CPU number of the rows that were checked one by one.
    pub cpu_max: u16,
    /// Highest task index of the rows that were checked one by one.
    pub task_max: u32,
}

impl Checker {
    /// Creates a checker before the first row.
    pub(crate) fn new(bounds: Bounds) -> Checker {
        Checker { bounds, section: Section::Start, time: 0, counts: [0; 128], cpu_max: 0, task_max: 0 }
    }

    /// Returns the bounds of the rows.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Checks the next rows. Whole columns are checked first. The rows are checked one by one only if this check fails.
    ///
    /// # Errors
    /// Returns the index of the first wrong row, and its fault.
    pub(crate) fn admit_all(&mut self, batch: &Batch) -> Result<(), Misfit> {
        if self.are_plain_events(batch) {
            self.section = Section::Events;
            self.time = batch.time()[batch.len() - 1];
            batch.kind().iter().for_each(|&kind| self.counts[kind as usize] += 1);
            return Ok(());
        }
        for (index, row) in batch.rows().enumerate() {
            self.admit(&row).map_err(|fault| Misfit { index, fault })?;
        }
        Ok(())
    }

    /// Returns whether all rows are events that break no rule, as far as whole columns show. The check is conservative:
    /// no row that breaks a rule passes.
    fn are_plain_events(&self, batch: &Batch) -> bool {
        let time = batch.time();
        let (Some(&first), Some(&last)) = (time.first(), time.last()) else { return false };
        let in_order = first >= self.time && last <= self.bounds.end && time.windows(2).all(|pair| pair[0] <= pair[1]);
        self.section <= Section::Events
            && in_order
            && batch.order().iter().copied().max().unwrap_or(0) <= self.bounds.order_max
            && batch.cpu().iter().all(|&cpu| u32::from(cpu) < self.bounds.cpus)
            && batch.task().iter().all(|&task| task < self.bounds.tasks)
            && batch.migratetype().iter().all(|own| (-1..=MIGRATETYPE_MAX).contains(own))
            && batch.kind().iter().all(|kind| is_simple_event(*kind))
            && self.names_memory_only(batch)
    }

    fn names_memory_only(&self, batch: &Batch) -> bool {
        // Mostly, all frames of a batch are in one range of memory. `NO_PFN` is the highest number, so it does not
        // affect the minimum.
        let first = batch.pfn().iter().fold(u64::MAX, |first, &pfn| first.min(pfn));
        let last = batch.pfn().iter().fold(0, |last, &pfn| last.max(if pfn == NO_PFN { 0 } else { pfn }));
        if last < PFN_LIMIT && self.bounds.has_memory(first, (last - first.min(last)) + (1 << self.bounds.order_max)) {
            return true;
        }
        batch.pfn().iter().zip(batch.order()).all(|(&pfn, &order)| {
            pfn == NO_PFN || pfn < PFN_LIMIT && self.bounds.has_memory(pfn, 1 << order.min(ORDER_MAX))
        })
    }

    /// Checks the next row.
    ///
    /// # Errors
    /// Returns the fault of the row.
    #[inline]
    pub(crate) fn admit(&mut self, row: &Row) -> Result<(), Fault> {
        self.check_sequence(row)?;
        check_values(row, self.bounds.order_max)?;
        self.check_bounds(row)?;
        self.counts[row.kind as usize] += 1;
        Ok(())
    }

    #[inline]
    fn check_sequence(&mut self, row: &Row) -> Result<(), Fault> {
        let section = row.kind.section();
        if section < self.section {
            return Err(Fault::OutOfSection);
        }
        self.section = section;
        if section == Section::Events {
            if row.time < self.time {
                return Err(Fault::OutOfOrder { time: row.time, previous: self.time });
            }
            if row.time > self.bounds.end && i64::try_from(row.time).is_ok() {
                return Err(Fault::AfterEnd { time: row.time, end: self.bounds.end });
            }
            self.time = row.time;
        }
        Ok(())
    }

    #[inline]
    fn check_bounds(&mut self, row: &Row) -> Result<(), Fault> {
        if u32::from(row.cpu) >= self.bounds.cpus {
            return Err(below("cpu", row.cpu.into(), self.bounds.cpus.into()));
        }
        if row.task >= self.bounds.tasks {
            return Err(below("task", row.task.into(), self.bounds.tasks.into()));
        }
        self.cpu_max = self.cpu_max.max(row.cpu);
        self.task_max = self.task_max.max(row.task);
        if row.kind.names_task() {
            self.check_other_task(row.args[0])?;
        }
        match self.bounds.frames(row) {
            Some((pfn, pages)) if !self.bounds.has_memory(pfn, pages) => Err(Fault::NoMemory { pfn, pages }),
            _ => Ok(()),
        }
    }

    /// Checks the task that an event names besides its own.
    fn check_other_task(&mut self, task: i64) -> Result<(), Fault> {
        match u32::try_from(task) {
            Ok(index) if index < self.bounds.tasks => {
                self.task_max = self.task_max.max(index);
                Ok(())
            }
            _ => Err(out_of("arg0", task, 0, i64::from(self.bounds.tasks) - 1)),
        }
    }

    /// Returns the number of rows by the code of their kind, without kinds that have no rows.
    pub(crate) fn counts(&self) -> BTreeMap<u8, u64> {
        Kind::ALL
            .into_iter()
            .map(|kind| (kind as u8, self.counts[kind as usize]))
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}

/// Returns whether events of this kind name no other block and no task besides their own.
fn is_simple_event(kind: Kind) -> bool {
    kind.section() == Section::Events && kind != Kind::ExtFrag && !kind.names_task()
}

/// Checks the values of a row that do not depend on other rows or on the bounds of frames.
#[inline]
fn check_values(row: &Row, order_max: u8) -> Result<(), Fault> {
    if i64::try_from(row.time).is_err() {
        return Err(at_least("time", row.time as i64, 0));
    }
    // A large block in the page flags may consist of several blocks of the allocator.
    let order_max = if matches!(row.kind, Kind::StartAllocated | Kind::EndAllocated) { ORDER_MAX } else { order_max };
    if row.order > order_max {
        return Err(out_of("order", row.order.into(), 0, order_max.into()));
    }
    // The end of a compaction has its result in this column.
    let type_max = if row.kind == Kind::CompactionEnd { i8::MAX } else { MIGRATETYPE_MAX };
    if !(-1..=type_max).contains(&row.migratetype) {
        return Err(out_of("migratetype", row.migratetype.into(), -1, type_max.into()));
    }
    if row.kind == Kind::ExtFrag {
        check_fallback(row, order_max)?;
    }
    if matches!(row.kind, Kind::StartFree | Kind::EndFree) && row.pfn & ((1 << row.order) - 1) != 0 && row.pfn != NO_PFN
    {
        return Err(Fault::Unaligned { pfn: row.pfn, order: row.order });
    }
    if row.pfn != NO_PFN {
        return check_block(row);
    }
    match row.kind.section() {
        Section::Events => Ok(()),
        Section::Start | Section::End => Err(at_least("pfn", -1, 0)),
    }
}

/// Checks the other block of a fallback.
fn check_fallback(row: &Row, order_max: u8) -> Result<(), Fault> {
    let [order, migratetype, _] = row.args;
    if !(0..=order_max.into()).contains(&order) {
        return Err(out_of("arg0", order, 0, order_max.into()));
    }
    if !(0..=MIGRATETYPE_MAX.into()).contains(&migratetype) {
        return Err(out_of("arg1", migratetype, 0, MIGRATETYPE_MAX.into()));
    }
    Ok(())
}

/// Checks that the block, or the run of blocks, ends below [`PFN_LIMIT`], and that a run is not empty.
#[inline]
fn check_block(row: &Row) -> Result<(), Fault> {
    if row.pfn >= PFN_LIMIT {
        let bounds = "-1, or a frame below 2^52".to_owned();
        return Err(Fault::OutOfRange { column: "pfn", value: row.pfn as i64, bounds });
    }
    let pages_left = PFN_LIMIT - row.pfn;
    let (run, run_max) = match row.kind {
        Kind::StartAllocated | Kind::EndAllocated => (row.args[0], pages_left >> row.order),
        Kind::StartUnknown | Kind::EndUnknown => (row.args[0], pages_left),
        Kind::StartPageblock => (row.args[1], pages_left),
        _ => return Ok(()),
    };
    if run < 1 || run as u64 > run_max {
        return Err(Fault::OutOfRange {
            column: if row.kind == Kind::StartPageblock { "arg1" } else { "arg0" },
            value: run,
            bounds: format!("from 1 to {run_max}"),
        });
    }
    Ok(())
}

#[cold]
fn below(column: &'static str, value: i64, limit: i64) -> Fault {
    Fault::OutOfRange { column, value, bounds: format!("below {limit}") }
}

#[cold]
fn out_of(column: &'static str, value: i64, least: i64, most: i64) -> Fault {
    Fault::OutOfRange { column, value, bounds: format!("from {least} to {most}") }
}

#[cold]
fn at_least(column: &'static str, value: i64, least: i64) -> Fault {
    Fault::OutOfRange { column, value, bounds: format!("at least {least}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker() -> Checker {
        Checker::new(Bounds { cpus: 2, tasks: 2, ..Bounds::none() })
    }

    fn fault_of(rows: &[Row]) -> Option<Fault> {
        let mut checker = checker();
        rows.iter().find_map(|row| checker.admit(row).err())
    }

    fn row(kind: Kind, time: u64) -> Row {
        Row { time, ..Row::new(kind) }
    }

    fn state(kind: Kind, time: u64) -> Row {
        Row { pfn: 0, ..row(kind, time) }
    }

    #[test]
    fn sections_and_times_must_ascend() {
        let good = [state(Kind::StartFree, 9), row(Kind::Alloc, 3), row(Kind::Free, 3), state(Kind::EndFree, 1)];
        assert_eq!(fault_of(&good), None);
        assert_eq!(fault_of(&[good[1], good[0]]), Some(Fault::OutOfSection));
        assert_eq!(fault_of(&[good[3], good[1]]), Some(Fault::OutOfSection));
        let back = [row(Kind::Alloc, 3), row(Kind::Free, 2)];
        assert_eq!(fault_of(&back), Some(Fault::OutOfOrder { time: 2, previous: 3 }));
    }

    #[test]
    fn out_of_range_columns_are_faults() {
        let base = Row::new(Kind::Alloc);
        let bad = [
            ("time", Row { time: u64::MAX, ..base }),
            ("cpu", Row { cpu: 2, ..base }),
            ("task", Row { task: 2, ..base }),
            ("order", Row { order: 21, ..base }),
            ("order", Row { pfn: 0, order: 64, args: [1, 0, 0], ..Row::new(Kind::StartAllocated) }),
            ("migratetype", Row { migratetype: -2, ..base }),
            ("migratetype", Row { migratetype: 6, ..base }),
            ("arg0", Row { args: [21, 0, 0], ..Row::new(Kind::ExtFrag) }),
            ("arg1", Row { args: [0, -1, 0], ..Row::new(Kind::ExtFrag) }),
            ("arg0", Row { args: [2, 0, 0], ..Row::new(Kind::SchedSwitch) }),
            ("arg0", Row { args: [-1, 0, 0], ..Row::new(Kind::SchedWaking) }),
            ("pfn", Row { pfn: PFN_LIMIT, ..base }),
            ("pfn", Row::new(Kind::EndFree)),
            ("arg0", Row { pfn: 0, args: [0, 0, 0], ..Row::new(Kind::StartAllocated) }),
            ("arg0", Row { pfn: 8, order: 51, args: [2, 0, 0], ..Row::new(Kind::EndAllocated) }),
            ("arg1", Row { pfn: 0, args: [1, -1, 0], ..Row::new(Kind::StartPageblock) }),
        ];
        for (name, row) in bad {
            match fault_of(&[row]) {
                Some(Fault::OutOfRange { column, .. }) => assert_eq!(column, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn rows_are_counted_by_kind() {
        let mut checker = checker();
        for kind in [Kind::Alloc, Kind::Free, Kind::Free] {
            checker.admit(&Row::new(kind)).unwrap();
        }
        assert_eq!(checker.counts(), BTreeMap::from([(1, 1), (2, 2)]));
    }
}
