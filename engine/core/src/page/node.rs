//! A node: the background tasks that work for it, and its zones.

use super::PageAllocator;
use super::kcompactd::Kcompactd;
use super::kswapd::Kswapd;
use super::zone::Zone;
use crate::base::{NodeId, ZoneKind};
use crate::platform::Platform;

/// The background tasks of a node.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kswapd: Kswapd,
    pub(super) kcompactd: Kcompactd,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// The background tasks of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(super) fn node(&self, node: NodeId) -> &'m Node {
        self.expect_node(node);
        &self.nodes[node.index()]
    }

    /// A node's zones that manage pages, from the most precious up to `highest`.
    pub(super) fn managed_up_to(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        self.zones_up_to(node, highest).iter().filter(|zone| zone.managed() > 0)
    }

    /// Those that have memory, managed or not.
    pub(super) fn populated_up_to(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        self.zones_up_to(node, highest).iter().filter(|zone| zone.is_populated())
    }

    fn zones_up_to(&self, node: NodeId, highest: ZoneKind) -> &'m [Zone<P::Lock>] {
        &self.zones[node.index() * ZoneKind::COUNT..][..=highest.index()]
    }
}
