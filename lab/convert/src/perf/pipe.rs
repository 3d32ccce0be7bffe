//! Filter for a perf stream that removes parts that the parsing crate does not support.
//!
//! In a pipe, the formats of events follow a record whose size does not include them, and so do the bytes of hardware
//! traces. The filter keeps the former separately and drops the latter. Records with impossible sizes end the stream.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::rc::Rc;

use super::guard::{self, AUXTRACE, RECORD_HEADER, TRACING_DATA};

/// Bytes before the first record.
const OPENING: usize = 16;
/// Record that contains a feature. linux: tools/lib/perf/include/perf/event.h
const HEADER_FEATURE: u32 = 80;
/// Feature that lists the events.
const EVENT_DESC: u64 = 12;
/// Largest accepted size of the formats in bytes. Real ones have a few MiB.
const TRACING_MAX: u64 = 256 << 20;

/// Position in a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Opening,
    Records,
    End,
}

/// The filtered stream.
pub(super) struct Stream<R> {
    input: R,
    place: Place,
    /// The record that is being returned, and the number of its bytes that were returned.
    record: Vec<u8>,
    gone: usize,
    tracing: Rc<RefCell<Vec<u8>>>,
    /// Whether the stream ended in the middle of a record.
    is_cut: Rc<Cell<bool>>,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(input: R) -> Stream<R> {
        Stream {
            input,
            place: Place::Opening,
            record: Vec::new(),
            gone: 0,
            tracing: Rc::default(),
            is_cut: Rc::default(),
        }
    }

    /// Returns a cell that contains, after the last read, whether the stream ended in the middle of a record.
    pub(super) fn is_cut(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_cut)
    }

    /// Returns a cell that contains the formats of events after they were read.
    pub(super) fn tracing(&self) -> Rc<RefCell<Vec<u8>>> {
        Rc::clone(&self.tracing)
    }

    /// Reads the next bytes to return.
    fn advance(&mut self) -> io::Result<()> {
        self.gone = 0;
        self.record.clear();
        match self.place {
            Place::Opening => {
                self.place = Place::Records;
                self.record.resize(OPENING, 0);
                self.input.read_exact(&mut self.record)
            }
            Place::Records => self.next_record(),
            Place::End => Ok(()),
        }
    }

    /// Reads the next record to return.
    fn next_record(&mut self) -> io::Result<()> {
        loop {
            let mut header = [0; RECORD_HEADER as usize];
            let filled = fill(&mut self.input, &mut header)?;
            if filled < header.len() {
                self.is_cut.set(filled > 0);
                self.place = Place::End;
                self.record.clear();
                return Ok(());
            }
            let [a, b, c, d, _, _, low, high] = header;
            let (kind, length) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([low, high]));
            if length < RECORD_HEADER {
                return Err(invalid("a record has an invalid length"));
            }
            self.record.clear();
            self.record.extend(header);
            self.record.resize(usize::from(length), 0);
            let body = &mut self.record[usize::from(RECORD_HEADER)..];
            if fill(&mut self.input, body)? < body.len() {
                self.is_cut.set(true);
                self.place = Place::End;
                self.record.clear();
                return Ok(());
            }
            if !self.keep_apart(kind)? {
                return Ok(());
            }
        }
    }

    /// Returns whether a record must not be returned. The bytes that follow such a record are read here.
    fn keep_apart(&mut self, kind: u32) -> io::Result<bool> {
        let body = &self.record[usize::from(RECORD_HEADER)..];
        match kind {
            TRACING_DATA => {
                let size = body.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)).into();
                let mut tracing = self.tracing.borrow_mut();
                tracing.clear();
                let read = self.input.by_ref().take(u64::min(size, TRACING_MAX)).read_to_end(&mut tracing)?;
                if read as u64 == size { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
            AUXTRACE => {
                let size = body.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                io::copy(&mut self.input.by_ref().take(size), &mut io::sink())?;
                Ok(true)
            }
            HEADER_FEATURE => {
                let feature = body.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
                let is_list = feature.is_some_and(|feature| feature & 0xffff_ffff == EVENT_DESC);
                match is_list && guard::check_events(&body[8..]).is_none() {
                    true => Err(invalid("its list of events has a wrong length")),
                    false => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }
}

/// Fills the buffer as far as input is available. Returns the number of bytes.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.gone == self.record.len() {
            self.advance()?;
        }
        let count = buffer.len().min(self.record.len() - self.gone);
        buffer[..count].copy_from_slice(&self.record[self.gone..self.gone + count]);
        self.gone += count;
        Ok(count)
    }
}
