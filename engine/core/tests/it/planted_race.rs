//! A planted race: two threads increment a number under a lock that excludes no thread.
//!
//! The test is ignored by default, because it proves nothing by itself. `cargo xtask ci --only sanitizer` runs it in a
//! build with ThreadSanitizer, which must report this race before its silence about the other tests means anything.

use std::thread;

use freehold::base::lock::{Locked, Rank, Ranked};

use crate::common::locks::OpenDoor;

struct Count(u64);

impl Ranked for Count {
    const RANK: Rank = Rank::Zone;
}

#[test]
#[ignore = "a race on purpose"]
fn unsound_lock_counter_race() {
    let count = Locked::<OpenDoor, Count>::new(Count(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..1000).for_each(|_| count.lock().0 += 1));
        }
    });
    assert!(count.lock().0 > 0);
}
