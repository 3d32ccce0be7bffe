//! What the slab's debugging found, as a value that a platform can log: an object, its cache, the first byte that is
//! not what it should be, who had the object, and the bytes around.
//!
//! [`Display`](core::fmt::Display) writes it in Linux's words and lines, so that people's eyes and scripts work. The
//! bytes were copied when the damage was found; they stay as they were when the object is mended.
//!
//! linux: mm/slub.c:print_trailer, check_bytes_and_report, slab_fix

use core::fmt;
use core::panic::Location;

use crate::base::CpuId;

/// Bytes of a section that a report shows at most.
pub const SECTION_MAX: usize = 64;
const ROW: usize = 16;

/// What the slab's debugging found, and did about it.
#[derive(Clone, Copy, Debug)]
pub struct SlabReport<'a> {
    /// The kind of damage or mistake.
    pub bug: SlabBug<'a>,
    /// Name of the cache that was called.
    pub cache: &'a str,
    /// Address that was handed in, or of the object that was looked at.
    pub address: u64,
    /// The bytes that are not what they should be.
    pub damage: Option<Damage>,
    /// The object, if there is one at that address.
    pub object: Option<ObjectReport>,
    /// What the slab did about it.
    pub fix: Fix,
}

/// The kinds of damage and mistakes that the slab tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabBug<'a> {
    /// Somebody wrote before the object.
    LeftRedzone,
    /// The bytes after the object were overwritten.
    RightRedzone,
    /// Bytes of the object past those that were asked for were overwritten.
    KmallocRedzone,
    /// Somebody wrote into the object while it was free.
    Poison,
    /// Somebody wrote between this object and the next.
    Padding,
    /// The word that says whether the object is free says nothing sensible.
    State,
    /// The object's link leads to no free object of the slab.
    FreePointer,
    /// The object that was freed is free already.
    AlreadyFree,
    /// The address lies in a slab of the cache, and no object begins there.
    InvalidPointer,
    /// The address that was freed lies in no slab.
    Foreign,
    /// The object is of another cache, which has this name.
    WrongCache(&'a str),
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Address of the first damaged byte.
    pub start: u64,
    /// Address after the last damaged byte.
    pub end: u64,
    /// The first one as it should be.
    pub expected: u8,
    /// The first damaged byte as it is.
    pub found: u8,
}

/// An object and its slab, as they were found.
#[derive(Clone, Copy, Debug)]
pub struct ObjectReport {
    /// Address of the object's first byte, without its red zone.
    pub address: u64,
    /// Address of the slab's first page.
    pub slab: u64,
    /// Objects that the slab has room for.
    pub objects: u16,
    /// Those of them that are not free.
    pub used: u16,
    /// Who allocated it last, if the cache remembers.
    pub allocated: Option<Track>,
    /// Who freed it last, likewise.
    pub freed: Option<Track>,
    /// Bytes before, in, and after it; the last ones of what is before, the others from the start, or from the row
    /// before the damage.
    pub sections: [Section; 4],
}

/// Who did something with an object.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// The place in the program from which it was called.
    pub who: Who,
    /// The CPU on which it was called.
    pub cpu: CpuId,
    /// How many allocations and frees of debugged caches have been since.
    pub age: u64,
}

/// A place in the program, in its source or its machine code.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// In its source, where the allocator was called.
    Source(&'static Location<'static>),
    /// In its machine code, where [`Platform::caller`](super::Platform::caller) knew it.
    Code(usize),
}

/// A part of the bytes around an object, for a hex dump.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Which part this is, as Linux names it in a report.
    pub name: &'static str,
    /// Address of the part's first byte that is shown.
    pub start: u64,
    /// How many of the bytes are shown.
    pub len: usize,
    /// The bytes; those from `len` on mean nothing.
    pub bytes: [u8; SECTION_MAX],
}

/// What the slab did about what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// The free was refused; the object stays as it is.
    NotFreed,
    /// The object was taken out of use for ever.
    TakenOut,
    /// The bytes were set to what they should be.
    Restored,
    /// The slab's free objects were linked anew.
    Relinked,
}

impl fmt::Display for SlabReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:=<77}\nBUG {}: {}\n{:-<77}\n", "", self.cache, self.bug, "")?;
        if let Some(Damage { start, end, expected, found }) = self.damage {
            let offset = start - self.object.map_or(start, |object| object.slab);
            let last = end - 1;
            writeln!(f, "{start:#x}-{last:#x} @offset={offset}. First byte {found:#x} instead of {expected:#x}")?;
        }
        if self.object.is_none_or(|object| object.address != self.address) {
            writeln!(f, "Address {:#x}", self.address)?;
        }
        self.object.map_or(Ok(()), |object| object.fmt(f))?;
        write!(f, "FIX {}: ", self.cache)?;
        match (self.fix, self.damage) {
            (Fix::NotFreed, _) => writeln!(f, "Object at {:#x} not freed", self.address),
            (Fix::TakenOut, _) => writeln!(f, "Object at {:#x} taken out of use", self.address),
            (Fix::Restored, Some(damage)) => writeln!(f, "Restoring {:#x}-{:#x}", damage.start, damage.end - 1),
            (Fix::Restored, None) => writeln!(f, "Restoring {:#x}", self.address),
            (Fix::Relinked, _) => writeln!(f, "Free objects linked anew"),
        }
    }
}

impl fmt::Display for SlabBug<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlabBug::LeftRedzone => "Left Redzone overwritten",
            SlabBug::RightRedzone => "Right Redzone overwritten",
            SlabBug::KmallocRedzone => "kmalloc Redzone overwritten",
            SlabBug::Poison => "Poison overwritten",
            SlabBug::Padding => "Object padding overwritten",
            SlabBug::State => "Object state overwritten",
            SlabBug::FreePointer => "Freepointer corrupt",
            SlabBug::AlreadyFree => "Object already free",
            SlabBug::InvalidPointer => "Invalid object pointer",
            SlabBug::Foreign => "Attempt to free object outside of slab",
            SlabBug::WrongCache(other) => return write!(f, "Wrong slab cache: object is from {other}"),
        })
    }
}

impl fmt::Display for ObjectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.allocated.map_or(Ok(()), |track| writeln!(f, "Allocated in {track}"))?;
        self.freed.map_or(Ok(()), |track| writeln!(f, "Freed in {track}"))?;
        writeln!(f, "Slab {:#x} objects={} used={}", self.slab, self.objects, self.used)?;
        writeln!(f, "Object {:#x} @offset={}\n", self.address, self.address - self.slab)?;
        self.sections.iter().try_for_each(|section| section.fmt(f))
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Source(place) => write!(f, "{place}")?,
            Who::Code(address) => write!(f, "{address:#x}")?,
        }
        write!(f, " age={} cpu={}", self.age, self.cpu.0)
    }
}

/// linux: lib/hexdump.c:print_hex_dump
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (row, bytes) in self.bytes[..self.len].chunks(ROW).enumerate() {
            write!(f, "{:<8} {:016x}: ", self.name, self.start + (row * ROW) as u64)?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x} "))?;
            write!(f, "{:1$} ", "", 3 * (ROW - bytes.len()))?;
            bytes.iter().try_for_each(|&byte| write!(f, "{}", printable(byte)))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A byte as text; a dot for what is no character.
fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}
