//! A fault: now and then an object stays on the list that it was taken from.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use freehold::slab::CpuLocal;
use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, Slots};
use freehold::slab::freelist::{FixedLinks, set_freepointer};

use crate::altered::Alteration;

/// See above.
#[derive(Debug)]
pub(crate) struct Forgetful {
    /// Objects of which one stays.
    period: u32,
    popped: AtomicU32,
}

impl<C: CpuLocal> Alteration<C> for Forgetful {
    fn pop<L: FixedLinks>(&self, sound: &C, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        let object = sound.pop(slots, links)?;
        if self.popped.fetch_add(1, Relaxed) % self.period == self.period - 1 {
            // SAFETY: sections run on that CPU.
            let slot = unsafe { slots.slot(sound.cpu()) };
            let rest = slot.main.load(Relaxed);
            // SAFETY: the object was just taken off, so it can be put back; that it is handed out all the same is the
            // fault.
            unsafe { set_freepointer(object, rest, links) };
            let _put: ExchangeOutcome = sound.replace_if(sound.cpu(), Exchange::new(slot.main, rest, object.get()));
        }
        Some(object)
    }
}

impl Forgetful {
    /// One of so many stays.
    pub(crate) fn once_in(period: u32) -> Forgetful {
        Forgetful { period, popped: AtomicU32::new(0) }
    }
}
