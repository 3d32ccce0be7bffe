//! A profile as a file: the text of gperftools, which `pprof` and `jeprof` read.
//!
//! ```text
//! heap profile: 2: 300 [0: 0] @ heap_v2/524288
//! 1: 100 [0: 0] @ 0x401136 0x401200
//! 1: 200 [0: 0] @ 0x401149 0x401200
//!
//! MAPPED_LIBRARIES:
//! 00400000-00402000 r-xp ...
//! ```
//!
//! A line is a sample in use, as it was drawn: whoever reads it divides by how likely it was. Nothing is allocated; the
//! words that writing needs are there once, and whoever finds them taken leaves a wish behind, which their holder
//! fulfils.

use core::ffi::CStr;
use core::fmt::{self, Write};

use rustix::io::Errno;

use super::State;
use super::path::Name;
use super::samples::Sample;
use crate::process::enter;

/// Bytes that are written at a time.
const BUFFER: usize = 8 << 10;

/// What writing a profile needs.
#[derive(Debug)]
pub(super) struct Scratch {
    pub name: Name,
    sample: Sample,
    buffer: [u8; BUFFER],
}

impl Scratch {
    pub(super) const fn new() -> Scratch {
        Scratch { name: Name::new(), sample: Sample::NONE, buffer: [0; BUFFER] }
    }

    /// Writes a profile under the name that is set: whole, or not at all.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn write(&mut self, state: &State) -> Result<(), Errno> {
        let descriptor = open(self.name.part(), libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)?;
        let mut file = File { descriptor, buffer: &mut self.buffer, used: 0, error: None };
        let _kept = write_samples(state, &mut self.sample, &mut file).and_then(|()| copy_mappings(&mut file));
        file.flush();
        let error = file.error;
        let [whole, part] = [self.name.whole().as_ptr(), self.name.part().as_ptr()];
        // SAFETY: a file of ours, and names that end in zero.
        let is_named = unsafe { libc::close(descriptor) == 0 && error.is_none() && libc::rename(part, whole) == 0 };
        if is_named { Ok(()) } else { Err(error.unwrap_or_else(last_error)) }
    }
}

/// The samples, in numbers of no one moment.
fn write_samples(state: &State, sample: &mut Sample, to: &mut File<'_>) -> fmt::Result {
    let total = enter().map(|_within| state.samples.total()).unwrap_or_default();
    writeln!(to, "heap profile: {}: {} [0: 0] @ heap_v2/{}", total.count, total.bytes, state.mean)?;
    let mut place = 1;
    loop {
        // Nobody waits for a file within a slow path.
        place = enter().map_or(0, |_within| state.samples.copy(place, sample));
        if place == 0 {
            return Ok(());
        }
        write!(to, "1: {} [0: 0] @", sample.size)?;
        sample.stack.frames().iter().try_for_each(|frame| write!(to, " {frame:#x}"))?;
        to.write_str("\n")?;
    }
}

/// What addresses mean: where the program and its libraries are.
fn copy_mappings(to: &mut File<'_>) -> fmt::Result {
    to.write_str("\nMAPPED_LIBRARIES:\n")?;
    let Ok(mappings) = open(c"/proc/self/maps", libc::O_RDONLY) else { return Ok(()) };
    to.flush();
    loop {
        // SAFETY: there is room for so many bytes.
        let result = unsafe { libc::read(mappings, to.buffer.as_mut_ptr().cast(), BUFFER) };
        let Some(bytes) = usize::try_from(result).ok().filter(|&bytes| bytes > 0) else { break };
        to.used = bytes;
        to.flush();
    }
    // SAFETY: a file of ours.
    unsafe { libc::close(mappings) };
    Ok(())
}

fn open(name: &CStr, flags: i32) -> Result<i32, Errno> {
    // SAFETY: a name that ends in zero.
    let descriptor = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o666) };
    if descriptor < 0 { Err(last_error()) } else { Ok(descriptor) }
}

fn last_error() -> Errno {
    // SAFETY: the place is the thread's own.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// A file that is written in large pieces; the first error stays, and ends the writing.
struct File<'b> {
    descriptor: i32,
    buffer: &'b mut [u8; BUFFER],
    used: usize,
    error: Option<Errno>,
}

impl File<'_> {
    fn flush(&mut self) {
        let mut rest = &self.buffer[..core::mem::take(&mut self.used)];
        while !rest.is_empty() && self.error.is_none() {
            // SAFETY: reads so many bytes that are there.
            let written = unsafe { libc::write(self.descriptor, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written).ok().and_then(|written| rest.get(written..)) {
                Some(after) => rest = after,
                None => self.error = Some(last_error()).filter(|&error| error != Errno::INTR),
            }
        }
    }
}

impl Write for File<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(BUFFER) {
            if self.used + piece.len() > BUFFER {
                self.flush();
            }
            self.buffer[self.used..self.used + piece.len()].copy_from_slice(piece);
            self.used += piece.len();
        }
        if self.error.is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}
