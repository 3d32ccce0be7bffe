//! Rows of a recording as Arrow, with decoded names of tasks, GFP flags, kinds and migratetypes.
//!
//! Rows are read batch by batch. Memory holds only one batch of `BATCH_ROWS` rows or somewhat more, besides the
//! buffers of the reader. Names are stored once, as dictionaries. Kinds and migratetypes are known in advance and tasks
//! are in the facts, so all batches share these dictionaries. Masks of GFP flags are added to their dictionary as they
//! occur.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::{Int8Type, UInt8Type, UInt32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, PrimitiveArray, RecordBatch, RecordBatchReader, StringArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use freehold_report::report::map::TYPES;
use freehold_trace::event::{Kind, NO_MIGRATETYPE, NO_PFN, Row, Section};
use freehold_trace::facts::Facts;
use freehold_trace::{Batch, Error, Reader, gfp_names};
use rustc_hash::FxHashMap;

/// Minimum number of rows of a batch, except the last. The number is large enough to make the fixed cost of a batch
/// negligible.
const BATCH_ROWS: usize = 1 << 16;

/// Returns the schema of the columns.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        column("time", DataType::UInt64, false),
        column("cpu", DataType::UInt16, false),
        column("pid", DataType::UInt32, false),
        column("task", name_type(DataType::UInt32), false),
        column("kind", name_type(DataType::UInt8), false),
        column("pfn", DataType::UInt64, true),
        column("order", DataType::UInt8, false),
        column("gfp", name_type(DataType::UInt32), true),
        column("migratetype", name_type(DataType::Int8), true),
        column("arg0", DataType::Int64, false),
        column("arg1", DataType::Int64, false),
        column("arg2", DataType::Int64, false),
    ]))
}

fn column(name: &str, kind: DataType, is_optional: bool) -> Field {
    Field::new(name, kind, is_optional)
}

/// Returns the type of a dictionary column of names, with keys of this type.
fn name_type(key: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8))
}

/// Reader of the rows of one section of a recording.
pub struct Rows {
    batches: Box<dyn Iterator<Item = Result<Batch, Error>> + Send>,
    section: Section,
    schema: SchemaRef,
    kinds: ArrayRef,
    migratetypes: ArrayRef,
    tasks: Tasks,
    masks: Masks,
    is_over: bool,
}

impl Rows {
    /// Creates a reader for the rows of one section of a recording.
    pub fn new(reader: Reader, section: Section) -> Rows {
        let facts: &Facts = reader.facts();
        Rows {
            section,
            schema: schema(),
            kinds: Arc::new(Kind::ALL.iter().map(|kind| Some(format!("{kind:?}"))).collect::<StringArray>()),
            migratetypes: Arc::new(StringArray::from_iter_values(TYPES)),
            tasks: Tasks::new(facts),
            masks: Masks::default(),
            batches: Box::new(reader.into_batches()),
            is_over: false,
        }
    }

    /// Returns the next batch of rows; `None` at the end.
    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut rows: Vec<Row> = Vec::with_capacity(BATCH_ROWS);
        while rows.len() < BATCH_ROWS && !self.is_over {
            match self.batches.next() {
                None => self.is_over = true,
                Some(batch) => {
                    let batch = batch.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
                    let part = batch.section(self.section);
                    rows.extend(part.map(|index| batch.row(index)));
                }
            }
        }
        if rows.is_empty() { Ok(None) } else { self.decode(&rows).map(Some) }
    }

    fn decode(&mut self, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
        let tasks: UInt32Array = rows.iter().map(|row| Some(self.tasks.key(row.task))).collect();
        let kinds: UInt8Array = rows.iter().map(|row| Some(place(row.kind))).collect();
        let migratetypes: Int8Array = rows.iter().map(migratetype_key).collect();
        let masks: UInt32Array = rows.iter().map(|row| (row.gfp != 0).then(|| self.masks.key(row.gfp))).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| Some(row.time)).collect::<UInt64Array>()),
            Arc::new(rows.iter().map(|row| Some(row.cpu)).collect::<UInt16Array>()),
            Arc::new(rows.iter().map(|row| Some(self.tasks.pid(row.task))).collect::<UInt32Array>()),
            name_column::<UInt32Type>(tasks, &self.tasks.names)?,
            name_column::<UInt8Type>(kinds, &self.kinds)?,
            Arc::new(rows.iter().map(|row| (row.pfn != NO_PFN).then_some(row.pfn)).collect::<UInt64Array>()),
            Arc::new(rows.iter().map(|row| Some(row.order)).collect::<UInt8Array>()),
            name_column::<UInt32Type>(masks, &self.masks.names())?,
            name_column::<Int8Type>(migratetypes, &self.migratetypes)?,
            arg_column(rows, 0),
            arg_column(rows, 1),
            arg_column(rows, 2),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Returns the dictionary key of a row's migratetype. Rows without a migratetype, and compaction results in this field,
/// have no key.
fn migratetype_key(row: &Row) -> Option<i8> {
    (row.migratetype != NO_MIGRATETYPE && row.kind != Kind::CompactionEnd).then_some(row.migratetype)
}

fn arg_column(rows: &[Row], index: usize) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(row.args[index])).collect::<Int64Array>())
}

/// Returns a dictionary column with these keys.
fn name_column<K: arrow_array::types::ArrowDictionaryKeyType>(
    keys: PrimitiveArray<K>,
    names: &ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys, Arc::clone(names))?))
}

/// Returns the index of a kind among all kinds.
fn place(kind: Kind) -> u8 {
    let place = Kind::ALL.iter().position(|other| *other == kind);
    place.and_then(|place| u8::try_from(place).ok()).expect("Kind::ALL has every kind, and at most 256")
}

/// Tasks and their names. Tasks with the same name share a dictionary entry.
struct Tasks {
    pids: Vec<u32>,
    keys: Vec<u32>,
    names: ArrayRef,
}

impl Tasks {
    fn new(facts: &Facts) -> Tasks {
        let (mut places, mut names) = (FxHashMap::default(), Vec::new());
        let mut keys = Vec::with_capacity(facts.tasks.len());
        for task in &facts.tasks {
            keys.push(*places.entry(task.name.as_str()).or_insert_with(|| {
                names.push(task.name.as_str());
                names.len() as u32 - 1
            }));
        }
        Tasks {
            pids: facts.tasks.iter().map(|task| task.pid).collect(),
            keys,
            names: Arc::new(StringArray::from_iter_values(names)),
        }
    }

    /// Returns the dictionary key of a task's name. The reader has checked that the task exists.
    fn key(&self, task: u32) -> u32 {
        self.keys.get(task as usize).copied().unwrap_or_default()
    }

    fn pid(&self, task: u32) -> u32 {
        self.pids.get(task as usize).copied().unwrap_or_default()
    }
}

/// Masks of GFP flags that have occurred, with their names.
#[derive(Default)]
struct Masks {
    keys: FxHashMap<u32, u32>,
    names: Vec<String>,
    shared: Option<ArrayRef>,
}

impl Masks {
    fn key(&mut self, mask: u32) -> u32 {
        let next = self.keys.len() as u32;
        *self.keys.entry(mask).or_insert_with(|| {
            self.names.push(gfp_names::name(mask));
            self.shared = None;
            next
        })
    }

    /// Returns all names so far. The array is reused as long as no name is added.
    fn names(&mut self) -> ArrayRef {
        Arc::clone(self.shared.get_or_insert_with(|| {
            let mut builder = StringBuilder::new();
            self.names.iter().for_each(|name| builder.append_value(name));
            Arc::new(builder.finish())
        }))
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().transpose();
        self.is_over |= !matches!(read, Some(Ok(_)));
        read
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    use freehold_recordings::BUNDLED;

    use super::*;

    fn reader() -> Reader {
        let bundled = &BUNDLED[0];
        Reader::from_file(bundled.open().unwrap(), Path::new(bundled.name)).unwrap()
    }

    fn text(batch: &RecordBatch, name: &str, at: usize) -> Option<String> {
        let column = batch.column_by_name(name).unwrap().as_any_dictionary();
        let keys = column.keys();
        let key = column.normalized_keys()[at];
        (!keys.is_null(at)).then(|| column.values().as_string::<i32>().value(key).to_owned())
    }

    #[test]
    fn rows_are_complete_and_named() {
        let (expected, whole) = (reader(), reader());
        let tasks = expected.facts().tasks.clone();
        let events: Vec<Row> =
            expected.rows().map(Result::unwrap).filter(|row| row.kind.section() == Section::Events).collect();
        let mut at = 0;
        for batch in Rows::new(whole, Section::Events) {
            let batch = batch.unwrap();
            assert!(batch.num_rows() < BATCH_ROWS + (1 << 13));
            let pfns = batch.column_by_name("pfn").unwrap().as_primitive::<UInt64Type>();
            for row in (0..batch.num_rows()).step_by(997) {
                let event = &events[at + row];
                assert_eq!(text(&batch, "kind", row), Some(format!("{:?}", event.kind)));
                assert_eq!(text(&batch, "task", row).as_ref(), Some(&tasks[event.task as usize].name));
                assert_eq!(text(&batch, "gfp", row), (event.gfp != 0).then(|| gfp_names::name(event.gfp)));
                assert_eq!(pfns.is_valid(row).then(|| pfns.value(row)), (event.pfn != NO_PFN).then_some(event.pfn));
            }
            at += batch.num_rows();
        }
        assert_eq!(at, events.len());
    }

    fn row_count(section: Section) -> u64 {
        Rows::new(reader(), section).map(|batch| batch.unwrap().num_rows()).sum::<usize>() as u64
    }

    #[test]
    fn sections_sum_to_the_whole_recording() {
        let sum: u64 = [Section::Start, Section::Events, Section::End].map(row_count).iter().sum();
        assert_eq!(sum, reader().row_count());
    }
}
