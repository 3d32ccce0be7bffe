//! Output of lines to the serial port, one CPU at a time.

use core::fmt::{self, Write};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::arch;
use crate::hardware::KERNEL;

static BUSY: AtomicBool = AtomicBool::new(false);
/// Set by a CPU that panics; then printing no longer waits for other CPUs.
static SEIZED: AtomicBool = AtomicBool::new(false);

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::put);
        Ok(())
    }
}

/// Prints a line. The kernel's own locks, including this one, answer calls while they spin, because their holder may
/// call the allocator.
pub fn line(text: fmt::Arguments<'_>) {
    let flags = arch::irq_save();
    while !SEIZED.load(Relaxed) && BUSY.swap(true, Acquire) {
        KERNEL.answer();
        core::hint::spin_loop();
    }
    // Writing to the serial port never fails.
    let _ = writeln!(Serial, "{text}");
    BUSY.store(false, Release);
    arch::irq_restore(flags);
}

/// Makes all later output ignore the lock.
pub fn seize() {
    SEIZED.store(true, Relaxed);
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::console::line(core::format_args!($($text)*)) };
}
pub(crate) use say;
