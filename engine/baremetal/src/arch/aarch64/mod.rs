//! The emulator's ARM board, at exception level 1: its interrupt controller (GICv2), timers, a serial port, and the way
//! out.

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::fdt::DeviceTree;
use super::{CPUS_MAX, Outcome, STACK_BYTES};
use crate::hardware::KERNEL;
use crate::{interrupts, together};

/// Between two ticks at least, and how much more it may be: units of 16 ns.
pub const TICK_MIN: u32 = 200;
/// See [`TICK_MIN`].
pub const TICK_SPREAD: u32 = 1_300;

/// Where memory is mapped once more: as many kernels have it, from the lowest address of the upper half.
pub const DIRECT_MAP: usize = 0xffff_0000_0000_0000;

/// Where the emulator leaves the device tree: where memory begins.
const TREE: usize = 0x4000_0000;
const SERIAL: usize = 0x900_0000;

/// The controller's registers for all CPUs, and those that each CPU has for itself.
const DISTRIBUTOR: usize = 0x800_0000;
const ENABLE: usize = 0x100;
const SEND: usize = 0xf00;
const INTERFACE: usize = 0x801_0000;
const PRIORITY_MASK: usize = 4;
const ACKNOWLEDGE: usize = 0xc;
const END: usize = 0x10;

/// Numbers of interrupts.
const CALL: u32 = 1;
const TIMER: u32 = 27;

/// Interrupts off, in `daif`.
const IRQS_OFF: usize = 1 << 7;
/// To the firmware: start a CPU.
const PSCI_CPU_ON: usize = 0xc400_0003;
/// To the emulator: end with a code.
const SEMIHOSTING_EXIT: usize = 0x18;
const APPLICATION_EXIT: u64 = 0x2_0026;

global_asm!(
    ".set CPUS_MAX, {}",
    ".set STACK_BYTES, {}",
    const CPUS_MAX,
    const STACK_BYTES,
);
global_asm!(include_str!("boot.s"));

// SAFETY: only the addresses are used.
unsafe extern "C" {
    static start: u8;
}

/// CPUs that the device tree has.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// The first CPU.
#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn start_first() -> ! {
    // SAFETY: the emulator has left it there, and nothing has been written there.
    let tree = unsafe { DeviceTree::from_address(TREE) };
    CPUS.store(tree.cpus(), Relaxed);
    write(DISTRIBUTOR, 1);
    set_up_cpu();
    crate::main(tree.memory())
}

/// A further CPU.
#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn start_further() -> ! {
    set_up_cpu();
    together::serve()
}

fn set_up_cpu() {
    write(DISTRIBUTOR + ENABLE, 1 << TIMER | 1 << CALL);
    write(INTERFACE + PRIORITY_MASK, 0xff);
    write(INTERFACE, 1);
    next_tick(TICK_MIN);
    // SAFETY: the timer's interrupt has a handler.
    unsafe { asm!("msr cntv_ctl_el0, {}", "isb", in(reg) 1_usize, options(nostack)) };
}

fn read(register: usize) -> u32 {
    // SAFETY: the devices are mapped there.
    unsafe { core::ptr::with_exposed_provenance::<u32>(register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: the devices are mapped there; what is written is what this file knows.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(register).write_volatile(value) };
}

/// The CPU that runs this: the processor knows.
#[inline(always)]
pub fn cpu() -> u16 {
    let name: usize;
    // SAFETY: it is a number that may be read.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) name, options(nomem, nostack, preserves_flags)) };
    (name & 0xff) as u16
}

#[inline(always)]
fn flags() -> usize {
    let flags: usize;
    // SAFETY: the flags are read.
    unsafe { asm!("mrs {}, daif", out(reg) flags, options(nostack, preserves_flags)) };
    flags
}

/// Turns interrupts off; says how they were.
#[inline(always)]
pub fn irq_save() -> usize {
    let flags = flags();
    // SAFETY: what comes is taken later. Accesses to memory do not move across it.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
    flags
}

/// Turns them on again, if they were.
#[inline(always)]
pub fn irq_restore(flags: usize) {
    if flags & IRQS_OFF == 0 {
        irqs_on();
    }
}

/// Whether they are off.
pub fn irqs_disabled() -> bool {
    flags() & IRQS_OFF != 0
}

/// Turns them on.
#[inline(always)]
pub fn irqs_on() {
    // SAFETY: there are handlers for all that may come.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Rests until the next interrupt, with interrupts on: a tick at the latest.
pub fn idle() {
    // SAFETY: it does nothing but wait.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Time, in units of the timer.
pub fn clock() -> u64 {
    let time: u64;
    // SAFETY: it is a counter, which may be read.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) time, options(nostack, preserves_flags)) };
    time
}

/// This processor's emulator stops at no instruction.
pub fn stop_at_each_instruction(_: fn()) -> bool {
    false
}

/// The next tick comes after so long.
pub fn next_tick(count: u32) {
    // SAFETY: the timer's interrupt has a handler.
    unsafe { asm!("msr cntv_tval_el0, {}", "isb", in(reg) u64::from(count), options(nostack)) };
}

/// Interrupts another CPU. What was written to memory before is seen by who is called.
pub fn call(cpu: u16) {
    // SAFETY: it orders accesses, no more.
    unsafe { asm!("dsb ish", options(nostack)) };
    write(DISTRIBUTOR + SEND, 1 << (16 + cpu) | CALL);
}

#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn interrupt(address: usize) {
    let came = read(INTERFACE + ACKNOWLEDGE);
    match came & 0x3ff {
        TIMER => next_tick(interrupts::tick(address)),
        CALL => {
            KERNEL.answer();
            crate::scenes::answer();
        }
        // It has gone away again.
        _ => return,
    }
    write(INTERFACE + END, came);
}

#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn exception(cause: usize, address: usize, place: usize) -> ! {
    panic!("exception {cause:#x} at {address:#x}, {place:#x}")
}

/// Starts the other CPUs, and waits until all that the device tree has have counted themselves.
pub fn start_cpus(running: &AtomicU32) {
    let all = CPUS.load(Relaxed);
    for cpu in 1..all as usize {
        let mut answer = PSCI_CPU_ON;
        // SAFETY: the CPU begins where this one did, with a stack of its own.
        unsafe {
            asm!("hvc #0", inout("x0") answer, inout("x1") cpu => _, inout("x2") (&raw const start).addr() => _,
                inout("x3") 0_usize => _, options(nostack));
        }
        assert_eq!(answer, 0, "the firmware starts CPU {cpu}");
    }
    while running.load(Acquire) < all {
        core::hint::spin_loop();
    }
}

/// What further CPUs start from: the kernel itself.
pub fn trampoline() -> Range<u64> {
    0..0
}

/// Writes a byte to the serial port.
pub fn put(byte: u8) {
    write(SERIAL, byte.into());
}

/// Ends the emulator with a code: 33 when all went well, as the other processors' kernels do.
pub fn exit(outcome: Outcome) -> ! {
    let code: u64 = if outcome == Outcome::Passed { 33 } else { 35 };
    let block = [APPLICATION_EXIT, code];
    loop {
        // SAFETY: the emulator ends at that, having read the block.
        unsafe { asm!("hlt #0xf000", in("x0") SEMIHOSTING_EXIT, in("x1") &raw const block, options(nostack)) };
    }
}
