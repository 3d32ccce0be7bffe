//! The lock around peers that have none: one spin lock, taken and released once an operation.
//!
//! It is the same lock for all of them, so that two of them differ by what is inside it. Nobody else wants it here:
//! its cost is one atomic exchange and one store.

use spin::mutex::SpinMutex;

use super::{BootError, Peer};
use crate::units::{Frame, Order};

/// A peer under a spin lock.
pub(crate) struct Locked<P>(SpinMutex<P>);

impl<P: Peer> Peer for Locked<P> {
    fn boot(frames: u32) -> Result<Self, BootError> {
        P::boot(frames).map(|peer| Locked(SpinMutex::new(peer)))
    }

    // Callers own the peer alone, so `get_mut` would do; the lock is what is measured.
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<Frame> {
        self.0.lock().alloc(order)
    }

    #[inline]
    unsafe fn free(&mut self, block: Frame, order: Order) {
        // SAFETY: the caller's promise is about the peer under this very lock.
        unsafe { self.0.lock().free(block, order) }
    }
}
