//! A lock opened by code that does not hold it.
use freehold::base::lock::{Rank, RawLock, SpinLock};

fn main() {
    SpinLock::new().unlock(Rank::Zone);
}
