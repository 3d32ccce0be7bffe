//! A CPU-local primitive with replaced operations, by which tests inject faults that they must detect.

use freehold::base::CpuId;
use freehold::slab::CpuLocal;
use freehold::slab::address::ObjectAddress;
use freehold::slab::bits::Bits;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, FenceOutcome, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;

/// Operations that can be replaced. By default an operation is that of the sound primitive.
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

/// A sound primitive with an alteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Altered<C, A> {
    pub sound: C,
    pub alteration: A,
}

// SAFETY: the alteration may violate the contract on purpose; the tests that use it confine the consequences to their
// own objects.
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
        // SAFETY: the caller promises that it owns the object, which is of these slots' cache.
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
