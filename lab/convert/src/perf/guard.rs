//! Checks of a file before the crate that parses it.
//!
//! The crate reserves as much memory as a size in the file claims, and continues to read at the position that a record
//! gives. The sizes are therefore checked against the existing bytes first: sections are within the file, counts fit
//! their sections, and records follow one another to the end of the data.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::bytes::Cursor;
use crate::error::Error;

/// Name of the format for users.
pub(crate) const FORMAT: &str = "perf.data";

/// Magic numbers of such files, for both byte orders.
pub(crate) const MAGICS: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// With sections, as `perf record -o FILE` writes it.
    File,
    /// A stream, as `perf record -o -` writes it.
    Pipe,
}

/// Reason why a file must not be passed to the parsing crate.
#[derive(Debug)]
pub(super) enum GuardError {
    Read(io::Error),
    /// Problem, as a clause.
    Is(&'static str),
}

impl GuardError {
    pub(super) fn into_error(self, path: &Path) -> Error {
        match self {
            GuardError::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                GuardError::Is("it ends in the middle").into_error(path)
            }
            GuardError::Read(error) => Error::read(path)(error),
            GuardError::Is(reason) => {
                Error::Damaged { path: path.to_path_buf(), format: FORMAT, reason: reason.to_owned() }
            }
        }
    }
}

impl From<io::Error> for GuardError {
    fn from(error: io::Error) -> GuardError {
        GuardError::Read(error)
    }
}

/// Bytes of the header of a file, and of a stream.
const FILE_HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;
/// Bytes of a record's header.
pub(super) const RECORD_HEADER: u16 = 8;
/// Feature that lists the events, and the features that identify files of Android's simpleperf. linux:
/// tools/perf/util/header.h:HEADER_EVENT_DESC
const EVENT_DESC: u32 = 12;
const SIMPLEPERF: std::ops::RangeInclusive<u32> = 128..=131;
/// Records that are followed by additional bytes. linux: tools/lib/perf/include/perf/event.h
pub(super) const TRACING_DATA: u32 = 66;
pub(super) const AUXTRACE: u32 = 71;
/// Bytes of the smallest and of the largest plausible description of an event.
const ATTR_BYTES: std::ops::RangeInclusive<u64> = 64..=4096;

/// A section of the file.
#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn read(cursor: &mut Cursor<'_>) -> Option<Section> {
        Some(Section { offset: cursor.u64()?, size: cursor.u64()? })
    }

    fn is_within(self, length: u64) -> bool {
        self.offset.checked_add(self.size).is_some_and(|end| end <= length)
    }
}

/// Checks the sizes in a file, and returns to its beginning.
pub(super) fn check(mut file: &File) -> Result<Mode, GuardError> {
    let length = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut header = Vec::new();
    file.take(FILE_HEADER).read_to_end(&mut header)?;
    let cursor = &mut Cursor::new(&header);
    if cursor.take(8) == Some(MAGICS[1]) {
        return Err(GuardError::Is("it is from a machine with the other byte order; import it on such a machine"));
    }
    match cursor.u64() {
        Some(PIPE_HEADER) => Ok(Mode::Pipe),
        Some(FILE_HEADER) => {
            check_sections(file, cursor, length).ok_or(GuardError::Is("a section is outside the file"))??;
            file.rewind()?;
            Ok(Mode::File)
        }
        _ => Err(GuardError::Is("its header has an invalid size")),
    }
}

/// Checks the sections; `None` if one extends beyond the end.
fn check_sections(file: &File, cursor: &mut Cursor<'_>, length: u64) -> Option<Result<(), GuardError>> {
    let attr_size = cursor.u64()?;
    let [attrs, data, types] = [Section::read(cursor)?, Section::read(cursor)?, Section::read(cursor)?];
    let features: Vec<u64> = (0..4).map(|_| cursor.u64()).collect::<Option<_>>()?;
    if data.size == 0 {
        return Some(Err(GuardError::Is("it has no data, as after perf was killed; record again")));
    }
    if SIMPLEPERF.clone().any(|feature| has_bit(&features, feature)) {
        return Some(Err(GuardError::Is("it was made by simpleperf; record with perf")));
    }
    if types.size != 0 || !ATTR_BYTES.contains(&attr_size) {
        return Some(Err(GuardError::Is("its layout is older than Linux 3.0; record with a newer perf")));
    }
    if !attrs.is_within(length) || !data.is_within(length) {
        return None;
    }
    Some(check_contents(file, data, (0..256).filter(|feature| has_bit(&features, *feature)).collect(), length))
}

/// Returns whether a bit of a bitmap is set.
fn has_bit(words: &[u64], bit: u32) -> bool {
    words[bit as usize / 64] >> (bit % 64) & 1 == 1
}

/// Checks the sections after the data, and the data.
fn check_contents(mut file: &File, data: Section, features: Vec<u32>, length: u64) -> Result<(), GuardError> {
    const OUTSIDE: GuardError = GuardError::Is("a section is outside the file");
    file.seek(SeekFrom::Start(data.offset + data.size))?;
    let mut table = Vec::new();
    file.take(16 * features.len() as u64).read_to_end(&mut table)?;
    let cursor = &mut Cursor::new(&table);
    let mut sizes: u64 = 0;
    for feature in features {
        let section = Section::read(cursor).filter(|section| section.is_within(length)).ok_or(OUTSIDE)?;
        sizes = sizes.saturating_add(section.size);
        // The parsing crate reads all of them into memory.
        if sizes > length {
            return Err(GuardError::Is("its sections overlap"));
        }
        if feature == EVENT_DESC {
            file.seek(SeekFrom::Start(section.offset))?;
            let mut events = Vec::new();
            file.take(section.size).read_to_end(&mut events)?;
            check_events(&events).ok_or(GuardError::Is("its list of events has a wrong length"))?;
        }
    }
    file.seek(SeekFrom::Start(data.offset))?;
    check_records(file, data.size)
}

/// Checks the list of events: it has as many entries as it claims, each with as many numbers as it claims.
pub(super) fn check_events(bytes: &[u8]) -> Option<()> {
    let cursor = &mut Cursor::new(bytes);
    let events = cursor.u32()?;
    let attr_size = u64::from(cursor.u32()?);
    let fits = ATTR_BYTES.contains(&attr_size) && u64::from(events).checked_mul(attr_size)? <= bytes.len() as u64;
    fits.then_some(())?;
    for _ in 0..events {
        let attr = cursor.take(attr_size)?;
        // The entry's own size must not exceed that in the list.
        let own = u32::from_ne_bytes(*attr.get(4..)?.first_chunk()?);
        (u64::from(own) <= attr_size).then_some(())?;
        let numbers = u64::from(cursor.u32()?);
        let name = cursor.u32()?;
        cursor.take(name.into())?;
        cursor.take(numbers.checked_mul(8)?)?;
    }
    Some(())
}

/// Checks that records follow one another to the end. Their contents are skipped.
fn check_records(data: impl Read + Seek, size: u64) -> Result<(), GuardError> {
    const LONGER: GuardError = GuardError::Is("a record has an invalid length");
    let mut data = BufReader::with_capacity(super::BUFFER, data);
    let mut left = size;
    while left > 0 {
        let mut header = [0; RECORD_HEADER as usize];
        data.read_exact(&mut header)?;
        let [a, b, c, d, _, _, low, high] = header;
        let (kind, length) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([low, high]));
        let mut body = u64::from(length.checked_sub(RECORD_HEADER).ok_or(LONGER)?);
        left = left.checked_sub(length.into()).ok_or(LONGER)?;
        if kind == AUXTRACE && body >= 8 {
            let mut size = [0; 8];
            data.read_exact(&mut size)?;
            let after = u64::from_ne_bytes(size);
            left = left.checked_sub(after).ok_or(LONGER)?;
            body = body - 8 + after;
        }
        data.seek_relative(body.cast_signed())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a list of `events` events, with one entry that claims this many numbers and has two.
    fn list(events: u32, attr_size: u32, numbers: u32) -> Vec<u8> {
        let mut bytes = [events.to_ne_bytes(), attr_size.to_ne_bytes()].concat();
        let mut attr = vec![0; 128];
        attr[4..8].copy_from_slice(&128_u32.to_ne_bytes());
        bytes.extend(attr);
        bytes.extend(numbers.to_ne_bytes());
        bytes.extend(4_u32.to_ne_bytes());
        bytes.extend(b"abc\0");
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn event_list_length_must_match_its_header() {
        assert_eq!(check_events(&list(1, 128, 2)), Some(()));
        for bad in [list(1, 128, 3), list(2, 128, 2), list(1, 8, 2), list(u32::MAX, 128, 2), list(1, 64, 2)] {
            assert_eq!(check_events(&bad), None);
        }
    }

    fn record(kind: u32, length: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_ne_bytes()[..], &[0, 0], &length.to_ne_bytes(), body].concat()
    }

    #[test]
    fn records_must_fill_the_data() {
        let two = [record(9, 12, b"abcd"), record(2, 8, b"")].concat();
        let traces = [4, 5, u64::MAX].map(|size: u64| [record(AUXTRACE, 16, &size.to_ne_bytes()), vec![0; 4]].concat());
        for good in [&two, &traces[0]] {
            assert!(check_records(io::Cursor::new(good), good.len() as u64).is_ok());
        }
        let cut = record(9, 12, b"abcd")[..11].to_vec();
        for bad in [&record(9, 13, b"abcd"), &record(9, 7, b""), &cut, &traces[1], &traces[2]] {
            assert!(check_records(io::Cursor::new(bad), bad.len() as u64).is_err(), "{bad:?}");
        }
    }
}
