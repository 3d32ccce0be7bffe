//! Merge of the raw pages of all CPUs to one stream of events in order of time.
//!
//! Each CPU's ring is already in order. One spooled segment of each CPU is decoded at a time, and the CPU whose next
//! event is oldest comes first. Memory is bounded by one segment per CPU for recordings of any length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use freehold_trace::ring::LostEvents;

use crate::decode::{Item, RingDecoder};
use crate::drain::CpuPages;
use crate::error::CaptureError;
use crate::spool::{AlignedBuffer, Segment, Spool};

/// Irregularities of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Irregularities {
    /// Events older than the previous one on their CPU, which got its time.
    pub backward: u64,
    /// Pages of a ring before which the kernel dropped events.
    pub gaps: u64,
    /// Pages whose layout is not the kernel's. The events after the damage are lost.
    pub damaged: u64,
}

/// A decoded event and its time of the clock.
#[derive(Debug)]
struct Event {
    time: u64,
    item: Item,
}

/// Stream of all events in order of time.
#[derive(Debug)]
pub(crate) struct Merge<'run> {
    spool: &'run Spool,
    decoder: &'run RingDecoder,
    streams: Vec<Stream<'run>>,
    buffer: AlignedBuffer,
    /// Gaps before this time are not counted.
    since: u64,
    irregularities: Irregularities,
}

#[derive(Debug)]
struct Stream<'run> {
    cpu: u16,
    segments: std::slice::Iter<'run, Segment>,
    events: std::vec::IntoIter<Event>,
    latest: u64,
}

impl<'run> Merge<'run> {
    /// Creates a merge of `pages` from their beginning. All events are visited, but gaps before `since` are not
    /// counted.
    pub(crate) fn new(spool: &'run Spool, decoder: &'run RingDecoder, pages: &'run [CpuPages], since: u64) -> Self {
        let longest = pages.iter().flat_map(|pages| &pages.segments).map(|segment| segment.len).max();
        let streams = pages
            .iter()
            .map(|pages| Stream {
                cpu: pages.cpu,
                segments: pages.segments.iter(),
                events: Vec::new().into_iter(),
                latest: 0,
            })
            .collect();
        let buffer = AlignedBuffer::new(longest.unwrap_or(0));
        Merge { spool, decoder, streams, buffer, since, irregularities: Irregularities::default() }
    }

    /// Calls `visit` with the time and the item of every event, oldest first.
    ///
    /// # Errors
    /// If the spool cannot be read, and errors of `visit`.
    pub(crate) fn for_each(
        mut self,
        mut visit: impl FnMut(u64, Item) -> Result<(), CaptureError>,
    ) -> Result<Irregularities, CaptureError> {
        let mut next = BinaryHeap::new();
        for index in 0..self.streams.len() {
            next.extend(self.peek(index)?.map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((_, index))) = next.pop() {
            let limit = next.peek().map_or(u64::MAX, |&Reverse((time, _))| time);
            // As long as this CPU's next event is the oldest, the heap is not needed.
            while let Some(event) = self.streams[index].events.next() {
                visit(event.time, event.item)?;
                match self.peek(index)? {
                    Some(time) if time <= limit => {}
                    Some(time) => {
                        next.push(Reverse((time, index)));
                        break;
                    }
                    None => break,
                }
            }
        }
        Ok(self.irregularities)
    }

    /// Returns the time of the next event of a stream. Loads the next segment if necessary.
    fn peek(&mut self, index: usize) -> Result<Option<u64>, CaptureError> {
        loop {
            let stream = &mut self.streams[index];
            if let Some(event) = stream.events.as_slice().first() {
                return Ok(Some(event.time));
            }
            let Some(&segment) = stream.segments.next() else { return Ok(None) };
            self.spool.read(segment, &mut self.buffer)?;
            self.decode(index, segment.len);
        }
    }

    /// Decodes the pages in the buffer into a stream.
    fn decode(&mut self, index: usize, len: usize) {
        let Merge { streams, buffer, decoder, irregularities, since, .. } = self;
        let stream = &mut streams[index];
        let mut events = Vec::new();
        for bytes in buffer.get()[..len].chunks_exact(decoder.layout.page_bytes()) {
            let Ok(page) = decoder.layout.page(bytes) else {
                irregularities.damaged += 1;
                continue;
            };
            irregularities.gaps += u64::from(page.lost_events() != LostEvents::Nothing && page.time() > *since);
            for event in page.events() {
                let Ok(event) = event else {
                    irregularities.damaged += 1;
                    break;
                };
                irregularities.backward += u64::from(event.time < stream.latest);
                stream.latest = stream.latest.max(event.time);
                let item = decoder.decode(&event, stream.cpu);
                events.extend(item.map(|item| Event { time: stream.latest, item }));
            }
        }
        stream.events = events.into_iter();
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
