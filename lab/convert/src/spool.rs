//! Spool of rows that wait for the start state. In a recording the start state precedes them, but it is known only
//! after all events.
//!
//! The rows are in a file without a name, which disappears however the program ends. A row takes 29 bytes, or 53 with
//! arguments.

use std::fs::File;
use std::io::{BufReader, BufWriter, IntoInnerError, Read, Seek, Write};
use std::path::{Path, PathBuf};

use freehold_trace::event::{Kind, Row};

use crate::bytes::Cursor;
use crate::error::Error;

/// Bytes of a row without arguments, and of the arguments.
const PLAIN: usize = 29;
const ARGS: usize = 24;
/// Marks a row with arguments, in the byte of its kind. No kind is above 127.
const HAS_ARGS: u8 = 1 << 7;
/// Bytes that are read and written at a time.
const BUFFER: usize = 1 << 20;

/// The spool.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    file: BufWriter<File>,
    rows: u64,
}

impl Spool {
    /// Creates an empty spool in this folder.
    pub(crate) fn create(folder: &Path) -> Result<Spool, Error> {
        let folder = folder.to_path_buf();
        match tempfile::tempfile_in(&folder) {
            Ok(file) => Ok(Spool { folder, file: BufWriter::with_capacity(BUFFER, file), rows: 0 }),
            Err(source) => Err(Error::Spool { folder, source }),
        }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, row: &Row) -> Result<(), Error> {
        let has_args = row.args != [0; 3];
        let mut bytes = [0; PLAIN + ARGS];
        bytes[0] = row.kind as u8 | if has_args { HAS_ARGS } else { 0 };
        bytes[1] = row.order;
        bytes[2] = row.migratetype.cast_unsigned();
        bytes[3..5].copy_from_slice(&row.cpu.to_ne_bytes());
        bytes[5..9].copy_from_slice(&row.task.to_ne_bytes());
        bytes[9..13].copy_from_slice(&row.gfp.to_ne_bytes());
        bytes[13..21].copy_from_slice(&row.time.to_ne_bytes());
        bytes[21..PLAIN].copy_from_slice(&row.pfn.to_ne_bytes());
        for (place, value) in bytes[PLAIN..].chunks_exact_mut(8).zip(row.args) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        let length = if has_args { PLAIN + ARGS } else { PLAIN };
        self.rows += 1;
        self.file.write_all(&bytes[..length]).map_err(|source| Error::Spool { folder: self.folder.clone(), source })
    }

    /// Calls `visit` with every row, in the order in which they were added.
    pub(crate) fn for_each(self, mut visit: impl FnMut(Row) -> Result<(), Error>) -> Result<(), Error> {
        let Spool { folder, file, rows } = self;
        let mut reader = rewound(file).map_err(|source| Error::Spool { folder: folder.clone(), source })?;
        for _ in 0..rows {
            visit(next(&mut reader).map_err(|source| Error::Spool { folder: folder.clone(), source })?)?;
        }
        Ok(())
    }
}

/// Converts the written file to a reader at its beginning.
fn rewound(written: BufWriter<File>) -> std::io::Result<BufReader<File>> {
    let mut file = written.into_inner().map_err(IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(BufReader::with_capacity(BUFFER, file))
}

#[inline]
fn next(file: &mut impl Read) -> std::io::Result<Row> {
    let mut bytes = [0; PLAIN];
    file.read_exact(&mut bytes)?;
    let mut args = [0; ARGS];
    if bytes[0] & HAS_ARGS != 0 {
        file.read_exact(&mut args)?;
    }
    Ok(decoded(&bytes, &args).expect("the spool contains what it was given"))
}

#[inline]
fn decoded(bytes: &[u8], args: &[u8]) -> Option<Row> {
    let mut cursor = Cursor::new(bytes);
    let kind = Kind::from_code((cursor.u8()? & !HAS_ARGS).into())?;
    let (order, migratetype) = (cursor.u8()?, cursor.u8()?.cast_signed());
    let (cpu, task, gfp) = (cursor.u16()?, cursor.u32()?, cursor.u32()?);
    let (time, pfn) = (cursor.u64()?, cursor.u64()?);
    let mut words = Cursor::new(args);
    let args = [words.u64()?, words.u64()?, words.u64()?].map(u64::cast_signed);
    Some(Row { time, cpu, task, kind, pfn, order, gfp, migratetype, args })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spooled_rows_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(folder.path()).unwrap();
        let rows: Vec<Row> = (0..1000_u64)
            .map(|number| Row {
                time: number * 1000,
                cpu: number as u16,
                task: 70_000,
                pfn: u64::MAX - number,
                order: 3,
                gfp: 0xffff_ffff,
                migratetype: -1,
                args: if number % 3 == 0 { [number as i64, -1, i64::MIN] } else { [0; 3] },
                ..Row::new(Kind::ALL[number as usize % Kind::ALL.len()])
            })
            .collect();
        rows.iter().for_each(|row| spool.push(row).unwrap());
        assert_eq!(spool.rows(), 1000);
        let mut back = Vec::new();
        spool
            .for_each(|row| {
                back.push(row);
                Ok(())
            })
            .unwrap();
        assert_eq!(back, rows);
        assert!(matches!(Spool::create(Path::new("/proc/none")), Err(Error::Spool { .. })));
    }
}
