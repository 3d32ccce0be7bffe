//! A PC: the loader's memory map (PVH), interrupts, further CPUs, a serial port, and the emulator's exit device.

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

pub use apic::{TICK_MIN, TICK_SPREAD, next_tick};
pub use irqs::{irq_restore, irq_save, irqs_disabled, irqs_on};

/// Offset of the direct map; memory is identity-mapped.
pub const DIRECT_MAP: usize = 0;

/// Address at which a further CPU starts in real mode.
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

// SAFETY: the linker script and the assembler file define these symbols, and only their addresses are used.
unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
}

/// Number of each CPU; the segment register GS of a CPU refers to its element.
static NUMBERS: [AtomicU32; CPUS_MAX as usize] = [const { AtomicU32::new(0) }; CPUS_MAX as usize];
/// APIC ID of each CPU.
static NAMES: [AtomicUsize; CPUS_MAX as usize] = [const { AtomicUsize::new(0) }; CPUS_MAX as usize];

/// Entry point of the first CPU, with the address of the loader's information.
#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn start(info: usize) -> ! {
    set_up_cpu(0);
    crate::main(pvh::regions(info))
}

/// Entry point of a further CPU.
#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn start_cpu(cpu: u32) -> ! {
    set_up_cpu(cpu as u16);
    crate::main_of_further_cpu()
}

fn set_up_cpu(cpu: u16) {
    let place = usize::from(cpu);
    NUMBERS[place].store(cpu.into(), Relaxed);
    // SAFETY: GS is not used otherwise, and the number is in a static.
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
/// The processor continues correctly with this value in the register.
unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: the caller promises that the processor continues correctly.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack));
    }
}

/// Returns the CPU that executes this.
#[inline(always)]
pub fn cpu() -> u16 {
    let number: u32;
    // SAFETY: `set_up_cpu` has set GS to the address of the CPU's number.
    unsafe { asm!("mov {0:e}, gs:[0]", out(reg) number, options(nostack, preserves_flags)) };
    number as u16
}

const FLAG_TRAP: i32 = 1 << 8;

/// Waits for the next interrupt, with interrupts on; at the latest a tick.
pub fn idle() {
    // SAFETY: the instruction only waits for an interrupt and changes no memory.
    unsafe { asm!("hlt", options(nostack)) };
}

/// Calls a function in single-step mode, with an exception after each instruction. Returns `true`, since this processor
/// supports it.
pub fn stop_at_each_instruction(call: fn()) -> bool {
    // SAFETY: the single-step exception has a handler, and the stack pointer is restored.
    unsafe { asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const FLAG_TRAP) };
    call();
    // SAFETY: this only clears the flag, and the stack pointer is restored.
    unsafe { asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !FLAG_TRAP) };
    true
}

/// Returns the time, in units that are not larger than those of the timer.
pub fn clock() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reading the counter has no side effects. Without `nomem` no memory access moves across it.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags)) };
    high << 32 | low
}

/// Starts the other CPUs, and waits until all CPUs that the processor reports run.
pub fn start_cpus(running: &AtomicU32) {
    // SAFETY: the trampoline's page is reserved and identity-mapped, the code fits into it, and the two do not overlap.
    unsafe {
        let (from, to) = (&raw const trampoline_start, &raw const trampoline_end);
        core::ptr::with_exposed_provenance_mut::<u8>(TRAMPOLINE)
            .copy_from_nonoverlapping(from, to.addr() - from.addr());
    }
    apic::start_others(TRAMPOLINE);
    let all = core::arch::x86_64::__cpuid_count(LEAF_TOPOLOGY, LEVEL_PACKAGE).ebx;
    assert!(all <= CPUS_MAX.into(), "{all} CPUs exist, but at most {CPUS_MAX} are supported");
    while running.load(Acquire) < all {
        core::hint::spin_loop();
    }
}

/// CPUID leaf and level with the number of CPUs in a package.
const LEAF_TOPOLOGY: u32 = 0xb;
const LEVEL_PACKAGE: u32 = 1;

/// Interrupts another CPU.
pub fn call(cpu: u16) {
    apic::call(NAMES[usize::from(cpu)].load(Relaxed));
}

/// Returns the reserved page from which further CPUs start.
pub fn trampoline() -> Range<u64> {
    TRAMPOLINE as u64..TRAMPOLINE as u64 + 4096
}

/// Writes a byte to the serial port.
pub fn put(byte: u8) {
    // SAFETY: writing to the serial port changes no memory.
    unsafe { out(0x3f8, byte) };
}

/// Masks all interrupts of the legacy interrupt controllers, whose vectors collide with those of exceptions.
fn silence() {
    // SAFETY: masking interrupts changes no memory, and no code waits for these interrupts.
    unsafe {
        out(0x21, 0xff);
        out(0xa1, 0xff);
    }
}

/// # Safety
/// The write does not make the device change memory.
unsafe fn out(port: u16, byte: u8) {
    // SAFETY: the caller promises that the device changes no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags)) };
}

/// Ends the emulator with an exit code.
pub fn exit(outcome: Outcome) -> ! {
    let code: u32 = if outcome == Outcome::Passed { 0x10 } else { 0x11 };
    loop {
        // SAFETY: the write ends the emulator and changes no memory.
        unsafe { asm!("out dx, eax", in("dx") 0xf4_u16, in("eax") code, options(nostack, preserves_flags)) };
    }
}
