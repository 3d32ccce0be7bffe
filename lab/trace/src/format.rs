//! Parser of the kernel's descriptions of its events: `events/*/*/format`.
//!
//! Each file gives an event's number and, for each field, its offset, size and signedness. These differ between
//! kernels, so the layout of a record is never assumed. A [`Field`] is looked up once by name, and then reads its value
//! from any record of that event.

use std::str::Lines;

/// Error of a format file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text has no `name:` or no `ID:` line.
    #[error("the text is not the format of a trace event: there is no line `{line}`; read a file of tracefs' events")]
    NotFormat {
        /// Beginning of the missing line.
        line: &'static str,
    },
    /// A field line that cannot be parsed.
    #[error("cannot parse the format line `{line}`; report it with the kernel's release")]
    BadLine {
        /// The line.
        line: String,
    },
    /// A required field is missing.
    #[error("the event `{event}` has no field `{field}` on this kernel; use a kernel with this field")]
    MissingField {
        /// Name of the event.
        event: String,
        /// Name of the field.
        field: String,
    },
    /// A field with an impossible offset or size.
    #[error("the field `{field}` of `{event}` has an invalid offset or size; report it with the kernel's release")]
    Misplaced {
        /// Name of the event.
        event: String,
        /// Name of the field.
        field: String,
    },
}

impl FormatError {
    pub(crate) fn missing(event: &str, field: &str) -> FormatError {
        FormatError::MissingField { event: event.to_owned(), field: field.to_owned() }
    }
}

/// Largest offset of a field. Records are at most a page long, and pages of the ring are at most this size.
const OFFSET_MAX: usize = 1 << 20;

/// Location of a value in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Size of the value in bytes.
    pub size: usize,
    /// Whether the value can be negative.
    pub signed: bool,
}

impl Field {
    /// Returns the offset of the first byte after the field.
    pub fn end(&self) -> usize {
        self.offset + self.size
    }

    /// Returns the field's bytes in a record; `None` if the record is too short.
    #[inline]
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..self.end())
    }

    /// Returns the value zero-extended; `None` if the record is too short or the field is not an integer.
    #[inline]
    pub fn unsigned(&self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        Some(match self.size {
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            1 => bytes[0].into(),
            _ => return None,
        })
    }

    /// Returns the value, sign-extended if the field is signed. An unsigned value of 64 bits keeps its bits. Returns
    /// `None` if the record is too short or the field is not an integer.
    #[inline]
    pub fn integer(&self, record: &[u8]) -> Option<i64> {
        let value = self.unsigned(record)?;
        if !self.signed {
            return Some(value as i64);
        }
        let unused = 64 - 8 * self.size as u32;
        Some((value << unused) as i64 >> unused)
    }

    /// Returns the text of a character array: the bytes up to the first zero; `None` if the record is too short.
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        until_zero(self.bytes(record)?)
    }

    /// Returns the text of a field of type `__data_loc char[]`, whose value is the location of the text in the record;
    /// `None` if the record is too short for the field or for the text.
    pub fn located_text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let place = self.unsigned(record)?;
        let (offset, size) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
        until_zero(record.get(offset..offset + size)?)
    }
}

fn until_zero(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|&byte| byte == 0).next()
}

/// Format of one event, as tracefs describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the event, without its subsystem.
    pub name: String,
    /// Number of the event in the records' field `common_type`.
    pub id: u16,
    fields: Vec<(String, Field)>,
    print: String,
}

/// Returns the rest of the first line that begins with `line`.
fn line_value<'t>(text: &'t str, line: &'static str) -> Result<&'t str, FormatError> {
    let mut values = text.lines().filter_map(|candidate| candidate.strip_prefix(line));
    values.next().map(str::trim).ok_or(FormatError::NotFormat { line })
}

impl EventFormat {
    /// Parses the text of a `format` file.
    ///
    /// # Errors
    /// [`FormatError`] if the text is not a format file.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let id = line_value(text, "ID:")?.parse().map_err(|_| FormatError::NotFormat { line: "ID:" })?;
        let name = line_value(text, "name:")?.to_owned();
        let fields = parse_fields(text)?;
        let print = line_value(text, "print fmt:").unwrap_or_default().to_owned();
        Ok(EventFormat { name, id, fields, print })
    }

    /// Returns the field with this name, if there is one.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(field, _)| field == name).map(|&(_, field)| field)
    }

    /// Returns the field with this name.
    ///
    /// # Errors
    /// [`FormatError::MissingField`] if there is none.
    pub fn require(&self, name: &str) -> Result<Field, FormatError> {
        self.field(name).ok_or_else(|| FormatError::missing(&self.name, name))
    }

    /// Returns the names of the fields, in order.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the text with which the kernel prints a record: a C format string and its arguments.
    pub fn print_format(&self) -> &str {
        &self.print
    }
}

/// Parses all `field:` lines of a format file into names and locations.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<(String, Field)>, FormatError> {
    let lines: Lines<'_> = text.lines();
    lines
        .filter_map(|line| line.trim_start().strip_prefix("field:"))
        .map(|line| parse_field(line).ok_or_else(|| FormatError::BadLine { line: line.trim().to_owned() }))
        .collect()
}

/// Parses `TYPE NAME;  offset:N;  size:N;  signed:N;`. Very old kernels omit the last part.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let name = declaration.rsplit([' ', '\t', '*']).next()?.split('[').next()?;
    let mut field = Field { offset: usize::MAX, size: usize::MAX, signed: false };
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once(':')?;
        let value: usize = value.trim().parse().ok()?;
        match key {
            "offset" => field.offset = value,
            "size" => field.size = value,
            "signed" => field.signed = value != 0,
            _ => {}
        }
    }
    let is_sane = !name.is_empty() && field.offset <= OFFSET_MAX && field.size <= OFFSET_MAX;
    is_sane.then(|| (name.to_owned(), field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENAME: &str = "name: task_rename\nID: 204\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] where;\toffset:44;\tsize:4;\tsigned:0;\n\
        \tfield:struct mm_struct * mm;\toffset:48;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"pid=%d\", REC->pid\n";

    #[test]
    fn event_format_fields_are_parsed_and_read() {
        let format = EventFormat::parse(RENAME).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("task_rename", 204));
        let names: Vec<_> = format.field_names().collect();
        assert_eq!(names, ["common_type", "common_pid", "pid", "newcomm", "where", "mm"]);
        let mut record = [0; 60];
        record[8..12].copy_from_slice(&(-5i32).to_ne_bytes());
        record[28..31].copy_from_slice(b"cc1");
        record[44..48].copy_from_slice(&(56u32 | 4 << 16).to_ne_bytes());
        record[56..60].copy_from_slice(b"ld\0\0");
        let [pid, name, place, mm] = ["pid", "newcomm", "where", "mm"].map(|name| format.require(name).unwrap());
        assert_eq!(pid.integer(&record), Some(-5));
        assert_eq!(pid.unsigned(&record), Some(0xffff_fffb));
        assert_eq!(name.text(&record), Some(&b"cc1"[..]));
        assert_eq!(name.integer(&record), None, "16 bytes are no integer");
        assert_eq!(place.located_text(&record), Some(&b"ld"[..]));
        assert_eq!(mm.unsigned(&record[..50]), None, "the record is too short");
        assert!(format.require("pfn").is_err());
    }

    #[test]
    fn invalid_event_formats_are_errors() {
        assert_eq!(EventFormat::parse("hello"), Err(FormatError::NotFormat { line: "ID:" }));
        assert!(EventFormat::parse(&RENAME.replace("204", "x")).is_err());
        let bad = RENAME.replace("offset:8", "offset:eight");
        assert!(matches!(EventFormat::parse(&bad), Err(FormatError::BadLine { .. })));
        let huge = RENAME.replace("offset:8", "offset:18446744073709551615");
        assert!(EventFormat::parse(&huge).is_err());
    }
}
