//! Reasons in an ELF file for which its program keeps its own malloc: its loader, its libraries, its functions.

use std::fs::File;

use object::Endianness;
use object::elf::{DT_NEEDED, DT_SONAME, DynamicTag, FileHeader64, SHN_UNDEF, SHT_DYNSYM, gnu_hash};
use object::read::ReadCache;
use object::read::elf::{DynamicTable, FileHeader, ProgramHeader, SectionTable, Sym, VersionTable};

use super::obstacle::Obstacle;

type Header = FileHeader64<Endianness>;
type Data<'data> = &'data ReadCache<File>;

/// Prefixes of the sanitizers' libraries, and functions of sanitizers that are linked into a program.
const SANITIZER_LIBRARIES: [&[u8]; 4] = [b"libasan.so", b"libhwasan.so", b"libtsan.so", b"liblsan.so"];
const SANITIZER_FUNCTIONS: [&[u8]; 4] = [b"__asan_init", b"__hwasan_init", b"__tsan_init", b"__msan_init"];
/// Part of the path of musl's loader, and beginning of the names of loaders, which may be run as programs.
const MUSL: &[u8] = b"ld-musl";
const LOADER: &[u8] = b"ld-";

/// Returns the reason for which the program in a file of 64 bits keeps its own malloc, if there is one. The rights of
/// the file are not considered.
///
/// # Errors
/// If the file is not valid.
pub(super) fn find_obstacle(file: File) -> object::Result<Option<Obstacle>> {
    let data = &ReadCache::new(file);
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let dynamic = sections.dynamic_table(endian, data)?;
    let Some(loader) = find_loader(header, endian, data)? else {
        let is_loader = names(&dynamic, DT_SONAME).any(|name| name.starts_with(LOADER));
        return Ok((!is_loader).then_some(Obstacle::Static));
    };
    if loader.windows(MUSL.len()).any(|part| part == MUSL) {
        return Ok(Some(Obstacle::Musl));
    }
    let has_sanitizer = names(&dynamic, DT_NEEDED).any(is_sanitizer);
    if has_sanitizer || exports_any(&sections, endian, data, &SANITIZER_FUNCTIONS)? {
        return Ok(Some(Obstacle::Sanitizer));
    }
    Ok(exports_any(&sections, endian, data, &[b"malloc"])?.then_some(Obstacle::Malloc))
}

/// Returns the path of the program's loader.
fn find_loader<'data>(header: &Header, endian: Endianness, data: Data<'data>) -> object::Result<Option<&'data [u8]>> {
    for segment in header.program_headers(endian, data)? {
        if let Some(loader) = segment.interpreter(endian, data)? {
            return Ok(Some(loader));
        }
    }
    Ok(None)
}

/// Returns the names of a kind in the dynamic section.
fn names<'data>(
    dynamic: &DynamicTable<'data, Header, Data<'data>>,
    tag: DynamicTag,
) -> impl Iterator<Item = &'data [u8]> {
    dynamic.iter().filter(move |entry| entry.tag == tag).filter_map(|entry| dynamic.string(entry).ok())
}

fn is_sanitizer(library: &[u8]) -> bool {
    SANITIZER_LIBRARIES.iter().any(|prefix| library.starts_with(prefix))
}

/// Returns whether the program exports one of the functions. A program without a table of hashes is not searched.
fn exports_any<'data>(
    sections: &SectionTable<'data, Header, Data<'data>>,
    endian: Endianness,
    data: Data<'data>,
    functions: &[&[u8]],
) -> object::Result<bool> {
    let Some((hashes, _)) = sections.gnu_hash(endian, data)? else { return Ok(false) };
    let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
    let versions = VersionTable::default();
    // The table also has imported functions if their address is taken.
    let mut found =
        functions.iter().filter_map(|name| hashes.find(endian, name, gnu_hash(name), None, &symbols, &versions));
    Ok(found.any(|(_, symbol)| symbol.st_shndx(endian) != SHN_UNDEF))
}
