//! What perf and trace-cmd keep of the kernel's own descriptions of its events.
//!
//! Both write it alike: perf as a part of its file, trace-cmd as the beginning of its own. Texts of tracefs, each with
//! its size before it: the header of a page of the ring, formats of events by system, addresses and names of functions,
//! and names of tasks. linux: tools/perf/util/trace-event-read.c:trace_report; trace-cmd:
//! Documentation/trace-cmd/trace-cmd.dat.v6.5.txt

use freehold_trace::format::EventFormat;

use crate::bytes::Cursor;

/// What the descriptions begin with.
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
    /// System and format of each event.
    pub formats: Vec<(String, EventFormat)>,
    /// Names of tasks as they were at the end, by number.
    pub names: Vec<(u32, String)>,
}

/// What the beginning says.
pub(crate) struct Opening {
    pub version: String,
    pub is_big_endian: bool,
    pub page_size: u32,
}

/// Reads the first bytes, up to the size of a page; of version 7 of trace-cmd nothing follows that is laid out so.
pub(crate) fn opening(cursor: &mut Cursor<'_>) -> Option<Opening> {
    cursor.expect(MAGIC)?;
    let version = text(cursor.until_zero()?);
    let is_big_endian = cursor.u8()? != 0;
    let _long_size = cursor.u8()?;
    Some(Opening { version, is_big_endian, page_size: cursor.u32()? })
}

impl Tracing {
    /// Reads perf's part. `None` if it breaks off, or is of a machine of the other order of bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Tracing> {
        let mut cursor = Cursor::new(bytes);
        let opening = opening(&mut cursor).filter(|opening| !opening.is_big_endian)?;
        let mut tracing = Tracing { page_size: opening.page_size, ..Tracing::default() };
        tracing.read_formats(&mut cursor)?;
        // What follows is of no use, or may be missing.
        let _ = tracing.read_names(&mut cursor);
        Some(tracing)
    }

    /// The header of a page, ftrace's own formats, and those of events.
    pub(crate) fn read_formats(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        self.read_headers(cursor)?;
        skip_ftrace(cursor)?;
        self.read_events(cursor)
    }

    /// The header of a page, and that of an event.
    pub(crate) fn read_headers(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        cursor.expect(b"header_page\0")?;
        self.header_page = sized(cursor)?;
        cursor.expect(b"header_event\0")?;
        self.header_event = sized(cursor)?;
        Some(())
    }

    /// Formats of events, system by system.
    pub(crate) fn read_events(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..cursor.u32()? {
            let system = text(cursor.until_zero()?);
            for _ in 0..cursor.u32()? {
                // An event whose format is not understood is one of which no rows are made.
                if let Ok(format) = EventFormat::parse(&sized(cursor)?) {
                    self.formats.push((system.clone(), format));
                }
            }
        }
        Some(())
    }

    /// Addresses, texts of `printk`, and names of tasks.
    fn read_names(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..2 {
            let size = cursor.u32()?;
            cursor.take(size.into())?;
        }
        let names = sized(cursor)?;
        self.take_names(&names);
        Some(())
    }

    /// Takes `saved_cmdlines`: a number and a name in each line.
    pub(crate) fn take_names(&mut self, text: &str) {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        self.names.extend(pairs.filter_map(|(pid, name)| Some((pid.parse().ok()?, name.to_owned()))));
    }

    /// The format of an event.
    pub(crate) fn format(&self, system: &str, name: &str) -> Option<&EventFormat> {
        self.formats.iter().find(|(of, format)| of == system && format.name == name).map(|(_, format)| format)
    }
}

/// Formats of ftrace's own events, of which no rows are made.
pub(crate) fn skip_ftrace(cursor: &mut Cursor<'_>) -> Option<()> {
    for _ in 0..cursor.u32()? {
        sized(cursor)?;
    }
    Some(())
}

/// A text with its size, of eight bytes, before it.
pub(crate) fn sized(cursor: &mut Cursor<'_>) -> Option<String> {
    let size = cursor.u64()?;
    Some(text(cursor.take(size)?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
