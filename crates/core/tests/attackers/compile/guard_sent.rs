//! A guard sent to another thread, which would open a lock that it did not take.
use freehold::base::lock::{Guard, SpinLock};
use freehold::base::lock::{Locked, Rank, Ranked};

struct Ours(u32);

impl Ranked for Ours {
    const RANK: Rank = Rank::Zone;
}

fn main() {
    let locked: Locked<SpinLock, Ours> = Locked::new(Ours(0));
    let guard: Guard<'_, SpinLock, Ours> = locked.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || println!("{}", guard.0));
    });
}
