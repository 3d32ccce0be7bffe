//! A primitive of which some operations are done otherwise: faults, for tests that must notice them.

use freehold::base::CpuId;
use freehold::slab::CpuLocal;
use freehold::slab::address::ObjectAddress;
use freehold::slab::bits::Bits;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, FenceOutcome, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;

/// What is done otherwise; what is not said is done as by the sound primitive.
pub(crate) trait Alteration<C: CpuLocal> {
    /// See [`CpuLocal::pop`].
    fn pop<L: FixedLinks>(&self, sound: &C, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        sound.pop(slots, links)
    }

    /// See [`CpuLocal::push`].
    fn push<L: FixedLinks>(&self, sound: &C, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        sound.push(slots, freed, links)
    }
}

/// The primitive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Altered<C, A> {
    pub sound: C,
    pub alteration: A,
}

// SAFETY: it is as good as its alteration, and that is wrong, as the tests that use it want it.
unsafe impl<C: CpuLocal, A: Alteration<C>> CpuLocal for Altered<C, A> {
    fn cpus(&self) -> u16 {
        self.sound.cpus()
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        self.sound.cpu()
    }

    #[inline(always)]
    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        self.alteration.pop(&self.sound, slots, links)
    }

    #[inline(always)]
    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        self.alteration.push(&self.sound, slots, freed, links)
    }

    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        self.sound.push_paired(slots, freed, links)
    }

    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress> {
        self.sound.pop_sheaf(slots)
    }

    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
        // SAFETY: the caller promises that the object is its own and of these slots' cache.
        unsafe { self.sound.push_sheaf(slots, object) }
    }

    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)> {
        self.sound.pop_bits(slots)
    }

    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
        self.sound.push_bits(slots, freed, bit, all)
    }

    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
        self.sound.replace_if(cpu, exchange)
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        self.sound.fence(cpu)
    }
}
