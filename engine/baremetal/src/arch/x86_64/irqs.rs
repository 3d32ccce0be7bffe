//! Interrupts of this CPU, on and off.

use core::arch::asm;

/// The flag of the processor that lets interrupts in.
pub const FLAG_IRQS: usize = 1 << 9;

#[inline(always)]
fn flags() -> usize {
    let flags: usize;
    // SAFETY: the flags are read, by way of the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags
}

/// Turns interrupts off; says how they were.
#[inline(always)]
pub fn irq_save() -> usize {
    let flags = flags();
    // SAFETY: what comes is taken later. Accesses to memory do not move across it.
    unsafe { asm!("cli", options(nostack, preserves_flags)) };
    flags
}

/// Turns them on again, if they were.
#[inline(always)]
pub fn irq_restore(flags: usize) {
    if flags & FLAG_IRQS != 0 {
        irqs_on();
    }
}

/// Whether they are off.
pub fn irqs_disabled() -> bool {
    flags() & FLAG_IRQS == 0
}

/// Turns them on.
#[inline(always)]
pub fn irqs_on() {
    // SAFETY: there are handlers for all that may come.
    unsafe { asm!("sti", options(nostack, preserves_flags)) };
}
