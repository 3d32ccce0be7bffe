//! Sections for aarch64 in assembly. They correspond to those for x86-64, where possible instruction by instruction.
//!
//! ```text
//! 30   arm: store the descriptor           <- 60: the signature precedes it; jumps back to 30
//! 40   start of the section: read the CPU
//!      ...
//! 49   last instruction of the section: the store that is visible to other code
//! 50   first address after the section
//! ```
//!
//! A thread's area is at an offset from the thread pointer, which is in `tpidr_el0`. Stores are plain stores without
//! release order: a drain that takes a list away from a CPU fences that CPU before it follows a link.
//!
//! `cargo xtask ci --only aarch64` assembles every section where the toolchain can. The sections have not been executed
//! yet.

use core::arch::asm;

use freehold::base::CpuId;
use freehold::slab::cpu::sheaf::{Sheaf, Top};
use freehold::slab::cpu::{Exchange, ExchangeOutcome, FreedObject, PAIRED_OFFSET, PushOutcome, STRIDE, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Slab;
use freehold::slab::word::{UPPER, is_mark};

use super::preempt::LowerOutcome;
use super::{CPU_OFFSET, DESCRIPTOR_OFFSET};

/// Whether sections are written for this processor: yes.
pub(super) const SUPPORTED: bool = true;
/// Shift that converts a CPU number to the offset of its slots.
const STRIDE_SHIFT: u32 = STRIDE.trailing_zeros();

/// Expands to a section: `body` does the work, and `commit` publishes the result. `{value}` is overwritten before
/// `body`.
macro_rules! section {
    (body $body:expr, commit $commit:expr, area $area:expr, $($operand:tt)*) => {
        asm!(
            "30:",
            "adrp {value}, 20f",
            "add {value}, {value}, :lo12:20f",
            "str {value}, [{area}, #{descriptor}]",
            "40:",
            $body,
            "49:",
            $commit,
            "50:",
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "20:",
            ".long 0, 0",
            ".quad 40b, 50b - 40b, 60f",
            ".popsection",
            ".pushsection .text.rseq_restart, \"ax\", @progbits",
            ".inst 0xd428bc00",
            "60:",
            "b 30b",
            ".popsection",
            area = in(reg) thread_pointer().wrapping_offset($area),
            descriptor = const DESCRIPTOR_OFFSET,
            cpu_offset = const CPU_OFFSET,
            value = out(reg) _,
            $($operand)*
            options(nostack),
        )
    };
}

/// Loads the address of this CPU's slot into `{at}`.
macro_rules! slot_of_cpu {
    () => {
        "ldr {at:w}, [{area}, #{cpu_offset}]
        add {at}, {first}, {at}, lsl #{shift}
        "
    };
}

macro_rules! pop_section {
    ($next:expr, $area:ident, $slots:ident, $links:ident, $object:ident, $($operand:tt)*) => {
        section!(
            body concat!(slot_of_cpu!(),
                "ldr {object}, [{at}]
                tbnz {object}, #0, 50f
                ldr {value}, [{object}, {offset}]", $next),
            commit "str {value}, [{at}]",
            area $area,
            first = in(reg) $slots.first(),
            offset = in(reg) $links.offset(),
            object = out(reg) $object,
            at = out(reg) _,
            shift = const STRIDE_SHIFT,
            $($operand)*
        )
    };
}

/// Switches to the list of the object's own slab. The object is refused if the slab does not belong to this CPU, if the
/// slab's own list is empty, or if the object is the slab's last one in use. The list is loaded before the owner.
macro_rules! own_slab {
    () => {
        "
        ldr {value:w}, [{area}, #{cpu_offset}]
        add {at}, {slab}, #{local}
        ldar {list}, [{at}]
        ldrh {owned:w}, [{slab}, #{owner}]
        cmp {owned:w}, {value:w}
        b.ne {refused}
        tst {list}, #1
        b.ne {refused}
        lsr {value}, {list}, #{upper}
        subs {value}, {value}, #1
        b.lo {refused}
        orr {value}, {object}, {value}, lsl #{upper}
        ubfx {list}, {list}, #0, #{upper}
        "
    };
}

/// Expands to a push. `same` loads the slot's list into `{list}` and compares; "equal" means that the list belongs to
/// the object's slab.
macro_rules! push_section {
    ($same:expr, $link:expr, $bits:expr, $area:ident, $slots:ident, $freed:ident, $links:ident, $($operand:tt)*) => {
        section!(
            body concat!(slot_of_cpu!(), $same, "\nmov {value}, {object}\nb.eq 45f\n", own_slab!(), "45:\n", $link,
                "\nstr {list}, [{place}]"),
            commit "str {value}, [{at}]",
            area $area,
            first = in(reg) $slots.first(),
            object = in(reg) $freed.object().get(),
            place = in(reg) $freed.object().get().wrapping_add($links.offset()),
            slab = in(reg) core::ptr::from_ref::<Slab>($freed.slab()),
            bits = in(reg) $bits,
            list = out(reg) _,
            at = out(reg) _,
            owned = out(reg) _,
            shift = const STRIDE_SHIFT,
            local = const Slab::LOCAL_OFFSET,
            owner = const Slab::OWNER_OFFSET,
            upper = const UPPER,
            refused = label { return PushOutcome::Refused },
            $($operand)*
        )
    };
}

macro_rules! push_with {
    ($same:expr, $bits:expr, $area:ident, $slots:ident, $freed:ident, $links:ident, $($operand:tt)*) => {{
        // SAFETY: the caller promises a registered area; `FreedObject` owns its object. The section chooses the words
        // to write by what it reads of this CPU's words, and a drain that takes a list or a slab away from the CPU
        // waits for the section.
        unsafe {
            if L::MANGLED {
                let place = $freed.object().get().wrapping_add($links.offset());
                push_section!(
                    $same,
                    "cmp {list}, {object}
                    b.eq {refused}
                    eor {list}, {list}, {key}",
                    $bits, $area, $slots, $freed, $links,
                    key = in(reg) $links.secret() ^ place.swap_bytes(),
                    $($operand)*
                );
            } else {
                push_section!($same, "", $bits, $area, $slots, $freed, $links, $($operand)*);
            }
        }
        PushOutcome::Done
    }};
}

#[inline(always)]
fn thread_pointer() -> *const u8 {
    let pointer;
    // SAFETY: `mrs` only reads the register with the thread pointer.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags)) }
    pointer
}

/// Returns the CPU number that the kernel stored in the area; its highest bit is set if the thread is not registered.
///
/// # Safety
/// The thread has an area at this offset.
#[inline(always)]
pub(super) unsafe fn raw_cpu(area: isize) -> u32 {
    let place = thread_pointer().wrapping_offset(area).wrapping_add(CPU_OFFSET).cast::<u32>();
    // SAFETY: the caller promises an area at this offset. The kernel writes the number, so each read is volatile.
    unsafe { place.read_volatile() }
}

/// Returns the CPU that runs the caller.
///
/// # Safety
/// The thread has a registered area at this offset. All functions below require this as well.
#[inline(always)]
pub(super) unsafe fn cpu(area: isize) -> CpuId {
    // SAFETY: the caller promises a registered area at this offset.
    CpuId(unsafe { raw_cpu(area) } as u16)
}

/// Implements [`CpuLocal::pop`](freehold::slab::cpu::CpuLocal::pop).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop<L: FixedLinks>(area: isize, slots: Slots<'_>, links: L) -> Option<u64> {
    let object: u64;
    // SAFETY: the caller promises a registered area. Within the section the list belongs to this CPU, and a drain that
    // has taken the list waits for the section before it touches the list's objects. The section writes only the slot's
    // word.
    unsafe {
        if L::MANGLED {
            pop_section!(
                "\nadd {place}, {object}, {offset}
                rev {place}, {place}
                eor {value}, {value}, {place}
                eor {value}, {value}, {secret}",
                area, slots, links, object,
                place = out(reg) _,
                secret = in(reg) links.secret(),
            );
        } else {
            pop_section!("", area, slots, links, object,);
        }
    }
    (!is_mark(object)).then_some(object)
}

/// Implements [`CpuLocal::push`](freehold::slab::cpu::CpuLocal::push).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push<L: FixedLinks>(
    area: isize,
    slots: Slots<'_>,
    freed: FreedObject<'_>,
    links: L,
) -> PushOutcome {
    push_with!(
        "ldr {list}, [{at}]
        eor {value}, {list}, {object}
        tst {value}, {bits}",
        freed.mask().get(),
        area,
        slots,
        freed,
        links,
    )
}

/// Implements [`CpuLocal::push_paired`](freehold::slab::cpu::CpuLocal::push_paired).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_paired<L: FixedLinks>(
    area: isize,
    slots: Slots<'_>,
    freed: FreedObject<'_>,
    links: L,
) -> PushOutcome {
    push_with!(
        "ldr {value}, [{at}, #{paired}]
        ldr {list}, [{at}]
        cmp {value}, {bits}",
        freed.slab_address().get(),
        area, slots, freed, links,
        paired = const PAIRED_OFFSET,
    )
}

/// Implements [`CpuLocal::pop_sheaf`](freehold::slab::cpu::CpuLocal::pop_sheaf).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop_sheaf(area: isize, slots: Slots<'_>) -> Option<u64> {
    const { assert!(Sheaf::BOTTOM == 0, "`BOTTOM` must be 0: one test detects it, and an empty section returns it") };
    let (object, next): (u64, u64);
    // SAFETY: the caller promises a registered area. Within the section a main sheaf belongs to its CPU, and the
    // section writes only the slot's word.
    unsafe {
        section!(
            body concat!(slot_of_cpu!(),
                "ldr {value}, [{at}]
                ldr {object}, [{value}]
                cbz {object}, 50f
                sub {value}, {value}, #{step}
                ldr {next}, [{value}]"),
            commit "str {value}, [{at}]",
            area area,
            first = in(reg) slots.first(),
            object = out(reg) object,
            next = out(reg) next,
            at = out(reg) _,
            shift = const STRIDE_SHIFT,
            step = const Top::STEP,
        );
    }
    // An empty sheaf has no object, and `next` was not written.
    (object != 0).then(|| {
        // SAFETY: a prefetch changes no memory, and does not fault at any address.
        unsafe { asm!("prfm pstl1keep, [{}]", in(reg) next, options(nostack, preserves_flags, readonly)) };
        object
    })
}

/// Implements [`CpuLocal::push_sheaf`](freehold::slab::cpu::CpuLocal::push_sheaf).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_sheaf(area: isize, slots: Slots<'_>, object: u64) -> PushOutcome {
    // SAFETY: the caller promises a registered area. Within the section a main sheaf belongs to its CPU; the entries
    // above the sheaf's last object are unused until the slot's word is written.
    unsafe {
        section!(
            body concat!(slot_of_cpu!(),
                "ldr {value}, [{at}]
                ldp {last}, {above}, [{value}]
                cmp {last}, {object}
                b.eq {refused}
                cmp {above}, #{ceiling}
                b.eq {refused}
                str {object}, [{value}, #{step}]!"),
            commit "str {value}, [{at}]",
            area area,
            first = in(reg) slots.first(),
            object = in(reg) object,
            at = out(reg) _,
            last = out(reg) _,
            above = out(reg) _,
            shift = const STRIDE_SHIFT,
            step = const Top::STEP,
            ceiling = const Sheaf::CEILING,
            refused = label { return PushOutcome::Refused },
        );
    }
    PushOutcome::Done
}

/// Implements [`CpuLocal::pop_bits`](freehold::slab::cpu::CpuLocal::pop_bits).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop_bits(area: isize, slots: Slots<'_>) -> Option<(u64, u32)> {
    let slab: u64;
    let bits: u64;
    // SAFETY: the caller promises a registered area. Under `bitmap` a slot holds the address of a slab's metadata,
    // whose word of free objects belongs to this CPU within the section.
    unsafe {
        section!(
            body concat!(slot_of_cpu!(),
                "ldr {slab}, [{at}]
                ldr {bits}, [{slab}, #{local}]
                cbz {bits}, 50f
                sub {value}, {bits}, #1
                and {value}, {value}, {bits}"),
            commit "str {value}, [{slab}, #{local}]",
            area area,
            first = in(reg) slots.first(),
            slab = out(reg) slab,
            bits = out(reg) bits,
            at = out(reg) _,
            shift = const STRIDE_SHIFT,
            local = const Slab::LOCAL_OFFSET,
        );
    }
    (bits != 0).then(|| (slab, bits.trailing_zeros()))
}

/// Implements [`CpuLocal::push_bits`](freehold::slab::cpu::CpuLocal::push_bits).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_bits(
    area: isize,
    slots: Slots<'_>,
    freed: FreedObject<'_>,
    bit: u64,
    all: u64,
) -> PushOutcome {
    // SAFETY: the caller promises a registered area; `FreedObject` owns its object. The section writes the slab's word
    // only if it finds that this CPU owns the slab, and a drain that takes the slab away from the CPU waits for the
    // section.
    unsafe {
        section!(
            body concat!(slot_of_cpu!(),
                "ldr {at}, [{at}]
                add {value}, {slab}, #{local}
                ldar {value}, [{value}]
                tst {value}, {bit}
                b.ne {refused}
                cmp {at}, {slab}
                b.eq 45f
                ldr {at:w}, [{area}, #{cpu_offset}]
                ldrh {owned:w}, [{slab}, #{owner}]
                cmp {owned:w}, {at:w}
                b.ne {refused}
                cbz {value}, 44f
                orr {at}, {value}, {bit}
                cmp {at}, {all}
                b.ne 45f
                44:
                b {refused}
                45:
                orr {value}, {value}, {bit}"),
            commit "str {value}, [{slab}, #{local}]",
            area area,
            first = in(reg) slots.first(),
            slab = in(reg) core::ptr::from_ref::<Slab>(freed.slab()),
            bit = in(reg) bit,
            all = in(reg) all,
            at = out(reg) _,
            owned = out(reg) _,
            shift = const STRIDE_SHIFT,
            local = const Slab::LOCAL_OFFSET,
            owner = const Slab::OWNER_OFFSET,
            refused = label { return PushOutcome::Refused },
        );
    }
    PushOutcome::Done
}

/// Implements [`CpuLocal::replace_if`](freehold::slab::cpu::CpuLocal::replace_if).
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn replace_if(area: isize, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
    // SAFETY: the caller promises a registered area; `Exchange` requires that only sections on that CPU write the word.
    unsafe {
        section!(
            body "ldr {value:w}, [{area}, #{cpu_offset}]
                cmp {value:w}, {cpu:w}
                b.ne {moved}
                ldar {value}, [{witness}]
                cmp {value}, {seen}
                b.ne {changed}
                ldar {value}, [{word}]
                cmp {value}, {from}
                b.ne {changed}",
            commit "str {to}, [{word}]",
            area area,
            cpu = in(reg) u32::from(cpu.0),
            witness = in(reg) exchange.witness.as_ptr(),
            seen = in(reg) exchange.seen,
            word = in(reg) exchange.word.as_ptr(),
            from = in(reg) exchange.from,
            to = in(reg) exchange.to,
            moved = label { return ExchangeOutcome::Moved },
            changed = label { return ExchangeOutcome::Changed },
        );
    }
    ExchangeOutcome::Done
}

/// Increments a counter of the thread. The increment is not atomic.
///
/// # Safety
/// The counter belongs to the calling thread.
#[inline(always)]
pub(super) unsafe fn raise(count: *mut u32) {
    // SAFETY: the caller promises that the counter belongs to the calling thread.
    unsafe {
        asm!(
            "ldr {value:w}, [{count}]",
            "add {value:w}, {value:w}, #1",
            "str {value:w}, [{count}]",
            count = in(reg) count,
            value = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Decrements a counter that [`raise`] incremented, and returns whether the whole word is zero then: the counter is
/// zero and its bit states that a task waits.
///
/// # Safety
/// As for [`raise`].
#[inline(always)]
pub(super) unsafe fn lower(count: *mut u32) -> LowerOutcome {
    // SAFETY: the caller promises that the counter belongs to the calling thread.
    unsafe {
        asm!(
            "ldr {value:w}, [{count}]",
            "sub {value:w}, {value:w}, #1",
            "str {value:w}, [{count}]",
            "cbz {value:w}, {awaited}",
            count = in(reg) count,
            value = out(reg) _,
            awaited = label { return LowerOutcome::Awaited },
            options(nostack, preserves_flags),
        );
    }
    LowerOutcome::Held
}
