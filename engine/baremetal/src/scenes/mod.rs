//! The tests, executed one after the other. After each of them the allocator is checked for lost pages and objects.

mod counts;
mod everywhere;
mod exhaustion;
mod heap;
mod misuse;
mod offline;
mod plugged;
mod policies;
mod ranges;
mod stack;
mod storm;

pub use policies::answer;

use core::sync::atomic::Ordering::Relaxed;

use freehold::page::Census;

use crate::console::say;
use crate::hardware::KERNEL;
use crate::interrupts::{self, TickWork};
use crate::together;

/// A scene: its name, the work of ticks during it, and its function.
struct Scene {
    name: &'static str,
    ticks: TickWork,
    play: fn(),
}

const SCENES: [Scene; 11] = [
    Scene { name: "heap: boxes, vectors, maps, any alignment", ticks: TickWork::Allocate, play: heap::play },
    Scene {
        name: "misuse: double frees and foreign addresses are refused",
        ticks: TickWork::Count,
        play: misuse::play,
    },
    Scene { name: "storm: all CPUs free objects and pages of others", ticks: TickWork::Allocate, play: storm::play },
    Scene { name: "stack: bytes that calls use", ticks: TickWork::Count, play: stack::play },
    Scene { name: "exhaustion: all memory allocated, and freed", ticks: TickWork::Allocate, play: exhaustion::play },
    Scene { name: "ranges: contiguous frames and a CMA area", ticks: TickWork::Allocate, play: ranges::play },
    Scene { name: "plugged: memory is added and removed", ticks: TickWork::Allocate, play: plugged::play },
    Scene { name: "offline: a CPU goes offline and online", ticks: TickWork::Allocate, play: offline::play },
    Scene {
        name: "everywhere: an interrupt at each instruction of the fast paths",
        ticks: TickWork::Count,
        play: everywhere::play,
    },
    Scene { name: "counts: instructions of the fast paths", ticks: TickWork::Count, play: counts::play },
    Scene { name: "policies: every other set of rules", ticks: TickWork::Count, play: policies::play },
];

/// Runs all scenes.
pub fn play() {
    for scene in &SCENES {
        say!("{}", scene.name);
        interrupts::set_tick_work(scene.ticks);
        (scene.play)();
        interrupts::set_tick_work(TickWork::Count);
        together::on_all_cpus(|_| {});
        interrupts::clear();
        let census = audit();
        say!("  consistent: {} pages free, {} in use", census.free + census.cached, census.allocated);
    }
    for (cpu, of_cpu) in interrupts::HANDLERS.iter().enumerate().take(together::cpus() as usize) {
        let [ticks, requests, refused] =
            [&of_cpu.ticks, &of_cpu.requests, &of_cpu.refused].map(|count| count.load(Relaxed));
        say!("CPU {cpu}: {ticks} ticks, {requests} with requests, {refused} without memory");
        assert!(requests > 0, "no tick of CPU {cpu} allocated");
    }
    say!("interrupts occurred at {} addresses", interrupts::TICKS_AT.count());
}

/// Checks that nothing is lost, while no other CPU uses the allocator.
pub fn audit() -> Census {
    KERNEL.shrink();
    // SAFETY: all other CPUs wait, and handlers do not allocate. The page allocator is only read.
    let (objects, pages) = unsafe {
        let slab = KERNEL.slab().expect("the kernel is set up");
        (slab.check(), slab.pages().check())
    };
    objects.expect("no object is lost");
    pages.expect("no page is lost")
}

/// A pseudo-random number generator with the same sequence in each boot.
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number, below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
