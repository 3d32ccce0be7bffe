//! A fault: periodically an object stays on the list from which it was taken.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use freehold::slab::CpuLocal;
use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, Slots};
use freehold::slab::freelist::{FixedLinks, set_freepointer};

use crate::fault_injection::Alteration;

/// Alteration of `pop` that puts one of `period` objects back on its list and returns it nevertheless.
#[derive(Debug)]
pub(crate) struct Forgetful {
    /// Number of pops of which one is faulty.
    period: u32,
    popped: AtomicU32,
}

impl<C: CpuLocal> Alteration<C> for Forgetful {
    fn pop<L: FixedLinks>(&self, sound: &C, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        let object = sound.pop(slots, links)?;
        if self.popped.fetch_add(1, Relaxed) % self.period == self.period - 1 {
            // SAFETY: the current CPU is one on which sections run, so it has a slot.
            let slot = unsafe { slots.slot(sound.cpu()) };
            let rest = slot.main.load(Relaxed);
            // SAFETY: the object was just taken off the list, so its link may be written. The fault is that it is
            // returned as well.
            unsafe { set_freepointer(object, rest, links) };
            let _put: ExchangeOutcome = sound.replace_if(sound.cpu(), Exchange::new(slot.main, rest, object.get()));
        }
        Some(object)
    }
}

impl Forgetful {
    /// Creates a fault that affects one of `period` pops.
    pub(crate) fn once_in(period: u32) -> Forgetful {
        Forgetful { period, popped: AtomicU32::new(0) }
    }
}
