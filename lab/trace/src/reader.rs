//! Streaming reader of recordings. It trusts no part of a file that it has not checked.
//!
//! [`Reader::open`] reads the footer and the facts. [`Reader::batches`] then decodes one row group after the other in
//! batches, and [`Reader::rows`] returns the same rows one by one. Memory stays below some tens of megabytes for
//! recordings of any length that this crate wrote; a row group of another writer may have up to 512 MiB. Each row is
//! checked by the same rules as in the writer (see [`Fault`](crate::Fault)). An iterator ends after the first error.

use std::borrow::Borrow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::{Batch, Misfit};
use crate::bounds::Bounds;
use crate::check::Checker;
use crate::checksum::{CHECKSUM_KEY, Checksums};
use crate::error::{Error, Origin};
use crate::event::{Row, Section};
use crate::facts::{FORMAT_VERSION, FORMAT_VERSION_MIN, Facts, METADATA_KEY};
use crate::footer::{self, Footer};
use crate::group::{self, Extent, GroupReader};
use crate::lives::{Clashes, Lives};
use crate::possible;
use crate::schema::WRITER_NAME;

/// Rows in a batch, except for the last batch of a row group. The columns of a batch fit in the CPU's caches.
const BATCH_ROWS: usize = 1 << 12;

/// A recording that is open for reading.
pub struct Reader {
    path: PathBuf,
    file: File,
    footer: Footer,
    extents: Vec<Extent>,
    checksums: Option<Checksums>,
    facts: Arc<Facts>,
    origin: Origin,
    rows: u64,
}

impl Reader {
    /// Opens the recording at `path` and reads its facts. Takes a few milliseconds.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::NotParquet`], [`Error::NotRecording`], [`Error::Truncated`], [`Error::Version`],
    /// [`Error::Packing`] or [`Error::Corrupt`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        Reader::from_file(file, path)
    }

    /// Opens a recording in an open file. Errors name the file by `path`.
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    pub fn from_file(file: File, path: &Path) -> Result<Reader, Error> {
        let length = file.metadata().map_err(|source| Error::Read { path: path.to_path_buf(), source })?.len();
        let footer = footer::read(path, &file, length)?;
        let groups = footer.metadata.row_groups();
        let extents: Vec<Extent> = groups
            .iter()
            .map(|group| {
                group::check_packing(path, group, &footer.columns)?;
                group::extent(group, length).map_err(|reason| Error::corrupt(path, reason))
            })
            .collect::<Result<_, Error>>()?;
        let checksums = read_checksums(path, &footer, extents.len())?;
        let facts = read_facts(path, &footer, checksums.as_ref())?;
        let rows = count_rows(path, &footer, &facts)?;
        let origin = Origin::from_creator(footer.metadata.file_metadata().created_by(), WRITER_NAME);
        Ok(Reader { path: path.to_path_buf(), file, footer, extents, checksums, facts: Arc::new(facts), origin, rows })
    }

    /// Returns the reader if the facts are possible for a machine and the file is not a snapshot. Every command calls
    /// this before it works with events. The cost is negligible; rows are checked against the facts as they are read.
    ///
    /// # Errors
    /// [`Error::Impossible`]; [`Error::Snapshot`].
    pub fn admitted(self) -> Result<Reader, Error> {
        let reader = self.admitted_any()?;
        if reader.facts.is_snapshot() {
            return Err(Error::Snapshot { path: reader.path });
        }
        Ok(reader)
    }

    /// Returns the reader if the facts are possible for a machine. Commands that work on recordings and snapshots call
    /// this.
    ///
    /// # Errors
    /// [`Error::Impossible`].
    pub fn admitted_any(self) -> Result<Reader, Error> {
        match possible::contradiction(&self.facts) {
            Some((reason, section)) => Err(self.impossible(reason, section)),
            None => Ok(self),
        }
    }

    fn impossible(&self, reason: String, section: &'static str) -> Error {
        Error::Impossible { path: self.path.clone(), reason, section, origin: self.origin.clone() }
    }

    /// Returns the facts about the recorded machine.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the facts as a shared pointer that can outlive the reader.
    pub fn shared_facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts)
    }

    /// Returns the number of rows of all kinds.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// Returns an iterator over the rows in file order, in batches.
    ///
    /// # Errors
    /// The iterator yields [`Error::Row`], [`Error::Corrupt`], [`Error::Truncated`], [`Error::Read`], or at the end
    /// [`Error::Impossible`] (rows that are not in the order of the events) once, and ends.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, Error>> + '_ {
        Batches::new(self)
    }

    /// Converts the reader into an iterator over the rows in file order, in batches.
    ///
    /// # Errors
    /// Like [`batches`](Reader::batches).
    pub fn into_batches(self) -> impl Iterator<Item = Result<Batch, Error>> + Send {
        Batches::new(self)
    }

    /// Returns an iterator over the rows in file order. Errors are those of [`batches`](Reader::batches).
    pub fn rows(&self) -> impl Iterator<Item = Result<Row, Error>> + '_ {
        self.batches().flat_map(|batch| {
            let (batch, error) = match batch {
                Ok(batch) => (batch, None),
                Err(error) => (Batch::default(), Some(Err(error))),
            };
            (0..batch.len()).map(move |index| Ok(batch.row(index))).chain(error)
        })
    }
}

/// Returns the value of `key` in the file's metadata.
fn metadata_value<'a>(footer: &'a Footer, key: &str) -> Option<&'a str> {
    let pairs = footer.metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn read_checksums(path: &Path, footer: &Footer, groups: usize) -> Result<Option<Checksums>, Error> {
    let Some(text) = metadata_value(footer, CHECKSUM_KEY) else {
        // The key itself may be damaged.
        let writer = footer.metadata.file_metadata().created_by();
        let is_ours = writer.is_some_and(|writer| writer.starts_with(WRITER_NAME));
        return if is_ours { Err(Error::corrupt(path, "its checksums are missing")) } else { Ok(None) };
    };
    let checksums = Checksums::from_json(text).map_err(|error| Error::corrupt(path, error))?;
    if checksums.row_groups.len() != groups {
        return Err(Error::corrupt(path, "the number of row groups differs from the number of checksums"));
    }
    Ok(Some(checksums))
}

fn read_facts(path: &Path, footer: &Footer, checksums: Option<&Checksums>) -> Result<Facts, Error> {
    let text = metadata_value(footer, METADATA_KEY)
        .ok_or_else(|| Error::not_recording(path, format!("there is no metadata with the key `{METADATA_KEY}`")))?;
    if checksums.is_some_and(|checksums| checksums.facts != crc32fast::hash(text.as_bytes())) {
        return Err(Error::corrupt(path, "the checksum of the facts does not match"));
    }
    // The version is checked first, since the other facts of a later format are not known.
    let claim: FormatClaim = parse_facts(path, text)?;
    if !(u64::from(FORMAT_VERSION_MIN)..=u64::from(FORMAT_VERSION)).contains(&claim.format) {
        return Err(Error::Version { path: path.to_path_buf(), found: claim.format, supported: FORMAT_VERSION });
    }
    parse_facts(path, text)
}

fn parse_facts<'t, T: serde::Deserialize<'t>>(path: &Path, text: &'t str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::not_recording(path, format!("its facts cannot be parsed ({error})")))
}

/// The only fact that every format has.
#[derive(serde::Deserialize)]
struct FormatClaim {
    format: u64,
}

fn count_rows(path: &Path, footer: &Footer, facts: &Facts) -> Result<u64, Error> {
    let groups = footer.metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX));
    let stored = groups.into_iter().try_fold(0, u64::checked_add);
    let stated = facts.rows.values().copied().try_fold(0, u64::checked_add);
    match stored {
        Some(rows) if stated == stored => Ok(rows),
        _ => Err(Error::corrupt(path, "the number of rows is not that in its facts")),
    }
}

/// Iterator over the batches of a file's row groups.
struct Batches<R> {
    reader: R,
    next_group: usize,
    group: Option<GroupReader>,
    checker: Checker,
    lives: Lives,
    row: u64,
    done: bool,
}

impl<R: Borrow<Reader>> Batches<R> {
    fn new(reader: R) -> Batches<R> {
        let checker = Checker::new(Bounds::from_facts(&reader.borrow().facts));
        Batches { reader, next_group: 0, group: None, checker, lives: Lives::default(), row: 0, done: false }
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        loop {
            if let Some(group) = &mut self.group {
                let columns = group.next_columns(BATCH_ROWS);
                if let Some(columns) = columns.map_err(|error| Error::corrupt(&self.reader.borrow().path, error))? {
                    let batch = Batch::from_columns(columns).map_err(|misfit| self.misfit(misfit))?;
                    return self.checked(batch).map(Some);
                }
            }
            if self.next_group == self.reader.borrow().extents.len() {
                return self.check_end().map(|()| None);
            }
            self.group = Some(self.open_group(self.next_group)?);
            self.next_group += 1;
        }
    }

    fn open_group(&self, index: usize) -> Result<GroupReader, Error> {
        let Reader { path, file, footer, extents, checksums, .. } = self.reader.borrow();
        let group = footer.metadata.row_group(index);
        let checksum = checksums.as_ref().map(|checksums| checksums.row_groups[index]);
        GroupReader::open(path, file, group, extents[index], &footer.columns, checksum)
    }

    fn checked(&mut self, batch: Batch) -> Result<Batch, Error> {
        self.checker.admit_all(&batch).map_err(|misfit| self.misfit(misfit))?;
        let events = batch.section(Section::Events);
        for index in 0..events.start {
            let taken = self.lives.start(&batch.row(index), self.checker.bounds());
            taken.map_err(|fault| self.misfit(Misfit { index, fault }))?;
        }
        if !events.is_empty() {
            self.lives.events(&batch, events);
        }
        self.row += batch.len() as u64;
        Ok(batch)
    }

    fn misfit(&self, Misfit { index, fault }: Misfit) -> Error {
        let (path, origin) = (self.reader.borrow().path.clone(), self.reader.borrow().origin.clone());
        Error::Row { path, row: self.row + index as u64, fault, origin }
    }

    fn check_end(&self) -> Result<(), Error> {
        if self.checker.counts() != self.reader.borrow().facts.rows {
            return Err(Error::corrupt(
                &self.reader.borrow().path,
                "the rows of each kind do not match the counts in its facts",
            ));
        }
        // If the kernel lost events, the remaining ones need not be consistent.
        match self.lives.check_end().filter(|_| self.reader.borrow().facts.lost == 0) {
            None => Ok(()),
            Some(Clashes { clashes, events }) => {
                let reason = format!(
                    "the rows are not in the order of the events: {clashes} of {events} allocations and frees are of \
                     pages that were allocated or free already"
                );
                Err(self.reader.borrow().impossible(reason, "Order of rows"))
            }
        }
    }
}

impl<R: Borrow<Reader>> Iterator for Batches<R> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.next_batch().transpose();
        self.done = !matches!(result, Some(Ok(_)));
        result
    }
}
