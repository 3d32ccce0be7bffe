//! Sections with one planted defect each, by which tests prove that they detect such defects.
//!
//! ```text
//! missing         the section is not armed, so there is no section
//! stale_cpu       the CPU is read before the section is armed
//! late_end        the section ends one instruction after its store, so a completed operation is repeated
//! unarmed_retry   a section that was interrupted once is not armed again
//! short_end       the store is after the end of the section
//! ```

use core::arch::asm;

use freehold::slab::address::ObjectAddress;
use freehold::slab::bits::Bits;
use freehold::slab::cpu::sheaf::{Sheaf, Top};
use freehold::slab::cpu::{FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Slab;
use freehold::slab::word::{UPPER, is_mark};

use super::super::{CPU_OFFSET, DESCRIPTOR_OFFSET, Rseq};
use super::STRIDE_SHIFT;

/// Operations that are available with a planted defect.
pub trait Planted {
    /// Name of the defect in the macros.
    const DEFECT: &'static str;

    /// [`CpuLocal::pop`](freehold::slab::cpu::CpuLocal::pop) with the defect.
    fn pop<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, links: L) -> Option<ObjectAddress>;

    /// [`CpuLocal::push`](freehold::slab::cpu::CpuLocal::push) with the defect.
    fn push<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome;

    /// [`CpuLocal::pop_sheaf`](freehold::slab::cpu::CpuLocal::pop_sheaf) with the defect.
    fn pop_sheaf(rseq: Rseq, slots: Slots<'_>) -> Option<ObjectAddress>;

    /// [`CpuLocal::push_sheaf`](freehold::slab::cpu::CpuLocal::push_sheaf) with the defect.
    ///
    /// # Safety
    /// As for [`CpuLocal::push_sheaf`](freehold::slab::cpu::CpuLocal::push_sheaf).
    unsafe fn push_sheaf(rseq: Rseq, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome;

    /// [`CpuLocal::pop_bits`](freehold::slab::cpu::CpuLocal::pop_bits) with the defect.
    fn pop_bits(rseq: Rseq, slots: Slots<'_>) -> Option<(u64, u32)>;

    /// [`CpuLocal::push_bits`](freehold::slab::cpu::CpuLocal::push_bits) with the defect.
    fn push_bits(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome;
}

macro_rules! plant {
    ($($name:ident $defect:ident $about:literal)*) => {$(
        #[doc = $about]
        #[derive(Debug)]
        pub struct $name;

        impl Planted for $name {
            const DEFECT: &'static str = stringify!($defect);

            #[inline(always)]
            fn pop<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
                let area = rseq.area();
                pop!($defect, area, slots, links).map(ObjectAddress::new)
            }

            #[inline(always)]
            fn push<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
                let area = rseq.area();
                push!($defect, area, slots, freed, links)
            }

            #[inline(always)]
            fn pop_sheaf(rseq: Rseq, slots: Slots<'_>) -> Option<ObjectAddress> {
                let area = rseq.area();
                pop_sheaf!($defect, area, slots).map(ObjectAddress::new)
            }

            #[inline(always)]
            unsafe fn push_sheaf(rseq: Rseq, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
                let (area, object) = (rseq.area(), object.get());
                push_sheaf!($defect, area, slots, object)
            }

            #[inline(always)]
            fn pop_bits(rseq: Rseq, slots: Slots<'_>) -> Option<(u64, u32)> {
                let area = rseq.area();
                pop_bits!($defect, area, slots)
            }

            #[inline(always)]
            fn push_bits(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
                let area = rseq.area();
                let (bit, all) = (bit.raw(), all.raw());
                push_bits!($defect, area, slots, freed, bit, all)
            }
        }
    )*};
}

plant! {
    Missing missing "Nothing is armed."
    StaleCpu stale_cpu "The CPU is read too early."
    LateEnd late_end "The section ends too late."
    UnarmedRetry unarmed_retry "The second attempt is not armed."
    ShortEnd short_end "The section ends too early."
}
