//! Outcomes of a case that the malloc did not end.

/// Reports that memory is corrupted, and exits.
pub(super) fn end_corrupted() -> ! {
    println!("{CORRUPTED}");
    std::process::exit(0)
}

/// Output of a case that ran to its end and found no damage.
pub const HARMLESS: &str = "harmless";

/// Output of a case that found memory in use twice, or overwritten.
pub const CORRUPTED: &str = "corrupted";
