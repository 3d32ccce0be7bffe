//! A guard shared between threads, around a value that only one may use at a time.
use core::cell::Cell;
use freehold::base::lock::{Locked, Rank, Ranked, SpinLock};

struct Ours(Cell<u32>);

impl Ranked for Ours {
    const RANK: Rank = Rank::Zone;
}

fn main() {
    let locked: Locked<SpinLock, Ours> = Locked::new(Ours(Cell::new(0)));
    let guard = locked.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| guard.0.set(1));
        guard.0.set(2);
    });
}
