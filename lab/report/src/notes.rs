//! Notes to the user: lines on stderr beside the result, such as the inputs that were passed over.
//!
//! `--quiet` suppresses notes and progress. Results and errors are not notes.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::terminal::printable;

static ARE_SUPPRESSED: AtomicBool = AtomicBool::new(false);

/// Suppresses notes and progress in this process from now on.
pub fn suppress() {
    ARE_SUPPRESSED.store(true, Ordering::Relaxed);
}

/// Returns whether notes and progress are suppressed.
pub(crate) fn are_suppressed() -> bool {
    ARE_SUPPRESSED.load(Ordering::Relaxed)
}

/// Prints a note as one line.
pub fn print(sentence: &str) {
    if !are_suppressed() {
        eprintln!("freehold: {}", printable(sentence));
    }
}
