//! Damage to work in progress: background tasks, the block that a compaction run waits for, and the units of CMA areas
//! that are allocated.

use super::Damage;
use crate::base::{NodeId, Pfn};
use crate::page::contig::CmaArea;
use crate::page::zone::Zone;
use crate::platform::Platform;

impl<P: Platform> Damage<'_, '_, P> {
    /// Stores the phase of a node's kswapd: 0 is asleep, 1 awake, 2 driven.
    pub fn set_kswapd_phase(&self, node: NodeId, phase: u8) {
        self.0.node(node).kswapd.plant_phase(phase);
    }

    /// Stores the errand of a node's kswapd: the order in the upper byte, one more than the zone in the lower byte.
    pub fn set_kswapd_errand(&self, node: NodeId, word: u16) {
        self.0.node(node).kswapd.plant_errand(word);
    }

    /// Stores the block that a waiting compaction run of a zone has captured, or, with `None`, that no run waits.
    pub fn set_waiting(&self, zone: &Zone<P::Lock>, served: Option<Pfn>) {
        zone.areas.lock().plant_capture(served);
    }

    /// Marks a unit of an area as not allocated.
    pub fn unclaim_unit(&self, area: &CmaArea<'_, P::Lock>, unit: u32) {
        area.plant_unclaimed(unit);
    }
}
