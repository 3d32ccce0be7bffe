//! Outcomes of a case that the malloc did not end.

/// Says that memory is corrupted, and ends: nothing is to be learned any more.
pub(super) fn end_corrupted() -> ! {
    println!("{CORRUPTED}");
    std::process::exit(0)
}

/// What a case that nobody ended says: nothing came of it that it can see.
pub const HARMLESS: &str = "harmless";

/// Memory is in use twice, or was overwritten.
pub const CORRUPTED: &str = "corrupted";
