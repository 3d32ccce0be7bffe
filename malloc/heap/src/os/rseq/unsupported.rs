//! Substitute for systems without restartable sequences. Detection always fails there, so the operations are never
//! called.

use freehold::base::CpuId;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;

use super::preempt::LowerOutcome;

/// Whether sections are written for this processor: no.
pub(super) const SUPPORTED: bool = false;

/// Returns the CPU number of an unregistered thread.
///
/// # Safety
/// None.
pub(super) unsafe fn raw_cpu(_: isize) -> u32 {
    u32::MAX
}

macro_rules! nothing {
    ($($(#[$about:meta])* $name:ident $([$($generic:tt)*])? ($($argument:ty),*) -> $result:ty;)*) => {$(
        /// Panics. Detection fails on this system, so this function is never called.
        ///
        /// # Safety
        /// None.
        pub(super) unsafe fn $name $(<$($generic)*>)? ($(_: $argument),*) -> $result {
            unreachable!("restartable sequences are not supported here")
        }
    )*};
}

nothing! {
    cpu(isize) -> CpuId;
    pop[L: FixedLinks](isize, Slots<'_>, L) -> Option<u64>;
    push[L: FixedLinks](isize, Slots<'_>, FreedObject<'_>, L) -> PushOutcome;
    push_paired[L: FixedLinks](isize, Slots<'_>, FreedObject<'_>, L) -> PushOutcome;
    pop_sheaf(isize, Slots<'_>) -> Option<u64>;
    push_sheaf(isize, Slots<'_>, u64) -> PushOutcome;
    pop_bits(isize, Slots<'_>) -> Option<(u64, u32)>;
    push_bits(isize, Slots<'_>, FreedObject<'_>, u64, u64) -> PushOutcome;
    replace_if(isize, CpuId, Exchange<'_>) -> ExchangeOutcome;
    raise(*mut u32) -> ();
    lower(*mut u32) -> LowerOutcome;
}
