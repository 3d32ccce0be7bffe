//! How memory lay when the events began: as somebody wrote it down, or as chance has drawn it.
//!
//! ```text
//! memory_state  the flags of all frames, whatever they come from
//! snapshot      Freehold's own snapshots, and drawn memory, which has their form
//! flags         a copy of /proc/kpageflags
//! page_owner    a copy of /sys/kernel/debug/page_owner
//! ```
//!
//! Each becomes a word of flags for each frame. The events go before all of them: a frame that an event names is what
//! its first event says that it was.

mod flags;
mod memory_state;
mod page_owner;
mod snapshot;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::imported::StartKind;

pub(crate) use memory_state::MemoryState;

/// The state of memory when the events began, from a file that the user named.
pub(crate) struct Start {
    pub kind: StartKind,
    pub known: MemoryState,
}

/// Bytes by which a file is known.
const HEAD: u64 = 4096;

impl Start {
    /// Reads a file that says how memory lay. What it is, is told by its contents.
    ///
    /// # Errors
    /// When it is no such file.
    pub(crate) fn read(path: &Path) -> Result<Start, Error> {
        let file = File::open(path).map_err(Error::read(path))?;
        let mut head = Vec::new();
        (&file).take(HEAD).read_to_end(&mut head).map_err(Error::read(path))?;
        if head.starts_with(b"PAR1") {
            return Ok(Start { kind: StartKind::Snapshot, known: snapshot::read(path)? });
        }
        if page_owner::is_page_owner(&head) {
            return Ok(Start { kind: StartKind::PageOwner, known: page_owner::read(path)? });
        }
        Ok(Start { kind: StartKind::PageFlags, known: flags::read(path)? })
    }
}
