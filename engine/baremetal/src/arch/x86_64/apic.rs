//! Each CPU's interrupt controller: its timer, calls to other CPUs, and their start.

use super::irqs::{irq_restore, irq_save};
use super::vectors::{CALL, SPURIOUS, TIMER};

/// Where a CPU's own is mapped.
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
/// To all but this one: INIT, and a start at a page.
const INIT_OTHERS: u32 = 0xc_4500;
const START_OTHERS: u32 = 0xc_4600;

/// Between two ticks at least, and how much more it may be: a few microseconds.
pub const TICK_MIN: u32 = 3_000;
/// See [`TICK_MIN`].
pub const TICK_SPREAD: u32 = 20_000;

fn read(register: usize) -> u32 {
    // SAFETY: the controller is mapped there, and reading changes nothing.
    unsafe { core::ptr::with_exposed_provenance::<u32>(BASE + register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: the controller is mapped there; what is written is what this file knows.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(BASE + register).write_volatile(value) };
}

/// Sets this CPU's up, its timer too; says its name.
pub fn set_up() -> usize {
    write(SPURIOUS_VECTOR, ENABLED | u32::from(SPURIOUS));
    write(TIMER_DIVISOR, 0b1011);
    write(TIMER_VECTOR, TIMER.into());
    next_tick(TICK_MIN);
    (read(ID) >> 24) as usize
}

/// The next tick comes after so long.
pub fn next_tick(count: u32) {
    write(TIMER_COUNT, count);
}

/// The handler has done its work.
pub fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Interrupts the CPU of this name.
pub fn call(name: usize) {
    let flags = irq_save();
    while read(COMMAND) & PENDING != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_TARGET, (name as u32) << 24);
    write(COMMAND, CALL.into());
    irq_restore(flags);
}

/// Starts all others in real mode at a page.
pub fn start_others(page: usize) {
    write(COMMAND, INIT_OTHERS);
    pause();
    write(COMMAND, START_OTHERS | (page >> 12) as u32);
    pause();
}

/// Long enough for what a CPU does with INIT.
fn pause() {
    (0..50_000).for_each(|_| core::hint::spin_loop());
}
