//! The kernel's descriptions of its events in files of perf and trace-cmd.
//!
//! Both tools have the same layout: perf in a part of its file, trace-cmd at the beginning of its own. It consists of
//! texts of tracefs, each preceded by its size: the header of a page of the ring, formats of events by subsystem,
//! addresses and names of functions, and names of tasks. linux: tools/perf/util/trace-event-read.c:trace_report;
//! trace-cmd: Documentation/trace-cmd/trace-cmd.dat.v6.5.txt

use freehold_trace::format::EventFormat;

use crate::bytes::Cursor;

/// Magic number of the descriptions.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The kernel's descriptions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing {
    /// Bytes in a page of the recorded machine.
    pub page_size: u32,
    /// `events/header_page`.
    pub header_page: String,
    /// `events/header_event`.
    pub header_event: String,
    /// Subsystem and format of each event.
    pub formats: Vec<(String, EventFormat)>,
    /// Names of tasks at the end, by thread id.
    pub names: Vec<(u32, String)>,
}

/// Contents of the first bytes.
pub(crate) struct Opening {
    pub version: String,
    pub is_big_endian: bool,
    pub page_size: u32,
}

/// Reads the first bytes, up to the size of a page. In version 7 of trace-cmd, the following bytes have another layout.
pub(crate) fn opening(cursor: &mut Cursor<'_>) -> Option<Opening> {
    cursor.expect(MAGIC)?;
    let version = text(cursor.until_zero()?);
    let is_big_endian = cursor.u8()? != 0;
    let _long_size = cursor.u8()?;
    Some(Opening { version, is_big_endian, page_size: cursor.u32()? })
}

impl Tracing {
    /// Reads perf's part; `None` if it is cut off, or has the other byte order.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Tracing> {
        let mut cursor = Cursor::new(bytes);
        let opening = opening(&mut cursor).filter(|opening| !opening.is_big_endian)?;
        let mut tracing = Tracing { page_size: opening.page_size, ..Tracing::default() };
        tracing.read_formats(&mut cursor)?;
        // The following parts are optional and may be missing.
        let _ = tracing.read_names(&mut cursor);
        Some(tracing)
    }

    /// Reads the header of a page, ftrace's own formats, and the formats of events.
    pub(crate) fn read_formats(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        self.read_headers(cursor)?;
        skip_ftrace(cursor)?;
        self.read_events(cursor)
    }

    /// Reads the header of a page, and that of an event.
    pub(crate) fn read_headers(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        cursor.expect(b"header_page\0")?;
        self.header_page = sized(cursor)?;
        cursor.expect(b"header_event\0")?;
        self.header_event = sized(cursor)?;
        Some(())
    }

    /// Reads the formats of events, subsystem by subsystem.
    pub(crate) fn read_events(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..cursor.u32()? {
            let system = text(cursor.until_zero()?);
            for _ in 0..cursor.u32()? {
                // No rows are made of an event whose format cannot be parsed.
                if let Ok(format) = EventFormat::parse(&sized(cursor)?) {
                    self.formats.push((system.clone(), format));
                }
            }
        }
        Some(())
    }

    /// Reads addresses, texts of `printk`, and names of tasks.
    fn read_names(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..2 {
            let size = cursor.u32()?;
            cursor.take(size.into())?;
        }
        let names = sized(cursor)?;
        self.take_names(&names);
        Some(())
    }

    /// Adds the names in `saved_cmdlines`: a thread id and a name in each line.
    pub(crate) fn take_names(&mut self, text: &str) {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        self.names.extend(pairs.filter_map(|(pid, name)| Some((pid.parse().ok()?, name.to_owned()))));
    }

    /// Returns the format of an event.
    pub(crate) fn format(&self, system: &str, name: &str) -> Option<&EventFormat> {
        self.formats.iter().find(|(of, format)| of == system && format.name == name).map(|(_, format)| format)
    }
}

/// Skips the formats of ftrace's own events, of which no rows are made.
pub(crate) fn skip_ftrace(cursor: &mut Cursor<'_>) -> Option<()> {
    for _ in 0..cursor.u32()? {
        sized(cursor)?;
    }
    Some(())
}

/// Reads a text that is preceded by its size of eight bytes.
pub(crate) fn sized(cursor: &mut Cursor<'_>) -> Option<String> {
    let size = cursor.u64()?;
    Some(text(cursor.take(size)?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
