//! The emulator's RISC-V board, in machine mode: timers and cross-CPU interrupts by memory-mapped registers of each
//! CPU, a serial port, and the exit device.

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::fdt::DeviceTree;
use super::{CPUS_MAX, Outcome, STACK_BYTES};

/// Minimum time between two ticks, in units of 100 ns.
pub const TICK_MIN: u32 = 30;
/// Maximum additional time between two ticks, in the same units; see [`TICK_MIN`].
pub const TICK_SPREAD: u32 = 200;

/// Offset of the direct map; memory is identity-mapped.
pub const DIRECT_MAP: usize = 0;

/// Address of one word per CPU; writing 1 interrupts the CPU.
const CALLS: usize = 0x200_0000;
/// Address of eight bytes per CPU: the time of its next timer interrupt.
const TIMERS: usize = 0x200_4000;
/// Address of the current time.
const TIME: usize = 0x200_bff8;
/// Addresses of the serial port and of the device that ends the emulator.
const SERIAL: usize = 0x1000_0000;
const FINISHER: usize = 0x10_0000;

const CAUSE_CALL: usize = 1 << 63 | 3;
const CAUSE_TIMER: usize = 1 << 63 | 7;
/// Interrupt-enable bit of `mstatus`, and the bits of calls and timer in `mie`.
const IRQS_ON: usize = 1 << 3;
const CALL_AND_TIMER: usize = 1 << 3 | 1 << 7;

global_asm!(
    ".set CPUS_MAX, {}",
    ".set STACK_BYTES, {}",
    const CPUS_MAX,
    const STACK_BYTES,
);
global_asm!(include_str!("boot.s"));

// SAFETY: `boot.s` defines this word, which is only accessed atomically.
unsafe extern "C" {
    static may_start: AtomicU32;
}

/// Number of CPUs in the device tree.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// Entry point of the first CPU, with the address of the device tree.
#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn start_first(tree: usize) -> ! {
    // SAFETY: the emulator has placed the tree at this address, and it is not overwritten before its last use in
    // `main`.
    let tree = unsafe { DeviceTree::from_address(tree) };
    CPUS.store(tree.cpus(), Relaxed);
    set_up_cpu();
    crate::main(tree.memory())
}

/// Entry point of a further CPU.
#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn start_further() -> ! {
    set_up_cpu();
    crate::main_of_further_cpu()
}

fn set_up_cpu() {
    next_tick(TICK_MIN);
    // SAFETY: `trap` handles both interrupts that this enables.
    unsafe { asm!("csrw mie, {}", in(reg) CALL_AND_TIMER, options(nostack)) };
}

/// Returns the CPU that executes this, from a processor register.
#[inline(always)]
pub fn cpu() -> u16 {
    let number: usize;
    // SAFETY: reading this register has no side effects.
    unsafe { asm!("csrr {}, mhartid", out(reg) number, options(nomem, nostack, preserves_flags)) };
    number as u16
}

/// Disables interrupts; returns the previous state.
#[inline(always)]
pub fn irq_save() -> usize {
    let flags: usize;
    // SAFETY: clearing the bit only delays interrupts. Without `nomem` the compiler moves no memory access across it.
    unsafe { asm!("csrrci {}, mstatus, 8", out(reg) flags, options(nostack)) };
    flags
}

/// Enables interrupts if they were enabled before.
#[inline(always)]
pub fn irq_restore(flags: usize) {
    if flags & IRQS_ON != 0 {
        irqs_on();
    }
}

/// Returns whether interrupts are off.
pub fn irqs_disabled() -> bool {
    let flags: usize;
    // SAFETY: reading this register has no side effects.
    unsafe { asm!("csrr {}, mstatus", out(reg) flags, options(nostack)) };
    flags & IRQS_ON == 0
}

/// Enables interrupts.
#[inline(always)]
pub fn irqs_on() {
    // SAFETY: `trap` handles every interrupt that is enabled.
    unsafe { asm!("csrsi mstatus, 8", options(nostack)) };
}

/// Waits for the next interrupt, with interrupts on; at the latest a tick.
pub fn idle() {
    // SAFETY: the instruction only waits for an interrupt and changes no memory.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Returns the time, in units of the timer.
pub fn clock() -> u64 {
    // SAFETY: the device is mapped at this address, and reading it has no side effects.
    unsafe { core::ptr::with_exposed_provenance::<u64>(TIME).read_volatile() }
}

/// Returns `false`: the emulator cannot single-step this processor.
pub fn stop_at_each_instruction(_: fn()) -> bool {
    false
}

/// Sets the time until the next tick.
pub fn next_tick(count: u32) {
    let timer = core::ptr::with_exposed_provenance_mut::<u64>(TIMERS).wrapping_add(cpu().into());
    // SAFETY: the device is mapped at this address, and only this CPU writes its own timer.
    unsafe { timer.write_volatile(clock() + u64::from(count)) };
}

fn set_call(cpu: u16, is_waiting: u32) {
    let call = core::ptr::with_exposed_provenance_mut::<u32>(CALLS).wrapping_add(cpu.into());
    // SAFETY: the device is mapped at this address. The fences make earlier writes visible to the called CPU.
    unsafe {
        asm!("fence iorw, iorw", options(nostack));
        call.write_volatile(is_waiting);
        asm!("fence iorw, iorw", options(nostack));
    }
}

/// Interrupts another CPU.
pub fn call(cpu: u16) {
    set_call(cpu, 1);
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn trap(cause: usize, address: usize, value: usize) {
    match cause {
        CAUSE_TIMER => next_tick(crate::handle_tick(address)),
        CAUSE_CALL => {
            set_call(cpu(), 0);
            crate::answer_calls();
        }
        _ => panic!("exception {cause:#x} at {address:#x}, {value:#x}"),
    }
}

/// Releases the other CPUs, and waits until all CPUs of the device tree run.
pub fn start_cpus(running: &AtomicU32) {
    // SAFETY: the word is only accessed atomically; the waiting CPUs read it.
    unsafe { may_start.store(1, Release) };
    while running.load(Acquire) < CPUS.load(Relaxed) {
        core::hint::spin_loop();
    }
}

/// Returns the reserved memory for the start of further CPUs: none, since they start in the kernel image.
pub fn trampoline() -> Range<u64> {
    0..0
}

/// Writes a byte to the serial port.
pub fn put(byte: u8) {
    // SAFETY: the port's register is mapped at this address, and writing to it changes no memory.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(SERIAL).write_volatile(byte) };
}

/// Ends the emulator with an exit code: 33 for success, as on the other processors.
pub fn exit(outcome: Outcome) -> ! {
    let code: u32 = if outcome == Outcome::Passed { 33 } else { 35 };
    loop {
        // SAFETY: the write ends the emulator and changes no memory.
        unsafe { core::ptr::with_exposed_provenance_mut::<u32>(FINISHER).write_volatile(code << 16 | 0x3333) };
    }
}
