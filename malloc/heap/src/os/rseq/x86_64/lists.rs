//! Sections on lists: pop and push, each of which commits by a store to one word.

use core::arch::asm;

use freehold::slab::cpu::{FreedObject, PAIRED_OFFSET, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Slab;
use freehold::slab::word::{UPPER, is_mark};

use super::super::{CPU_OFFSET, DESCRIPTOR_OFFSET};
use super::STRIDE_SHIFT;

macro_rules! pop_section {
    ($defect:ident, $next:expr, $area:ident, $slots:ident, $links:ident, $object:ident, $($operand:tt)*) => {
        section!(
            $defect,
            cpu slots_of_cpu!(),
            body concat!(
                "mov {object}, qword ptr [{first} + {at}]
                test {object:l}, 1
                jne 50f
                mov {value}, qword ptr [{object} + {offset}]", $next),
            commit "mov qword ptr [{first} + {at}], {value}",
            after "",
            area = in(reg) $area,
            first = in(reg) $slots.first(),
            offset = in(reg) $links.offset(),
            object = out(reg) $object,
            at = out(reg) _,
            value = out(reg) _,
            shift = const STRIDE_SHIFT,
            $($operand)*
        )
    };
}

macro_rules! pop {
    ($defect:ident, $area:ident, $slots:ident, $links:ident) => {{
        let object: u64;
        // SAFETY: the caller promises a registered area. Within the section the list belongs to this CPU, and a drain
        // that has taken the list waits for the section before it touches the list's objects. The section writes only
        // the slot's word.
        unsafe {
            if L::MANGLED {
                pop_section!(
                    $defect,
                    "\nlea {place}, [{object} + {offset}]
                    bswap {place}
                    xor {value}, {place}
                    xor {value}, {secret}",
                    $area, $slots, $links, object,
                    place = out(reg) _,
                    secret = in(reg) $links.secret(),
                );
            } else {
                pop_section!($defect, "", $area, $slots, $links, object,);
            }
        }
        (!is_mark(object)).then_some(object)
    }};
}

/// Switches to the list of the object's own slab. The object is refused if the slab does not belong to this CPU, if the
/// slab's own list is empty, or if the object is the slab's last one in use.
macro_rules! own_slab {
    () => {
        "mov {value:e}, dword ptr fs:[{area} + {cpu_offset}]
        mov {list}, qword ptr [{slab} + {local}]
        cmp word ptr [{slab} + {owner}], {value:x}
        jne {refused}
        test {list:l}, 1
        jne {refused}
        movabs {value}, {upper}
        lea {at}, [{object} + {value}]
        and {value}, {list}
        xor {list}, {value}
        add {value}, {at}
        jnc {refused}
        lea {at}, [{slab} + {local}]
        sub {at}, {first}"
    };
}

/// Expands to a push. `same` loads the slot's list into `{list}` and compares; "equal" means that the list belongs to
/// the object's slab.
macro_rules! push_section {
    ($defect:ident, $same:expr, $link:expr, $bits:expr, $area:ident, $slots:ident, $freed:ident, $links:ident,
     $($operand:tt)*) => {
        section!(
            $defect,
            cpu slots_of_cpu!(),
            body concat!($same, "\nmov {value}, {object}\nje 45f\n", own_slab!(), "\n45:\n", $link,
                "\nmov qword ptr [{place}], {list}"),
            commit "mov qword ptr [{first} + {at}], {value}",
            after "",
            area = in(reg) $area,
            first = in(reg) $slots.first(),
            object = in(reg) $freed.object().get(),
            place = in(reg) $freed.object().get().wrapping_add($links.offset()),
            slab = in(reg) core::ptr::from_ref::<Slab>($freed.slab()),
            bits = in(reg) $bits,
            list = out(reg) _,
            at = out(reg) _,
            value = out(reg) _,
            shift = const STRIDE_SHIFT,
            local = const Slab::LOCAL_OFFSET,
            owner = const Slab::OWNER_OFFSET,
            upper = const (u64::MAX << UPPER) as i64,
            refused = label { return PushOutcome::Refused },
            $($operand)*
        )
    };
}

macro_rules! push_with {
    ($defect:ident, $same:expr, $bits:expr, $area:ident, $slots:ident, $freed:ident, $links:ident, $($operand:tt)*) => {{
        // SAFETY: the caller promises a registered area; `FreedObject` owns its object. The section chooses the words
        // to write by what it reads of this CPU's words, and a drain that takes a list or a slab away from the CPU
        // waits for the section.
        unsafe {
            if L::MANGLED {
                let place = $freed.object().get().wrapping_add($links.offset());
                push_section!(
                    $defect, $same,
                    "cmp {list}, {object}
                    je {refused}
                    xor {list}, {key}",
                    $bits, $area, $slots, $freed, $links,
                    key = in(reg) $links.secret() ^ place.swap_bytes(),
                    $($operand)*
                );
            } else {
                push_section!($defect, $same, "", $bits, $area, $slots, $freed, $links, $($operand)*);
            }
        }
        PushOutcome::Done
    }};
}

macro_rules! push {
    ($defect:ident, $area:ident, $slots:ident, $freed:ident, $links:ident) => {
        push_with!(
            $defect,
            "mov {list}, qword ptr [{first} + {at}]
            mov {value}, {list}
            xor {value}, {object}
            test {value}, {bits}",
            $freed.mask().get(),
            $area,
            $slots,
            $freed,
            $links,
        )
    };
}

/// Implements [`CpuLocal::pop`](freehold::slab::cpu::CpuLocal::pop).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn pop<L: FixedLinks>(area: isize, slots: Slots<'_>, links: L) -> Option<u64> {
    pop!(sound, area, slots, links)
}

/// Implements [`CpuLocal::push`](freehold::slab::cpu::CpuLocal::push).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn push<L: FixedLinks>(
    area: isize,
    slots: Slots<'_>,
    freed: FreedObject<'_>,
    links: L,
) -> PushOutcome {
    push!(sound, area, slots, freed, links)
}

/// Implements [`CpuLocal::push_paired`](freehold::slab::cpu::CpuLocal::push_paired).
///
/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn push_paired<L: FixedLinks>(
    area: isize,
    slots: Slots<'_>,
    freed: FreedObject<'_>,
    links: L,
) -> PushOutcome {
    push_with!(
        sound,
        "cmp qword ptr [{first} + {at} + {paired}], {bits}
        mov {list}, qword ptr [{first} + {at}]",
        freed.slab_address().get(),
        area, slots, freed, links,
        paired = const PAIRED_OFFSET,
    )
}
