//! The sections on aarch64, in machine code: those of x86-64, instruction for instruction where there are equal ones.
//!
//! ```text
//! 30   arm: store the descriptor           <- 60: the signature before it, then back to 30
//! 40   the section begins: read the CPU
//!      ...
//! 49   its last instruction: the store that others see
//! 50   it is over
//! ```
//!
//! A thread's area lies at a distance from the thread's pointer, which is in `tpidr_el0`. Stores are plain ones: a
//! drain that takes a list away from a CPU has fenced that CPU before it follows a link.
//!
//! `cargo xtask ci --only aarch64` assembles every section, where the toolchain can; nobody has run them yet.

use core::arch::asm;

use freehold::base::CpuId;
use freehold::slab::cpu::sheaf::{Sheaf, Top};
use freehold::slab::cpu::{Exchange, ExchangeOutcome, FreedObject, PAIRED_OFFSET, PushOutcome, STRIDE, Slots};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Slab;
use freehold::slab::word::{UPPER, is_mark};

use super::preempt::LowerOutcome;
use super::{CPU_OFFSET, DESCRIPTOR_OFFSET};

/// Whether there is anything here to use.
pub(super) const SUPPORTED: bool = true;
/// From a CPU's number to its slots.
const STRIDE_SHIFT: u32 = STRIDE.trailing_zeros();

/// A section: `body` does the work, `commit` publishes it. `{value}` is overwritten before.
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

/// Leaves the address of this CPU's slot in `{at}`.
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

/// On to the list of the object's own slab, which must be this CPU's, and neither empty nor used by this object alone.
/// The list is loaded before the owner.
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

/// `same` compares, and leaves the slot's list in `{list}`; where it says equal, that list is the object's.
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
        // SAFETY: the caller's; `FreedObject` owns its object. Which words are written is decided by what the section
        // reads of this CPU's, and a drain that takes a list or a slab from it waits for the section.
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
    // SAFETY: reads a register that says where the thread's storage is.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags)) }
    pointer
}

/// The CPU's number as the kernel left it; one with the highest bit set if the thread is not registered.
///
/// # Safety
/// The thread has an area at this distance.
#[inline(always)]
pub(super) unsafe fn raw_cpu(area: isize) -> u32 {
    let place = thread_pointer().wrapping_offset(area).wrapping_add(CPU_OFFSET).cast::<u32>();
    // SAFETY: the area is the caller's word; the kernel writes it, so it is read anew each time.
    unsafe { place.read_volatile() }
}

/// The CPU that runs the caller.
///
/// # Safety
/// The thread has a registered area at this distance, as in all that follows.
#[inline(always)]
pub(super) unsafe fn cpu(area: isize) -> CpuId {
    // SAFETY: the caller promises a registered area at this distance.
    CpuId(unsafe { raw_cpu(area) } as u16)
}

/// See [`CpuLocal::pop`](freehold::slab::cpu::CpuLocal::pop), and so on.
///
/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop<L: FixedLinks>(area: isize, slots: Slots<'_>, links: L) -> Option<u64> {
    let object: u64;
    // SAFETY: the caller's. The list is this CPU's within the section; a drain that has taken it waits for the section
    // before it touches the list's objects. The section writes the slot's word and nothing else.
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

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop_sheaf(area: isize, slots: Slots<'_>) -> Option<u64> {
    const { assert!(Sheaf::BOTTOM == 0, "it is told by one test, and what a section answers that finds nothing") };
    let object: u64;
    // SAFETY: the caller's; a main sheaf is its CPU's within the section, which writes the slot's word and nothing
    // else.
    unsafe {
        section!(
            body concat!(slot_of_cpu!(),
                "ldr {value}, [{at}]
                ldr {object}, [{value}]
                cbz {object}, 50f
                sub {value}, {value}, #{step}"),
            commit "str {value}, [{at}]",
            area area,
            first = in(reg) slots.first(),
            object = out(reg) object,
            at = out(reg) _,
            shift = const STRIDE_SHIFT,
            step = const Top::STEP,
        );
    }
    (object != 0).then_some(object)
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn push_sheaf(area: isize, slots: Slots<'_>, object: u64) -> PushOutcome {
    // SAFETY: the caller's; as for `pop_sheaf`, and what lies above the sheaf's last object is nobody's until the word
    // is written.
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

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn pop_bits(area: isize, slots: Slots<'_>) -> Option<(u64, u32)> {
    let slab: u64;
    let bits: u64;
    // SAFETY: the caller's; under `bitmap` a slot names a slab's metadata, whose word of free objects is this CPU's
    // within the section.
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
    // SAFETY: the caller's; `FreedObject` owns its object. The slab's word is written if the section finds the slab to
    // be this CPU's, and a drain that takes the slab from it waits for the section.
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

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn replace_if(area: isize, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
    // SAFETY: the caller's; only sections on that CPU write the word, as `Exchange` demands.
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

/// Raises a counter of the thread; not an atomic step.
///
/// # Safety
/// The counter is the thread's.
#[inline(always)]
pub(super) unsafe fn raise(count: *mut u32) {
    // SAFETY: the caller promises that the counter is the thread's.
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

/// Lowers it.
///
/// # Safety
/// As for [`raise`].
#[inline(always)]
pub(super) unsafe fn lower(count: *mut u32) -> LowerOutcome {
    // SAFETY: the caller promises that the counter is the thread's.
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
