//! Merge of the pages of all CPUs to one stream of events in order of time.
//!
//! Each CPU's pages are already in order. One piece of each CPU's pages is in memory at a time, and the CPU whose next
//! event is oldest comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use freehold_trace::ring::{LostEvents, PageLayout};

use super::head::{Clock, CpuData, FORMAT, Head, Packing};
use super::pack;
use crate::bytes::Cursor;
use crate::error::Error;
use crate::input::Input;
use crate::item::{Item, Sink};
use crate::records::Records;

/// Pages that are read at a time if they are not compressed.
const PAGES: u64 = 64;
/// Largest accepted size of an unpacked piece in bytes.
const PIECE_MAX: u64 = 64 << 20;
/// Bytes of a piece's header: its packed and unpacked sizes.
const PIECE_HEADER: u64 = 8;

/// Events and pages that are missing from the rings of all CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingLosses {
    /// Events that were dropped before a page, according to the page.
    pub lost: u64,
    /// Events of the rings, with or without rows.
    pub events: u64,
    damaged: u64,
}

impl RingLosses {
    pub(super) fn notes(self) -> Option<String> {
        (self.damaged > 0)
            .then(|| format!("{} pages of the ring were damaged, and their events are missing", self.damaged))
    }
}

/// Stream of all events.
pub(super) struct Merge<'f> {
    input: &'f Input,
    packing: Packing,
    layout: PageLayout,
    clock: Clock,
    streams: Vec<Stream>,
    losses: RingLosses,
}

/// The pages of one CPU.
struct Stream {
    cpu: u16,
    /// Position of the next piece (first field), and the end of the last (second field).
    next: u64,
    end: u64,
    events: std::vec::IntoIter<(u64, Item)>,
    latest: u64,
}

impl<'f> Merge<'f> {
    /// Creates the merge before the first event.
    ///
    /// # Errors
    /// Returns the problem as a clause.
    pub(super) fn new(input: &'f Input, head: &Head, layout: PageLayout, clock: Clock) -> Result<Merge<'f>, String> {
        let streams = head
            .data
            .iter()
            .map(|data| Stream::open(data, head.packing, input.len()))
            .collect::<Result<_, String>>()?;
        Ok(Merge { input, packing: head.packing, layout, clock, streams, losses: RingLosses::default() })
    }

    /// Passes all events to `sink`, oldest first.
    ///
    /// # Errors
    /// Errors of `sink`, and [`Error::Damaged`] if a piece cannot be unpacked.
    pub(super) fn run(mut self, path: &Path, records: &mut Records, sink: Sink<'_>) -> Result<RingLosses, Error> {
        let mut next = BinaryHeap::new();
        for index in 0..self.streams.len() {
            next.extend(self.peek(path, index, records)?.map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((_, index))) = next.pop() {
            let limit = next.peek().map_or(u64::MAX, |&Reverse((time, _))| time);
            while let Some((_, item)) = self.streams[index].events.next() {
                sink(item)?;
                match self.peek(path, index, records)? {
                    Some(time) if time <= limit => {}
                    Some(time) => {
                        next.push(Reverse((time, index)));
                        break;
                    }
                    None => break,
                }
            }
        }
        Ok(self.losses)
    }

    /// Returns the time of the next event of a stream. Reads the next piece if necessary.
    fn peek(&mut self, path: &Path, index: usize, records: &mut Records) -> Result<Option<u64>, Error> {
        loop {
            let stream = &mut self.streams[index];
            if let Some((time, _)) = stream.events.as_slice().first() {
                return Ok(Some(*time));
            }
            if stream.next >= stream.end {
                return Ok(None);
            }
            let Some(bytes) = stream.piece(self.input, self.packing, self.layout.page_bytes() as u64) else {
                return Err(Error::Damaged {
                    path: path.to_path_buf(),
                    format: FORMAT,
                    reason: format!("the events of CPU {} cannot be unpacked", stream.cpu),
                });
            };
            self.decode(index, &bytes, records);
        }
    }

    fn decode(&mut self, index: usize, bytes: &[u8], records: &mut Records) {
        let Merge { streams, layout, clock, losses, .. } = self;
        let stream = &mut streams[index];
        let mut events = Vec::new();
        for bytes in bytes.chunks_exact(layout.page_bytes()) {
            let Ok(page) = layout.page(bytes) else {
                losses.damaged += 1;
                continue;
            };
            match page.lost_events() {
                LostEvents::Nothing => {}
                LostEvents::Count(count) => losses.lost = losses.lost.saturating_add(count),
                LostEvents::Some => {
                    events.push((stream.latest, Item::Gap));
                }
            }
            for event in page.events() {
                let Ok(event) = event else {
                    losses.damaged += 1;
                    break;
                };
                losses.events += 1;
                let time = clock.nanoseconds(event.time);
                stream.latest = stream.latest.max(time);
                let item = records.item(time, event.data, stream.cpu);
                events.extend(item.map(|item| (stream.latest, item)));
            }
        }
        stream.events = events.into_iter();
    }
}

impl Stream {
    /// Finds the pages of one CPU in a file of `length` bytes.
    ///
    /// # Errors
    /// Returns the problem as a clause.
    fn open(data: &CpuData, packing: Packing, length: u64) -> Result<Stream, String> {
        // If compressed, the pages are preceded by the number of pieces, which their size does not include.
        let start = data.offset.checked_add(if packing == Packing::None || data.size == 0 { 0 } else { 4 });
        let end = start.and_then(|start| start.checked_add(data.size)).filter(|end| *end <= length);
        match start.zip(end) {
            Some((next, end)) => Ok(Stream { cpu: data.cpu, next, end, events: Vec::new().into_iter(), latest: 0 }),
            None => Err(format!("the events of CPU {} are cut off", data.cpu)),
        }
    }

    /// Reads the next pages; `None` if they are missing or cannot be unpacked.
    fn piece(&mut self, input: &Input, packing: Packing, page_bytes: u64) -> Option<Vec<u8>> {
        let left = self.end - self.next;
        if packing == Packing::None {
            let size = left.min(PAGES * page_bytes);
            let bytes = input.part(self.next, size);
            self.next += size;
            return bytes;
        }
        let header = input.part(self.next, PIECE_HEADER.min(left))?;
        let cursor = &mut Cursor::new(&header);
        let (packed, whole) = (u64::from(cursor.u32()?), u64::from(cursor.u32()?));
        let fits = PIECE_HEADER + packed <= left && whole <= PIECE_MAX && packed > 0;
        let bytes = fits.then(|| input.part(self.next + PIECE_HEADER, packed))??;
        self.next += PIECE_HEADER + packed;
        pack::unpacked(packing, &bytes, whole)
    }
}
