//! The interrupt descriptor table, and the handlers of ticks, calls and single steps. Other exceptions panic.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::size_of;

use super::apic;
use super::irqs::FLAG_IRQS;
use super::vectors::{CALL, SPURIOUS, TIMER};

/// Vector of the single-step exception, raised after each instruction.
const TRAP: u8 = 1;
const EXCEPTIONS: usize = 32;
/// Distance in bytes between the entry codes of two exceptions.
const STRIDE: usize = 16;
/// Gate in code segment 8 that disables interrupts.
const GATE: u128 = 0x8e00 << 32 | 8 << 16;

// SAFETY: the assembler file defines these symbols, and only their addresses are used.
unsafe extern "C" {
    static exceptions: u8;
    static trap_entry: u8;
    static timer_entry: u8;
    static call_entry: u8;
    static spurious_entry: u8;
}

#[repr(C, align(16))]
struct Gates(UnsafeCell<[u128; 256]>);

// SAFETY: only the first CPU writes the gates, before other CPUs run.
unsafe impl Sync for Gates {}

static GATES: Gates = Gates(UnsafeCell::new([0; 256]));

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Loads the filled table on this CPU.
pub fn load() {
    let pointer = Pointer { limit: (size_of::<Gates>() - 1) as u16, base: GATES.0.get() as u64 };
    // SAFETY: the gates are a static, so the table stays valid, and its entries are filled.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags)) };
}

/// Fills the table. Called by the first CPU before other CPUs run.
pub fn fill() {
    // SAFETY: only the first CPU runs, and no other reference to the gates exists.
    let gates = unsafe { &mut *GATES.0.get() };
    let first = (&raw const exceptions).addr();
    for (vector, gate) in gates.iter_mut().take(EXCEPTIONS).enumerate() {
        *gate = gate_to(first + vector * STRIDE);
    }
    let others = [
        (TRAP, &raw const trap_entry),
        (TIMER, &raw const timer_entry),
        (CALL, &raw const call_entry),
        (SPURIOUS, &raw const spurious_entry),
    ];
    for (vector, entry) in others {
        gates[usize::from(vector)] = gate_to(entry.addr());
    }
}

fn gate_to(address: usize) -> u128 {
    let address = address as u128;
    GATE | address & 0xffff | (address >> 16 & 0xffff) << 48 | (address >> 32) << 64
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn timer_interrupt(address: usize) {
    let next = crate::handle_tick(address);
    apic::end_of_interrupt();
    apic::next_tick(next);
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn trap_interrupt(address: usize, flags: usize) {
    if flags & FLAG_IRQS != 0 {
        crate::note_stop(address);
    }
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn call_interrupt() {
    crate::answer_calls();
    apic::end_of_interrupt();
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn spurious_interrupt() {}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn exception(vector: usize, first: usize, second: usize) -> ! {
    let cr2: usize;
    // SAFETY: reading the address of the last page fault has no side effects.
    unsafe { asm!("mov {}, cr2", out(reg) cr2, options(nostack, preserves_flags)) };
    panic!("exception {vector}: {first:#x} {second:#x}, cr2 {cr2:#x}")
}
