//! Buffer of the next row group: rows are collected column by column, and encoded as Parquet when the buffer is full.
//!
//! Columns are independent, so each is encoded into its own memory, in parallel on all CPUs. The file receives them in
//! the order of the schema. The encoded columns take a tenth of the memory of the rows.

use bytes::Bytes;
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use rayon::prelude::*;

use crate::event::Row;
use crate::part_file::PartFile;
use crate::schema::COLUMN_COUNT;

/// Rows of the next group, in the file's physical types.
#[derive(Default)]
pub(crate) struct RowGroupBuffer {
    time: Vec<i64>,
    cpu: Vec<i32>,
    task: Vec<i32>,
    kind: Vec<i32>,
    pfn: Vec<i64>,
    order: Vec<i32>,
    gfp: Vec<i32>,
    migratetype: Vec<i32>,
    args: [Vec<i64>; 3],
}

/// Values of a column.
enum Values<'g> {
    Narrow(&'g [i32]),
    Wide(&'g [i64]),
}

impl RowGroupBuffer {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    /// Adds a row. Unsigned values keep their bits, as Parquet requires: [`crate::event::NO_PFN`] becomes -1.
    pub(crate) fn push(&mut self, row: &Row) {
        self.time.push(row.time as i64);
        self.cpu.push(row.cpu.into());
        self.task.push(row.task as i32);
        self.kind.push(row.kind as i32);
        self.pfn.push(row.pfn as i64);
        self.order.push(row.order.into());
        self.gfp.push(row.gfp as i32);
        self.migratetype.push(row.migratetype.into());
        for (column, value) in self.args.iter_mut().zip(row.args) {
            column.push(value);
        }
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        let RowGroupBuffer { time, cpu, task, kind, pfn, order, gfp, migratetype, args } = self;
        for wide in [time, pfn].into_iter().chain(args) {
            wide.clear();
        }
        for narrow in [cpu, task, kind, order, gfp, migratetype] {
            narrow.clear();
        }
    }

    /// Writes the rows as a row group.
    pub(crate) fn write(&self, file: &mut SerializedFileWriter<PartFile>) -> Result<()> {
        let (schema, properties) = (file.schema_descr().columns().to_vec(), file.properties().clone());
        let encoded: Vec<(Bytes, ColumnCloseResult)> = schema
            .into_par_iter()
            .zip(self.columns())
            .map(|(column, values)| values.encode(column, properties.clone()))
            .collect::<Result<_>>()?;
        let mut group = file.next_row_group()?;
        encoded.into_iter().try_for_each(|(bytes, closed)| group.append_column(&bytes, closed))?;
        group.close().map(drop)
    }

    /// Returns the columns, in the order of the schema.
    fn columns(&self) -> [Values<'_>; COLUMN_COUNT] {
        use Values::{Narrow, Wide};
        let RowGroupBuffer { time, cpu, task, kind, pfn, order, gfp, migratetype, args: [arg0, arg1, arg2] } = self;
        [
            Wide(time),
            Narrow(cpu),
            Narrow(task),
            Narrow(kind),
            Wide(pfn),
            Narrow(order),
            Narrow(gfp),
            Narrow(migratetype),
            Wide(arg0),
            Wide(arg1),
            Wide(arg2),
        ]
    }
}

impl Values<'_> {
    /// Encodes the values. Returns the pages, and their metadata for the file.
    fn encode(self, column: ColumnDescPtr, properties: WriterPropertiesPtr) -> Result<(Bytes, ColumnCloseResult)> {
        let mut pages = TrackedWrite::new(Vec::new());
        let mut writer = get_column_writer(column, properties, Box::new(SerializedPageWriter::new(&mut pages)));
        match (&mut writer, self) {
            (ColumnWriter::Int32ColumnWriter(writer), Values::Narrow(values)) => writer.write_batch(values, None, None),
            (ColumnWriter::Int64ColumnWriter(writer), Values::Wide(values)) => writer.write_batch(values, None, None),
            _ => unreachable!("the columns have the types of the schema"),
        }?;
        let closed = writer.close()?;
        Ok((pages.into_inner()?.into(), closed))
    }
}
