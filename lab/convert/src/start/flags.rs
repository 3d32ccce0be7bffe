//! Reader of a copy of `/proc/kpageflags`: eight bytes for each frame, from the first on.
//!
//! Such a file has no magic number. It is therefore refused if it cannot be a copy: its size is not a multiple of a
//! word, it has flags that no kernel has, or no page in it is free.

use std::fs;
use std::path::Path;

use freehold_trace::snapshot::flag;

use super::memory_state::MemoryState;
use crate::error::Error;

/// Flags that no kernel sets: those between the public flags and those for hackers, and those above. linux:
/// include/uapi/linux/kernel-page-flags.h; include/linux/kernel-page-flags.h
const NEVER: u64 = 0x1f << 27 | u64::MAX << 48;

/// Reads a copy.
///
/// # Errors
/// If the file cannot be a copy.
pub(crate) fn read(path: &Path) -> Result<MemoryState, Error> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
        return Err(foreign(path, "its size is not a multiple of eight bytes"));
    }
    let (chunks, _) = bytes.as_chunks();
    if chunks.iter().any(|chunk| u64::from_le_bytes(*chunk) & NEVER != 0) {
        return Err(foreign(path, "it has flags that no kernel sets"));
    }
    let words: Vec<u32> = chunks.iter().map(|chunk| flag::from_kernel(u64::from_le_bytes(*chunk))).collect();
    if !words.iter().any(|word| word & flag::BUDDY != 0) {
        return Err(foreign(path, "no page in it is free"));
    }
    Ok(MemoryState { words, ..MemoryState::default() })
}

fn foreign(path: &Path, reason: &str) -> Error {
    Error::Start {
        path: path.to_path_buf(),
        reason: format!(
            "has no state of memory: it is not a Freehold snapshot, not a page_owner text, and not a copy of \
             /proc/kpageflags, since {reason}; give one of these"
        ),
    }
}
