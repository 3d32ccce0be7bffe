//! A thread that disturbs all others: it migrates threads between CPUs, and drains the CPUs' lists.

use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use freehold::slab::CpuLocal;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use crate::machine::cpus;
use crate::worker::Shared;

/// Migrations between two shrinks of the heap.
const MOVES: u32 = 200;

/// Disturbs the workers until the test is over.
pub(crate) fn pester<C: CpuLocal>(shared: &Shared<'_, C>) {
    let cpus = cpus();
    let mut chance = Rng::with_seed(99);
    let mut moves = 0;
    while !shared.is_over.load(Relaxed) {
        let everywhere = chance.u8(..4) == 0;
        let mut set = CpuSet::new();
        let there = chance.choice(&cpus).expect("the affinity mask must contain a CPU");
        cpus.iter().filter(|&cpu| everywhere || cpu == there).for_each(|cpu| set.set(cpu.index()));
        let threads = shared.threads();
        if let Some(thread) = chance.choice(threads).and_then(Pid::from_raw) {
            // The system call fails for a thread that has just ended.
            let _moved = sched_setaffinity(Some(thread), &set);
        }
        moves += 1;
        if moves % MOVES == 0 && !shared.live_objects.is_violated() {
            shared.heap.slab().shrink();
        }
        std::thread::yield_now();
    }
}
