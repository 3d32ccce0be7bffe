//! A small kernel whose allocator is Freehold: what it takes, and a proof that it holds.
//!
//! ```text
//! arch        a folder a processor: from the loader to Rust, interrupts, further CPUs, a console, the end
//! hardware    the machine as the allocator sees it, and the allocator, a static
//! promises    the machine's answers to the allocator
//! memory      Rust's heap on the allocator, and one call at boot
//! scenes      what is tried, one file each: all CPUs at once, with timer interrupts that allocate in the middle of it all
//! ```
//!
//! Start with [`hardware`], [`promises`] and [`memory`]: all that a kernel needs is there. It boots in an emulator, says what it
//! found line by line, and ends with a code: `cargo run --release` in this folder, or `cargo xtask boot` for all of
//! them.

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

/// The first CPU, with the memory map that the loader left. Interrupts are off.
fn main(map: impl Iterator<Item = freehold::kernel::Region> + Clone) -> ! {
    memory::set_up(map);
    let cpus = together::start_cpus();
    say!("{cpus} CPUs, {}", if cfg!(debug_assertions) { "checked" } else { "as shipped" });
    scenes::play();
    arch::exit(arch::Outcome::Passed)
}

/// Says what happened, and ends it all.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    arch::irq_save();
    console::seize();
    say!("FAILED on CPU {}: {info}", arch::cpu());
    arch::exit(arch::Outcome::Failed)
}
