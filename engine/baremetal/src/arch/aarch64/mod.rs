//! The emulator's ARM board, at exception level 1: its interrupt controller (GICv2), timers, a serial port, and the
//! exit by semihosting.

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::fdt::DeviceTree;
use super::{CPUS_MAX, Outcome, STACK_BYTES};

/// Minimum time between two ticks, in units of 16 ns.
pub const TICK_MIN: u32 = 200;
/// Maximum additional time between two ticks, in the same units; see [`TICK_MIN`].
pub const TICK_SPREAD: u32 = 1_300;

/// Offset of the direct map: memory is mapped a second time at the lowest address of the upper half, as in many
/// kernels.
pub const DIRECT_MAP: usize = 0xffff_0000_0000_0000;

/// Address at which the emulator places the device tree: the start of memory.
const TREE: usize = 0x4000_0000;
const SERIAL: usize = 0x900_0000;

/// Registers of the interrupt controller: those shared by all CPUs, and those of each CPU (`INTERFACE`).
const DISTRIBUTOR: usize = 0x800_0000;
const ENABLE: usize = 0x100;
const SEND: usize = 0xf00;
const INTERFACE: usize = 0x801_0000;
const PRIORITY_MASK: usize = 4;
const ACKNOWLEDGE: usize = 0xc;
const END: usize = 0x10;

/// Interrupt numbers.
const CALL: u32 = 1;
const TIMER: u32 = 27;

/// Bit of `daif` that masks interrupts.
const IRQS_OFF: usize = 1 << 7;
/// Firmware call that starts a CPU.
const PSCI_CPU_ON: usize = 0xc400_0003;
/// Emulator call that exits with a code.
const SEMIHOSTING_EXIT: usize = 0x18;
const APPLICATION_EXIT: u64 = 0x2_0026;

global_asm!(
    ".set CPUS_MAX, {}",
    ".set STACK_BYTES, {}",
    const CPUS_MAX,
    const STACK_BYTES,
);
global_asm!(include_str!("boot.s"));

// SAFETY: `boot.s` defines this symbol, and only its address is used.
unsafe extern "C" {
    static start: u8;
}

/// Number of CPUs in the device tree.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// Entry point of the first CPU.
#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn start_first() -> ! {
    // SAFETY: the emulator has placed the tree at this address, and it is not overwritten before its last use in
    // `main`.
    let tree = unsafe { DeviceTree::from_address(TREE) };
    CPUS.store(tree.cpus(), Relaxed);
    write(DISTRIBUTOR, 1);
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
    write(DISTRIBUTOR + ENABLE, 1 << TIMER | 1 << CALL);
    write(INTERFACE + PRIORITY_MASK, 0xff);
    write(INTERFACE, 1);
    next_tick(TICK_MIN);
    // SAFETY: `interrupt` handles the timer interrupt that this enables.
    unsafe { asm!("msr cntv_ctl_el0, {}", "isb", in(reg) 1_usize, options(nostack)) };
}

fn read(register: usize) -> u32 {
    // SAFETY: the devices are mapped at these addresses, and their registers may be read at any time.
    unsafe { core::ptr::with_exposed_provenance::<u32>(register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: the devices are mapped at these addresses, and the values that this file writes change no memory.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(register).write_volatile(value) };
}

/// Returns the CPU that executes this, from a processor register.
#[inline(always)]
pub fn cpu() -> u16 {
    let name: usize;
    // SAFETY: reading this register has no side effects.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) name, options(nomem, nostack, preserves_flags)) };
    (name & 0xff) as u16
}

#[inline(always)]
fn flags() -> usize {
    let flags: usize;
    // SAFETY: reading this register has no side effects.
    unsafe { asm!("mrs {}, daif", out(reg) flags, options(nostack, preserves_flags)) };
    flags
}

/// Disables interrupts; returns the previous state.
#[inline(always)]
pub fn irq_save() -> usize {
    let flags = flags();
    // SAFETY: setting the bit only delays interrupts. Without `nomem` the compiler moves no memory access across it.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
    flags
}

/// Enables interrupts if they were enabled before.
#[inline(always)]
pub fn irq_restore(flags: usize) {
    if flags & IRQS_OFF == 0 {
        irqs_on();
    }
}

/// Returns whether interrupts are off.
pub fn irqs_disabled() -> bool {
    flags() & IRQS_OFF != 0
}

/// Enables interrupts.
#[inline(always)]
pub fn irqs_on() {
    // SAFETY: `interrupt` handles every interrupt that is enabled.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Waits for the next interrupt, with interrupts on; at the latest a tick.
pub fn idle() {
    // SAFETY: the instruction only waits for an interrupt and changes no memory.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Returns the time, in units of the timer.
pub fn clock() -> u64 {
    let time: u64;
    // SAFETY: reading this counter has no side effects.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) time, options(nostack, preserves_flags)) };
    time
}

/// Returns `false`: the emulator cannot single-step this processor.
pub fn stop_at_each_instruction(_: fn()) -> bool {
    false
}

/// Sets the time until the next tick.
pub fn next_tick(count: u32) {
    // SAFETY: writing the timer only schedules an interrupt, which `interrupt` handles.
    unsafe { asm!("msr cntv_tval_el0, {}", "isb", in(reg) u64::from(count), options(nostack)) };
}

/// Interrupts another CPU. Earlier writes to memory are visible to the called CPU.
pub fn call(cpu: u16) {
    // SAFETY: the barrier only orders memory accesses.
    unsafe { asm!("dsb ish", options(nostack)) };
    write(DISTRIBUTOR + SEND, 1 << (16 + cpu) | CALL);
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn interrupt(address: usize) {
    let came = read(INTERFACE + ACKNOWLEDGE);
    match came & 0x3ff {
        TIMER => next_tick(crate::handle_tick(address)),
        CALL => crate::answer_calls(),
        // The interrupt was withdrawn before it was acknowledged.
        _ => return,
    }
    write(INTERFACE + END, came);
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn exception(cause: usize, address: usize, place: usize) -> ! {
    panic!("exception {cause:#x} at {address:#x}, {place:#x}")
}

/// Starts the other CPUs, and waits until all CPUs of the device tree run.
pub fn start_cpus(running: &AtomicU32) {
    let all = CPUS.load(Relaxed);
    for cpu in 1..all as usize {
        let mut answer = PSCI_CPU_ON;
        // SAFETY: the firmware starts the CPU at the kernel's entry point, where it gets a separate stack.
        unsafe {
            asm!("hvc #0", inout("x0") answer, inout("x1") cpu => _, inout("x2") (&raw const start).addr() => _,
                inout("x3") 0_usize => _, options(nostack));
        }
        assert_eq!(answer, 0, "the firmware did not start CPU {cpu}");
    }
    while running.load(Acquire) < all {
        core::hint::spin_loop();
    }
}

/// Returns the reserved memory for the start of further CPUs: none, since they start in the kernel image.
pub fn trampoline() -> Range<u64> {
    0..0
}

/// Writes a byte to the serial port.
pub fn put(byte: u8) {
    write(SERIAL, byte.into());
}

/// Ends the emulator with an exit code: 33 for success, as on the other processors.
pub fn exit(outcome: Outcome) -> ! {
    let code: u64 = if outcome == Outcome::Passed { 33 } else { 35 };
    let block = [APPLICATION_EXIT, code];
    loop {
        // SAFETY: the emulator reads the block, which is alive, and ends.
        unsafe { asm!("hlt #0xf000", in("x0") SEMIHOSTING_EXIT, in("x1") &raw const block, options(nostack)) };
    }
}
