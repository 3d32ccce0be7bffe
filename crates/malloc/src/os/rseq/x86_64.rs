//! The sections on x86-64, in machine code.
//!
//! ```text
//! 30   arm: store the descriptor           <- 60: ud1 with the signature, jmp 30 (in another place, so that
//! 40   the section begins: read the CPU          what runs falls through)
//!      ...
//! 49   its last instruction: the store that others see
//! 50   it is over
//! ```
//!
//! A thread's area lies at a distance from the thread's pointer, which is the base of `fs`. `section!` frames what is done
//! between 40 and 50; the macros that fill it in take the defect to plant, which is `sound` for what is used: a
//! compiler leaves nothing of it. A section's way out without a store is a jump behind 50, or to a label of Rust; it
//! stays armed, which means nothing outside of its addresses.

use core::arch::asm;

use freehold::base::CpuId;
use freehold::slab::cpu::{Exchange, Freed, Pushed, Replaced, STRIDE, Sheaf, Slot, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Slab;
use freehold::slab::word::{UPPER, is_mark};

use super::preempt::Lowered;
use super::{CPU_OFFSET, DESCRIPTOR_OFFSET};

/// Whether there is anything here to use.
pub(super) const SUPPORTED: bool = true;
/// From a CPU's number to its slots.
const STRIDE_SHIFT: u32 = STRIDE.trailing_zeros();

/// A line that stands in one place for what is sound, and in another for a planted defect.
macro_rules! line {
    // The CPU is read within the section; a defect reads it before it arms.
    (early stale_cpu $line:expr) => {
        $line
    };
    (early $defect:ident $line:expr) => {
        ""
    };
    (first stale_cpu $line:expr) => {
        ""
    };
    (first $defect:ident $line:expr) => {
        $line
    };
    // The descriptor is stored; a defect leaves that out.
    (arm missing) => {
        "/* fs:[{area} + {descriptor}] */"
    };
    (arm $defect:ident) => {
        "mov qword ptr fs:[{area} + {descriptor}], {value}"
    };
    // The section ends behind its last instruction; defects end it before, or one too late.
    (end short_end) => {
        ".quad 40b, 49b - 40b, 60f"
    };
    (end late_end) => {
        ".quad 40b, 51b - 40b, 60f"
    };
    (end $defect:ident) => {
        ".quad 40b, 50b - 40b, 60f"
    };
    (late late_end) => {
        ".byte 0x66, 0x90"
    };
    (late $defect:ident) => {
        ""
    };
    // Who was interrupted arms again; a defect does not.
    (retry unarmed_retry) => {
        "jmp 40b"
    };
    (retry $defect:ident) => {
        "jmp 30b"
    };
}

/// A section: `cpu` leaves the offset of this CPU's slots in `{at}`, `body` does the work, `commit` publishes it.
/// `{value}` is overwritten before.
macro_rules! section {
    ($defect:ident, cpu $cpu:expr, body $body:expr, commit $commit:expr, after $after:expr, $($operand:tt)*) => {
        asm!(
            "30:",
            line!(early $defect $cpu),
            "lea {value}, [rip + 20f]",
            line!(arm $defect),
            "40:",
            line!(first $defect $cpu),
            $body,
            "49:",
            $commit,
            "50:",
            line!(late $defect),
            "51:",
            $after,
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "20:",
            ".long 0, 0",
            line!(end $defect),
            ".popsection",
            ".pushsection .text.rseq_restart, \"ax\", @progbits",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "60:",
            line!(retry $defect),
            ".popsection",
            descriptor = const DESCRIPTOR_OFFSET,
            cpu_offset = const CPU_OFFSET,
            $($operand)*
            options(nostack),
        )
    };
}

/// Leaves the offset of this CPU's slots in `{at}`.
macro_rules! slots_of_cpu {
    () => {
        "mov {at:e}, dword ptr fs:[{area} + {cpu_offset}]
        shl {at}, {shift}"
    };
}

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
        // SAFETY: the caller's. The list is this CPU's within the section; a drain that has taken it waits for the
        // section before it touches the list's objects. The section writes the slot's word and nothing else.
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

/// On to the list of the object's own slab, which must be this CPU's, and neither empty nor used by this object alone.
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

/// `same` compares, and leaves the slot's list in `{list}`; where it says equal, that list is the object's.
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
            object = in(reg) $freed.object(),
            place = in(reg) $freed.object().wrapping_add($links.offset()),
            slab = in(reg) core::ptr::from_ref::<Slab>($freed.slab()),
            bits = in(reg) $bits,
            list = out(reg) _,
            at = out(reg) _,
            value = out(reg) _,
            shift = const STRIDE_SHIFT,
            local = const Slab::LOCAL_OFFSET,
            owner = const Slab::OWNER_OFFSET,
            upper = const (u64::MAX << UPPER) as i64,
            refused = label { return Pushed::Refused },
            $($operand)*
        )
    };
}

macro_rules! push_with {
    ($defect:ident, $same:expr, $bits:expr, $area:ident, $slots:ident, $freed:ident, $links:ident, $($operand:tt)*) => {{
        // SAFETY: the caller's; `Freed` owns its object. Which words are written is decided by what the section reads of
        // this CPU's, and whoever takes a list or a slab from it waits for the section.
        unsafe {
            if L::MANGLED {
                let place = $freed.object().wrapping_add($links.offset());
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
        Pushed::Done
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
            $freed.mask(),
            $area,
            $slots,
            $freed,
            $links,
        )
    };
}

macro_rules! pop_bits {
    ($defect:ident, $area:ident, $slots:ident) => {{
        let slab: u64;
        let bits: u64;
        // SAFETY: the caller's; under `bitmap` a slot names a slab's metadata, whose word of free objects is this CPU's
        // within the section.
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
        // SAFETY: the caller's; `Freed` owns its object. The slab's word is written if the section finds the slab to be
        // this CPU's, and whoever takes the slab from it waits for the section.
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
                refused = label { return Pushed::Refused },
            );
        }
        Pushed::Done
    }};
}

#[cfg(feature = "planted")]
#[path = "x86_64_planted.rs"]
pub mod planted;

/// The CPU's number as the kernel left it; one with the highest bit set if the thread is not registered.
///
/// # Safety
/// The thread has an area at this distance.
#[inline(always)]
pub(super) unsafe fn raw_cpu(area: isize) -> u32 {
    let cpu: u32;
    // SAFETY: the area is the caller's word.
    unsafe {
        asm!(
            "mov {cpu:e}, dword ptr fs:[{area} + {offset}]",
            cpu = lateout(reg) cpu,
            area = in(reg) area,
            offset = const CPU_OFFSET,
            options(nostack, readonly, preserves_flags),
        );
    }
    cpu
}

/// The CPU that runs the caller.
///
/// # Safety
/// The thread has a registered area at this distance, as in all that follows.
#[inline(always)]
pub(super) unsafe fn cpu(area: isize) -> CpuId {
    // SAFETY: the caller's.
    CpuId(unsafe { raw_cpu(area) } as u16)
}

/// See [`CpuLocal::pop`](freehold::slab::cpu::CpuLocal::pop), and so on.
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop<L: FixedLinks>(area: isize, slots: Slots<'_>, links: L) -> Option<u64> {
    pop!(sound, area, slots, links)
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push<L: FixedLinks>(area: isize, slots: Slots<'_>, freed: Freed<'_>, links: L) -> Pushed {
    push!(sound, area, slots, freed, links)
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_paired<L: FixedLinks>(area: isize, slots: Slots<'_>, freed: Freed<'_>, links: L) -> Pushed {
    push_with!(
        sound,
        "cmp qword ptr [{first} + {at} + {paired}], {bits}
        mov {list}, qword ptr [{first} + {at}]",
        freed.slab_address(),
        area, slots, freed, links,
        paired = const Slot::SLAB_OFFSET,
    )
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop_sheaf(area: isize, slots: Slots<'_>) -> Option<u64> {
    let object: u64;
    // SAFETY: the caller's; a main sheaf is its CPU's within the section, which writes the sheaf's length and nothing else.
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
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_sheaf(area: isize, slots: Slots<'_>, object: u64) -> Pushed {
    // SAFETY: the caller's; as for `pop_sheaf`, and what lies behind the length is nobody's until the length is written.
    unsafe {
        section!(
            sound,
            cpu slots_of_cpu!(),
            body "mov {at}, qword ptr [{first} + {at}]
                mov {value}, qword ptr [{at} + {len}]
                cmp {value}, qword ptr [{at} + {capacity}]
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
            refused = label { return Pushed::Refused },
        );
    }
    Pushed::Done
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop_bits(area: isize, slots: Slots<'_>) -> Option<(u64, u32)> {
    pop_bits!(sound, area, slots)
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_bits(area: isize, slots: Slots<'_>, freed: Freed<'_>, bit: u64, all: u64) -> Pushed {
    push_bits!(sound, area, slots, freed, bit, all)
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn replace_if(area: isize, cpu: CpuId, exchange: Exchange<'_>) -> Replaced {
    // SAFETY: the caller's; only sections on that CPU write the word, as `Exchange` demands.
    unsafe {
        section!(
            sound,
            cpu "cmp dword ptr fs:[{area} + {cpu_offset}], {cpu:e}",
            body "jne {moved}
                cmp qword ptr [{witness}], {seen}
                jne {changed}
                cmp qword ptr [{word}], {from}
                jne {changed}",
            commit "mov qword ptr [{word}], {to}",
            after "",
            area = in(reg) area,
            cpu = in(reg) u32::from(cpu.0),
            witness = in(reg) exchange.witness.as_ptr(),
            seen = in(reg) exchange.seen,
            word = in(reg) exchange.word.as_ptr(),
            from = in(reg) exchange.from,
            to = in(reg) exchange.to,
            value = out(reg) _,
            moved = label { return Replaced::Moved },
            changed = label { return Replaced::Changed },
        );
    }
    Replaced::Done
}

/// Raises a counter of the thread; not an atomic step, but one instruction.
///
/// # Safety
/// The counter is the thread's.
#[inline(always)]
pub(super) unsafe fn raise(count: *mut u32) {
    // SAFETY: the caller's.
    unsafe { asm!("inc dword ptr [{count}]", count = in(reg) count, options(nostack)) }
}

/// Lowers it.
///
/// # Safety
/// As for [`raise`].
#[inline(always)]
pub(super) unsafe fn lower(count: *mut u32) -> Lowered {
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "dec dword ptr [{count}]",
            "je {awaited}",
            count = in(reg) count,
            awaited = label { return Lowered::Awaited },
            options(nostack),
        );
    }
    Lowered::Held
}
