//! Where there are no restartable sequences: nothing can be found, so nothing of this is ever called.

use freehold::base::CpuId;
use freehold::slab::cpu::{Exchange, Freed, Pushed, Replaced, Slots};
use freehold::slab::freelist::FixedLinks;

use super::preempt::Lowered;

/// No sections are written for this processor.
pub(super) const SUPPORTED: bool = false;

/// Says that no thread is registered.
///
/// # Safety
/// None.
pub(super) unsafe fn raw_cpu(_: isize) -> u32 {
    u32::MAX
}

macro_rules! nothing {
    ($($(#[$about:meta])* $name:ident $([$($generic:tt)*])? ($($argument:ty),*) -> $result:ty;)*) => {$(
        /// Never called.
        ///
        /// # Safety
        /// None.
        pub(super) unsafe fn $name $(<$($generic)*>)? ($(_: $argument),*) -> $result {
            unreachable!("restartable sequences were used where none can be found")
        }
    )*};
}

nothing! {
    cpu(isize) -> CpuId;
    pop[L: FixedLinks](isize, Slots<'_>, L) -> Option<u64>;
    push[L: FixedLinks](isize, Slots<'_>, Freed<'_>, L) -> Pushed;
    push_paired[L: FixedLinks](isize, Slots<'_>, Freed<'_>, L) -> Pushed;
    pop_sheaf(isize, Slots<'_>) -> Option<u64>;
    push_sheaf(isize, Slots<'_>, u64) -> Pushed;
    pop_bits(isize, Slots<'_>) -> Option<(u64, u32)>;
    push_bits(isize, Slots<'_>, Freed<'_>, u64, u64) -> Pushed;
    replace_if(isize, CpuId, Exchange<'_>) -> Replaced;
    raise(*mut u32) -> ();
    lower(*mut u32) -> Lowered;
}
