//! The processors: each has a folder of the same names.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All scenes were played to their end.
    Passed,
    /// Something was not as it must be.
    Failed,
}
