//! A thread's luck: when it loses its processor, and on which CPU it finds itself.

use std::cell::{Cell, RefCell};
use std::thread;

use fastrand::Rng;
use freehold::base::CpuId;

/// Of so many chances to lose the processor, one is taken.
const PREEMPTED: u32 = 150;
/// Of so many looks at the CPU's number, one finds another CPU.
const MOVED: u32 = 20;

thread_local! {
    static LUCK: RefCell<Rng> = const { RefCell::new(Rng::with_seed(0)) };
    static CPU: Cell<u16> = const { Cell::new(0) };
}

/// Starts the thread's luck anew.
pub(crate) fn draw_from(seed: u64) {
    LUCK.with_borrow_mut(|luck| luck.seed(seed));
}

/// Gives the processor up, now and then.
pub(crate) fn perhaps_preempt() {
    if LUCK.with_borrow_mut(|luck| luck.u32(0..PREEMPTED)) == 0 {
        thread::yield_now();
    }
}

/// The CPU, of `cpus`, that the thread runs on now; by the time the caller uses the answer it may run elsewhere.
pub(crate) fn cpu(cpus: u16) -> CpuId {
    let (moves, to) = LUCK.with_borrow_mut(|luck| (luck.u32(0..MOVED) == 0, luck.u16(0..cpus)));
    if moves {
        CPU.set(to);
    }
    perhaps_preempt();
    CpuId(CPU.get())
}
