//! Random events of a thread: preemption, and migration to another CPU.

use std::cell::{Cell, RefCell};
use std::thread;

use fastrand::Rng;
use freehold::base::CpuId;

/// Average number of preemption points per preemption.
const PREEMPTED: u32 = 150;
/// Average number of reads of the CPU number per migration to another CPU.
const MOVED: u32 = 20;

thread_local! {
    static LUCK: RefCell<Rng> = const { RefCell::new(Rng::with_seed(0)) };
    static CPU: Cell<u16> = const { Cell::new(0) };
}

/// Restarts the thread's random numbers from a seed.
pub(crate) fn draw_from(seed: u64) {
    LUCK.with_borrow_mut(|luck| luck.seed(seed));
}

/// Yields the processor at random, once in [`PREEMPTED`] calls on average.
pub(crate) fn perhaps_preempt() {
    if LUCK.with_borrow_mut(|luck| luck.u32(0..PREEMPTED)) == 0 {
        thread::yield_now();
    }
}

/// Returns the CPU, out of `cpus`, on which the thread runs. The thread may run on another CPU by the time the caller
/// uses the number.
pub(crate) fn cpu(cpus: u16) -> CpuId {
    let (moves, to) = LUCK.with_borrow_mut(|luck| (luck.u32(0..MOVED) == 0, luck.u16(0..cpus)));
    if moves {
        CPU.set(to);
    }
    perhaps_preempt();
    CpuId(CPU.get())
}
