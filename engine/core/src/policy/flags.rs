//! Conversion of GFP flags, which describe a request, to allocation flags, which describe what the allocator may do for
//! it.
//!
//! There are two alternatives. *Coupled* copies two bits by mask, because [`Gfp::HIGH`] has the value of
//! [`AllocFlags::MIN_RESERVE`] and [`Gfp::KSWAPD_RECLAIM`] that of [`AllocFlags::KSWAPD`]; the compiler checks that the
//! values coincide. *Plain* tests the two bits and works with any values. Both give the same flags for every input,
//! with or without the defrag mode ([`DefragMode`]).
//!
//! No other code depends on the coincidence. This is verified by a build with `--cfg freehold_uncoupled`, which gives
//! the two allocation flags values that no GFP flag has; all tests of the crate must pass in it. *Coupled* does not
//! exist in that build. Its name is an alias for *plain* there, so that `linux-6.12` can still be selected.
//!
//! linux: mm/page_alloc.c:gfp_to_alloc_flags, alloc_flags_nofragment, __gfp_pfmemalloc_flags

use super::{DefragMode, FlagsPolicy};
use crate::base::{Gfp, MigrateType, Order};

/// Value of [`AllocFlags::MIN_RESERVE`]; in Linux that of [`Gfp::HIGH`].
const MIN_RESERVE: u32 = if cfg!(freehold_uncoupled) { 1 << 30 } else { 0x20 };
/// Value of [`AllocFlags::KSWAPD`]; in Linux that of [`Gfp::KSWAPD_RECLAIM`].
const KSWAPD: u32 = if cfg!(freehold_uncoupled) { 1 << 31 } else { 0x800 };

bitflags::bitflags! {
    /// Permissions of the allocator for one request. Bits 0 and 1 hold the index of the watermark to respect.
    /// linux: mm/internal.h
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AllocFlags: u32 {
        /// The zone must stay above its low watermark instead of the min one.
        const WMARK_LOW = 0x1;
        /// The zone must stay above its high watermark.
        const WMARK_HIGH = 0x2;
        /// The zone may fall below every watermark.
        const NO_WATERMARKS = 0x4;
        /// The request is on behalf of a task that is being ended.
        const OOM = 0x8;
        /// The caller cannot wait, so the request may use part of the reserve.
        const NON_BLOCK = 0x10;
        /// The request may use half of the min reserve.
        const MIN_RESERVE = MIN_RESERVE;
        /// Zones outside of the cpuset are skipped.
        const CPUSET = 0x40;
        /// The request may use free pages of CMA areas.
        const CMA = 0x80;
        /// The request uses another zone rather than mix types in a pageblock; in defrag mode it reclaims and compacts
        /// before it mixes types.
        const NOFRAGMENT = 0x100;
        /// The request may use the high-atomic reserve, and may grow it.
        const HIGHATOMIC = 0x200;
        /// The request may wake kswapd.
        const KSWAPD = KSWAPD;
        /// All flags that open a part of the reserves.
        const RESERVES = Self::NON_BLOCK.bits() | Self::MIN_RESERVE.bits() | Self::HIGHATOMIC.bits() | Self::OOM.bits();
    }
}

impl AllocFlags {
    /// Returns the index of the watermark to respect: min, low, high, promo. linux: ALLOC_WMARK_MASK
    #[inline]
    pub const fn watermark(self) -> usize {
        (self.bits() & 3) as usize
    }

    /// Returns whether the watermark to respect is the min watermark, which only the slow path uses.
    #[inline]
    pub const fn is_at_min(self) -> bool {
        self.watermark() == 0
    }
}

/// Inputs of the slow path's conversion besides the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct SlowFacts {
    /// Whether the caller is a real-time or deadline task, in task context.
    pub realtime: bool,
    /// Mode that decides whether types are mixed only as a last resort.
    pub defrag_mode: DefragMode,
}

/// Inputs of the no-fragment conversion besides the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct NoFragmentFacts {
    /// Whether the preferred zone is Normal, and there is only one node or the node has a DMA32 zone with memory.
    pub has_other_zone: bool,
    /// Mode that decides whether types are mixed only as a last resort, even without another zone.
    pub defrag_mode: DefragMode,
}

/// Returns the allocation flags of the first, fast attempt.
#[inline]
pub fn fast(policy: FlagsPolicy, gfp: Gfp, migratetype: MigrateType, facts: NoFragmentFacts) -> AllocFlags {
    let nofragment = match policy {
        FlagsPolicy::Coupled => nofragment_coupled(gfp, facts),
        FlagsPolicy::Plain => nofragment_plain(gfp, facts),
    };
    AllocFlags::WMARK_LOW | cma(migratetype) | nofragment
}

/// Returns the allocation flags of the slow path.
#[inline]
pub fn slow(policy: FlagsPolicy, gfp: Gfp, order: Order, migratetype: MigrateType, facts: SlowFacts) -> AllocFlags {
    match policy {
        FlagsPolicy::Coupled => slow_coupled(gfp, order, migratetype, facts),
        FlagsPolicy::Plain => slow_plain(gfp, order, migratetype, facts),
    }
}

cfg_select! {
    // A build that forces *coupled* although the values differ must fail to compile; `cargo xtask ci --only uncoupled`
    // checks this.
    any(not(freehold_uncoupled), freehold_force_coupled) => {
        const _: () = assert!(
            Gfp::HIGH.bits() == AllocFlags::MIN_RESERVE.bits()
                && Gfp::KSWAPD_RECLAIM.bits() == AllocFlags::KSWAPD.bits(),
            "the coupled conversion copies two bits, so their values must coincide"
        );

        /// Converts the flags for the slow path; two bits are copied by mask.
        pub fn slow_coupled(gfp: Gfp, order: Order, migratetype: MigrateType, facts: SlowFacts) -> AllocFlags {
            let copied = gfp & Gfp::HIGH.union(Gfp::KSWAPD_RECLAIM);
            finish_slow(AllocFlags::from_bits_retain(copied.bits()), gfp, order, migratetype, facts)
        }

        /// Converts the no-fragment flags; one bit is copied by mask.
        pub fn nofragment_coupled(gfp: Gfp, facts: NoFragmentFacts) -> AllocFlags {
            let copied = AllocFlags::from_bits_retain((gfp & Gfp::KSWAPD_RECLAIM).bits());
            finish_nofragment(copied, facts)
        }
    }
    _ => {
        pub use {nofragment_plain as nofragment_coupled, slow_plain as slow_coupled};
    }
}

/// Converts the flags for the slow path; two bits are tested.
pub fn slow_plain(gfp: Gfp, order: Order, migratetype: MigrateType, facts: SlowFacts) -> AllocFlags {
    let reserve = only_if(gfp.contains(Gfp::HIGH), AllocFlags::MIN_RESERVE);
    let kswapd = only_if(gfp.contains(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD);
    finish_slow(reserve | kswapd, gfp, order, migratetype, facts)
}

/// Converts the no-fragment flags; one bit is tested.
pub fn nofragment_plain(gfp: Gfp, facts: NoFragmentFacts) -> AllocFlags {
    finish_nofragment(only_if(gfp.contains(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD), facts)
}

/// Returns the flags that a task with access to reserves gets instead; empty if it has none.
pub fn reserve_override(gfp: Gfp, memalloc: Allowance, oom_victim: Allowance) -> AllocFlags {
    if gfp.contains(Gfp::NOMEMALLOC) {
        AllocFlags::empty()
    } else if gfp.contains(Gfp::MEMALLOC) || memalloc == Allowance::Granted {
        AllocFlags::NO_WATERMARKS
    } else {
        only_if(oom_victim == Allowance::Granted, AllocFlags::OOM)
    }
}

/// A special right of a task: granted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Allowance {
    /// The task does not have the right.
    Refused,
    /// The task has the right.
    Granted,
}

impl From<bool> for Allowance {
    fn from(granted: bool) -> Allowance {
        if granted { Allowance::Granted } else { Allowance::Refused }
    }
}

/// Returns HIGHATOMIC if the slow path would grant it by the GFP flags and the order of a request.
#[inline]
pub fn highatomic(gfp: Gfp, order: Order) -> AllocFlags {
    let rushed = gfp.contains(Gfp::HIGH) & !gfp.intersects(Gfp::DIRECT_RECLAIM | Gfp::NOMEMALLOC);
    only_if(rushed & (order > Order::ZERO), AllocFlags::HIGHATOMIC)
}

/// Returns CMA for movable requests, the only ones to which CMA areas are lent.
#[inline]
pub fn cma(migratetype: MigrateType) -> AllocFlags {
    only_if(migratetype == MigrateType::Movable, AllocFlags::CMA)
}

/// Adds the flags that both no-fragment conversions set in the same way.
#[inline]
fn finish_nofragment(converted: AllocFlags, facts: NoFragmentFacts) -> AllocFlags {
    let spares = facts.has_other_zone | (facts.defrag_mode == DefragMode::On);
    converted | only_if(spares, AllocFlags::NOFRAGMENT)
}

/// Adds the flags that both slow conversions set in the same way; `converted` holds the two that differ.
///
/// Each flag has one line. Conditions are joined by `&` and `|` instead of `&&` and `||`, so that the function compiles
/// to code without branches (`freehold disasm flags`).
#[inline]
fn finish_slow(
    converted: AllocFlags,
    gfp: Gfp,
    order: Order,
    migratetype: MigrateType,
    facts: SlowFacts,
) -> AllocFlags {
    let waits = gfp.contains(Gfp::DIRECT_RECLAIM);
    let urgent = converted.contains(AllocFlags::MIN_RESERVE);
    let may_dip = !waits & !gfp.contains(Gfp::NOMEMALLOC);
    converted
        | cma(migratetype)
        | only_if(waits & facts.realtime, AllocFlags::MIN_RESERVE)
        | only_if(waits | !urgent, AllocFlags::CPUSET)
        | only_if(may_dip, AllocFlags::NON_BLOCK)
        | only_if(may_dip & urgent & (order > Order::ZERO), AllocFlags::HIGHATOMIC)
        | only_if(facts.defrag_mode == DefragMode::On, AllocFlags::NOFRAGMENT)
}

#[inline]
fn only_if(condition: bool, flags: AllocFlags) -> AllocFlags {
    if condition { flags } else { AllocFlags::empty() }
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
