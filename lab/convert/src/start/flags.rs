//! A copy of `/proc/kpageflags`: eight bytes for each frame, from the first on.
//!
//! Nothing in such a file says what it is. So it is refused where it cannot be one: a size that is no number of words,
//! flags that no kernel has, or not one free page.

use std::fs;
use std::path::Path;

use freehold_trace::snapshot::flag;

use super::Known;
use crate::error::Error;

/// Flags that no kernel sets: those between the public ones and those for hackers, and those above. linux:
/// include/uapi/linux/kernel-page-flags.h; include/linux/kernel-page-flags.h
const NEVER: u64 = 0x1f << 27 | u64::MAX << 48;

/// Reads it.
///
/// # Errors
/// When it is none.
pub(crate) fn read(path: &Path) -> Result<Known, Error> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    let foreign = |reason: &str| Error::Start {
        path: path.to_path_buf(),
        reason: format!(
            "says nothing of how memory lay: it is no snapshot of Freehold's, no page_owner text, and no copy of \
             /proc/kpageflags, since {reason}"
        ),
    };
    if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
        return Err(foreign("its size is no multiple of eight bytes"));
    }
    let words = || bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    if words().any(|word| word & NEVER != 0) {
        return Err(foreign("it has flags that no kernel sets"));
    }
    let words: Vec<u32> = words().map(flag::of).collect();
    if !words.iter().any(|word| word & flag::BUDDY != 0) {
        return Err(foreign("not one page in it is free"));
    }
    Ok(Known { words, ..Known::default() })
}
