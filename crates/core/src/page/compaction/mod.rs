//! Compaction: large blocks made by moving pages together.
//!
//! linux: mm/compaction.c

use super::PageAllocator;
use crate::base::Pfn;
use crate::platform::{CompactEffort, CompactResult, Platform, Request};
use crate::policy::flags::AllocFlags;

impl<P: Platform> PageAllocator<'_, P> {
    /// Compacts for a request; its block, if that made one.
    pub(super) fn direct_compact(
        &self,
        request: &Request,
        flags: AllocFlags,
        effort: CompactEffort,
    ) -> (Option<Pfn>, CompactResult) {
        let _ = (request, flags, effort);
        (None, CompactResult::Skipped)
    }
}
