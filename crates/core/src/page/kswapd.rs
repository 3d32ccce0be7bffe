//! kswapd: reclaim in the background, as a state machine that the platform drives.
//!
//! linux: mm/vmscan.c:wakeup_kswapd, kswapd, balance_pgdat

use super::PageAllocator;
use crate::base::{NodeId, Order, ZoneKind};
use crate::platform::Platform;

/// Whether a background task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// There is more to do: call again.
    Working,
    /// Nothing is left to do until it is woken.
    Asleep,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Asks for background reclaim of a node.
    pub(super) fn wake_kswapd(&self, node: NodeId, highest: ZoneKind, order: Order) {
        let _ = (highest, order);
        self.platform.wake_kswapd(node);
    }

    /// One pass of kswapd over a node: to be called after [`Platform::wake_kswapd`] until it says
    /// [`Background::Asleep`].
    pub fn run_kswapd(&self, node: NodeId) -> Background {
        let _ = node;
        Background::Asleep
    }
}
