//! Flag conversion: from what a request says (GFP flags) to what the allocator may do (allocation flags).
//!
//! Two rivals stand side by side. *Coupled* copies two bits by mask, because [`Gfp::HIGH`] has the value of
//! [`AllocFlags::MIN_RESERVE`] and [`Gfp::KSWAPD_RECLAIM`] that of [`AllocFlags::KSWAPD`]; the compiler
//! checks that they coincide. *Plain* tests the two bits, and does not care. Both give the same flags for every
//! input.
//!
//! linux: mm/page_alloc.c:gfp_to_alloc_flags, alloc_flags_nofragment, __gfp_pfmemalloc_flags

use super::FlagsPolicy;
use crate::base::{Gfp, MigrateType, Order};

bitflags::bitflags! {
    /// What the allocator may do for one request. Bits 0 and 1 hold the watermark to respect.
    /// linux: mm/internal.h
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AllocFlags: u32 {
        /// Respect the low watermark rather than the min one.
        const WMARK_LOW = 0x1;
        /// Respect the high watermark.
        const WMARK_HIGH = 0x2;
        /// Respect no watermark.
        const NO_WATERMARKS = 0x4;
        /// On behalf of a task that is being ended.
        const OOM = 0x8;
        /// The caller cannot wait.
        const NON_BLOCK = 0x10;
        /// May use half of the min reserve.
        const MIN_RESERVE = 0x20;
        /// Respect the cpuset.
        const CPUSET = 0x40;
        /// May use CMA areas.
        const CMA = 0x80;
        /// Rather use another zone than mix types in a pageblock.
        const NOFRAGMENT = 0x100;
        /// May use the high-atomic reserve, and grows it.
        const HIGHATOMIC = 0x200;
        /// May wake kswapd.
        const KSWAPD = 0x800;
        /// Any claim on the reserves.
        const RESERVES = Self::NON_BLOCK.bits() | Self::MIN_RESERVE.bits() | Self::HIGHATOMIC.bits() | Self::OOM.bits();
    }
}

impl AllocFlags {
    /// The watermark to respect, as an index: min, low, high, promo. linux: ALLOC_WMARK_MASK
    #[inline]
    pub const fn watermark(self) -> usize {
        (self.bits() & 3) as usize
    }
}

/// What the slow path's conversion needs to know about the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// A real-time or deadline task, in task context.
    pub realtime: bool,
}

/// What the no-fragment conversion needs to know about the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFragmentFacts {
    /// The preferred zone is Normal, and either there is one node or the node has a DMA32 zone with memory.
    pub has_other_zone: bool,
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

/// Flags of the slow path.
#[inline]
pub fn slow(policy: FlagsPolicy, gfp: Gfp, order: Order, migratetype: MigrateType, caller: Caller) -> AllocFlags {
    match policy {
        FlagsPolicy::Coupled => slow_coupled(gfp, order, migratetype, caller),
        FlagsPolicy::Plain => slow_plain(gfp, order, migratetype, caller),
    }
}

const _: () = assert!(
    Gfp::HIGH.bits() == AllocFlags::MIN_RESERVE.bits() && Gfp::KSWAPD_RECLAIM.bits() == AllocFlags::KSWAPD.bits(),
    "the coupled conversion copies these bits: their values must coincide"
);

/// The slow path's conversion, two bits copied by mask.
pub fn slow_coupled(gfp: Gfp, order: Order, migratetype: MigrateType, caller: Caller) -> AllocFlags {
    let copied = gfp & Gfp::HIGH.union(Gfp::KSWAPD_RECLAIM);
    finish_slow(AllocFlags::from_bits_retain(copied.bits()), gfp, order, migratetype, caller)
}

/// The slow path's conversion, two bits tested.
pub fn slow_plain(gfp: Gfp, order: Order, migratetype: MigrateType, caller: Caller) -> AllocFlags {
    let reserve = only_if(gfp.contains(Gfp::HIGH), AllocFlags::MIN_RESERVE);
    let kswapd = only_if(gfp.contains(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD);
    finish_slow(reserve | kswapd, gfp, order, migratetype, caller)
}

/// The no-fragment conversion, one bit copied by mask.
pub fn nofragment_coupled(gfp: Gfp, facts: NoFragmentFacts) -> AllocFlags {
    let copied = AllocFlags::from_bits_retain((gfp & Gfp::KSWAPD_RECLAIM).bits());
    copied | only_if(facts.has_other_zone, AllocFlags::NOFRAGMENT)
}

/// The no-fragment conversion, one bit tested.
pub fn nofragment_plain(gfp: Gfp, facts: NoFragmentFacts) -> AllocFlags {
    only_if(gfp.contains(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD)
        | only_if(facts.has_other_zone, AllocFlags::NOFRAGMENT)
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
    /// It has not.
    Refused,
    /// It has.
    Granted,
}

impl From<bool> for Allowance {
    fn from(granted: bool) -> Allowance {
        if granted { Allowance::Granted } else { Allowance::Refused }
    }
}

/// CMA areas are lent to movable requests only.
#[inline]
pub fn cma(migratetype: MigrateType) -> AllocFlags {
    only_if(migratetype == MigrateType::Movable, AllocFlags::CMA)
}

#[inline]
fn finish_slow(converted: AllocFlags, gfp: Gfp, order: Order, migratetype: MigrateType, caller: Caller) -> AllocFlags {
    let mut flags = converted | AllocFlags::CPUSET | cma(migratetype);
    let reserve = flags.contains(AllocFlags::MIN_RESERVE);
    if gfp.contains(Gfp::DIRECT_RECLAIM) {
        return flags | only_if(caller.realtime, AllocFlags::MIN_RESERVE);
    }
    if !gfp.contains(Gfp::NOMEMALLOC) {
        flags |= AllocFlags::NON_BLOCK | only_if(order > Order::ZERO && reserve, AllocFlags::HIGHATOMIC);
    }
    if reserve { flags - AllocFlags::CPUSET } else { flags }
}

#[inline]
fn only_if(condition: bool, flags: AllocFlags) -> AllocFlags {
    if condition { flags } else { AllocFlags::empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of the bits that either conversion looks at, and of a few it must ignore.
    #[test]
    fn both_conversions_agree_on_every_meaningful_input() {
        let bits = [
            Gfp::HIGH,
            Gfp::KSWAPD_RECLAIM,
            Gfp::DIRECT_RECLAIM,
            Gfp::NOMEMALLOC,
            Gfp::MEMALLOC,
            Gfp::IO,
            Gfp::COMP,
            Gfp::NOWARN,
        ];
        for set in 0..1_u32 << bits.len() {
            let chosen = bits.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
            let gfp = chosen.fold(Gfp::empty(), |gfp, (_, &flag)| gfp | flag);
            for order in Order::all() {
                for migratetype in [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable] {
                    for yes in [false, true] {
                        let caller = Caller { realtime: yes };
                        assert_eq!(
                            slow_coupled(gfp, order, migratetype, caller),
                            slow_plain(gfp, order, migratetype, caller)
                        );
                        let facts = NoFragmentFacts { has_other_zone: yes };
                        assert_eq!(nofragment_coupled(gfp, facts), nofragment_plain(gfp, facts));
                    }
                }
            }
        }
    }

    #[test]
    fn atomic_requests_get_what_linux_gives_them() {
        let caller = Caller { realtime: false };
        let flags = slow_plain(Gfp::ATOMIC, Order::new(1), MigrateType::Unmovable, caller);
        let expected = AllocFlags::MIN_RESERVE | AllocFlags::KSWAPD | AllocFlags::NON_BLOCK | AllocFlags::HIGHATOMIC;
        assert_eq!(flags, expected);
        assert!(!slow_plain(Gfp::ATOMIC, Order::ZERO, MigrateType::Unmovable, caller).contains(AllocFlags::HIGHATOMIC));
    }
}
