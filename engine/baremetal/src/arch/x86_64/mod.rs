//! A PC: its loader's map (PVH), its interrupts, its further CPUs, a serial port, and the emulator's way out.

mod apic;
mod idt;
mod irqs;
mod pvh;
mod vectors;

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::{CPUS_MAX, Outcome, STACK_BYTES};
use crate::together;

pub use apic::{TICK_MIN, TICK_SPREAD, next_tick};
pub use irqs::{irq_restore, irq_save, irqs_disabled, irqs_on};

/// Memory is mapped where it is.
pub const DIRECT_MAP: usize = 0;

/// Where a further CPU starts, in real mode.
const TRAMPOLINE: usize = 0x8000;

global_asm!(include_str!("boot.s"), options(att_syntax),);
global_asm!(
    ".set CPUS_MAX, {}",
    ".set STACK_BYTES, {}",
    ".set TRAMPOLINE, {}",
    const CPUS_MAX,
    const STACK_BYTES,
    const TRAMPOLINE,
);

// SAFETY: they are places of the linker's and the assembler's, of which only the addresses are used.
unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
}

/// Each CPU's number, where its segment register GS leads.
static NUMBERS: [AtomicU32; CPUS_MAX as usize] = [const { AtomicU32::new(0) }; CPUS_MAX as usize];
/// Each CPU's name to the interrupt controller.
static NAMES: [AtomicUsize; CPUS_MAX as usize] = [const { AtomicUsize::new(0) }; CPUS_MAX as usize];

/// The first CPU comes from the loader, with the address of what it says.
#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn start(info: usize) -> ! {
    set_up_cpu(0);
    crate::main(pvh::regions(info))
}

/// A further CPU comes.
#[unsafe(no_mangle)] // SAFETY: nothing else has this name.
extern "C" fn start_cpu(cpu: u32) -> ! {
    set_up_cpu(cpu as u16);
    together::serve()
}

fn set_up_cpu(cpu: u16) {
    let place = usize::from(cpu);
    NUMBERS[place].store(cpu.into(), Relaxed);
    // SAFETY: nothing else uses GS; the number stays where it is.
    unsafe { write_msr(IA32_GS_BASE, (&raw const NUMBERS[place]) as u64) };
    if cpu == 0 {
        idt::fill();
        silence();
    }
    idt::load();
    NAMES[place].store(apic::set_up(), Relaxed);
}

const IA32_GS_BASE: u32 = 0xc000_0101;

/// # Safety
/// The processor goes on with that.
unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: the caller promises that the processor goes on.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack));
    }
}

/// The CPU that runs this.
#[inline(always)]
pub fn cpu() -> u16 {
    let number: u32;
    // SAFETY: `set_up_cpu` has led GS to the number.
    unsafe { asm!("mov {0:e}, gs:[0]", out(reg) number, options(nostack, preserves_flags)) };
    number as u16
}

const FLAG_TRAP: i32 = 1 << 8;

/// Rests until the next interrupt, with interrupts on: a tick at the latest.
pub fn idle() {
    // SAFETY: it does nothing but wait.
    unsafe { asm!("hlt", options(nostack)) };
}

/// Does something, and stops before each instruction of it; `true`, since this processor can.
pub fn stop_at_each_instruction(call: fn()) -> bool {
    // SAFETY: what comes before each instruction has a handler, and ends with the flag.
    unsafe { asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const FLAG_TRAP) };
    call();
    // SAFETY: the flag goes off.
    unsafe { asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !FLAG_TRAP) };
    true
}

/// Time, in units that are not larger than those of the timer.
pub fn clock() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: it is a counter, which may be read. What is before it and after it stays there.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags)) };
    high << 32 | low
}

/// Starts the other CPUs, and waits until all that the processor says there are have counted themselves.
pub fn start_cpus(running: &AtomicU32) {
    // SAFETY: the trampoline's page is reserved, and mapped where it is.
    unsafe {
        let (from, to) = (&raw const trampoline_start, &raw const trampoline_end);
        core::ptr::with_exposed_provenance_mut::<u8>(TRAMPOLINE)
            .copy_from_nonoverlapping(from, to.addr() - from.addr());
    }
    apic::start_others(TRAMPOLINE);
    let all = core::arch::x86_64::__cpuid_count(LEAF_TOPOLOGY, LEVEL_PACKAGE).ebx;
    assert!(all <= CPUS_MAX.into(), "there are {all} CPUs, and room for {CPUS_MAX}");
    while running.load(Acquire) < all {
        core::hint::spin_loop();
    }
}

/// Where the processor says how many CPUs a package has.
const LEAF_TOPOLOGY: u32 = 0xb;
const LEVEL_PACKAGE: u32 = 1;

/// Interrupts another CPU.
pub fn call(cpu: u16) {
    apic::call(NAMES[usize::from(cpu)].load(Relaxed));
}

/// What further CPUs start from.
pub fn trampoline() -> Range<u64> {
    TRAMPOLINE as u64..TRAMPOLINE as u64 + 4096
}

/// Writes a byte to the serial port.
pub fn put(byte: u8) {
    // SAFETY: the port takes bytes.
    unsafe { out(0x3f8, byte) };
}

/// Masks all that the old interrupt controllers have: their vectors are those of exceptions.
fn silence() {
    // SAFETY: nobody waits for what they have.
    unsafe {
        out(0x21, 0xff);
        out(0xa1, 0xff);
    }
}

/// # Safety
/// The device does nothing to memory for it.
unsafe fn out(port: u16, byte: u8) {
    // SAFETY: the caller promises that memory stays as it is.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags)) };
}

/// Ends the emulator with a code.
pub fn exit(outcome: Outcome) -> ! {
    let code: u32 = if outcome == Outcome::Passed { 0x10 } else { 0x11 };
    loop {
        // SAFETY: the emulator ends at that.
        unsafe { asm!("out dx, eax", in("dx") 0xf4_u16, in("eax") code, options(nostack, preserves_flags)) };
    }
}
