//! Columns of the Parquet file: names, types and encodings, in the order in which they are written.
//!
//! The encodings were chosen by measurement on a recorded cargo build (`examples/read_speed.rs` prints the bytes of
//! each column). They are a recommendation: the reader also accepts other encodings of Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

/// Rows in a row group, except for the last one. The writer holds this many rows in memory (about 30 MB), and the
/// reader the compressed bytes of one group.
pub(crate) const GROUP_ROWS: usize = 1 << 19;

/// Creator in the files of this crate, which have checksums.
pub(crate) const WRITER_NAME: &str = "freehold-trace";

/// One column that every recording has.
pub(crate) struct Column {
    pub name: &'static str,
    pub physical: Physical,
    /// Width in bits and signedness, if the values are narrower than the physical type.
    pub integer: Option<(i8, bool)>,
    pub packing: Packing,
}

/// Encoding of a column before compression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Differences between neighbours, bit-packed.
    Delta,
    /// Indices into a dictionary, run-length encoded.
    Dictionary,
}

const fn column(name: &'static str, physical: Physical, integer: Option<(i8, bool)>, packing: Packing) -> Column {
    Column { name, physical, integer, packing }
}

/// Number of columns of a recording.
pub(crate) const COLUMN_COUNT: usize = 11;

/// Every column, in the order of the file.
pub(crate) const COLUMNS: [Column; COLUMN_COUNT] = [
    column("time", Physical::INT64, None, Packing::Delta),
    column("cpu", Physical::INT32, Some((16, false)), Packing::Dictionary),
    column("task", Physical::INT32, Some((32, false)), Packing::Dictionary),
    column("kind", Physical::INT32, Some((8, false)), Packing::Dictionary),
    column("pfn", Physical::INT64, None, Packing::Delta),
    column("order", Physical::INT32, Some((8, false)), Packing::Dictionary),
    column("gfp", Physical::INT32, Some((32, false)), Packing::Dictionary),
    column("migratetype", Physical::INT32, Some((8, true)), Packing::Dictionary),
    column("arg0", Physical::INT64, None, Packing::Dictionary),
    column("arg1", Physical::INT64, None, Packing::Dictionary),
    column("arg2", Physical::INT64, None, Packing::Dictionary),
];

/// Returns the schema in the type of the Parquet crate.
pub(crate) fn message() -> Result<TypePtr> {
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>>>()?;
    let message = Type::group_type_builder("recording").with_fields(fields).build()?;
    Ok(Arc::new(message))
}

fn field(column: &Column) -> Result<TypePtr> {
    let logical = column.integer.map(|(bits, signed)| LogicalType::integer(bits, signed));
    let field = Type::primitive_type_builder(column.name, column.physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

/// Returns the writer's properties of all columns.
pub(crate) fn properties() -> Result<WriterProperties> {
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("{WRITER_NAME} {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_max_row_group_row_count(None);
    for column in &COLUMNS {
        let path = ColumnPath::from(column.name);
        let dictionary = column.packing == Packing::Dictionary;
        builder = builder.set_column_dictionary_enabled(path.clone(), dictionary);
        builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}
