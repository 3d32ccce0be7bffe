//! Spin lock around peers without a lock, taken and released once per operation.
//!
//! All these peers have the same lock, so that two of them differ only in their algorithm. The lock is never contended
//! here, and costs one atomic exchange and one store.

use spin::mutex::SpinMutex;

use super::{BootError, Peer};
use crate::units::{Frame, Order};

/// Peer under a spin lock.
pub(crate) struct Locked<P>(SpinMutex<P>);

impl<P: Peer> Peer for Locked<P> {
    fn boot(frames: u32) -> Result<Self, BootError> {
        P::boot(frames).map(|peer| Locked(SpinMutex::new(peer)))
    }

    // The caller has exclusive access, so `get_mut` would suffice, but the cost of the lock is to be measured.
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        self.0.lock().alloc(order)
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        // SAFETY: the caller's promise applies to the peer inside this lock, to which `alloc` forwards.
        unsafe { self.0.lock().free(block, order) }
    }
}
