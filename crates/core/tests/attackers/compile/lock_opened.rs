//! A lock opened by somebody who does not hold it.
use freehold::base::lock::{Rank, RawLock, SpinLock};

fn main() {
    SpinLock::new().unlock(Rank::Zone);
}
