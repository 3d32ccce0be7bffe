//! A primitive with a fault: now and then an object stays on the list that it was taken from.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::slab::CpuLocal;
use freehold::slab::cpu::{Exchange, Freed, Pushed, Replaced, Slots};
use freehold::slab::freelist::{FixedLinks, set_link};

/// Objects that are taken off between two that are not.
const PERIOD: u32 = 5000;

/// See above.
pub struct Forgetful<C> {
    sound: C,
    popped: AtomicU32,
}

impl<C> Forgetful<C> {
    pub fn new(sound: C) -> Forgetful<C> {
        Forgetful { sound, popped: AtomicU32::new(0) }
    }
}

// SAFETY: it is wrong, as the test that uses it wants it.
unsafe impl<C: CpuLocal> CpuLocal for Forgetful<C> {
    fn cpu(&self) -> CpuId {
        self.sound.cpu()
    }

    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<u64> {
        let object = self.sound.pop(slots, links)?;
        if self.popped.fetch_add(1, Relaxed) % PERIOD == PERIOD - 1 {
            let slot = slots.of(self.sound.cpu());
            let rest = slot.list.load(Relaxed);
            // SAFETY: the object was just taken off, so it can be put back; that it is handed out all the same is the fault.
            unsafe { set_link(object, rest, links) };
            let _put: Replaced = self.replace_if(self.cpu(), Exchange::new(&slot.list, rest, object));
        }
        Some(object)
    }

    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: Freed<'_>, links: L) -> Pushed {
        self.sound.push(slots, freed, links)
    }

    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: Freed<'_>, links: L) -> Pushed {
        self.sound.push_paired(slots, freed, links)
    }

    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<u64> {
        self.sound.pop_sheaf(slots)
    }

    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: u64) -> Pushed {
        // SAFETY: the caller's.
        unsafe { self.sound.push_sheaf(slots, object) }
    }

    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)> {
        self.sound.pop_bits(slots)
    }

    fn push_bits(&self, slots: Slots<'_>, freed: Freed<'_>, bit: u64, all: u64) -> Pushed {
        self.sound.push_bits(slots, freed, bit, all)
    }

    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> Replaced {
        self.sound.replace_if(cpu, exchange)
    }

    fn fence(&self, cpu: CpuId) {
        self.sound.fence(cpu);
    }
}
