//! Amounts of memory: address space and its resident part.

use freehold_malloc::runs::PAGE;
use serde::Serialize;

/// Bytes of a page of the engine.
pub(crate) const PAGE_BYTES: u64 = PAGE as u64;

/// Address space of a part of the heap and how much of it is resident, in bytes. The rest was never written to, was
/// returned to the system, or is swapped out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Size of the address range.
    pub bytes: u64,
    /// Resident part of the range.
    pub in_memory: u64,
}

impl Amount {
    /// Converts counts of pages.
    pub(crate) fn from_pages(pages: u64, in_memory: u64) -> Amount {
        Amount { bytes: pages * PAGE_BYTES, in_memory: in_memory * PAGE_BYTES }
    }

    pub(crate) fn add(&mut self, other: Amount) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.in_memory = self.in_memory.saturating_add(other.in_memory);
    }
}
