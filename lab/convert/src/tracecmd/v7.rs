//! Version 7: sections, whose locations are in the options. Sections may be compressed.

use std::iter;

use super::head::{Head, Packing, is_buffer};
use super::pack::unpacked;
use crate::bytes::Cursor;
use crate::input::Input;
use crate::tracing::{Tracing, sized};

/// Numbers of the options with the location of a section; the section has the number of its option.
const OPTIONS: u16 = 0;
const HEADER_INFO: u16 = 16;
const EVENT_FORMATS: u16 = 18;
const CMDLINES: u16 = 21;
/// Bytes of a section's header: its number, flags, description and size.
const HEADER: u64 = 16;
/// Flag of a compressed section.
const COMPRESSED: u16 = 1;
/// Largest accepted size of a section in bytes.
const SECTION_MAX: u64 = 256 << 20;
/// Largest number of consecutive sections of options.
const OPTIONS_MAX: usize = 64;
/// Largest number of sections in a file. A buffer has two.
const SECTIONS_MAX: usize = 4096;

/// Reads the parts after the opening. Returns `Ok(None)` if the file is cut off.
///
/// # Errors
/// Returns any other problem as a clause.
pub(super) fn read(cursor: &mut Cursor<'_>, input: &Input) -> Result<Option<Head>, String> {
    let Some((packing, options)) = packing(cursor) else { return Ok(None) };
    let packing = match packing.as_str() {
        "none" => Packing::None,
        "zlib" => Packing::Zlib,
        "zstd" => Packing::Zstd,
        other => return Err(format!("it is compressed with `{other}`, but only zlib and zstd are supported")),
    };
    let sections = Sections { input, packing };
    let mut head = sections.head(options);
    if let Some(head) = &mut head {
        head.is_cut = !sections.reach_the_end(cursor.position());
    }
    Ok(head)
}

/// Reads the name of the compression, and the location of the first options.
fn packing(cursor: &mut Cursor<'_>) -> Option<(String, u64)> {
    let name = String::from_utf8_lossy(cursor.until_zero()?).into_owned();
    let _version = cursor.until_zero()?;
    Some((name, cursor.u64()?))
}

struct Sections<'f> {
    input: &'f Input,
    packing: Packing,
}

impl Sections<'_> {
    fn head(&self, mut options: u64) -> Option<Head> {
        let mut head = Head::new(Tracing::default());
        head.packing = self.packing;
        for _ in 0..OPTIONS_MAX {
            options = self.read_options(options, &mut head)?;
            if options == 0 {
                break;
            }
        }
        Some(head)
    }

    /// Returns whether the sections, the first of which is at `first`, follow one another to the end of the file.
    /// Otherwise the file is cut within a section that is not needed, which no other check detects.
    fn reach_the_end(&self, first: u64) -> bool {
        iter::successors(Some(first), |place| self.next_place(*place))
            .take(SECTIONS_MAX)
            .any(|place| place == self.input.len())
    }

    /// Returns the location of the section after the one at `place`.
    fn next_place(&self, place: u64) -> Option<u64> {
        place.checked_add(HEADER)?.checked_add(self.size(place)?)
    }

    /// Returns the size in the header of the section at this location.
    fn size(&self, offset: u64) -> Option<u64> {
        let header = self.input.part(offset, HEADER)?;
        Cursor::new(&header[HEADER as usize - 8..]).u64()
    }

    /// Reads a section of options. Returns the location of the next one; 0 if there is none.
    fn read_options(&self, offset: u64, head: &mut Head) -> Option<u64> {
        let bytes = self.section(offset, OPTIONS)?;
        let cursor = &mut Cursor::new(&bytes);
        loop {
            let (id, size) = (cursor.u16()?, cursor.u32()?);
            let data = cursor.take(size.into())?;
            let place = Cursor::new(data).u64();
            match id {
                OPTIONS => return place,
                HEADER_INFO => head.tracing.read_headers(&mut Cursor::new(&self.section(place?, id)?))?,
                EVENT_FORMATS => head.tracing.read_events(&mut Cursor::new(&self.section(place?, id)?))?,
                CMDLINES => {
                    let section = self.section(place?, id)?;
                    let names = sized(&mut Cursor::new(&section))?;
                    head.tracing.take_names(&names);
                }
                _ if is_buffer(id) => head.take_buffer(data)?,
                _ => head.take(id, data)?,
            }
        }
    }

    /// Reads the contents of the section at this location, which must have this number.
    fn section(&self, offset: u64, wanted: u16) -> Option<Vec<u8>> {
        let header = self.input.part(offset, HEADER)?;
        let cursor = &mut Cursor::new(&header);
        let (id, flags, _description, size) = (cursor.u16()?, cursor.u16()?, cursor.u32()?, cursor.u64()?);
        let bytes = (id == wanted).then(|| self.input.part(offset + HEADER, size.min(SECTION_MAX)))??;
        if flags & COMPRESSED == 0 {
            return Some(bytes);
        }
        let contents = &mut Cursor::new(&bytes);
        let (packed, whole) = (contents.u32()?, contents.u32()?);
        unpacked(self.packing, contents.take(packed.into())?, u64::from(whole).min(SECTION_MAX))
    }
}
