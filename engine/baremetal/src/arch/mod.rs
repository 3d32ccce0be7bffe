//! The processors: each has a folder of the same names.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
mod fdt;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

use core::ops::Range;

/// The most CPUs.
pub const CPUS_MAX: u16 = 8;
/// Bytes of each CPU's stack.
const STACK_BYTES: usize = 64 << 10;

// SAFETY: they are places of the linker's, of which only the addresses are used.
unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
    static text_start: u8;
    static text_end: u8;
}

/// Where the kernel lies.
pub fn image() -> Range<u64> {
    (&raw const kernel_start) as u64..(&raw const kernel_end) as u64
}

/// Its code.
pub fn text() -> Range<usize> {
    (&raw const text_start).addr()..(&raw const text_end).addr()
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All scenes were played to their end.
    Passed,
    /// Something was not as it must be.
    Failed,
}
