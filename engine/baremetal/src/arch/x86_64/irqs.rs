//! Enabling and disabling of interrupts on this CPU.

use core::arch::asm;

/// Processor flag that enables interrupts.
pub const FLAG_IRQS: usize = 1 << 9;

#[inline(always)]
fn flags() -> usize {
    let flags: usize;
    // SAFETY: the flags are pushed to the stack and popped again, which restores the stack pointer.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags
}

/// Disables interrupts; returns the previous state.
#[inline(always)]
pub fn irq_save() -> usize {
    let flags = flags();
    // SAFETY: `cli` only delays interrupts. Without `nomem` the compiler moves no memory access across it.
    unsafe { asm!("cli", options(nostack, preserves_flags)) };
    flags
}

/// Enables interrupts if they were enabled before.
#[inline(always)]
pub fn irq_restore(flags: usize) {
    if flags & FLAG_IRQS != 0 {
        irqs_on();
    }
}

/// Returns whether interrupts are off.
pub fn irqs_disabled() -> bool {
    flags() & FLAG_IRQS == 0
}

/// Enables interrupts.
#[inline(always)]
pub fn irqs_on() {
    // SAFETY: the interrupt table has a handler for every interrupt that is enabled.
    unsafe { asm!("sti", options(nostack, preserves_flags)) };
}
