//! Flag conversion: from what a request says (GFP flags) to what the allocator may do (allocation flags).
//!
//! Two rivals stand side by side. *Coupled* copies two bits by mask, because [`Gfp::HIGH`] has the value of
//! [`AllocFlags::MIN_RESERVE`] and [`Gfp::KSWAPD_RECLAIM`] that of [`AllocFlags::KSWAPD`]; the compiler
//! checks that they coincide. *Plain* tests the two bits, and does not care. Both give the same flags for every
//! input, whether or not the mode that spares pageblocks ([`DefragMode`]) is on.
//!
//! That nothing else leans on the coincidence is shown by a build that takes it away: `--cfg freehold_uncoupled`
//! gives the two allocation flags values that no GFP flag has. All tests of the crate must pass there as well.
//! *Coupled* does not exist there, since there is nothing to copy; its name stands for *plain*, so that `linux-6.12`
//! can still be chosen.
//!
//! linux: mm/page_alloc.c:gfp_to_alloc_flags, alloc_flags_nofragment, __gfp_pfmemalloc_flags

use super::{DefragMode, FlagsPolicy};
use crate::base::{Gfp, MigrateType, Order};

/// Value of [`AllocFlags::MIN_RESERVE`], in Linux that of [`Gfp::HIGH`].
const MIN_RESERVE: u32 = if cfg!(freehold_uncoupled) { 1 << 30 } else { 0x20 };
/// Value of [`AllocFlags::KSWAPD`], in Linux that of [`Gfp::KSWAPD_RECLAIM`].
const KSWAPD: u32 = if cfg!(freehold_uncoupled) { 1 << 31 } else { 0x800 };

bitflags::bitflags! {
    /// What the allocator may do for one request. Bits 0 and 1 hold the watermark to respect.
    /// linux: mm/internal.h
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AllocFlags: u32 {
        /// Respect the low watermark rather than the min one.
        const WMARK_LOW = 0x1;
        /// The zone must stay above its high watermark.
        const WMARK_HIGH = 0x2;
        /// The zone may fall below every watermark.
        const NO_WATERMARKS = 0x4;
        /// On behalf of a task that is being ended.
        const OOM = 0x8;
        /// The caller cannot wait, so it may use part of the reserve.
        const NON_BLOCK = 0x10;
        /// May use half of the min reserve.
        const MIN_RESERVE = MIN_RESERVE;
        /// Zones outside of the cpuset are skipped.
        const CPUSET = 0x40;
        /// The request may use free pages of CMA areas.
        const CMA = 0x80;
        /// Rather use another zone than mix types in a pageblock; in defrag mode, rather wait.
        const NOFRAGMENT = 0x100;
        /// May use the high-atomic reserve, and may grow it.
        const HIGHATOMIC = 0x200;
        /// The request may wake kswapd.
        const KSWAPD = KSWAPD;
        /// All flags that open a part of the reserves.
        const RESERVES = Self::NON_BLOCK.bits() | Self::MIN_RESERVE.bits() | Self::HIGHATOMIC.bits() | Self::OOM.bits();
    }
}

impl AllocFlags {
    /// The watermark to respect, as an index: min, low, high, promo. linux: ALLOC_WMARK_MASK
    #[inline]
    pub const fn watermark(self) -> usize {
        (self.bits() & 3) as usize
    }

    /// Whether that is the min watermark, as in the slow path only.
    #[inline]
    pub const fn is_at_min(self) -> bool {
        self.watermark() == 0
    }
}

/// What the slow path's conversion needs to know beside the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowFacts {
    /// The caller is a real-time or deadline task, in task context.
    pub realtime: bool,
    /// Whether types are mixed only at last.
    pub defrag_mode: DefragMode,
}

/// What the no-fragment conversion needs to know beside the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFragmentFacts {
    /// The preferred zone is Normal, and either there is one node or the node has a DMA32 zone with memory.
    pub has_other_zone: bool,
    /// Whether types are mixed only at last, other zone or not.
    pub defrag_mode: DefragMode,
}

/// Flags of the first, fast attempt.
#[inline]
pub fn fast(policy: FlagsPolicy, gfp: Gfp, migratetype: MigrateType, facts: NoFragmentFacts) -> AllocFlags {
    let nofragment = match policy {
        FlagsPolicy::Coupled => nofragment_coupled(gfp, facts),
        FlagsPolicy::Plain => nofragment_plain(gfp, facts),
    };
    AllocFlags::WMARK_LOW | cma(migratetype) | nofragment
}

/// Allocation flags of the slow path, by policy.
#[inline]
pub fn slow(policy: FlagsPolicy, gfp: Gfp, order: Order, migratetype: MigrateType, facts: SlowFacts) -> AllocFlags {
    match policy {
        FlagsPolicy::Coupled => slow_coupled(gfp, order, migratetype, facts),
        FlagsPolicy::Plain => slow_plain(gfp, order, migratetype, facts),
    }
}

cfg_select! {
    // A build that insists on copying what does not coincide must fail; `cargo xtask ci --only uncoupled` sees to it.
    any(not(freehold_uncoupled), freehold_force_coupled) => {
        const _: () = assert!(
            Gfp::HIGH.bits() == AllocFlags::MIN_RESERVE.bits()
                && Gfp::KSWAPD_RECLAIM.bits() == AllocFlags::KSWAPD.bits(),
            "the coupled conversion copies two bits: their values must coincide"
        );

        /// The slow path's conversion, two bits copied by mask.
        pub fn slow_coupled(gfp: Gfp, order: Order, migratetype: MigrateType, facts: SlowFacts) -> AllocFlags {
            let copied = gfp & Gfp::HIGH.union(Gfp::KSWAPD_RECLAIM);
            finish_slow(AllocFlags::from_bits_retain(copied.bits()), gfp, order, migratetype, facts)
        }

        /// The no-fragment conversion, one bit copied by mask.
        pub fn nofragment_coupled(gfp: Gfp, facts: NoFragmentFacts) -> AllocFlags {
            let copied = AllocFlags::from_bits_retain((gfp & Gfp::KSWAPD_RECLAIM).bits());
            finish_nofragment(copied, facts)
        }
    }
    _ => {
        pub use {nofragment_plain as nofragment_coupled, slow_plain as slow_coupled};
    }
}

/// The slow path's conversion, two bits tested.
pub fn slow_plain(gfp: Gfp, order: Order, migratetype: MigrateType, facts: SlowFacts) -> AllocFlags {
    let reserve = only_if(gfp.contains(Gfp::HIGH), AllocFlags::MIN_RESERVE);
    let kswapd = only_if(gfp.contains(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD);
    finish_slow(reserve | kswapd, gfp, order, migratetype, facts)
}

/// The no-fragment conversion, one bit tested.
pub fn nofragment_plain(gfp: Gfp, facts: NoFragmentFacts) -> AllocFlags {
    finish_nofragment(only_if(gfp.contains(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD), facts)
}

/// What a task that is allowed to use reserves gets instead; empty if it gets nothing.
pub fn reserve_override(gfp: Gfp, memalloc: Allowance, oom_victim: Allowance) -> AllocFlags {
    if gfp.contains(Gfp::NOMEMALLOC) {
        AllocFlags::empty()
    } else if gfp.contains(Gfp::MEMALLOC) || memalloc == Allowance::Granted {
        AllocFlags::NO_WATERMARKS
    } else {
        only_if(oom_victim == Allowance::Granted, AllocFlags::OOM)
    }
}

/// Whether a task has a special right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The task has no such right.
    Refused,
    /// The task has the right.
    Granted,
}

impl From<bool> for Allowance {
    fn from(granted: bool) -> Allowance {
        if granted { Allowance::Granted } else { Allowance::Refused }
    }
}

/// The claim on the high-atomic reserve that the slow path would find in a request's own flags.
#[inline]
pub fn highatomic(gfp: Gfp, order: Order) -> AllocFlags {
    let rushed = gfp.contains(Gfp::HIGH) & !gfp.intersects(Gfp::DIRECT_RECLAIM | Gfp::NOMEMALLOC);
    only_if(rushed & (order > Order::ZERO), AllocFlags::HIGHATOMIC)
}

/// CMA areas are lent to movable requests only.
#[inline]
pub fn cma(migratetype: MigrateType) -> AllocFlags {
    only_if(migratetype == MigrateType::Movable, AllocFlags::CMA)
}

/// What both no-fragment conversions have in common.
#[inline]
fn finish_nofragment(converted: AllocFlags, facts: NoFragmentFacts) -> AllocFlags {
    let spares = facts.has_other_zone | (facts.defrag_mode == DefragMode::On);
    converted | only_if(spares, AllocFlags::NOFRAGMENT)
}

/// What both slow conversions have in common; `converted` holds the flags that each makes in its own way.
///
/// One line a flag. Conditions are joined by `&` and `|` where `&&` and `||` would also do: as they are, the whole
/// compiles without a branch (`freehold disasm flags`).
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
