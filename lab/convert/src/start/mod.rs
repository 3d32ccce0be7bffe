//! State of memory when the events began, from a file or drawn at random.
//!
//! ```text
//! memory_state  flags of all frames, from any source
//! snapshot      Freehold snapshots, and drawn memory, which has the same form
//! flags         a copy of /proc/kpageflags
//! page_owner    a copy of /sys/kernel/debug/page_owner
//! ```
//!
//! Each source is converted to one word of flags per frame. The events take precedence over all of them: a frame that
//! an event names has the state that its first event shows.

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

/// State of memory when the events began, from a file that the user named.
pub(crate) struct Start {
    pub kind: StartKind,
    pub known: MemoryState,
}

/// Number of bytes by which a format is detected.
const HEAD: u64 = 4096;

impl Start {
    /// Reads a file with the start state. The format is detected by the contents.
    ///
    /// # Errors
    /// If it has no known format.
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
