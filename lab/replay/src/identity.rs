//! Identity map: the engine's frame for each allocated frame of the recording, and the reverse direction.
//!
//! A free in a recording names a frame. In a replay it means the allocation that occupied this recorded frame. The map
//! has one entry per recorded frame, so blocks that are split, freed in parts or replaced by smaller ones need no
//! special case.
//!
//! Under [`ReclaimMode::Model`](crate::ReclaimMode::Model), reclaim and compaction are decided by the engine. The
//! recorded kernel may then reclaim a page and reuse its frame while the engine has no need to reclaim that page yet.
//! The contents of the page outlive their recorded frame, and move to an entry above all frame numbers. The owner of an
//! entry is called a *tenant*. The engine finds the tenants of its own frames through the reverse map.

use freehold::base::zeroed::Zeroed;
use freehold::base::{CpuId, Order, Pfn};

use super::touched::TouchedPageblocks;

/// The engine's frame that backs a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Frame of the engine.
    pub(crate) pfn: Pfn,
    /// CPU on which the frame was allocated; `None` if it was allocated before the recording started.
    pub(crate) cpu: Option<CpuId>,
}

/// Reclaim state of a tenant's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Reclaim cannot take the page.
    #[default]
    Used,
    /// Page cache: reclaim may take the page when no cold page is left.
    Cached,
    /// The recorded kernel reclaimed the page, so reclaim takes it first.
    Cold,
}

/// Number of a tenant: a recorded frame, or a number above all of them.
pub(crate) type Tenant = usize;

/// A tenant's entry in eight bytes: the engine's frame, the CPU, the [`Hold`] and the order of the block that reclaim
/// takes, a bit for a split block, a bit for a page with a mapping, and a bit that distinguishes a written slot from a
/// zero one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u64);

/// Map between tenants and the engine's frames.
///
/// It takes eight bytes for each recorded frame that events name, four more for the reverse map, and one bit for every
/// frame. A frame that was allocated at the start maps to the engine's frame of the same number until an event changes
/// it, and takes only the bit.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Entries of the recorded frames, as [`Slot`] bits; zero until first written.
    slots: Zeroed<u64>,
    /// Bitmap of the frames that were allocated at the start.
    start: Zeroed<u64>,
    /// Entries of the tenants above all frames.
    above: Vec<Slot>,
    /// Tenant of each of the engine's frames, as the difference from the frame's own number. An entry is valid only if
    /// that tenant maps back to the frame. Empty under [`WayBack::None`].
    tenants: Zeroed<u32>,
    /// Pageblocks of the engine in which a frame was allocated, freed or moved.
    touched: TouchedPageblocks,
    /// Pageblocks from which or to which a page was moved.
    moved: TouchedPageblocks,
}

/// Whether the map also finds the tenant of an engine's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// No reverse map.
    None,
    /// The reverse map is kept.
    Kept,
}

/// Frame number of a tenant that is not allocated. No frame of the engine has this number.
const NONE: u32 = u32::MAX;
/// Frame number of a tenant whose page the engine reclaimed while it is still allocated in the recording.
const RECLAIMED: u32 = u32::MAX - 1;
/// CPU number of an entry whose CPU is not known. No CPU has this number.
const UNKNOWN_CPU: u16 = u16::MAX;

impl Slot {
    const WRITTEN: u64 = 1 << 63;
    const SPLIT: u64 = 1 << 50;
    const MAPPING: u64 = 1 << 51;
    const ORDER_SHIFT: u32 = 52;
    const EMPTY: Slot = Slot::new(NONE, 0);

    const fn new(pfn: u32, cpu: u16) -> Slot {
        Slot(Slot::WRITTEN | (cpu as u64) << 32 | pfn as u64)
    }

    fn pfn(self) -> u32 {
        self.0 as u32
    }

    fn with_pfn(self, pfn: u32) -> Slot {
        Slot(self.0 & !u64::from(u32::MAX) | u64::from(pfn))
    }

    fn cpu(self) -> u16 {
        (self.0 >> 32) as u16
    }

    fn hold(self) -> Hold {
        match self.0 >> 48 & 3 {
            0 => Hold::Used,
            1 => Hold::Cached,
            _ => Hold::Cold,
        }
    }

    fn with_hold(self, hold: Hold) -> Slot {
        Slot(self.0 & !(3 << 48) | (hold as u64) << 48)
    }

    fn order(self) -> Order {
        Order::new((self.0 >> Slot::ORDER_SHIFT & 0xf) as u8)
    }

    fn with_order(self, order: Order) -> Slot {
        Slot(self.0 & !(0xf << Slot::ORDER_SHIFT) | u64::from(order.get()) << Slot::ORDER_SHIFT)
    }
}

impl Identity {
    /// Creates a map for recorded frames below `end`, none of them allocated.
    pub(crate) fn new(end: usize, back: WayBack) -> Identity {
        let kept = if back == WayBack::Kept { end } else { 0 };
        Identity {
            slots: Zeroed::sparse(end),
            start: Zeroed::sparse(end.div_ceil(64)),
            above: Vec::new(),
            tenants: Zeroed::sparse(kept),
            touched: TouchedPageblocks::new(end),
            moved: TouchedPageblocks::new(end),
        }
    }

    /// Returns the pageblocks of the engine in which a frame was allocated, freed or moved.
    pub(crate) fn touched(&mut self) -> &mut TouchedPageblocks {
        &mut self.touched
    }

    /// Returns the pageblocks from which or to which a page was moved. The engine frees the old place some time later.
    pub(crate) fn moved(&mut self) -> &mut TouchedPageblocks {
        &mut self.moved
    }

    /// Marks `pages` recorded frames from `first` on as allocated at the start, each mapped to the engine's frame of
    /// the same number.
    ///
    /// Must be called before any other update of these frames.
    pub(crate) fn start_with(&mut self, first: usize, pages: usize) {
        let end = (first + pages).min(self.slots.len());
        (first..end).for_each(|frame| self.start[frame / 64] |= 1 << (frame % 64));
    }

    #[inline]
    fn slot(&self, tenant: Tenant) -> Option<Slot> {
        match self.slots.get(tenant) {
            Some(0) => {
                let was_allocated = self.start[tenant / 64] >> (tenant % 64) & 1 == 1;
                Some(if was_allocated { Slot::new(tenant as u32, UNKNOWN_CPU) } else { Slot::EMPTY })
            }
            Some(&slot) => Some(Slot(slot)),
            None => self.above.get(tenant - self.slots.len()).copied(),
        }
    }

    #[inline]
    fn set_slot(&mut self, tenant: Tenant, slot: Slot) {
        let frames = self.slots.len();
        match self.slots.get_mut(tenant) {
            Some(place) => *place = slot.0,
            None => self.above[tenant - frames] = slot,
        }
    }

    #[inline]
    fn set_tenant(&mut self, pfn: u32, tenant: Tenant) {
        if let Some(place) = self.tenants.get_mut(pfn as usize) {
            *place = (tenant as u32).wrapping_sub(pfn);
        }
    }

    /// Returns the entry of a tenant; `None` if the tenant is not allocated or the engine reclaimed its page.
    #[inline]
    pub(crate) fn get(&self, tenant: Tenant) -> Option<Entry> {
        let slot = self.slot(tenant)?;
        let cpu = slot.cpu();
        (slot.pfn() < RECLAIMED)
            .then(|| Entry { pfn: Pfn::new(slot.pfn()), cpu: (cpu != UNKNOWN_CPU).then_some(CpuId(cpu)) })
    }

    /// Maps `pages` recorded frames from `recorded` on to the engine's frames from `pfn` on. The new tenants are not
    /// reclaimable and not split. Sets no entry if the map does not cover all these recorded frames.
    pub(crate) fn set(&mut self, recorded: usize, pfn: Pfn, pages: usize, cpu: Option<CpuId>) {
        self.touched.touch(pfn.raw(), pages as u32);
        let Some(slots) = self.slots.get_mut(recorded..recorded + pages) else { return };
        let cpu = cpu.map_or(UNKNOWN_CPU, |cpu| cpu.0);
        slots.iter_mut().zip(pfn.raw()..).for_each(|(slot, raw)| *slot = Slot::new(raw, cpu).0);
        if let Some(tenants) = self.tenants.get_mut(pfn.index()..pfn.index() + pages) {
            tenants.fill((recorded as u32).wrapping_sub(pfn.raw()));
        }
    }

    /// Marks `pages` recorded frames from `recorded` on as free.
    pub(crate) fn clear(&mut self, recorded: usize, pages: usize) {
        self.fill(recorded, pages, Slot::EMPTY);
    }

    fn fill(&mut self, tenant: Tenant, pages: usize, slot: Slot) {
        if let Some(slots) = self.slots.get_mut(tenant..tenant + pages) {
            slots.fill(slot.0);
        } else if self.slot(tenant + pages - 1).is_some() {
            (tenant..tenant + pages).for_each(|tenant| self.set_slot(tenant, slot));
        }
    }

    /// Returns whether the map has entries for `pages` recorded frames from `recorded` on.
    pub(crate) fn covers(&self, recorded: usize, pages: usize) -> bool {
        recorded.checked_add(pages).is_some_and(|end| end <= self.slots.len())
    }

    /// Returns the reclaim state of a tenant's page.
    #[inline]
    pub(crate) fn hold(&self, tenant: Tenant) -> Hold {
        self.slot(tenant).map_or(Hold::Used, Slot::hold)
    }

    /// Sets the reclaim state of a tenant's page.
    pub(crate) fn set_hold(&mut self, tenant: Tenant, hold: Hold) {
        let slot = self.slot(tenant).expect("every tenant number was reserved before");
        self.set_slot(tenant, slot.with_hold(hold));
    }

    /// Returns the order of the block with which reclaim takes a tenant's page; meaningless for [`Hold::Used`].
    pub(crate) fn hold_order(&self, tenant: Tenant) -> Order {
        self.slot(tenant).map_or(Order::ZERO, Slot::order)
    }

    /// Sets the order of the block with which reclaim takes a tenant's page.
    pub(crate) fn set_hold_order(&mut self, tenant: Tenant, order: Order) {
        let slot = self.slot(tenant).expect("every tenant number was reserved before");
        self.set_slot(tenant, slot.with_order(order));
    }

    /// Marks the block that begins with this tenant as split into single pages.
    pub(crate) fn mark_split(&mut self, tenant: Tenant) {
        let Slot(bits) = self.slot(tenant).expect("every tenant number was reserved before");
        self.set_slot(tenant, Slot(bits | Slot::SPLIT));
    }

    /// Returns whether the block that begins with this tenant is split into single pages.
    pub(crate) fn is_split(&self, tenant: Tenant) -> bool {
        self.slot(tenant).is_some_and(|Slot(bits)| bits & Slot::SPLIT != 0)
    }

    /// Marks `pages` tenants from `tenant` on as pages with a mapping: pages of files, and shared memory.
    pub(crate) fn mark_mapping(&mut self, tenant: Tenant, pages: usize) {
        for tenant in tenant..tenant + pages {
            if let Some(Slot(bits)) = self.slot(tenant) {
                self.set_slot(tenant, Slot(bits | Slot::MAPPING));
            }
        }
    }

    /// Returns whether a page is known to have a mapping.
    pub(crate) fn has_mapping(&self, tenant: Tenant) -> bool {
        self.slot(tenant).is_some_and(|Slot(bits)| bits & Slot::MAPPING != 0)
    }

    /// Marks `pages` tenants from `tenant` on as reclaimed by the engine. They are still allocated in the recording.
    pub(crate) fn mark_reclaimed(&mut self, tenant: Tenant, pages: usize) {
        self.fill(tenant, pages, Slot::new(RECLAIMED, 0));
    }

    /// Returns whether the engine reclaimed the page of this tenant.
    pub(crate) fn is_reclaimed(&self, tenant: Tenant) -> bool {
        self.slot(tenant).is_some_and(|slot| slot.pfn() == RECLAIMED)
    }

    /// Moves tenants above all frame numbers: their contents stay allocated, and their recorded frames become free.
    ///
    /// Returns the first of the new numbers.
    pub(crate) fn move_out(&mut self, recorded: usize, pages: usize) -> Tenant {
        let tenant = self.reserve(pages);
        self.move_in(recorded, tenant, pages);
        tenant
    }

    /// Reserves `pages` consecutive tenant numbers above all recorded frames. The new tenants are not allocated.
    pub(crate) fn reserve(&mut self, pages: usize) -> Tenant {
        let tenant = self.slots.len() + self.above.len();
        self.above.resize(self.above.len() + pages, Slot::EMPTY);
        tenant
    }

    /// Maps one tenant, a recorded frame or one above all frames, to a frame of the engine.
    pub(crate) fn set_one(&mut self, tenant: Tenant, pfn: Pfn, cpu: CpuId) {
        self.touched.touch(pfn.raw(), 1);
        self.set_slot(tenant, Slot::new(pfn.raw(), cpu.0));
        self.set_tenant(pfn.raw(), tenant);
    }

    /// Moves `pages` tenants to other numbers.
    pub(crate) fn move_in(&mut self, from: Tenant, to: Tenant, pages: usize) {
        for page in 0..pages {
            let slot = self.slot(from + page).expect("every tenant number was reserved before");
            self.set_slot(from + page, Slot::EMPTY);
            self.set_slot(to + page, slot);
            self.set_tenant(slot.pfn(), to + page);
        }
    }

    /// Returns the tenant of a frame of the engine; `None` if there is none, or under [`WayBack::None`].
    pub(crate) fn tenant_of(&self, pfn: Pfn) -> Option<Tenant> {
        let tenant = self.tenants.get(pfn.index())?.wrapping_add(pfn.raw()) as usize;
        (self.slot(tenant)?.pfn() == pfn.raw()).then_some(tenant)
    }

    /// Records that the engine moved a block: all its tenants map to the new frames.
    ///
    /// Returns `false` and changes nothing if one of the frames has no tenant.
    pub(crate) fn move_block(&mut self, from: Pfn, to: Pfn, pages: u32) -> bool {
        let all = (0..pages).all(|page| self.tenant_of(from.offset(page)).is_some());
        if all {
            self.moved.touch(from.raw(), pages);
            self.moved.touch(to.raw(), pages);
            for page in 0..pages {
                let (old, new) = (from.offset(page), to.offset(page));
                let tenant = self.tenant_of(old).expect("every frame of the block has a tenant");
                let slot = self.slot(tenant).expect("every tenant has a slot");
                self.set_slot(tenant, slot.with_pfn(new.raw()));
                self.set_tenant(new.raw(), tenant);
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
    fn migrated_block_keeps_its_tenants() {
        let mut identity = two_pages();
        assert!(identity.move_block(PFN, Pfn::new(12), 2));
        assert_eq!(identity.get(9).map(|entry| entry.pfn), Some(Pfn::new(13)));
        assert_eq!((identity.tenant_of(Pfn::new(13)), identity.tenant_of(PFN)), (Some(9), None));
        assert!(!identity.move_block(Pfn::new(13), PFN, 2), "the second frame is nobody's");
    }

    #[test]
    fn start_allocations_map_to_themselves() {
        let mut identity = Identity::new(16, WayBack::Kept);
        identity.start_with(7, 2);
        assert_eq!(identity.get(8), Some(Entry { pfn: Pfn::new(8), cpu: None }));
        assert_eq!((identity.get(9), identity.tenant_of(Pfn::new(7))), (None, Some(7)));
        identity.clear(7, 1);
        assert_eq!((identity.get(7), identity.tenant_of(Pfn::new(7))), (None, None));
    }

    #[test]
    fn moved_out_contents_can_move_in_elsewhere() {
        let mut identity = two_pages();
        let out = identity.move_out(8, 1);
        assert_eq!((identity.get(8), identity.tenant_of(PFN)), (None, Some(out)));
        assert!(identity.covers(15, 1) && !identity.covers(out, 1), "no recorded frame has this number");
        identity.move_in(out, 2, 1);
        assert_eq!((identity.get(2).map(|entry| entry.pfn), identity.tenant_of(PFN)), (Some(PFN), Some(2)));
    }

    #[test]
    fn reclaimed_frames_are_remembered_until_freed() {
        let mut identity = two_pages();
        identity.mark_reclaimed(8, 2);
        assert_eq!((identity.get(8), identity.is_reclaimed(9), identity.tenant_of(PFN)), (None, true, None));
        identity.clear(8, 2);
        assert!(!identity.is_reclaimed(8));
    }
}
