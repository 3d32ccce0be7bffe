//! What is said of misused memory, before the program ends.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use super::quarantine::{HeldRun, QUARANTINE};
use super::seal::Slot;
use super::{Site, State};
use crate::os::platform::StandardError;
use crate::runs::RunError;
use freehold::slab::ObjectFreeError;

/// What is wrong with a block, or with what is said to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misuse {
    /// No object begins there.
    Object(ObjectFreeError),
    /// No run begins there, or a free one does.
    Run(RunError),
    /// It was given back before.
    DoubleFree,
    /// It was given back twice at the same time, and is in use again.
    ConcurrentFree,
    /// Somebody wrote behind its last byte.
    Overrun,
    /// Its seal is none.
    Broken,
    /// Somebody wrote to it after it was given back.
    UseAfterFree,
    /// It is not as large as its user says.
    Size {
        /// Bytes that the user says.
        bytes: usize,
    },
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misuse::Object(error) => write!(f, "invalid free: {error}"),
            Misuse::Run(RunError::Interior { .. }) => f.write_str("invalid free: it is inside of a block, or of none"),
            Misuse::DoubleFree | Misuse::Run(RunError::DoubleFree { .. }) => {
                f.write_str("double free: the block was given back before")
            }
            Misuse::ConcurrentFree => f.write_str("double free: the block was given back by two threads at once"),
            Misuse::Overrun => f.write_str("overflow: somebody wrote behind the block's last byte"),
            Misuse::Broken => f.write_str(
                "overflow, most likely: what stands behind the block was overwritten, or no block in use begins here",
            ),
            Misuse::UseAfterFree => f.write_str("use after free: somebody wrote to the block after it was given back"),
            Misuse::Size { bytes } => write!(f, "wrong size: the block is freed as one of {bytes} bytes"),
        }
    }
}

/// Says what is wrong with a block, what is known of it and who came upon it, and ends the program.
#[cold]
#[inline(never)]
pub(super) fn end(start: NonNull<u8>, misuse: &Misuse, slot: Option<&Slot>, site: Site) -> ! {
    let _written = write(&mut StandardError, start, misuse, slot, site);
    // SAFETY: ends the process, whatever it is at.
    unsafe { libc::abort() }
}

fn write(to: &mut dyn Write, start: NonNull<u8>, misuse: &Misuse, slot: Option<&Slot>, site: Site) -> fmt::Result {
    writeln!(to, "freehold: {start:p}: {misuse}")?;
    match slot {
        Some(slot) => describe(to, slot)?,
        None => QUARANTINE.find_run(start.as_ptr().addr(), |held| describe_run(to, held)).unwrap_or(Ok(()))?,
    }
    if site != Site::UNKNOWN {
        writeln!(to, "freehold:   noticed where {site} gave it back, resized it or asked for its size")?;
    }
    Ok(())
}

/// Says what a run was that is held.
pub(super) fn describe_run(to: &mut dyn Write, held: &HeldRun) -> fmt::Result {
    writeln!(to, "freehold:   a block of {} bytes, which {} allocated", held.asked, held.allocated)?;
    writeln!(to, "freehold:   given back by {}", held.freed)
}

/// Says what a block is or was.
pub(super) fn describe(to: &mut dyn Write, slot: &Slot) -> fmt::Result {
    match slot.state() {
        State::Broken => writeln!(to, "freehold:   a place for blocks of up to {} bytes", slot.most()),
        State::Live => {
            writeln!(to, "freehold:   a block of {} bytes, which {} allocated", slot.asked(), slot.allocated())
        }
        State::Held => {
            writeln!(to, "freehold:   a block of {} bytes, which {} allocated", slot.asked(), slot.allocated())?;
            writeln!(to, "freehold:   given back by {}", slot.freed())?;
            match slot.first_touched() {
                Some(at) => writeln!(to, "freehold:   written to at its byte {at}"),
                None => Ok(()),
            }
        }
    }
}
