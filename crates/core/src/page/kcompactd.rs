//! kcompactd: compaction in the background, as a state machine that the platform drives.
//!
//! linux: mm/compaction.c:wakeup_kcompactd, kcompactd, kcompactd_do_work

use super::{Background, PageAllocator};
use crate::base::NodeId;
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// One piece of kcompactd's work on a node: to be called after [`Platform::wake_kcompactd`] until it says
    /// [`Background::Asleep`].
    pub fn run_kcompactd(&self, node: NodeId) -> Background {
        let _ = node;
        Background::Asleep
    }

    /// What kcompactd does unasked, twice a second.
    pub fn tick_kcompactd(&self, node: NodeId) {
        self.give_back_reserve(node);
    }
}
