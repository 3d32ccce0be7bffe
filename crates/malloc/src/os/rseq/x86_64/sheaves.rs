//! Sheaves: the length of an array is the word.

use core::arch::asm;

use freehold::slab::cpu::{Pushed, Sheaf, Slots};

use super::super::{CPU_OFFSET, DESCRIPTOR_OFFSET};
use super::STRIDE_SHIFT;

/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn pop_sheaf(area: isize, slots: Slots<'_>) -> Option<u64> {
    let object: u64;
    // SAFETY: the caller's; a main sheaf is its CPU's within the section, which writes the sheaf's length and nothing
    // else.
    unsafe {
        section!(
            sound,
            cpu slots_of_cpu!(),
            body "mov {at}, qword ptr [{first} + {at}]
                mov {value}, qword ptr [{at} + {len}]
                sub {value}, 1
                jb 52f
                mov {object}, qword ptr [{at} + {value} * 8 + {objects}]",
            commit "mov qword ptr [{at} + {len}], {value}",
            after ".pushsection .text.rseq_restart, \"ax\", @progbits
                52:
                xor {object:e}, {object:e}
                jmp 50b
                .popsection",
            area = in(reg) area,
            first = in(reg) slots.first(),
            object = out(reg) object,
            at = out(reg) _,
            value = out(reg) _,
            shift = const STRIDE_SHIFT,
            len = const Sheaf::LEN_OFFSET,
            objects = const Sheaf::OBJECTS_OFFSET,
        );
    }
    (object != 0).then_some(object)
}

/// # Safety
/// As for [`cpu`](super::cpu).
#[inline(always)]
pub(in crate::os::rseq) unsafe fn push_sheaf(area: isize, slots: Slots<'_>, object: u64) -> Pushed {
    // SAFETY: the caller's; as for `pop_sheaf`, and what follows the sheaf's length is nobody's until the length is
    // written.
    unsafe {
        section!(
            sound,
            cpu slots_of_cpu!(),
            body "mov {at}, qword ptr [{first} + {at}]
                mov {value}, qword ptr [{at} + {len}]
                cmp {value}, qword ptr [{at} + {capacity}]
                je {refused}
                cmp qword ptr [{at} + {value} * 8 + {last}], {object}
                je {refused}
                mov qword ptr [{at} + {value} * 8 + {objects}], {object}
                inc {value}",
            commit "mov qword ptr [{at} + {len}], {value}",
            after "",
            area = in(reg) area,
            first = in(reg) slots.first(),
            object = in(reg) object,
            at = out(reg) _,
            value = out(reg) _,
            shift = const STRIDE_SHIFT,
            len = const Sheaf::LEN_OFFSET,
            capacity = const Sheaf::CAPACITY_OFFSET,
            objects = const Sheaf::OBJECTS_OFFSET,
            // Of an empty sheaf that is its capacity, which is no object's address.
            last = const Sheaf::OBJECTS_OFFSET - size_of::<u64>(),
            refused = label { return Pushed::Refused },
        );
    }
    Pushed::Done
}
