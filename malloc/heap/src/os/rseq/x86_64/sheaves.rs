//! Sections on sheaves: a slot's word is the address of the last object's entry in an array.
//!
//! A pop prefetches the next object of the sheaf, because most callers write to an object soon after they get it. Below
//! the last object the entry is 0, and a prefetch from address 0 has no effect.

use core::arch::asm;

use freehold::slab::cpu::sheaf::{Sheaf, Top};
use freehold::slab::cpu::{PushOutcome, Slots};

use super::super::{CPU_OFFSET, DESCRIPTOR_OFFSET};
use super::STRIDE_SHIFT;

const _: () = assert!(Sheaf::BOTTOM == 0, "`BOTTOM` must be 0: one test detects it, and an empty section returns it");

macro_rules! pop_sheaf {
    ($defect:ident, $area:ident, $slots:ident) => {{
        let (object, next): (u64, u64);
        // SAFETY: the caller promises a registered area. Within the section a main sheaf belongs to its CPU, and the
        // section writes only the slot's word.
        unsafe {
            section!(
                $defect,
                cpu words_of_cpu!(),
                body "mov {value}, qword ptr [{at} + {place} * 8]
                    mov {object}, qword ptr [{value}]
                    test {object}, {object}
                    je 50f
                    sub {value}, {step}
                    mov {next}, qword ptr [{value}]",
                commit "mov qword ptr [{at} + {place} * 8], {value}",
                after "",
                area = in(reg) $area,
                all = in(reg) $slots.as_ptr(),
                place = in(reg) $slots.place(),
                object = out(reg) object,
                next = out(reg) next,
                at = out(reg) _,
                value = out(reg) _,
                shift = const STRIDE_SHIFT,
                step = const Top::STEP,
            );
        }
        // An empty sheaf has no object, and `next` was not written.
        (object != 0).then(|| {
            $crate::os::rseq::arch::prefetch_for_write(next);
            object
        })
    }};
}

macro_rules! push_sheaf {
    ($defect:ident, $area:ident, $slots:ident, $object:ident) => {{
        // SAFETY: the caller promises a registered area. Within the section a main sheaf belongs to its CPU; the
        // entries above the sheaf's last object are unused until the slot's word is written.
        unsafe {
            section!(
                $defect,
                cpu words_of_cpu!(),
                body "mov {value}, qword ptr [{at} + {place} * 8]
                    cmp qword ptr [{value}], {object}
                    je {refused}
                    cmp qword ptr [{value} + {step}], {ceiling}
                    je {refused}
                    mov qword ptr [{value} + {step}], {object}
                    add {value}, {step}",
                commit "mov qword ptr [{at} + {place} * 8], {value}",
                after "",
                area = in(reg) $area,
                all = in(reg) $slots.as_ptr(),
                place = in(reg) $slots.place(),
                object = in(reg) $object,
                at = out(reg) _,
                value = out(reg) _,
                shift = const STRIDE_SHIFT,
                step = const Top::STEP,
                ceiling = const Sheaf::CEILING,
                refused = label { return PushOutcome::Refused },
            );
        }
        PushOutcome::Done
    }};
}

/// Implements [`CpuLocal::pop_sheaf`](freehold::slab::cpu::CpuLocal::pop_sheaf).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn pop_sheaf(area: isize, slots: Slots<'_>) -> Option<u64> {
    pop_sheaf!(sound, area, slots)
}

/// Implements [`CpuLocal::push_sheaf`](freehold::slab::cpu::CpuLocal::push_sheaf).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn push_sheaf(area: isize, slots: Slots<'_>, object: u64) -> PushOutcome {
    push_sheaf!(sound, area, slots, object)
}
