//! Implementation of the primitive's operations in portable code, for any mechanism that keeps other code off a CPU.
//!
//! This is also the reference for sections in machine code. Sections on one CPU exclude each other. The exchange of a
//! drain may happen at any point between sections or within one, and the fence of the drain waits for the section that
//! runs.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sheaf::{Sheaf, Top};
use super::{CpuLocal, Exchange, ExchangeOutcome, FenceOutcome, FreedObject, PushOutcome, Slot, Slots};
use crate::base::CpuId;
use crate::base::atomic::AtomicU64;
use crate::slab::address::ObjectAddress;
use crate::slab::bits::Bits;
use crate::slab::freelist::{FixedLinks, get_freepointer, set_freepointer};
use crate::slab::slab::{Owner, Slab};
use crate::slab::word::first_object;

/// Mechanism that gives the caller exclusive use of a CPU's words for a few instructions.
///
/// # Safety
/// Between `enter` and the drop of the value that it returns, no other caller is between these two points on that CPU.
/// All that former callers wrote between them is visible. `fence` returns [`FenceOutcome::Ended`] only after the
/// section that was under way on that CPU at the call has ended and its writes are visible. All CPUs that are passed or
/// returned are below `cpus`.
pub unsafe trait Sections {
    /// Guard that ends the section when dropped.
    type Section<'a>
    where
        Self: 'a;

    /// Returns the highest number of a CPU, plus one.
    fn cpus(&self) -> u16;

    /// Returns the CPU that runs the caller. The caller may be moved at once.
    fn cpu(&self) -> CpuId;

    /// Begins a section, and returns the CPU that it runs on.
    fn enter(&self) -> (CpuId, Self::Section<'_>);

    /// Waits for the section that runs on a CPU, if there is one and the CPU answers.
    fn fence(&self, cpu: CpuId) -> FenceOutcome;

    /// Returns whether a CPU did not answer its last fence and has not answered since ([`CpuLocal::is_out_of_reach`]).
    fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }
}

// SAFETY: each operation reads its CPU's words after `enter` and ends in one store before it leaves. Meanwhile
// `Sections` keeps all other sections off that CPU, and `fence` waits for them.
unsafe impl<S: Sections> CpuLocal for S {
    fn cpus(&self) -> u16 {
        Sections::cpus(self)
    }

    fn cpu(&self) -> CpuId {
        Sections::cpu(self)
    }

    #[inline]
    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        let (cpu, _section) = self.enter();
        let slot = slot_of(slots, cpu);
        let object = first_object(slot.main.load(Acquire))?;
        // SAFETY: the object is the first of this CPU's list and is read within a section, so it is free and no other
        // code uses it. A drain that has taken the list fences this section before it touches the object.
        let next = unsafe { get_freepointer(object, links) };
        publish(slot.main, next);
        Some(object)
    }

    #[inline]
    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        let (cpu, _section) = self.enter();
        let slot = slot_of(slots, cpu);
        let list = slot.main.load(Acquire);
        if freed.mask().is_shared(list, freed.object().get()) {
            return commit(slot.main, list, freed.object(), freed.object().get(), links);
        }
        push_to_slab(cpu, freed, links)
    }

    #[inline]
    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        let (cpu, _section) = self.enter();
        let slot = slot_of(slots, cpu);
        if slot.paired.load(Relaxed) == freed.slab_address().get() {
            let list = slot.main.load(Acquire);
            return commit(slot.main, list, freed.object(), freed.object().get(), links);
        }
        push_to_slab(cpu, freed, links)
    }

    #[inline]
    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress> {
        let (cpu, _section) = self.enter();
        let slot = slot_of(slots, cpu);
        let top = Top::from_raw(slot.main.load(Acquire));
        // SAFETY: under `sheaves`, a slot holds the address of a readable place, as `Slots::new` demands. It is that of
        // the last object of a sheaf which belongs to this CPU within a section, or of the mark below the sheaf's first
        // place.
        let object = unsafe { top.place().read() };
        if object.get() == Sheaf::BOTTOM {
            return None;
        }
        publish(slot.main, top.down().raw());
        Some(object)
    }

    #[inline]
    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
        let (cpu, _section) = self.enter();
        let slot = slot_of(slots, cpu);
        let top = Top::from_raw(slot.main.load(Acquire));
        // SAFETY: as in `pop_sheaf`, `top` is a readable place of this CPU's sheaf. The place above it also is: it is
        // room for another object, or the mark that there is none.
        let (last, above) = unsafe { (top.place().read(), top.up().place().read()) };
        if last == object || above.get() == Sheaf::CEILING {
            return PushOutcome::Refused;
        }
        // SAFETY: the place above is not the ceiling, so it is room of this CPU's sheaf, which no other code uses in a
        // section.
        unsafe { top.up().place().write(object) };
        publish(slot.main, top.up().raw());
        PushOutcome::Done
    }

    #[inline]
    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)> {
        let (cpu, _section) = self.enter();
        let word = slot_of(slots, cpu).main.load(Acquire);
        // SAFETY: under `bitmap`, a slot's word is the address of a slab's metadata, as `Slots::new` demands.
        let slab = unsafe { &*(word as *const Slab) };
        let bits = slab.bits();
        if bits.is_empty() {
            return None;
        }
        publish(&slab.local, bits.without_first().raw());
        Some((word, bits.first()))
    }

    #[inline]
    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
        let (cpu, _section) = self.enter();
        let slab = freed.slab();
        let bits = slab.bits();
        let is_current = slot_of(slots, cpu).main.load(Acquire) == core::ptr::from_ref(slab).addr() as u64;
        if bits.has_any(bit) || !(is_current || is_ordinary_free(slab, cpu, bits, bits.with(bit) == all)) {
            return PushOutcome::Refused;
        }
        publish(&slab.local, bits.with(bit).raw());
        PushOutcome::Done
    }

    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
        let (now, _section) = self.enter();
        if now != cpu {
            return ExchangeOutcome::Moved;
        }
        if exchange.witness.load(Acquire) != exchange.seen || exchange.word.load(Acquire) != exchange.from {
            return ExchangeOutcome::Changed;
        }
        publish(exchange.word, exchange.to);
        ExchangeOutcome::Done
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        Sections::fence(self, cpu)
    }

    fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        Sections::is_out_of_reach(self, cpu)
    }
}

/// Returns the slot of the CPU that a section runs on.
#[inline(always)]
fn slot_of(slots: Slots<'_>, cpu: CpuId) -> Slot<'_> {
    // SAFETY: a section runs on this CPU, so there are slots for it.
    unsafe { slots.slot(cpu) }
}

/// Returns whether a free changes nothing but the bits of a slab that this CPU owns: the slab has other free objects,
/// and the freed object is not the last one in use.
#[inline(always)]
fn is_ordinary_free(slab: &Slab, cpu: CpuId, bits: Bits, is_last: bool) -> bool {
    slab.owner() == Owner::Cpu(cpu) && !bits.is_empty() && !is_last
}

/// Puts an object on the own list of its slab, if this CPU owns the slab, the list has objects, and the object is not
/// the slab's last one in use. Refuses the object otherwise. The list is read before the owner, since a CPU that
/// changes a slab's owner takes the list first.
fn push_to_slab<L: FixedLinks>(cpu: CpuId, freed: FreedObject<'_>, links: L) -> PushOutcome {
    let slab = freed.slab();
    let local = slab.local();
    if slab.owner() != Owner::Cpu(cpu) || local.is_mark() || local.used() == 1 {
        return PushOutcome::Refused;
    }
    commit(&slab.local, local.list(freed.object().get()), freed.object(), local.with_freed(freed.object()).raw(), links)
}

/// Links an object in front of a list, and publishes the new list. If links are mangled, an object that already is the
/// first one is refused.
fn commit<L: FixedLinks>(word: &AtomicU64, list: u64, object: ObjectAddress, value: u64, links: L) -> PushOutcome {
    if L::MANGLED && list == object.get() {
        return PushOutcome::Refused;
    }
    // SAFETY: `FreedObject` owns the object, so it is free from now on and no other code uses it.
    unsafe { set_freepointer(object, list, links) };
    publish(word, value);
    PushOutcome::Done
}

/// Makes the one store of a section. Loom would order a store before an exchange whose result it overwrites, but not an
/// exchange; therefore this is an exchange under loom.
#[inline(always)]
fn publish(word: &AtomicU64, value: u64) {
    if cfg!(loom) {
        word.swap(value, Release);
    } else {
        word.store(value, Release);
    }
}
