//! Finds the extent and the bytes of a function of this program.
//!
//! The input is a function's address at run time. Its bytes are read from the running file, so no code is read as data
//! through memory. Three tables lead from the address to the bytes: `/proc/self/maps` gives the part of the file that
//! is mapped at the address, the file's segments give the address that the linker assigned to that part, and the unwind
//! table gives the extent of the function. Stripping a program keeps all three.

use std::fs;
use std::ops::Range;

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment};

use super::CodeError;

/// Path of this program's file.
const FILE: &str = "/proc/self/exe";
/// Path of the list of mappings.
const MAPS: &str = "/proc/self/maps";

/// This program's file and its mappings.
#[derive(Debug)]
pub(crate) struct Image {
    file: Vec<u8>,
    maps: String,
}

/// The code of one function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'a> {
    /// Address that the linker assigned. Disassemblers that read the file show the same addresses.
    pub address: u64,
    /// Bytes of the function.
    pub bytes: &'a [u8],
}

impl Image {
    /// Reads this program's file of about ten megabytes.
    ///
    /// # Errors
    /// [`CodeError::Read`] where there is no `/proc`.
    pub(crate) fn open_this_program() -> Result<Image, CodeError> {
        let file = fs::read(FILE).map_err(|source| CodeError::Read { path: FILE, source })?;
        let maps = fs::read_to_string(MAPS).map_err(|source| CodeError::Read { path: MAPS, source })?;
        Ok(Image { file, maps })
    }

    /// Returns the function that begins at `address`; `name` is for the error.
    ///
    /// # Errors
    /// [`CodeError::Extent`] when the program's tables do not contain it.
    pub(crate) fn function(&self, name: &'static str, address: usize) -> Result<Code<'_>, CodeError> {
        self.find_code(address).map_err(|reason| CodeError::Extent { name, reason })
    }

    /// Returns the code at an address, or the reason why it cannot be found.
    fn find_code(&self, address: usize) -> Result<Code<'_>, String> {
        let offset = self.maps.lines().find_map(|line| file_offset(line, address as u64));
        let offset = offset.ok_or("its address is not mapped")?;
        let elf = object::File::parse(self.file.as_slice()).map_err(|error| error.to_string())?;
        let linked = elf.segments().find_map(|segment| {
            let (start, length) = segment.file_range();
            (start..start + length).contains(&offset).then(|| segment.address() + (offset - start))
        });
        let linked = linked.ok_or("no segment contains it")?;
        let extent = extent(&elf, linked)?;
        let start = offset as usize;
        let bytes = self.file.get(start..start + (extent.end - extent.start) as usize);
        Ok(Code { address: linked, bytes: bytes.ok_or("it ends after the end of the file")? })
    }
}

/// Returns the file offset that is mapped at `address`, if this line of `/proc/self/maps` contains the address. The
/// format is `start-end permissions offset ...`, in hexadecimal.
fn file_offset(line: &str, address: u64) -> Option<u64> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (parse_hex(start)?, parse_hex(end)?);
    let offset = parse_hex(words.nth(1)?)?;
    (start..end).contains(&address).then(|| offset + (address - start))
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Returns the extent of the function that begins at `address`, from the unwind table.
fn extent(elf: &object::File, address: u64) -> Result<Range<u64>, String> {
    let section = elf.section_by_name(".eh_frame").ok_or("there is no unwind table")?;
    let data = section.data().map_err(|error| error.to_string())?;
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let entry = EhFrame::new(data, LittleEndian).fde_for_address(&bases, address, EhFrame::cie_from_offset);
    let entry = entry.map_err(|error| error.to_string())?;
    if entry.initial_address() != address {
        return Err("no function begins at its address".to_owned());
    }
    Ok(address..address + entry.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_line_yields_the_file_offset() {
        let line = "55d0c000-55d0f000 r-xp 00002000 08:01 1234    /usr/bin/freehold";
        assert_eq!(file_offset(line, 0x55d0_c010), Some(0x2010));
        assert_eq!(file_offset(line, 0x55d0_f000), None);
        assert_eq!(file_offset("no map", 0), None);
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let image = Image::open_this_program().unwrap();
        let address = (file_offset as *const ()).addr();
        let code = image.function("file_offset", address).unwrap();
        assert!(!code.bytes.is_empty());
        let sentence = image.function("file_offset", address + 1).unwrap_err().to_string();
        assert!(
            sentence.contains("`file_offset`") && sentence.contains("no function begins at its address"),
            "{sentence}"
        );
        assert!(image.function("nothing", 0).is_err());
    }
}
