//! An interrupt that allocates and frees at each instruction of the fast paths: a tick after one instruction of a path,
//! after two, and so on, until it comes when the path is over.
//!
//! Where the processor can stop at each instruction, it is known first at which ones an interrupt can come at all.

use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::clock::Rate;
use crate::console::say;
use crate::interrupts::{self, Busy};
use crate::paths::{self, PATHS, Path};

/// Of the places where an interrupt can come, so many in a hundred must be hit.
const HIT_PERCENT: u32 = 90;
/// A tick later than this comes when any path is over.
const LATEST: u32 = 2_000;
/// How often each delay is tried: the handler does something else each time.
const ROUNDS: u32 = 3;

/// On the first CPU.
pub fn play() {
    if Rate::find().is_none() {
        say!("  the clock does not count instructions");
        return;
    }
    paths::warm_up();
    interrupts::keep_busy(Busy::No);
    let can_stop = PATHS.iter().all(|path| arch::stop_at_each_instruction(path.walk));
    interrupts::keep_busy(Busy::AtPaths);
    PATHS.iter().for_each(sweep);
    interrupts::keep_busy(Busy::Yes);
    arch::next_tick(arch::TICK_MIN);
    let [can, came] = [&interrupts::CAN_COME_AT, &interrupts::CAME_AT_PATHS];
    if can_stop {
        let (all, hit) = (can.count(), can.count_in(came));
        say!("  interrupts can come at {all} instructions of the fast paths, and came at {hit} of them");
        assert!(hit * 100 >= all * HIT_PERCENT, "that is too few");
    } else {
        say!("  interrupts came at {} instructions in and around the fast paths", came.count());
    }
}

/// Goes through a path with a tick after each delay.
fn sweep(path: &Path) {
    let ticks = &interrupts::CPUS[usize::from(arch::cpu())].ticks;
    for delay in (0..ROUNDS).flat_map(|_| 1..LATEST) {
        let before = ticks.load(Relaxed);
        arch::next_tick(delay);
        (path.walk)();
        while ticks.load(Relaxed) == before {
            core::hint::spin_loop();
        }
    }
}
