//! A lock that lets everybody in, without a word that it does not.
use freehold::base::lock::{Rank, RawLock};

struct Open;

impl RawLock for Open {
    fn new() -> Open {
        Open
    }
    fn lock(&self, _rank: Rank) {}
    fn try_lock(&self, _rank: Rank) -> bool {
        true
    }
    unsafe fn unlock(&self, _rank: Rank) {}
}

fn main() {}
