//! The rules that every row of a recording keeps, in one place for the writer and the reader.
//!
//! The writer checks before it stores, so that it cannot make a file which the reader refuses; the
//! reader checks again, because it trusts no file. A [`Checker`] sees the rows in file order: it
//! remembers the section and the time it has come to, and counts what it has seen. Constant time a row.

use std::collections::BTreeMap;

use crate::error::Fault;
use crate::event::{Kind, NO_PFN, Row, Section};

/// The highest order a row may name. Real kernels stop at 10; larger pages and other allocators need a few more.
pub const ORDER_MAX: u8 = 63;

/// Frames above this number cannot exist: 2^52 frames of 4 KiB fill a 64-bit address space.
pub const PFN_LIMIT: u64 = 1 << 52;

/// CPUs and tasks that a row may name: all numbers below these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub cpus: u32,
    pub tasks: u32,
}

/// Walks over rows in file order and says which breaks a rule.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    bounds: Bounds,
    section: Section,
    time: u64,
    counts: [u64; 128],
    /// Highest CPU number of all rows so far.
    pub cpu_max: u16,
    /// Highest task index of all rows so far.
    pub task_max: u32,
}

impl Checker {
    /// A checker before the first row.
    pub fn new(bounds: Bounds) -> Checker {
        Checker { bounds, section: Section::Start, time: 0, counts: [0; 128], cpu_max: 0, task_max: 0 }
    }

    /// Takes the next row, or says what is wrong with it.
    #[inline]
    pub fn admit(&mut self, row: &Row) -> Result<(), Fault> {
        self.check_sequence(row)?;
        check_values(row)?;
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
        Ok(())
    }

    /// Rows seen, by the code of their kind; kinds without rows are left out.
    pub fn counts(&self) -> BTreeMap<u8, u64> {
        Kind::ALL
            .into_iter()
            .map(|kind| (kind as u8, self.counts[kind as usize]))
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}

/// Checks what can be said of a row alone.
#[inline]
fn check_values(row: &Row) -> Result<(), Fault> {
    if i64::try_from(row.time).is_err() {
        return Err(below("time", -1, i64::MAX));
    }
    if row.order > ORDER_MAX {
        return Err(below("order", row.order.into(), i64::from(ORDER_MAX) + 1));
    }
    if row.migratetype < -1 {
        return Err(at_least("migratetype", row.migratetype.into(), -1));
    }
    if row.pfn != NO_PFN {
        return check_block(row);
    }
    match row.kind.section() {
        Section::Events => Ok(()),
        Section::Start | Section::End => Err(at_least("pfn", -1, 0)),
    }
}

/// Checks that the block, or the run of blocks, ends below [`PFN_LIMIT`], and that a run is not empty.
#[inline]
fn check_block(row: &Row) -> Result<(), Fault> {
    if row.pfn >= PFN_LIMIT {
        return Err(below("pfn", row.pfn as i64, PFN_LIMIT as i64));
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
fn at_least(column: &'static str, value: i64, least: i64) -> Fault {
    Fault::OutOfRange { column, value, bounds: format!("at least {least}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker() -> Checker {
        Checker::new(Bounds { cpus: 2, tasks: 2 })
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
    fn sections_and_times_may_only_go_forward() {
        let good = [state(Kind::StartFree, 9), row(Kind::Alloc, 3), row(Kind::Free, 3), state(Kind::EndFree, 1)];
        assert_eq!(fault_of(&good), None);
        assert_eq!(fault_of(&[good[1], good[0]]), Some(Fault::OutOfSection));
        assert_eq!(fault_of(&[good[3], good[1]]), Some(Fault::OutOfSection));
        let back = [row(Kind::Alloc, 3), row(Kind::Free, 2)];
        assert_eq!(fault_of(&back), Some(Fault::OutOfOrder { time: 2, previous: 3 }));
    }

    #[test]
    fn every_column_has_its_bounds() {
        let base = Row::new(Kind::Alloc);
        let bad = [
            ("time", Row { time: u64::MAX, ..base }),
            ("cpu", Row { cpu: 2, ..base }),
            ("task", Row { task: 2, ..base }),
            ("order", Row { order: 64, ..base }),
            ("migratetype", Row { migratetype: -2, ..base }),
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
