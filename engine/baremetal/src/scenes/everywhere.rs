//! Interrupts that allocate and free at every instruction of the fast paths. A tick is set to come after one
//! instruction of a path, after two, and so on, until it comes after the end of the path.
//!
//! If the processor can single-step, the set of instructions at which an interrupt can come is also known.
//!
//! # Design
//!
//! The kernel detects an emulator whose clock counts instructions by measuring the time of a known number of
//! instructions ([`Rate`]). It then sets the timer to each number of instructions in turn, and executes a fast path
//! until the tick comes after its end. A PC can also stop at each instruction and determine whether an interrupt could
//! come there. On a PC the share of the possible places that were hit is therefore known.

use core::sync::atomic::Ordering::Relaxed;

use crate::address_set::AddressSet;
use crate::arch;
use crate::clock::{self, Rate};
use crate::console::say;
use crate::interrupts::{self, TickWork};
use crate::paths::{self, PATHS, Path};

/// Addresses in fast paths at which interrupts can come. `SHORTEST` has those of the shortest execution of the current
/// path.
static CAN_COME_AT: AddressSet = AddressSet::new();
static SHORTEST: AddressSet = AddressSet::new();
/// Number of executions, of which the shortest counts.
const WALKS: u32 = 16;
/// Percentage of the possible addresses at which a tick must have come.
const HIT_PERCENT: u32 = 90;
/// Minimum number of addresses at which a tick must have come, if the possible ones are unknown.
const HIT_MIN: u32 = 200;
/// Timer count after which a tick comes after the end of any path.
const LATEST: u32 = 2_000;
/// Number of times that each delay is tried; the handler does something else each time.
const ROUNDS: u32 = 3;

/// Runs on the first CPU.
pub fn play() {
    if Rate::find().is_none() {
        say!("  {}", clock::OTHER);
        return;
    }
    paths::warm_up();
    interrupts::set_tick_work(TickWork::WalkPaths);
    PATHS.iter().for_each(sweep);
    let can_stop = PATHS.iter().all(learn);
    interrupts::set_tick_work(TickWork::Allocate);
    arch::next_tick(arch::TICK_MIN);
    let came = &interrupts::TICKS_IN_PATHS;
    if can_stop {
        let (all, hit) = (CAN_COME_AT.count(), CAN_COME_AT.count_in(came));
        say!("  interrupts can occur at {all} instructions of the fast paths, and occurred at {hit}");
        assert!(hit * 100 >= all * HIT_PERCENT, "too few instructions were interrupted");
    } else {
        let hit = came.count();
        say!("  interrupts occurred at {hit} instructions of the fast paths");
        assert!(hit >= HIT_MIN, "too few instructions were interrupted");
    }
}

/// Finds the addresses in a path at which interrupts can come. It uses the shortest of several executions, because some
/// of them do additional work. Returns `false` if this processor cannot single-step.
fn learn(path: &Path) -> bool {
    let mut shortest = u32::MAX;
    for _ in 0..WALKS {
        let walked = &interrupts::STOPS_AT;
        walked.clear();
        if !arch::stop_at_each_instruction(path.walk) {
            return false;
        }
        if walked.count() < shortest {
            shortest = walked.count();
            SHORTEST.clear();
            SHORTEST.add(walked);
        }
    }
    CAN_COME_AT.add(&SHORTEST);
    true
}

/// Executes a path once for each delay of a tick.
fn sweep(path: &Path) {
    let ticks = &interrupts::HANDLERS[usize::from(arch::cpu())].ticks;
    for delay in (0..ROUNDS).flat_map(|_| 1..LATEST) {
        let before = ticks.load(Relaxed);
        arch::next_tick(delay);
        path.walk_seen();
        while ticks.load(Relaxed) == before {
            core::hint::spin_loop();
        }
    }
}
