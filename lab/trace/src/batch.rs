//! Consecutive rows of a recording, column by column.
//!
//! The [`Reader`](crate::Reader) returns batches whose rows were checked: each value is in its type, and each row keeps
//! the rules of the format. Code that needs three of the eleven columns reads three slices.

use std::ops::{Range, RangeInclusive};

use crate::error::Fault;
use crate::event::{Kind, Row, Section};
use crate::schema::{COLUMN_COUNT, COLUMNS};

/// Consecutive rows of a recording. All columns have [`len`](Batch::len) values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(crate) time: Vec<u64>,
    pub(crate) cpu: Vec<u16>,
    pub(crate) task: Vec<u32>,
    pub(crate) kind: Vec<Kind>,
    pub(crate) pfn: Vec<u64>,
    pub(crate) order: Vec<u8>,
    pub(crate) gfp: Vec<u32>,
    pub(crate) migratetype: Vec<i8>,
    pub(crate) args: [Vec<i64>; 3],
}

/// Values of a column, in the integer type in which Parquet stores them.
pub(crate) enum Values {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
}

/// A value that does not fit its column, and its index.
pub(crate) struct Misfit {
    pub index: usize,
    pub fault: Fault,
}

impl Batch {
    /// Returns the number of rows in the batch.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Returns whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Returns the times in nanoseconds since the recording started.
    pub fn time(&self) -> &[u64] {
        &self.time
    }

    /// Returns the CPU number of each row.
    pub fn cpu(&self) -> &[u16] {
        &self.cpu
    }

    /// Returns the task of each row, as an index into [`Facts::tasks`](crate::Facts::tasks).
    pub fn task(&self) -> &[u32] {
        &self.task
    }

    /// Returns the kind of each row.
    pub fn kind(&self) -> &[Kind] {
        &self.kind
    }

    /// Returns the page frame numbers; [`NO_PFN`](crate::event::NO_PFN) if a row names no frame.
    pub fn pfn(&self) -> &[u64] {
        &self.pfn
    }

    /// Returns the order of each row's block.
    pub fn order(&self) -> &[u8] {
        &self.order
    }

    /// Returns the GFP bits, in the numbering of Linux 6.12.
    pub fn gfp(&self) -> &[u32] {
        &self.gfp
    }

    /// Returns the migratetypes; [`NO_MIGRATETYPE`](crate::event::NO_MIGRATETYPE) if a row names none.
    pub fn migratetype(&self) -> &[i8] {
        &self.migratetype
    }

    /// Returns the arguments with this index, 0 to 2.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn arg(&self, index: usize) -> &[i64] {
        &self.args[index]
    }

    /// Returns the row at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Batch::len).
    #[inline]
    pub fn row(&self, index: usize) -> Row {
        Row {
            time: self.time[index],
            cpu: self.cpu[index],
            task: self.task[index],
            kind: self.kind[index],
            pfn: self.pfn[index],
            order: self.order[index],
            gfp: self.gfp[index],
            migratetype: self.migratetype[index],
            args: [self.args[0][index], self.args[1][index], self.args[2][index]],
        }
    }

    /// Returns an iterator over the rows.
    #[inline]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row> + '_ {
        let len = self.len();
        // All columns are cut to the same length, so that the compiler removes the bounds checks per row and column.
        let (time, cpu, task, kind) = (&self.time[..len], &self.cpu[..len], &self.task[..len], &self.kind[..len]);
        let (pfn, order, gfp, migratetype) =
            (&self.pfn[..len], &self.order[..len], &self.gfp[..len], &self.migratetype[..len]);
        let [arg0, arg1, arg2] = [0, 1, 2].map(|index| &self.args[index][..len]);
        (0..len).map(move |index| Row {
            time: time[index],
            cpu: cpu[index],
            task: task[index],
            kind: kind[index],
            pfn: pfn[index],
            order: order[index],
            gfp: gfp[index],
            migratetype: migratetype[index],
            args: [arg0[index], arg1[index], arg2[index]],
        })
    }

    /// Returns the range of rows that belong to a part of the recording. The parts are consecutive, so a binary search
    /// finds the range.
    pub fn section(&self, section: Section) -> Range<usize> {
        let start = self.kind.partition_point(|kind| kind.section() < section);
        start..self.kind.partition_point(|kind| kind.section() <= section)
    }

    /// Returns a copy of some of the rows.
    ///
    /// # Panics
    /// If the range reaches beyond the last row.
    pub fn cut(&self, range: Range<usize>) -> Batch {
        Batch {
            time: self.time[range.clone()].to_vec(),
            cpu: self.cpu[range.clone()].to_vec(),
            task: self.task[range.clone()].to_vec(),
            kind: self.kind[range.clone()].to_vec(),
            pfn: self.pfn[range.clone()].to_vec(),
            order: self.order[range.clone()].to_vec(),
            gfp: self.gfp[range.clone()].to_vec(),
            migratetype: self.migratetype[range.clone()].to_vec(),
            args: [0, 1, 2].map(|index| self.args[index][range.clone()].to_vec()),
        }
    }

    /// Creates a batch from rows.
    #[cfg(test)]
    pub(crate) fn from_rows(rows: &[Row]) -> Batch {
        Batch {
            time: rows.iter().map(|row| row.time).collect(),
            cpu: rows.iter().map(|row| row.cpu).collect(),
            task: rows.iter().map(|row| row.task).collect(),
            kind: rows.iter().map(|row| row.kind).collect(),
            pfn: rows.iter().map(|row| row.pfn).collect(),
            order: rows.iter().map(|row| row.order).collect(),
            gfp: rows.iter().map(|row| row.gfp).collect(),
            migratetype: rows.iter().map(|row| row.migratetype).collect(),
            args: [0, 1, 2].map(|index: usize| rows.iter().map(|row| row.args[index]).collect()),
        }
    }

    /// Creates a batch from columns of equal length, in the order and with the physical types of the schema.
    pub(crate) fn from_columns(columns: [Values; COLUMN_COUNT]) -> Result<Batch, Misfit> {
        let [time, cpu, task, kind, pfn, order, gfp, migratetype, arg0, arg1, arg2] = columns;
        Ok(Batch {
            // A negative time or pfn becomes a number that is out of range; -1 becomes `NO_PFN`.
            time: time.wide().into_iter().map(|value| value as u64).collect(),
            cpu: fit(cpu.narrow(), 1, 0..=u16::MAX.into(), |value| value as u16)?,
            // Unsigned values of 32 bits keep their bits.
            task: task.narrow().into_iter().map(|value| value as u32).collect(),
            kind: kinds(kind.narrow())?,
            pfn: pfn.wide().into_iter().map(|value| value as u64).collect(),
            order: fit(order.narrow(), 5, 0..=u8::MAX.into(), |value| value as u8)?,
            gfp: gfp.narrow().into_iter().map(|value| value as u32).collect(),
            migratetype: fit(migratetype.narrow(), 7, i8::MIN.into()..=i8::MAX.into(), |value| value as i8)?,
            args: [arg0.wide(), arg1.wide(), arg2.wide()],
        })
    }
}

impl Values {
    fn narrow(self) -> Vec<i32> {
        match self {
            Values::Narrow(values) => values,
            Values::Wide(_) => unreachable!("the footer's schema was checked"),
        }
    }

    fn wide(self) -> Vec<i64> {
        match self {
            Values::Wide(values) => values,
            Values::Narrow(_) => unreachable!("the footer's schema was checked"),
        }
    }
}

fn kinds(codes: Vec<i32>) -> Result<Vec<Kind>, Misfit> {
    let mut kinds = Vec::with_capacity(codes.len());
    for (index, &code) in codes.iter().enumerate() {
        kinds.push(Kind::from_code(code).ok_or(Misfit { index, fault: Fault::UnknownKind { code } })?);
    }
    Ok(kinds)
}

/// Narrows the values of the column with this number to their type. The compiler vectorizes both passes over the
/// values. Values are checked one by one only if one of them does not fit.
fn fit<T>(
    values: Vec<i32>,
    column: usize,
    bounds: RangeInclusive<i32>,
    cast: impl Fn(i32) -> T,
) -> Result<Vec<T>, Misfit> {
    let (least, most) = values.iter().fold((0, 0), |(least, most), &value| (value.min(least), value.max(most)));
    if !bounds.contains(&least) || !bounds.contains(&most) {
        let unfit = values.iter().enumerate().find(|(_, value)| !bounds.contains(value));
        return Err(unfit
            .map(|(index, &value)| misfit(index, column, value))
            .expect("the least or the greatest value is out of bounds"));
    }
    Ok(values.into_iter().map(cast).collect())
}

#[cold]
fn misfit(index: usize, column: usize, value: i32) -> Misfit {
    let (name, integer) = (COLUMNS[column].name, COLUMNS[column].integer);
    let bounds = match integer {
        Some((bits, true)) => format!("an integer of {bits} bits"),
        Some((bits, false)) => format!("an unsigned integer of {bits} bits"),
        None => "an integer".to_owned(),
    };
    Misfit { index, fault: Fault::OutOfRange { column: name, value: value.into(), bounds } }
}
