//! An interrupt that allocates and frees at each instruction of the fast paths: a tick after one instruction of a path,
//! after two, and so on, until it comes when the path is over.
//!
//! Where the processor can stop at each instruction, it is known afterwards at which ones an interrupt could have come.

use core::sync::atomic::Ordering::Relaxed;

use crate::address_set::AddressSet;
use crate::arch;
use crate::clock::{self, Rate};
use crate::console::say;
use crate::interrupts::{self, TickWork};
use crate::paths::{self, PATHS, Path};

/// Where interrupts can come in fast paths, and where they could in the shortest walk through the present one.
static CAN_COME_AT: AddressSet = AddressSet::new();
static SHORTEST: AddressSet = AddressSet::new();
/// Walks of which the shortest counts.
const WALKS: u32 = 16;
/// Of the places where an interrupt can come, so many in a hundred must be hit.
const HIT_PERCENT: u32 = 90;
/// Where it is not known at how many places one can come, it came at so many at least.
const HIT_MIN: u32 = 200;
/// A tick later than this comes when any path is over.
const LATEST: u32 = 2_000;
/// How often each delay is tried: the handler does something else each time.
const ROUNDS: u32 = 3;

/// On the first CPU.
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
        say!("  interrupts can come at {all} instructions of the fast paths, and came at {hit} of them");
        assert!(hit * 100 >= all * HIT_PERCENT, "that is too few");
    } else {
        let hit = came.count();
        say!("  interrupts came at {hit} instructions of the fast paths");
        assert!(hit >= HIT_MIN, "that is too few");
    }
}

/// Learns where interrupts can come in a path, by the shortest of some walks: now and then one does more than a path
/// does. `false` where this processor cannot stop at each instruction.
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

/// Goes through a path with a tick after each delay.
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
