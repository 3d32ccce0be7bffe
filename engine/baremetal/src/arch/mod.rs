//! Processor-specific code: each processor's module exports the same names.

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

/// Maximum number of CPUs.
pub const CPUS_MAX: u16 = 8;
/// Stack size of each CPU in bytes.
const STACK_BYTES: usize = 64 << 10;

// SAFETY: the linker script defines these symbols, and only their addresses are used.
unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
    static text_start: u8;
    static text_end: u8;
}

/// Returns the physical addresses of the kernel.
pub fn image() -> Range<u64> {
    (&raw const kernel_start) as u64..(&raw const kernel_end) as u64
}

/// Returns the addresses of the kernel's code.
pub fn text() -> Range<usize> {
    (&raw const text_start).addr()..(&raw const text_end).addr()
}

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All scenes succeeded.
    Passed,
    /// A check failed.
    Failed,
}
