//! Reader of a sample: the time and CPU of an event, and its record.
//!
//! Fields follow one another, each only if the event was opened with it. Fields after the record are not read. linux:
//! include/uapi/linux/perf_event.h:PERF_RECORD_SAMPLE

use linux_perf_data::linux_perf_event_reader::SampleFormat;

use crate::bytes::Cursor;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub time: u64,
    pub cpu: u16,
    /// The record, in the layout of the event's format.
    pub raw: &'a [u8],
}

/// Reads a sample; `None` if it is too short, or the event was opened without time or contents, or with counters.
pub(super) fn read(data: &[u8], format: SampleFormat) -> Option<Sample<'_>> {
    let cursor = &mut Cursor::new(data);
    word(cursor, format, SampleFormat::IDENTIFIER)?;
    word(cursor, format, SampleFormat::IP)?;
    word(cursor, format, SampleFormat::TID)?;
    let time = word(cursor, format, SampleFormat::TIME)??;
    word(cursor, format, SampleFormat::ADDR)?;
    word(cursor, format, SampleFormat::ID)?;
    word(cursor, format, SampleFormat::STREAM_ID)?;
    let cpu = word(cursor, format, SampleFormat::CPU)?.unwrap_or(0) as u32;
    word(cursor, format, SampleFormat::PERIOD)?;
    if format.contains(SampleFormat::READ) {
        return None;
    }
    if format.contains(SampleFormat::CALLCHAIN) {
        let calls = cursor.u64()?;
        cursor.take(calls.checked_mul(8)?)?;
    }
    if !format.contains(SampleFormat::RAW) {
        return None;
    }
    let size = cursor.u32()?;
    Some(Sample { time, cpu: u16::try_from(cpu).ok()?, raw: cursor.take(size.into())? })
}

/// Reads the word of a field if the event was opened with it: `Some(None)` if it was not, `None` at the end.
fn word(cursor: &mut Cursor<'_>, format: SampleFormat, field: SampleFormat) -> Option<Option<u64>> {
    if format.contains(field) { cursor.u64().map(Some) } else { Some(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_fields_follow_the_format() {
        let format = SampleFormat::TIME | SampleFormat::CPU | SampleFormat::CALLCHAIN | SampleFormat::RAW;
        let mut data = Vec::new();
        for word in [77_u64, 3, 2, 0xaa, 0xbb] {
            data.extend(word.to_ne_bytes());
        }
        data.extend(3_u32.to_ne_bytes());
        data.extend(b"abcd");
        assert_eq!(read(&data, format), Some(Sample { time: 77, cpu: 3, raw: b"abc" }));
        assert_eq!(read(&data[..data.len() - 2], format), None);
        assert_eq!(read(&data, format - SampleFormat::TIME), None);
        assert_eq!(read(&data, format | SampleFormat::READ), None);
        data[16..24].fill(0xff);
        assert_eq!(read(&data, format), None, "a call chain is no longer than its record");
    }
}
