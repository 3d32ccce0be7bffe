//! Functions and lines of addresses, from DWARF if the program has it, or else from its symbols.

use std::fs;
use std::path::Path;

use addr2line::{Loader, demangle_auto};
use object::{Object, ObjectSegment};

/// A file that is mapped into a process.
pub(crate) struct Binary {
    /// Build ID in hexadecimal digits; empty if there is none.
    pub build_id: String,
    /// Segments of the file: offset in the file, length, and the address for which the segment was linked.
    segments: Vec<(u64, u64, u64)>,
    loader: Option<Loader>,
}

/// A call in the source. One address has several calls if functions were inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Mangled name of the function.
    pub system_name: String,
    pub name: String,
    pub file: String,
    pub line: i64,
}

impl Binary {
    /// Reads a file. If it cannot be read or parsed, the value has no information.
    pub(crate) fn read(file: &str) -> Binary {
        let path = Path::new(file);
        let bytes = fs::read(path).unwrap_or_default();
        let object = object::File::parse(&*bytes).ok();
        let build_id = object.as_ref().and_then(|object| object.build_id().ok().flatten()).unwrap_or_default();
        let mut segments = Vec::new();
        if let Some(object) = &object {
            segments.extend(object.segments().map(|segment| {
                let (offset, length) = segment.file_range();
                (offset, length, segment.address())
            }));
        }
        Binary {
            build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            segments,
            loader: Loader::new(path).ok(),
        }
    }

    /// Returns the calls at an offset in the file, innermost first; none if there is no information.
    pub(crate) fn calls(&self, offset: u64) -> Vec<Call> {
        let Some(loader) = &self.loader else { return Vec::new() };
        let inside = self.segments.iter().find(|(start, length, _)| offset.wrapping_sub(*start) < *length);
        let Some(address) = inside.map(|(start, _, linked)| offset - start + linked) else { return Vec::new() };
        let mut calls = Vec::new();
        if let Ok(mut frames) = loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = &frame.function else { continue };
                let (file, line) = frame.location.map_or((None, None), |place| (place.file, place.line));
                calls.push(Call {
                    system_name: function.raw_name().map(Into::into).unwrap_or_default(),
                    name: function.demangle().map(Into::into).unwrap_or_default(),
                    file: file.unwrap_or_default().to_owned(),
                    line: line.unwrap_or(0).into(),
                });
            }
        }
        if calls.is_empty()
            && let Some(symbol) = loader.find_symbol(address)
        {
            let name = demangle_auto(symbol.into(), None).into_owned();
            calls.push(Call { system_name: symbol.to_owned(), name, file: String::new(), line: 0 });
        }
        calls
    }
}
