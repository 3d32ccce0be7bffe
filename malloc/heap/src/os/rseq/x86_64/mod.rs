//! Sections for x86-64 in assembly.
//!
//! A thread's area is at an offset from the thread pointer, which is the base of `fs`. The macro `section!` in `frame`
//! expands to a section around given instructions. The macros that use it take the name of a defect to plant; it is
//! `sound` in production, for which the compiler emits no additional code. A section that ends without a store jumps
//! past its end or to a Rust label. It stays armed then, which has no effect outside of the section's addresses.

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

/// Whether sections are written for this processor: yes.
pub(super) const SUPPORTED: bool = true;
/// Shift that converts a CPU number to the offset of its slots.
const STRIDE_SHIFT: u32 = STRIDE.trailing_zeros();

/// Returns the CPU number that the kernel stored in the area; its highest bit is set if the thread is not registered.
///
/// # Safety
/// The thread has an area at this offset.
#[inline(always)]
pub(super) unsafe fn raw_cpu(area: isize) -> u32 {
    let cpu: u32;
    // SAFETY: the caller promises an area at this offset, and the instruction only reads its CPU number.
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

/// Returns the CPU that runs the caller.
///
/// # Safety
/// The thread has a registered area at this offset. All functions of the submodules require this as well.
#[inline(always)]
pub(super) unsafe fn cpu(area: isize) -> CpuId {
    // SAFETY: the caller promises a registered area at this offset.
    CpuId(unsafe { raw_cpu(area) } as u16)
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

/// Increments a counter of the thread by one instruction, which is not atomic.
///
/// # Safety
/// The counter belongs to the calling thread.
#[inline(always)]
pub(super) unsafe fn raise(count: *mut u32) {
    // SAFETY: the caller promises that the counter belongs to the calling thread.
    unsafe { asm!("inc dword ptr [{count}]", count = in(reg) count, options(nostack)) }
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
            "dec dword ptr [{count}]",
            "je {awaited}",
            count = in(reg) count,
            awaited = label { return LowerOutcome::Awaited },
            options(nostack),
        );
    }
    LowerOutcome::Held
}

/// Prefetches the cache line at an address, in a state in which it can be written.
#[inline(always)]
pub(in crate::os::rseq) fn prefetch_for_write(address: u64) {
    // SAFETY: a prefetch changes no memory, and does not fault at any address.
    unsafe { asm!("prefetchw byte ptr [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
}
