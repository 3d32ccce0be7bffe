//! The emulator's RISC-V board, in machine mode: timer and calls by the CPUs' own registers, a serial port, the way
//! out.

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::fdt::DeviceTree;
use super::{CPUS_MAX, Outcome, STACK_BYTES};
use crate::hardware::KERNEL;
use crate::{interrupts, together};

/// Between two ticks at least, and how much more it may be: units of 100 ns.
pub const TICK_MIN: u32 = 30;
/// See [`TICK_MIN`].
pub const TICK_SPREAD: u32 = 200;

/// Memory is mapped where it is.
pub const DIRECT_MAP: usize = 0;

/// A word for each CPU: 1 interrupts it.
const CALLS: usize = 0x200_0000;
/// Eight bytes for each CPU: when its timer interrupts it.
const TIMERS: usize = 0x200_4000;
/// The time.
const TIME: usize = 0x200_bff8;
/// The serial port, and the device that ends it all.
const SERIAL: usize = 0x1000_0000;
const FINISHER: usize = 0x10_0000;

const CAUSE_CALL: usize = 1 << 63 | 3;
const CAUSE_TIMER: usize = 1 << 63 | 7;
/// Interrupts on, in `mstatus`; calls and the timer, in `mie`.
const IRQS_ON: usize = 1 << 3;
const CALL_AND_TIMER: usize = 1 << 3 | 1 << 7;

global_asm!(
    ".set CPUS_MAX, {}",
    ".set STACK_BYTES, {}",
    const CPUS_MAX,
    const STACK_BYTES,
);
global_asm!(include_str!("boot.s"));

// SAFETY: it is a word that CPUs wait for.
unsafe extern "C" {
    static may_start: AtomicU32;
}

/// CPUs that the device tree has.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// The first CPU, with the address of the device tree.
#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn start_first(tree: usize) -> ! {
    // SAFETY: the emulator has left it there, and nothing has been written there.
    let tree = unsafe { DeviceTree::from_address(tree) };
    CPUS.store(tree.cpus(), Relaxed);
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
    next_tick(TICK_MIN);
    // SAFETY: there is a handler for both.
    unsafe { asm!("csrw mie, {}", in(reg) CALL_AND_TIMER, options(nostack)) };
}

/// The CPU that runs this: the processor knows.
#[inline(always)]
pub fn cpu() -> u16 {
    let number: usize;
    // SAFETY: it is a number that may be read.
    unsafe { asm!("csrr {}, mhartid", out(reg) number, options(nomem, nostack, preserves_flags)) };
    number as u16
}

/// Turns interrupts off; says how they were.
#[inline(always)]
pub fn irq_save() -> usize {
    let flags: usize;
    // SAFETY: what comes is taken later. Accesses to memory do not move across it.
    unsafe { asm!("csrrci {}, mstatus, 8", out(reg) flags, options(nostack)) };
    flags
}

/// Turns them on again, if they were.
#[inline(always)]
pub fn irq_restore(flags: usize) {
    if flags & IRQS_ON != 0 {
        irqs_on();
    }
}

/// Whether they are off.
pub fn irqs_disabled() -> bool {
    let flags: usize;
    // SAFETY: the flags are read.
    unsafe { asm!("csrr {}, mstatus", out(reg) flags, options(nostack)) };
    flags & IRQS_ON == 0
}

/// Turns them on.
#[inline(always)]
pub fn irqs_on() {
    // SAFETY: there are handlers for all that may come.
    unsafe { asm!("csrsi mstatus, 8", options(nostack)) };
}

/// Rests until the next interrupt, with interrupts on: a tick at the latest.
pub fn idle() {
    // SAFETY: it does nothing but wait.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Time, in units of the timer.
pub fn clock() -> u64 {
    // SAFETY: the device is mapped there, and reading changes nothing.
    unsafe { core::ptr::with_exposed_provenance::<u64>(TIME).read_volatile() }
}

/// This processor's emulator stops at no instruction.
pub fn stop_at_each_instruction(_: fn()) -> bool {
    false
}

/// The next tick comes after so long.
pub fn next_tick(count: u32) {
    let timer = core::ptr::with_exposed_provenance_mut::<u64>(TIMERS).wrapping_add(cpu().into());
    // SAFETY: the device is mapped there; this CPU's timer is this CPU's.
    unsafe { timer.write_volatile(clock() + u64::from(count)) };
}

fn set_call(cpu: u16, is_waiting: u32) {
    let call = core::ptr::with_exposed_provenance_mut::<u32>(CALLS).wrapping_add(cpu.into());
    // SAFETY: the device is mapped there. What was written to memory before is seen by who is called.
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

#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn trap(cause: usize, address: usize, value: usize) {
    match cause {
        CAUSE_TIMER => next_tick(interrupts::tick(address)),
        CAUSE_CALL => {
            set_call(cpu(), 0);
            KERNEL.answer();
            crate::scenes::answer();
        }
        _ => panic!("exception {cause:#x} at {address:#x}, {value:#x}"),
    }
}

/// Lets the other CPUs go on, and waits until all that the device tree has have counted themselves.
pub fn start_cpus(running: &AtomicU32) {
    // SAFETY: it is a word that only this writes.
    unsafe { may_start.store(1, Release) };
    while running.load(Acquire) < CPUS.load(Relaxed) {
        core::hint::spin_loop();
    }
}

/// What further CPUs start from: the kernel itself.
pub fn trampoline() -> Range<u64> {
    0..0
}

/// Writes a byte to the serial port.
pub fn put(byte: u8) {
    // SAFETY: the port is mapped there, and takes bytes.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(SERIAL).write_volatile(byte) };
}

/// Ends the emulator with a code: 33 when all went well, as the other processors' kernels do.
pub fn exit(outcome: Outcome) -> ! {
    let code: u32 = if outcome == Outcome::Passed { 33 } else { 35 };
    loop {
        // SAFETY: the emulator ends at that.
        unsafe { core::ptr::with_exposed_provenance_mut::<u32>(FINISHER).write_volatile(code << 16 | 0x3333) };
    }
}
