//! Raw pages of the kernel's trace ring, as read from `per_cpu/cpuN/trace_pipe_raw`.
//!
//! A page has a header (the time of its first event, and the number of committed bytes) followed by events. The first
//! word of an event has 5 bits of type and 27 bits of time since the previous event. Long pauses take an event of their
//! own, so the time of an event is known only after walking over its page from the start. The layout of the header is
//! read from `events/header_page` and never assumed, since a page may be larger than 4 KiB.
//!
//! The walk copies nothing and takes a few nanoseconds an event. linux: kernel/trace/ring_buffer.c

use crate::format::{Field, FormatError, parse_fields};

/// Error of a page whose layout is not the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The page is shorter than its header, or claims more bytes than it has.
    #[error(
        "a page of the ring buffer commits {committed} bytes, but has only {available}; record again, or report the \
         kernel's release"
    )]
    Overcommitted {
        /// Committed bytes according to the page's header.
        committed: usize,
        /// Bytes that follow the header.
        available: usize,
    },
    /// An event extends beyond the committed bytes.
    #[error(
        "an event at byte {offset} of a page of the ring buffer is incomplete; record again, or report the kernel's \
         release"
    )]
    CutOff {
        /// Offset of the event from the start of the page's data.
        offset: usize,
    },
}

/// Layout of a page, from the kernel's `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    timestamp: Field,
    commit: Field,
    data_offset: usize,
    data_bytes: usize,
}

impl PageLayout {
    /// Parses the text of `events/header_page`.
    ///
    /// That file must be read with a single `read` into a large buffer, since the kernel returns nothing for a second
    /// one. `std::fs::read_to_string` starts with a small buffer and so gets only the first few bytes.
    ///
    /// # Errors
    /// [`FormatError`] if a field is missing or its position is impossible.
    pub fn parse(text: &str) -> Result<PageLayout, FormatError> {
        let fields = parse_fields(text)?;
        let timestamp = header_field(&fields, "timestamp")?;
        let commit = header_field(&fields, "commit")?;
        let data = header_field(&fields, "data")?;
        let are_sane =
            [timestamp, commit].iter().all(|field| matches!(field.size, 4 | 8) && field.end() <= data.offset);
        if !are_sane || data.size == 0 {
            return Err(FormatError::Misplaced { event: "header_page".to_owned(), field: "data".to_owned() });
        }
        Ok(PageLayout { timestamp, commit, data_offset: data.offset, data_bytes: data.size })
    }

    /// Returns the number of bytes in a page, which is the result of one `read` of `trace_pipe_raw`.
    pub fn page_bytes(&self) -> usize {
        self.data_offset + self.data_bytes
    }

    /// Parses the header of a page.
    ///
    /// # Errors
    /// [`RingError::Overcommitted`].
    pub fn page<'a>(&self, bytes: &'a [u8]) -> Result<Page<'a>, RingError> {
        const SIZE_MASK: u64 = (1 << 30) - 1;
        let available = bytes.len().saturating_sub(self.data_offset);
        let header = self.timestamp.unsigned(bytes).zip(self.commit.unsigned(bytes));
        let (time, commit) = header.ok_or(RingError::Overcommitted { committed: self.data_offset, available })?;
        let committed = (commit & SIZE_MASK) as usize;
        if committed > available {
            return Err(RingError::Overcommitted { committed, available });
        }
        let (data, rest) = bytes[self.data_offset..].split_at(committed);
        Ok(Page { time, data, lost_events: LostEvents::parse(commit, rest) })
    }
}

/// Finds a field in the text of `header_page`.
fn header_field(fields: &[(String, Field)], name: &'static str) -> Result<Field, FormatError> {
    let named = fields.iter().find(|(field, _)| field == name);
    named.map(|&(_, field)| field).ok_or_else(|| FormatError::missing("header_page", name))
}

/// Events that the kernel dropped before a page, because the ring was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostEvents {
    /// No event was lost.
    Nothing,
    /// Some events were lost, and the kernel does not give their number.
    Some,
    /// This many events were lost.
    Count(u64),
}

impl LostEvents {
    fn parse(commit: u64, after_data: &[u8]) -> LostEvents {
        const MISSED: u64 = 1 << 31;
        const COUNT_STORED: u64 = 1 << 30;
        match (commit & MISSED, commit & COUNT_STORED, after_data.first_chunk()) {
            (0, _, _) => LostEvents::Nothing,
            (_, 0, _) | (_, _, None) => LostEvents::Some,
            (_, _, Some(&count)) => LostEvents::Count(u64::from_ne_bytes(count)),
        }
    }
}

/// A page of one CPU's ring buffer.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    time: u64,
    data: &'a [u8],
    lost_events: LostEvents,
}

impl<'a> Page<'a> {
    /// Returns the time of the page's first event, in nanoseconds of the trace clock.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Returns the events that were dropped between the previous page and this one.
    pub fn lost_events(&self) -> LostEvents {
        self.lost_events
    }

    /// Returns an iterator over the events. It ends after an error.
    pub fn events(&self) -> Events<'a> {
        Events { data: self.data, offset: 0, time: self.time }
    }
}

/// An event in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// Nanoseconds of the trace clock.
    pub time: u64,
    /// The record, in the layout of the format file, possibly followed by some bytes of padding.
    pub data: &'a [u8],
}

/// Iterator over the events of a page.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    data: &'a [u8],
    offset: usize,
    time: u64,
}

/// Event types without a record.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of time in an event's first word.
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time stamp. The bits above them are taken from the previous time.
const STAMP_BITS: u32 = 59;

impl<'a> Events<'a> {
    #[inline]
    fn word(&self, offset: usize) -> Option<u32> {
        let bytes = self.data.get(offset..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// Returns the next event, `Ok(None)` at the end, or an error if the event is cut off.
    #[inline]
    fn walk(&mut self) -> Result<Option<RawEvent<'a>>, RingError> {
        while self.offset < self.data.len() {
            let cut_off = RingError::CutOff { offset: self.offset };
            let Some(head) = self.word(self.offset) else {
                return Err(cut_off);
            };
            let (kind, delta) = (head & 31, head >> 5);
            let start = self.offset + 4;
            if let 1..PADDING = kind {
                let end = start + 4 * kind as usize;
                return self.record(start, end, delta).ok_or(cut_off).map(Some);
            }
            if kind == PADDING && delta == 0 {
                // The rest of the page is unused.
                self.offset = self.data.len();
                break;
            }
            let Some(word) = self.word(start) else {
                return Err(cut_off);
            };
            match kind {
                // A long record: its length is in this word, and includes it.
                0 => {
                    return self.record(start + 4, start + word as usize, delta).ok_or(cut_off).map(Some);
                }
                PADDING => self.offset = start + word as usize,
                _ => self.pass_time(kind, u64::from(delta) | u64::from(word) << DELTA_BITS),
            }
        }
        Ok(None)
    }

    #[inline]
    fn record(&mut self, start: usize, end: usize, delta: u32) -> Option<RawEvent<'a>> {
        let data = self.data.get(start..end)?;
        self.time = self.time.wrapping_add(delta.into());
        self.offset = end;
        Some(RawEvent { time: self.time, data })
    }

    /// Handles a time event of two words.
    fn pass_time(&mut self, kind: u32, value: u64) {
        debug_assert!(kind == TIME_EXTEND || kind == TIME_STAMP, "5 bits leave no other type");
        self.offset += 8;
        self.time = match kind {
            TIME_STAMP => absolute(value, self.time),
            _ => self.time.wrapping_add(value),
        };
    }
}

/// Adds to a time stamp the high bits that it lacks, so that it is not before `previous`.
fn absolute(stamp: u64, previous: u64) -> u64 {
    const MASK: u64 = (1 << STAMP_BITS) - 1;
    let time = stamp & MASK | previous & !MASK;
    if time < previous { time.wrapping_add(1 << STAMP_BITS) } else { time }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<RawEvent<'a>, RingError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let event = self.walk();
        if event.is_err() {
            self.offset = self.data.len();
        }
        event.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn layout() -> PageLayout {
        PageLayout::parse(HEADER).unwrap()
    }

    fn page(commit_flags: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..8].copy_from_slice(&1000u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&(commit_flags | (words.len() * 4) as u64).to_ne_bytes());
        for (index, word) in words.iter().enumerate() {
            bytes[16 + 4 * index..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn events(words: &[u32]) -> Result<Vec<(u64, usize)>, RingError> {
        let bytes = page(0, words);
        let page = layout().page(&bytes)?;
        page.events().map(|event| event.map(|event| (event.time, event.data.len()))).collect()
    }

    fn head(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn ring_layout_is_read_from_the_header() {
        assert_eq!(layout().page_bytes(), 4096);
        let large = HEADER.replace("4080", "65520");
        assert_eq!(PageLayout::parse(&large).unwrap().page_bytes(), 65536);
        assert!(PageLayout::parse(&HEADER.replace("commit", "other")).is_err());
        assert!(PageLayout::parse(&HEADER.replace("offset:16", "offset:12")).is_err());
    }

    #[test]
    fn records_timestamps_and_padding_are_walked() {
        let words = [
            head(2, 5),
            0,
            0, // eight bytes, 5 ns after the page
            head(TIME_EXTEND, 1),
            2, // 1 + 2 * 2^27 ns later
            head(1, 0),
            0,
            head(PADDING, 1),
            8,
            0, // a discarded event
            head(0, 7),
            12,
            0,
            0, // a long record of 8 bytes
            head(TIME_STAMP, 9),
            1 << 10, // absolute
            head(1, 1),
            0,
            head(PADDING, 0),
            77, // nothing more
        ];
        let late = 1005 + 1 + (2 << 27);
        let stamp = 9 + (1 << 37);
        assert_eq!(events(&words).unwrap(), [(1005, 8), (late, 4), (late + 7, 8), (stamp + 1, 4)]);
    }

    #[test]
    fn record_beyond_the_page_end_is_an_error() {
        for words in [&[head(3, 0), 0, 0][..], &[head(0, 0), 400, 0], &[head(0, 0)], &[head(TIME_STAMP, 0)]] {
            assert_eq!(events(words), Err(RingError::CutOff { offset: 0 }));
        }
        // A length of zero would be a record that ends before it starts.
        assert_eq!(events(&[head(0, 0), 0, 0]), Err(RingError::CutOff { offset: 0 }));
    }

    #[test]
    fn overcommitted_page_is_an_error() {
        let bytes = page(0, &[0; 1000]);
        let error = layout().page(&bytes[..100]).unwrap_err();
        assert_eq!(error, RingError::Overcommitted { committed: 4000, available: 84 });
        assert!(layout().page(&[]).is_err());
    }

    #[test]
    fn lost_events_are_reported() {
        let mut counted = page(1 << 31 | 1 << 30, &[head(1, 0), 0]);
        counted[24..32].copy_from_slice(&77u64.to_ne_bytes());
        for (bytes, expected) in [
            (counted, LostEvents::Count(77)),
            (page(1 << 31, &[head(1, 0), 0]), LostEvents::Some),
            (page(0, &[]), LostEvents::Nothing),
        ] {
            assert_eq!(layout().page(&bytes).unwrap().lost_events(), expected);
        }
    }

    #[test]
    fn absolute_stamps_keep_the_high_bits() {
        let previous = (3 << STAMP_BITS) + 100;
        assert_eq!(absolute(200, previous), (3 << STAMP_BITS) + 200);
        assert_eq!(absolute(50, previous), (4 << STAMP_BITS) + 50);
    }
}
