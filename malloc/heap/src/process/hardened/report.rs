//! Reports of misused memory, which are written before the program is terminated.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use super::quarantine::{HeldRun, QUARANTINE};
use super::seal::Slot;
use super::{Site, State};
use crate::os::platform::StandardError;
use crate::process::parts::FreeRefusal;
use crate::runs::RunError;
use freehold::slab::ObjectFreeError;

/// Kind of misuse of a block, or of an address that is not a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Misuse {
    /// No object starts at the address.
    Object(ObjectFreeError),
    /// No run starts at the address, or the run is free.
    Run(RunError),
    /// The block was freed before.
    DoubleFree,
    /// The block was freed by two threads at the same time, and is in use again.
    ConcurrentFree,
    /// The program wrote behind the last byte of the block.
    Overrun,
    /// The seal of the block is invalid.
    Broken,
    /// The program wrote before the first byte of the block.
    Before,
    /// The program wrote behind the last byte of the block, or before the first one of the next block.
    Between {
        /// Memory of the next block.
        next: Slot,
    },
    /// The program wrote to the end of the block after its free, or before the first byte of the next block.
    AfterFreeOrBefore {
        /// Memory of the next block.
        next: Slot,
    },
    /// The program wrote to the block after its free.
    UseAfterFree,
    /// The size that was passed to a free is not the block's.
    Size {
        /// Bytes that were passed to the free.
        bytes: usize,
    },
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misuse::Object(error) => write!(f, "invalid free: {}", FreeRefusal(*error)),
            Misuse::Run(RunError::Interior { .. }) => f.write_str("invalid free: no block begins at this address"),
            Misuse::DoubleFree | Misuse::Run(RunError::DoubleFree { .. }) => {
                f.write_str("double free: the block is already free")
            }
            Misuse::ConcurrentFree => f.write_str("double free: two threads freed the block at the same time"),
            Misuse::Overrun => f.write_str("overflow: bytes after the end of the block were overwritten"),
            Misuse::Broken => f.write_str(
                "probably an overflow: the seal after the block was overwritten; or invalid free: no block in use begins here",
            ),
            Misuse::Before => f.write_str("write before a block: bytes in front of the block were overwritten"),
            Misuse::Between { next } => write!(
                f,
                "overflow, or write before the block at {:p}: the seal between the two was overwritten, or no block \
                 in use begins here",
                next.start()
            ),
            Misuse::AfterFreeOrBefore { next } => write!(
                f,
                "use after free, or write before the block at {:p}: the end of this free block was overwritten",
                next.start()
            ),
            Misuse::UseAfterFree => f.write_str("use after free: the block was written to after it was freed"),
            Misuse::Size { bytes } => write!(f, "wrong size: {bytes} bytes were passed to a free of this block"),
        }
    }
}

/// Reports the misuse of a block, the block's history and the call site that detected it; then terminates the program.
#[cold]
#[inline(never)]
pub(super) fn end(start: NonNull<u8>, misuse: &Misuse, slot: Option<&Slot>, site: Site) -> ! {
    let _written = write(&mut StandardError, start, misuse, slot, site);
    // SAFETY: `abort` takes no arguments and has no preconditions.
    unsafe { libc::abort() }
}

fn write(to: &mut dyn Write, start: NonNull<u8>, misuse: &Misuse, slot: Option<&Slot>, site: Site) -> fmt::Result {
    writeln!(to, "freehold: {start:p}: {misuse}")?;
    match slot {
        Some(slot) => describe(to, slot)?,
        None => QUARANTINE.find_run(start.as_ptr().addr(), |held| describe_run(to, held)).unwrap_or(Ok(()))?,
    }
    if let Misuse::Between { next } | Misuse::AfterFreeOrBefore { next } = misuse {
        writeln!(to, "freehold:   the block at {:p}:", next.start())?;
        describe(to, next)?;
    }
    if site != Site::UNKNOWN {
        writeln!(to, "freehold:   detected by free, realloc or malloc_usable_size, called by {site}")?;
    }
    Ok(())
}

/// Writes the history of a held run.
pub(super) fn describe_run(to: &mut dyn Write, held: &HeldRun) -> fmt::Result {
    writeln!(to, "freehold:   block of {} bytes, allocated by {}", held.requested, held.allocated)?;
    writeln!(to, "freehold:   freed by {}", held.freed)
}

/// Writes the state and the history of a block.
pub(super) fn describe(to: &mut dyn Write, slot: &Slot) -> fmt::Result {
    match slot.state() {
        State::Broken => writeln!(
            to,
            "freehold:   memory of a block of at most {} bytes; its size and origin were overwritten",
            slot.most()
        ),
        State::Live => {
            writeln!(to, "freehold:   block of {} bytes, allocated by {}", slot.requested(), slot.allocated())
        }
        State::Held => {
            writeln!(to, "freehold:   block of {} bytes, allocated by {}", slot.requested(), slot.allocated())?;
            writeln!(to, "freehold:   freed by {}", slot.freed())?;
            match slot.first_touched() {
                Some(at) => writeln!(to, "freehold:   first overwritten byte: {at}"),
                None => Ok(()),
            }
        }
    }
}
