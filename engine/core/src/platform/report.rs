//! A finding of slab debugging as a value that a platform can log: the object, its cache, the damaged bytes, the last
//! users, and the surrounding bytes.
//!
//! [`Display`](core::fmt::Display) formats it as Linux does, for readers and scripts that know that format. The bytes
//! were copied when the damage was found, so they show the damage even after the object was repaired.
//!
//! linux: mm/slub.c:print_trailer, check_bytes_and_report, slab_fix

use core::fmt;
use core::panic::Location;

use crate::base::CpuId;

/// Maximum number of bytes that a report shows per section.
pub const SECTION_MAX: usize = 64;
const ROW: usize = 16;

/// A finding of slab debugging, and the action taken.
#[derive(Clone, Copy, Debug)]
pub struct SlabReport<'a> {
    /// Kind of the damage or error.
    pub bug: SlabBug<'a>,
    /// Name of the cache that was called or checked, or `kmalloc` if the address is in no cache.
    pub cache: &'a str,
    /// Address that was passed in, or address of the object that was checked.
    pub address: u64,
    /// Range of the damaged bytes; `None` if the finding is not about bytes.
    pub damage: Option<Damage>,
    /// Object at or around that address, if it belongs to a checked cache.
    pub object: Option<ObjectReport>,
    /// Action that the slab took.
    pub fix: Fix,
}

/// Kinds of damage and errors that the slab distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabBug<'a> {
    /// Bytes before the object were overwritten.
    LeftRedzone,
    /// Bytes after the object were overwritten.
    RightRedzone,
    /// Bytes of the object beyond the requested size were overwritten.
    KmallocRedzone,
    /// Bytes of a free object were overwritten.
    Poison,
    /// Bytes between this object and the next were overwritten.
    Padding,
    /// The word that marks the object as free or allocated is invalid.
    State,
    /// The object's link does not lead to a free object of the slab.
    FreePointer,
    /// Double free: the object is already free.
    AlreadyFree,
    /// The address is inside a slab of the cache, but no object begins there.
    InvalidPointer,
    /// The freed address is in no slab.
    Foreign,
    /// The object belongs to another cache, with this name.
    WrongCache(&'a str),
}

/// Range of damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Address of the first damaged byte.
    pub start: u64,
    /// Address after the last damaged byte.
    pub end: u64,
    /// Expected value of the first byte.
    pub expected: u8,
    /// Actual value of the first byte.
    pub found: u8,
}

/// An object and its slab at the time of the finding.
#[derive(Clone, Copy, Debug)]
pub struct ObjectReport {
    /// Address of the object's first byte, without its red zone.
    pub address: u64,
    /// Address of the slab's first page.
    pub slab: u64,
    /// Capacity of the slab in objects.
    pub objects: u16,
    /// Number of objects that are not free.
    pub used: u16,
    /// Last allocation of the object, if the cache records it.
    pub allocated: Option<Track>,
    /// Last free of the object, if the cache records it.
    pub freed: Option<Track>,
    /// Bytes before, in and after the object. The first section shows the last bytes before the object. The others
    /// begin at their start, or one row before the damage.
    pub sections: [Section; 4],
}

/// Record of an allocation or a free of an object.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// Place in the program of the call.
    pub who: Who,
    /// CPU of the call.
    pub cpu: CpuId,
    /// Number of allocations and frees in checked caches since the call.
    pub age: u64,
}

/// A place in the program, in its source or its machine code.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// Source location of the call into the allocator.
    Source(&'static Location<'static>),
    /// Code address, if [`Platform::caller`](super::Platform::caller) returned one.
    Code(usize),
}

/// A part of the bytes around an object, for a hex dump.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the part, as in a report of Linux.
    pub name: &'static str,
    /// Address of the first byte that is shown.
    pub start: u64,
    /// Number of bytes that are shown.
    pub len: usize,
    /// The bytes; those from `len` on are meaningless.
    pub bytes: [u8; SECTION_MAX],
}

/// Action that the slab took after a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// The free was refused, and the object was not changed.
    NotFreed,
    /// The object was taken out of use permanently.
    TakenOut,
    /// The bytes were set to their expected values.
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
            (Fix::Relinked, _) => writeln!(f, "Free objects relinked"),
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

/// Formats a hex dump. linux: lib/hexdump.c:print_hex_dump
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

/// Returns a byte as a character; a dot if it is not printable.
fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}
