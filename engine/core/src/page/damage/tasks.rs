//! Damage to what is under way: background tasks, a block that is waited for, and what areas have handed out.

use super::Damage;
use crate::base::{NodeId, Pfn};
use crate::page::contig::CmaArea;
use crate::page::zone::Zone;
use crate::platform::Platform;

impl<P: Platform> Damage<'_, '_, P> {
    /// Writes the phase of a node's kswapd: 0 is asleep, 1 awake, 2 driven.
    pub fn set_kswapd_phase(&self, node: NodeId, phase: u8) {
        self.0.node(node).kswapd.plant_phase(phase);
    }

    /// Writes what a node's kswapd is sent for: the order in the upper byte, one more than the zone in the lower one.
    pub fn set_kswapd_errand(&self, node: NodeId, word: u16) {
        self.0.node(node).kswapd.plant_errand(word);
    }

    /// Writes whether a run of compaction that waits for a block of a zone has one, or, with none, that nobody waits.
    pub fn set_waiting(&self, zone: &Zone<P::Lock>, served: Option<Pfn>) {
        zone.areas.lock().plant_capture(served);
    }

    /// Marks a unit of an area as not handed out.
    pub fn unclaim_unit(&self, area: &CmaArea<'_, P::Lock>, unit: u32) {
        area.plant_unclaimed(unit);
    }
}
