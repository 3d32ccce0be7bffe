//! A small kernel on Freehold's allocator. It shows the code that a kernel has to write, and tests the allocator on
//! bare metal.
//!
//! ```text
//! arch        one directory per processor: entry from the loader, interrupts, further CPUs, console, exit
//! hardware    the machine as the allocator's `Cpu`, and the allocator, a static
//! promises    the kernel's callbacks for the allocator
//! memory      Rust's heap on the allocator, and the set-up call at boot
//! scenes      the tests, one file each: all CPUs at once, while timer interrupts allocate at any point
//! ```
//!
//! `arch` uses no other module: at boot and in interrupts it calls functions of this file.
//! [`hardware`], [`promises`] and [`memory`] contain everything that a kernel needs. The kernel boots in an emulator,
//! prints its results line by line, and ends with an exit code: `cargo run --release` in this directory, or
//! `cargo xtask boot` for all processors.

#![no_std]
#![no_main]

extern crate alloc;

mod address_set;
mod arch;
mod clock;
mod console;
mod hardware;
mod interrupts;
mod memory;
mod paths;
mod promises;
mod scenes;
mod together;

use core::panic::PanicInfo;

use console::say;
use hardware::KERNEL;

/// Runs on the first CPU with the loader's memory map. Interrupts are off.
fn main(map: impl Iterator<Item = freehold::kernel::Region> + Clone) -> ! {
    memory::set_up(map);
    let cpus = together::start_cpus();
    say!("{cpus} CPUs, {}", if cfg!(debug_assertions) { "checked build" } else { "release build" });
    scenes::play();
    arch::exit(arch::Outcome::Passed)
}

/// Runs on each further CPU after its start. Interrupts are off.
fn main_of_further_cpu() -> ! {
    together::serve()
}

/// Handles a tick that came at this address. Returns the timer count until the next tick.
fn handle_tick(address: usize) -> u32 {
    interrupts::tick(address)
}

/// Answers the calls of all allocators in the interrupt of a call.
fn answer_calls() {
    KERNEL.answer();
    scenes::answer();
}

/// Records that the processor single-stepped at this address with interrupts on.
#[cfg(target_arch = "x86_64")]
fn note_stop(address: usize) {
    interrupts::STOPS_AT.insert(address);
}

/// Prints the panic and ends the emulator.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    arch::irq_save();
    console::seize();
    say!("FAILED on CPU {}: {info}", arch::cpu());
    arch::exit(arch::Outcome::Failed)
}
