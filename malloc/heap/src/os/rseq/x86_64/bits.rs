//! Sections on bitmaps: a word of the slab has a bit for each free object.

use core::arch::asm;

use freehold::slab::cpu::{FreedObject, PushOutcome, Slots};
use freehold::slab::slab::Slab;

use super::super::{CPU_OFFSET, DESCRIPTOR_OFFSET};
use super::STRIDE_SHIFT;

macro_rules! pop_bits {
    ($defect:ident, $area:ident, $slots:ident) => {{
        let slab: u64;
        let bits: u64;
        // SAFETY: the caller promises a registered area. Under `bitmap` a slot holds the address of a slab's metadata,
        // whose word of free objects belongs to this CPU within the section.
        unsafe {
            section!(
                $defect,
                cpu slots_of_cpu!(),
                body "mov {slab}, qword ptr [{first} + {at}]
                    mov {bits}, qword ptr [{slab} + {local}]
                    lea {value}, [{bits} - 1]
                    test {bits}, {bits}
                    je 50f
                    and {value}, {bits}",
                commit "mov qword ptr [{slab} + {local}], {value}",
                after "",
                area = in(reg) $area,
                first = in(reg) $slots.first(),
                slab = out(reg) slab,
                bits = out(reg) bits,
                at = out(reg) _,
                value = out(reg) _,
                shift = const STRIDE_SHIFT,
                local = const Slab::LOCAL_OFFSET,
            );
        }
        (bits != 0).then(|| (slab, bits.trailing_zeros()))
    }};
}

macro_rules! push_bits {
    ($defect:ident, $area:ident, $slots:ident, $freed:ident, $bit:ident, $all:ident) => {{
        // SAFETY: the caller promises a registered area; `FreedObject` owns its object. The section writes the slab's
        // word only if it finds that this CPU owns the slab, and a drain that takes the slab away from the CPU waits
        // for the section.
        unsafe {
            section!(
                $defect,
                cpu slots_of_cpu!(),
                body "mov {value}, qword ptr [{slab} + {local}]
                    mov {at}, qword ptr [{first} + {at}]
                    test {value}, {bit}
                    jne {refused}
                    cmp {at}, {slab}
                    je 45f
                    mov {at:e}, dword ptr fs:[{area} + {cpu_offset}]
                    cmp word ptr [{slab} + {owner}], {at:x}
                    jne {refused}
                    test {value}, {value}
                    je {refused}
                    mov {at}, {value}
                    or {at}, {bit}
                    cmp {at}, {all}
                    je {refused}
                    45:
                    or {value}, {bit}",
                commit "mov qword ptr [{slab} + {local}], {value}",
                after "",
                area = in(reg) $area,
                first = in(reg) $slots.first(),
                slab = in(reg) core::ptr::from_ref::<Slab>($freed.slab()),
                bit = in(reg) $bit,
                all = in(reg) $all,
                at = out(reg) _,
                value = out(reg) _,
                shift = const STRIDE_SHIFT,
                local = const Slab::LOCAL_OFFSET,
                owner = const Slab::OWNER_OFFSET,
                refused = label { return PushOutcome::Refused },
            );
        }
        PushOutcome::Done
    }};
}

/// Implements [`CpuLocal::pop_bits`](freehold::slab::cpu::CpuLocal::pop_bits).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn pop_bits(area: isize, slots: Slots<'_>) -> Option<(u64, u32)> {
    pop_bits!(sound, area, slots)
}

/// Implements [`CpuLocal::push_bits`](freehold::slab::cpu::CpuLocal::push_bits).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn push_bits(
    area: isize,
    slots: Slots<'_>,
    freed: FreedObject<'_>,
    bit: u64,
    all: u64,
) -> PushOutcome {
    push_bits!(sound, area, slots, freed, bit, all)
}
