//! Writer of recordings. The file appears only when it is complete.
//!
//! Rows are collected in memory until a row group is full, and are then written to a file without a name beside the
//! target path. [`Writer::finish`] adds the facts and the checksums, makes the bytes durable, and then gives the file
//! its name. A writer that is dropped earlier, or killed, leaves no file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;

use crate::bounds::Bounds;
use crate::check::Checker;
use crate::checksum::{CHECKSUM_KEY, Checksums};
use crate::error::{Error, Fault, Origin};
use crate::event::Row;
use crate::facts::{FORMAT_VERSION, FORMAT_VERSION_MIN, Facts, METADATA_KEY};
use crate::group_buffer::RowGroupBuffer;
use crate::part_file::PartFile;
use crate::schema::{self, GROUP_ROWS};

/// A recording that is being written.
pub struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<PartFile>,
    /// Rows of the next group.
    group: RowGroupBuffer,
    checker: Checker,
    rows: u64,
    checksums: Checksums,
}

impl Writer {
    /// Starts a recording at `path`. Until [`finish`](Writer::finish) its bytes are in a file without a name. If the
    /// file system does not support this, they are in `PATH.part`, which is overwritten if it exists.
    ///
    /// # Errors
    /// [`Error::Write`] or [`Error::DiskFull`] if the file cannot be created.
    pub fn create(path: &Path) -> Result<Writer, Error> {
        let part = PartFile::create(path).map_err(|source| Error::write(path, source))?;
        let file = open_parquet(part).map_err(|error| Error::encode(path, error))?;
        Ok(Writer {
            path: path.to_path_buf(),
            file,
            group: RowGroupBuffer::default(),
            checker: Checker::new(Bounds::none()),
            rows: 0,
            checksums: Checksums::default(),
        })
    }

    /// Adds a row. Start-state rows come first, then events in order of time, then end-state rows.
    ///
    /// This is cheap, except for one row in half a million, which encodes the row group on as many threads as there are
    /// CPUs (a quarter of a second of CPU time).
    ///
    /// # Errors
    /// [`Error::Row`] if the row breaks a rule of the format; the row is not added, and the writer can be used further.
    /// [`Error::Write`] or [`Error::DiskFull`] if the row group cannot be written; the writer must not be used after
    /// that.
    pub fn push(&mut self, row: &Row) -> Result<(), Error> {
        self.checker.admit(row).map_err(|fault| self.bad_row(fault))?;
        self.group.push(row);
        self.rows += 1;
        if self.group.len() == GROUP_ROWS {
            self.flush_group()?;
        }
        Ok(())
    }

    /// Returns the number of rows that were added so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Closes the recording and gives it its name.
    ///
    /// The facts are stored as given, except for `rows`, for `cpus` if a row names a higher CPU, and for `format`. A
    /// copy of an older recording keeps its format, which determines the meaning of its facts; all other recordings get
    /// the current one.
    ///
    /// # Errors
    /// [`Error::Row`] if a row names a task that the facts do not list; [`Error::Write`] or [`Error::DiskFull`] if the
    /// rest cannot be written. In each case no file is left.
    pub fn finish(mut self, facts: &Facts) -> Result<(), Error> {
        let facts = self.complete(facts)?;
        if self.group.len() > 0 {
            self.flush_group()?;
        }
        let json = serde_json::to_string(&facts).map_err(|error| Error::write(&self.path, error.into()))?;
        self.checksums.facts = crc32fast::hash(json.as_bytes());
        let checksums = self.checksums.to_json();
        self.file.append_key_value_metadata(KeyValue::new(METADATA_KEY.to_owned(), json));
        self.file.append_key_value_metadata(KeyValue::new(CHECKSUM_KEY.to_owned(), checksums));
        self.file.finish().map_err(|error| Error::encode(&self.path, error))?;
        self.file.inner_mut().publish().map_err(|source| Error::write(&self.path, source))
    }

    /// Returns the facts with the fields that follow from the rows filled in.
    fn complete(&self, facts: &Facts) -> Result<Facts, Error> {
        let mut facts = facts.clone();
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&facts.format) {
            facts.format = FORMAT_VERSION;
        }
        facts.rows = self.checker.counts();
        if self.rows > 0 {
            facts.cpus = facts.cpus.max(self.checker.cpu_max.saturating_add(1));
        }
        let known = facts.tasks.len().max(1);
        if self.checker.task_max as usize >= known {
            return Err(self.bad_row(Fault::OutOfRange {
                column: "task",
                value: self.checker.task_max.into(),
                bounds: format!("below {known}, the number of tasks in the facts"),
            }));
        }
        Ok(facts)
    }

    fn flush_group(&mut self) -> Result<(), Error> {
        let written = self.group.write(&mut self.file).and_then(|()| Ok(self.file.flush()?));
        self.group.clear();
        written.map_err(|error| Error::encode(&self.path, error))?;
        self.checksums.row_groups.push(self.file.inner_mut().take_checksum());
        Ok(())
    }

    fn bad_row(&self, fault: Fault) -> Error {
        Error::Row { path: self.path.clone(), row: self.rows, fault, origin: Origin::Ours }
    }
}

fn open_parquet(part: PartFile) -> ParquetResult<SerializedFileWriter<PartFile>> {
    let properties = Arc::new(schema::properties()?);
    let mut file = SerializedFileWriter::new(part, schema::message()?, properties)?;
    file.flush()?;
    file.inner_mut().take_checksum();
    Ok(file)
}
