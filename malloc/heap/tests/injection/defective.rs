//! A planted defect as a CPU-local primitive, for a whole heap.

use std::marker::PhantomData;

use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::{FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::rseq::arch::planted::Planted;

use crate::fault_injection::{Alteration, Altered};

/// Restartable sequences with a defect in the sections on lists.
pub(crate) type Defective<D> = Altered<Rseq, Defect<D>>;

/// Alteration that uses the sections of [`Planted`].
pub(crate) struct Defect<D>(PhantomData<D>);

impl<D: Planted> Alteration<Rseq> for Defect<D> {
    #[inline(always)]
    fn pop<L: FixedLinks>(&self, sound: &Rseq, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        D::pop(*sound, slots, links)
    }

    #[inline(always)]
    fn push<L: FixedLinks>(&self, sound: &Rseq, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        D::push(*sound, slots, freed, links)
    }
}

/// Returns the primitive with the defect `D`.
pub(crate) fn defective<D>(sound: Rseq) -> Defective<D> {
    Altered { sound, alteration: Defect(PhantomData) }
}
