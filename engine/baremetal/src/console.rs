//! Lines on the serial port, one CPU at a time.

use core::fmt::{self, Write};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::arch;
use crate::hardware::KERNEL;

static BUSY: AtomicBool = AtomicBool::new(false);
/// A CPU that panics does not wait for others.
static SEIZED: AtomicBool = AtomicBool::new(false);

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::put);
        Ok(())
    }
}

/// Prints a line. The kernel's own locks, this one too, answer calls while they wait: who holds it may call the
/// allocator.
pub fn line(text: fmt::Arguments<'_>) {
    let flags = arch::irq_save();
    while !SEIZED.load(Relaxed) && BUSY.swap(true, Acquire) {
        KERNEL.answer();
        core::hint::spin_loop();
    }
    // A serial port takes everything.
    let _ = writeln!(Serial, "{text}");
    BUSY.store(false, Release);
    arch::irq_restore(flags);
}

/// Has whoever prints next not wait.
pub fn seize() {
    SEIZED.store(true, Relaxed);
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::console::line(core::format_args!($($text)*)) };
}
pub(crate) use say;
