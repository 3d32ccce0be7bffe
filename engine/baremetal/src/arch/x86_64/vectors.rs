//! Vectors of the interrupts that this kernel handles.

/// Vector of the timer.
pub const TIMER: u8 = 32;
/// Vector of a call from another CPU.
pub const CALL: u8 = 33;
/// Vector of an interrupt that was withdrawn before a CPU acknowledged it.
pub const SPURIOUS: u8 = 255;
