//! The smallest kernel that uses pages, or pages and objects. Its size is the minimum code size of the engine in a
//! kernel.
//!
//! It is only built and measured, and never booted: `cargo xtask weigh`.

#![no_std]
#![no_main]

#[cfg(feature = "heap")]
extern crate alloc;

use core::arch::asm;
use core::hint::black_box;

use freehold::base::{Gfp, Order};
#[cfg(feature = "heap")]
use freehold::kernel::Heap;
use freehold::kernel::{Boot, Cpu, Kernel, Promises, Region};
use freehold::policy::Policy;

struct Hw;

impl Promises for Hw {}

// SAFETY: the program is only built and measured, and is never executed.
unsafe impl Cpu for Hw {
    const CPUS: u16 = 2;
    const POLICY: Policy = if cfg!(feature = "linux") { Policy::LINUX_6_12 } else { Policy::FREEHOLD };
    const CACHES: u16 = if cfg!(feature = "heap") { 256 } else { 0 };

    fn kernel() -> &'static Kernel<Hw> {
        &KERNEL
    }

    fn id() -> u16 {
        let number: u32;
        // SAFETY: a load from memory has no side effects, and the program is never executed.
        unsafe { asm!("mov {0:e}, gs:[0]", out(reg) number, options(nostack, preserves_flags)) };
        number as u16
    }

    fn irq_save() -> usize {
        let flags: usize;
        // SAFETY: this disables interrupts and restores the stack pointer.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        flags
    }

    fn irq_restore(flags: usize) {
        // SAFETY: this restores the interrupt flag and the stack pointer.
        unsafe { asm!("push {}", "popfq", in(reg) flags) };
    }

    fn call(cpu: u16) {
        // SAFETY: writing to the port changes no memory, and the program is never executed.
        unsafe { asm!("out dx, eax", in("dx") cpu, in("eax") 1, options(nostack, preserves_flags)) };
    }
}

static KERNEL: Kernel<Hw> = Kernel::new();

#[cfg(feature = "heap")]
#[global_allocator]
static HEAP: Heap<Hw> = Heap::new();

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn call_interrupt() {
    KERNEL.answer();
}

/// Entry point for the linker: sets up the allocator and allocates a page; with a heap also a box and a vector.
#[unsafe(no_mangle)] // SAFETY: no other symbol of this program has this name.
extern "C" fn start32(memory: u64, bytes: u64) -> ! {
    let boot = Boot { reserved: &[0..0x1000, 0x10_0000..0x20_0000], ..Boot::default() };
    // SAFETY: the program is only built and measured, and is never executed.
    let is_set_up = unsafe { KERNEL.init([Region::usable(memory, bytes)], &boot) };
    assert!(is_set_up.is_ok());
    drop(black_box(KERNEL.alloc_pages(Gfp::KERNEL, Order::ZERO)));
    #[cfg(feature = "heap")]
    {
        drop(black_box(alloc::boxed::Box::new(bytes)));
        let numbers: alloc::vec::Vec<u64> = (0..bytes).collect();
        drop(black_box(numbers));
    }
    loop {
        core::hint::spin_loop();
    }
}
