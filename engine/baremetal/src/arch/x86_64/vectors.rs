//! Numbers of the interrupts that this kernel takes.

/// The timer.
pub const TIMER: u8 = 32;
/// A call from another CPU.
pub const CALL: u8 = 33;
/// An interrupt that was withdrawn before a CPU took it.
pub const SPURIOUS: u8 = 255;
