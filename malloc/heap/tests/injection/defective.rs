//! A planted defect as a primitive, for a whole heap.

use std::marker::PhantomData;

use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::{FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::rseq::arch::planted::Planted;

use crate::altered::{Alteration, Altered};

/// Restartable sequences whose lists have a defect.
pub(crate) type Defective<D> = Altered<Rseq, Defect<D>>;

/// See [`Planted`].
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

/// With this defect.
pub(crate) fn defective<D>(sound: Rseq) -> Defective<D> {
    Altered { sound, alteration: Defect(PhantomData) }
}
