//! The local APIC of each CPU: its timer, interrupts to other CPUs, and their start.

use super::irqs::{irq_restore, irq_save};
use super::vectors::{CALL, SPURIOUS, TIMER};

/// Address at which each CPU's local APIC is mapped.
const BASE: usize = 0xfee0_0000;
const ID: usize = 0x20;
const END_OF_INTERRUPT: usize = 0xb0;
const SPURIOUS_VECTOR: usize = 0xf0;
const COMMAND: usize = 0x300;
const COMMAND_TARGET: usize = 0x310;
const TIMER_VECTOR: usize = 0x320;
const TIMER_COUNT: usize = 0x380;
const TIMER_DIVISOR: usize = 0x3e0;

const ENABLED: u32 = 1 << 8;
const PENDING: u32 = 1 << 12;
/// Commands to all other CPUs: INIT, and start-up at a page.
const INIT_OTHERS: u32 = 0xc_4500;
const START_OTHERS: u32 = 0xc_4600;

/// Minimum time between two ticks, in timer units; a few microseconds.
pub const TICK_MIN: u32 = 3_000;
/// Maximum additional time between two ticks, in the same units; see [`TICK_MIN`].
pub const TICK_SPREAD: u32 = 20_000;

fn read(register: usize) -> u32 {
    // SAFETY: the APIC is mapped at this address, and reading its registers has no side effects.
    unsafe { core::ptr::with_exposed_provenance::<u32>(BASE + register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: the APIC is mapped at this address, and the values that this file writes change no memory.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(BASE + register).write_volatile(value) };
}

/// Sets up this CPU's APIC and its timer; returns its APIC ID.
pub fn set_up() -> usize {
    write(SPURIOUS_VECTOR, ENABLED | u32::from(SPURIOUS));
    write(TIMER_DIVISOR, 0b1011);
    write(TIMER_VECTOR, TIMER.into());
    next_tick(TICK_MIN);
    (read(ID) >> 24) as usize
}

/// Sets the time until the next tick.
pub fn next_tick(count: u32) {
    write(TIMER_COUNT, count);
}

/// Signals the end of an interrupt handler.
pub fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Interrupts the CPU with this APIC ID.
pub fn call(name: usize) {
    let flags = irq_save();
    while read(COMMAND) & PENDING != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_TARGET, (name as u32) << 24);
    write(COMMAND, CALL.into());
    irq_restore(flags);
}

/// Starts all other CPUs in real mode at a page.
pub fn start_others(page: usize) {
    write(COMMAND, INIT_OTHERS);
    pause();
    write(COMMAND, START_OTHERS | (page >> 12) as u32);
    pause();
}

/// Pauses long enough for a CPU to process INIT.
fn pause() {
    (0..50_000).for_each(|_| core::hint::spin_loop());
}
