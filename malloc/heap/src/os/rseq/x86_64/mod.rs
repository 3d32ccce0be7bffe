//! The sections on x86-64, in machine code.
//!
//! A thread's area lies at a distance from the thread's pointer, which is the base of `fs`. `section!` (`frame`) frames
//! what a section does; the macros that fill it in take the defect to plant, which is `sound` for what is used: a
//! compiler leaves nothing of it. A section's way out without a store is a jump past its end, or to a label of Rust; it
//! stays armed, which means nothing outside of its addresses.

#[macro_use]
mod frame;
#[macro_use]
mod lists;
#[macro_use]
mod bits;
#[macro_use]
mod sheaves;

#[cfg(feature = "planted")]
pub mod planted;

use core::arch::asm;

use freehold::base::CpuId;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, STRIDE};

use super::preempt::LowerOutcome;
use super::{CPU_OFFSET, DESCRIPTOR_OFFSET};
pub(super) use bits::{pop_bits, push_bits};
pub(super) use lists::{pop, push, push_paired};
pub(super) use sheaves::{pop_sheaf, push_sheaf};

/// Whether there is anything here to use.
pub(super) const SUPPORTED: bool = true;
/// From a CPU's number to its slots.
const STRIDE_SHIFT: u32 = STRIDE.trailing_zeros();

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
    // SAFETY: the caller promises a registered area at this distance.
    CpuId(unsafe { raw_cpu(area) } as u16)
}

/// # Safety
/// As for [`cpu`].
#[inline(always)]
pub(super) unsafe fn replace_if(area: isize, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
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
            moved = label { return ExchangeOutcome::Moved },
            changed = label { return ExchangeOutcome::Changed },
        );
    }
    ExchangeOutcome::Done
}

/// Raises a counter of the thread; not an atomic step, but one instruction.
///
/// # Safety
/// The counter is the thread's.
#[inline(always)]
pub(super) unsafe fn raise(count: *mut u32) {
    // SAFETY: the caller promises that the counter is the thread's.
    unsafe { asm!("inc dword ptr [{count}]", count = in(reg) count, options(nostack)) }
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
            "dec dword ptr [{count}]",
            "je {awaited}",
            count = in(reg) count,
            awaited = label { return LowerOutcome::Awaited },
            options(nostack),
        );
    }
    LowerOutcome::Held
}
