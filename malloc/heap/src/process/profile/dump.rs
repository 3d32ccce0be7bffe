//! Output of a profile in the text format of gperftools, which `pprof` and `jeprof` read.
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
//! Each line is one sample in use. The sizes are not scaled: a reader divides by the probability of the sample. Nothing
//! is allocated. The buffers exist once; a signal that finds them in use records a request, which the thread that uses
//! them serves afterwards.

use core::ffi::CStr;
use core::fmt::{self, Write};

use rustix::io::Errno;

use super::State;
use super::path::Name;
use super::samples::Sample;
use crate::process::enter;

/// Bytes of one write.
const BUFFER: usize = 8 << 10;

/// Buffers for writing a profile.
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

    /// Writes a profile to the file whose name is set. The file appears under its name only when it is complete.
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
        // SAFETY: the descriptor was opened above and is closed once; both names end in a zero byte.
        let is_named = unsafe { libc::close(descriptor) == 0 && error.is_none() && libc::rename(part, whole) == 0 };
        if is_named { Ok(()) } else { Err(error.unwrap_or_else(last_error)) }
    }
}

/// Writes the samples. They are read one after the other, so they need not be consistent with each other.
fn write_samples(state: &State, sample: &mut Sample, to: &mut File<'_>) -> fmt::Result {
    let total = enter().map(|_within| state.samples.total()).unwrap_or_default();
    writeln!(to, "heap profile: {}: {} [0: 0] @ heap_v2/{}", total.count, total.bytes, state.mean)?;
    let mut place = 1;
    loop {
        // The file is written outside of slow paths, so that no other thread waits for it.
        place = enter().map_or(0, |_within| state.samples.copy(place, sample));
        if place == 0 {
            return Ok(());
        }
        write!(to, "1: {} [0: 0] @", sample.size)?;
        sample.stack.frames().iter().try_for_each(|frame| write!(to, " {frame:#x}"))?;
        to.write_str("\n")?;
    }
}

/// Copies the process's memory mappings, by which a reader resolves addresses.
fn copy_mappings(to: &mut File<'_>) -> fmt::Result {
    to.write_str("\nMAPPED_LIBRARIES:\n")?;
    let Ok(mappings) = open(c"/proc/self/maps", libc::O_RDONLY) else { return Ok(()) };
    to.flush();
    loop {
        // SAFETY: the buffer has room for `BUFFER` bytes.
        let result = unsafe { libc::read(mappings, to.buffer.as_mut_ptr().cast(), BUFFER) };
        let Some(bytes) = usize::try_from(result).ok().filter(|&bytes| bytes > 0) else { break };
        to.used = bytes;
        to.flush();
    }
    // SAFETY: the descriptor was opened above and is closed once.
    unsafe { libc::close(mappings) };
    Ok(())
}

fn open(name: &CStr, flags: i32) -> Result<i32, Errno> {
    // SAFETY: `name` is a `CStr`, so it ends in a zero byte.
    let descriptor = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o666) };
    if descriptor < 0 { Err(last_error()) } else { Ok(descriptor) }
}

fn last_error() -> Errno {
    // SAFETY: `__errno_location` returns the address of the calling thread's own `errno`.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// A file with a write buffer. The first error is kept, and nothing is written after it.
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
            // SAFETY: the pointer and the length are those of the live slice `rest`.
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
