//! Identity: which block of the engine stands for which frame of the recording, and the other way round.
//!
//! A free in a recording names a frame; here it means "what was allocated there". The map has one entry a
//! recorded frame, so blocks that are split, freed in parts or replaced by smaller ones need no special case.
//!
//! Where reclaim and compaction are decided anew, contents may outlive the recorded frame they were in: the recording
//! reclaims a page that the engine has no need to reclaim yet, and uses the frame again. Such contents move to an entry
//! above all frames. Whatever has an entry is a *tenant*; the engine finds the tenant of its own frames by the map back.

use freehold::base::{CpuId, Pfn};

/// What a tenant stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The engine's frame.
    pub pfn: Pfn,
    /// The CPU on which it was allocated; `None` if that was before the recording.
    pub cpu: Option<CpuId>,
}

/// What is to be known of a tenant's page besides where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Reclaim cannot take it.
    #[default]
    Used,
    /// Reclaim may take it, when nothing colder is left: page cache.
    Cached,
    /// Reclaim takes it first: the recorded kernel reclaimed it.
    Cold,
}

/// Number of a tenant: a recorded frame, or one above all of them.
pub type Tenant = usize;

#[derive(Clone, Copy, Debug)]
struct Slot {
    pfn: u32,
    cpu: u16,
    hold: Hold,
}

/// The map. Eight bytes a frame of the recorded machine, and four more for the map back.
#[derive(Debug)]
pub struct Identity {
    slots: Vec<Slot>,
    /// The tenant of each frame of the engine; it counts only if that tenant stands for the frame. Empty if nobody asks.
    tenants: Vec<u32>,
    frames: usize,
}

/// Whether the engine's frames must find their tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayBack {
    /// They need not.
    None,
    /// They must.
    Kept,
}

/// Marks a tenant that is not there: no engine frame has this number.
const NONE: u32 = u32::MAX;
/// Marks a recorded frame whose page the engine reclaimed, while the recording goes on with it.
const RECLAIMED: u32 = u32::MAX - 1;
/// Stands for a CPU that is not known: no CPU has this number.
const UNKNOWN_CPU: u16 = u16::MAX;

const EMPTY: Slot = Slot { pfn: NONE, cpu: 0, hold: Hold::Used };

impl Identity {
    /// A map for recorded frames below `end`, none of them allocated.
    pub fn new(end: usize, back: WayBack) -> Identity {
        let kept = if back == WayBack::Kept { end } else { 0 };
        Identity { slots: vec![EMPTY; end], tenants: vec![NONE; kept], frames: end }
    }

    /// What a tenant stands for, if it is allocated.
    pub fn get(&self, tenant: Tenant) -> Option<Entry> {
        let &Slot { pfn, cpu, .. } = self.slots.get(tenant)?;
        (pfn < RECLAIMED).then_some(Entry { pfn: Pfn::new(pfn), cpu: (cpu != UNKNOWN_CPU).then_some(CpuId(cpu)) })
    }

    /// Says that `pages` recorded frames from `recorded` on stand for those of the engine from `pfn` on.
    pub fn set(&mut self, recorded: usize, pfn: Pfn, pages: usize, cpu: Option<CpuId>) {
        let Some(slots) = self.slots.get_mut(recorded..recorded + pages) else { return };
        for (slot, raw) in slots.iter_mut().zip(pfn.raw()..) {
            *slot = Slot { pfn: raw, cpu: cpu.map_or(UNKNOWN_CPU, |cpu| cpu.0), hold: Hold::Used };
        }
        if let Some(tenants) = self.tenants.get_mut(pfn.index()..pfn.index() + pages) {
            tenants.iter_mut().zip(recorded as u32..).for_each(|(tenant, number)| *tenant = number);
        }
    }

    /// Says that `pages` recorded frames from `recorded` on are free.
    pub fn clear(&mut self, recorded: usize, pages: usize) {
        if let Some(slots) = self.slots.get_mut(recorded..recorded + pages) {
            slots.fill(EMPTY);
        }
    }

    /// Whether a recorded frame can be mapped at all.
    pub fn covers(&self, recorded: usize, pages: usize) -> bool {
        recorded.checked_add(pages).is_some_and(|end| end <= self.frames)
    }

    /// How a tenant's page may be treated.
    pub fn hold(&self, tenant: Tenant) -> Hold {
        self.slots.get(tenant).map_or(Hold::Used, |slot| slot.hold)
    }

    /// Says how a tenant's page may be treated.
    pub fn set_hold(&mut self, tenant: Tenant, hold: Hold) {
        self.slots[tenant].hold = hold;
    }

    /// Says that the engine reclaimed the pages of tenants that the recording still counts as allocated.
    pub fn mark_reclaimed(&mut self, tenant: Tenant, pages: usize) {
        self.slots[tenant..tenant + pages].fill(Slot { pfn: RECLAIMED, ..EMPTY });
    }

    /// Whether the engine reclaimed the page of this tenant.
    pub fn is_reclaimed(&self, tenant: Tenant) -> bool {
        self.slots.get(tenant).is_some_and(|slot| slot.pfn == RECLAIMED)
    }

    /// Moves tenants above all frames: their contents live on, their recorded frames are free.
    pub fn move_out(&mut self, recorded: usize, pages: usize) -> Tenant {
        let tenant = self.slots.len();
        self.slots.resize(tenant + pages, EMPTY);
        self.move_in(recorded, tenant, pages);
        tenant
    }

    /// Moves tenants to other numbers.
    pub fn move_in(&mut self, from: Tenant, to: Tenant, pages: usize) {
        for page in 0..pages {
            let slot = std::mem::replace(&mut self.slots[from + page], EMPTY);
            self.slots[to + page] = slot;
            if let Some(tenant) = self.tenants.get_mut(slot.pfn as usize) {
                *tenant = (to + page) as u32;
            }
        }
    }

    /// The tenant of a frame of the engine.
    pub fn tenant_of(&self, pfn: Pfn) -> Option<Tenant> {
        let tenant = *self.tenants.get(pfn.index())? as usize;
        (self.slots.get(tenant)?.pfn == pfn.raw()).then_some(tenant)
    }

    /// Says that the engine moved a block: all its tenants stand for the new frames. `false`, and nothing happened, if one of the
    /// frames has no tenant.
    pub fn move_block(&mut self, from: Pfn, to: Pfn, pages: u32) -> bool {
        let all = (0..pages).all(|page| self.tenant_of(from.offset(page)).is_some());
        if all {
            for page in 0..pages {
                let (old, new) = (from.offset(page), to.offset(page));
                let tenant = self.tenants[old.index()];
                self.slots[tenant as usize].pfn = new.raw();
                self.tenants[new.index()] = tenant;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PFN: Pfn = Pfn::new(4);

    fn two_pages() -> Identity {
        let mut identity = Identity::new(16, WayBack::Kept);
        identity.set(8, PFN, 2, None);
        identity
    }

    #[test]
    fn a_block_that_the_engine_moves_keeps_its_tenants() {
        let mut identity = two_pages();
        assert!(identity.move_block(PFN, Pfn::new(12), 2));
        assert_eq!(identity.get(9).map(|entry| entry.pfn), Some(Pfn::new(13)));
        assert_eq!((identity.tenant_of(Pfn::new(13)), identity.tenant_of(PFN)), (Some(9), None));
        assert!(!identity.move_block(Pfn::new(13), PFN, 2), "the second frame is nobody's");
    }

    #[test]
    fn contents_outlive_their_frame_and_find_another() {
        let mut identity = two_pages();
        let out = identity.move_out(8, 1);
        assert_eq!((identity.get(8), identity.tenant_of(PFN)), (None, Some(out)));
        assert!(identity.covers(15, 1) && !identity.covers(out, 1), "no recorded frame has this number");
        identity.move_in(out, 2, 1);
        assert_eq!((identity.get(2).map(|entry| entry.pfn), identity.tenant_of(PFN)), (Some(PFN), Some(2)));
    }

    #[test]
    fn what_the_engine_reclaimed_is_known_until_the_recording_frees_it() {
        let mut identity = two_pages();
        identity.mark_reclaimed(8, 2);
        assert_eq!((identity.get(8), identity.is_reclaimed(9), identity.tenant_of(PFN)), (None, true, None));
        identity.clear(8, 2);
        assert!(!identity.is_reclaimed(8));
    }
}
