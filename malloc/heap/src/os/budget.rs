//! Limit of the memory that a heap and its runs take from the system together.
//!
//! Memory is charged before it comes into use, and is released when it is returned to the system. Both happen on slow
//! paths only: when a heap gets pages, and when a run gets pages that have no memory. Without a limit nothing is
//! counted.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

/// Value of [`MemoryBudget::limit`] if there is no limit.
const NONE: usize = usize::MAX;

/// A budget without a limit.
pub static UNLIMITED: MemoryBudget = MemoryBudget::unlimited();

/// Limit of memory, and the bytes that are charged to it.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicUsize,
    charged: AtomicUsize,
}

impl MemoryBudget {
    /// Creates a budget without a limit.
    pub const fn unlimited() -> MemoryBudget {
        MemoryBudget { limit: AtomicUsize::new(NONE), charged: AtomicUsize::new(0) }
    }

    /// Sets the limit. Called before anything is charged, because nothing is counted without a limit.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Relaxed);
    }

    /// Charges `bytes` bytes.
    ///
    /// # Errors
    /// `ENOMEM` if less is left. Nothing is charged then.
    pub fn charge(&self, bytes: usize) -> Result<(), Errno> {
        if self.charge_part(bytes, bytes.max(1)) == bytes { Ok(()) } else { Err(Errno::NOMEM) }
    }

    /// Charges `bytes` bytes, or the largest multiple of `unit` that is left if that is less. Returns the number of
    /// bytes, which may be 0.
    ///
    /// # Panics
    /// If `unit` is 0.
    pub fn charge_part(&self, bytes: usize, unit: usize) -> usize {
        let limit = self.limit.load(Relaxed);
        if limit == NONE {
            return bytes;
        }
        let mut part = 0;
        let _charged = self.charged.fetch_update(Relaxed, Relaxed, |charged| {
            let left = limit.saturating_sub(charged);
            part = if bytes <= left { bytes } else { left / unit * unit };
            Some(charged + part)
        });
        part
    }

    /// Releases bytes that were charged.
    pub fn release(&self, bytes: usize) {
        if self.limit.load(Relaxed) != NONE {
            let charged = self.charged.fetch_sub(bytes, Relaxed);
            debug_assert!(charged >= bytes, "{bytes} bytes are released, and {charged} are charged");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_charged_up_to_its_limit() {
        let budget = MemoryBudget::unlimited();
        assert_eq!((budget.charge(usize::MAX), budget.charge_part(7, 4)), (Ok(()), 7));
        budget.release(1 << 40);
        budget.set_limit(100);
        assert_eq!(budget.charge(101), Err(Errno::NOMEM));
        assert_eq!((budget.charge(60), budget.charge(41)), (Ok(()), Err(Errno::NOMEM)));
        assert_eq!([budget.charge_part(64, 16), budget.charge_part(64, 16), budget.charge_part(8, 16)], [32, 0, 8]);
        budget.release(100);
        assert_eq!((budget.charge(0), budget.charge(100), budget.charge(1)), (Ok(()), Ok(()), Err(Errno::NOMEM)));
    }
}
