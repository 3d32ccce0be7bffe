//! GFP flags of a request: the memory that it needs, and the means that the allocator may use to find it.
//!
//! Bits and masks have Linux's values up to bit 23. Higher bits depend on the kernel's configuration; the trace reader
//! decodes them by name. linux: include/linux/gfp_types.h

use super::{MigrateType, ZoneKind};

bitflags::bitflags! {
    /// Flags of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Gfp: u32 {
        /// Zone modifier: only zone DMA.
        const DMA = 0x1;
        /// Zone modifier: memory without a permanent kernel mapping is acceptable.
        const HIGHMEM = 0x2;
        /// Zone modifier: zone DMA32 and below.
        const DMA32 = 0x4;
        /// The page can be migrated or reclaimed; with [`Gfp::HIGHMEM`] also a zone modifier.
        const MOVABLE = 0x8;
        /// The page can be freed by a shrinker.
        const RECLAIMABLE = 0x10;
        /// High priority: the request may use part of the reserve.
        const HIGH = 0x20;
        /// The request may start physical I/O.
        const IO = 0x40;
        /// The request may call into a file system.
        const FS = 0x80;
        /// The memory is zeroed. The engine never touches page contents, so this is the caller's duty.
        const ZERO = 0x100;
        /// The request may reclaim directly, and therefore sleep.
        const DIRECT_RECLAIM = 0x400;
        /// The request wakes kswapd when free pages fall below the low watermark.
        const KSWAPD_RECLAIM = 0x800;
        /// The caller is going to dirty the page.
        const WRITE = 0x1000;
        /// The platform logs no message if the request fails.
        const NOWARN = 0x2000;
        /// The request retries reclaim and compaction, but may fail eventually.
        const RETRY_MAYFAIL = 0x4000;
        /// The request must not fail: with direct reclaim it retries for as long as the platform waits.
        const NOFAIL = 0x8000;
        /// The request fails after the first round of reclaim and compaction.
        const NORETRY = 0x10000;
        /// The request may use all reserves.
        const MEMALLOC = 0x20000;
        /// The block is compound: it is freed as a whole, by its head.
        const COMP = 0x40000;
        /// The request may use no emergency reserve, even if its task may.
        const NOMEMALLOC = 0x80000;
        /// The request is restricted to its cpuset's nodes.
        const HARDWALL = 0x100000;
        /// The request takes memory of the given node only.
        const THISNODE = 0x200000;
        /// The memory is charged to the memory control group.
        const ACCOUNT = 0x400000;
        /// Memory tags are zeroed together with the memory.
        const ZEROTAGS = 0x800000;

        /// Both kinds of reclaim: direct reclaim and kswapd.
        const RECLAIM = Self::DIRECT_RECLAIM.bits() | Self::KSWAPD_RECLAIM.bits();
        /// For callers that cannot sleep; the request may use part of the reserve.
        const ATOMIC = Self::HIGH.bits() | Self::KSWAPD_RECLAIM.bits();
        /// Ordinary kernel memory: the request may sleep, reclaim, and start I/O.
        const KERNEL = Self::RECLAIM.bits() | Self::IO.bits() | Self::FS.bits();
        /// Kernel memory that is charged to a control group.
        const KERNEL_ACCOUNT = Self::KERNEL.bits() | Self::ACCOUNT.bits();
        /// For callers that cannot sleep, without access to reserves.
        const NOWAIT = Self::KSWAPD_RECLAIM.bits() | Self::NOWARN.bits();
        /// The request may reclaim but not start I/O.
        const NOIO = Self::RECLAIM.bits();
        /// The request may reclaim but not call into a file system.
        const NOFS = Self::RECLAIM.bits() | Self::IO.bits();
        /// User memory that the kernel also maps.
        const USER = Self::KERNEL.bits() | Self::HARDWALL.bits();
        /// User memory from any zone except Movable.
        const HIGHUSER = Self::USER.bits() | Self::HIGHMEM.bits();
        /// User memory that can move.
        const HIGHUSER_MOVABLE = Self::HIGHUSER.bits() | Self::MOVABLE.bits();
        /// A transparent huge page, without any reclaim.
        const TRANSHUGE_LIGHT = (Self::HIGHUSER_MOVABLE.bits() | Self::COMP.bits()
            | Self::NOMEMALLOC.bits() | Self::NOWARN.bits()) & !Self::RECLAIM.bits();
        /// A transparent huge page, with direct reclaim.
        const TRANSHUGE = Self::TRANSHUGE_LIGHT.bits() | Self::DIRECT_RECLAIM.bits();

        // Recordings also contain flags of other kernels, so all bits are accepted.
        const _ = !0;
    }
}

impl Gfp {
    /// Returns the migratetype of the request; `None` if both mobility bits are set, which is illegal.
    /// linux: include/linux/gfp.h:gfp_migratetype
    #[inline]
    pub const fn migratetype(self) -> Option<MigrateType> {
        let mobility = (self.bits() >> 3 & 3) as usize;
        if mobility < MigrateType::PCP_COUNT { Some(MigrateType::from_index(mobility)) } else { None }
    }

    /// Returns the highest zone that the request may use; `None` if the zone modifiers contradict each other.
    /// linux: include/linux/gfp.h:gfp_zone
    #[inline]
    pub const fn highest_zone(self) -> Option<ZoneKind> {
        match self.bits() & 0xf {
            0x0 | 0x2 | 0x8 => Some(ZoneKind::Normal),
            0x1 | 0x9 => Some(ZoneKind::Dma),
            0x4 | 0xc => Some(ZoneKind::Dma32),
            0xa => Some(ZoneKind::Movable),
            _ => None,
        }
    }

    /// Returns the migratetype and the highest zone of the request; `None` if one of them is contradictory. Costs one
    /// load, since the five lowest bits determine both.
    #[inline]
    pub(crate) fn migratetype_and_zone(self) -> Option<(MigrateType, ZoneKind)> {
        TARGETS[(self.bits() & 0x1f) as usize]
    }
}

/// Result of [`Gfp::migratetype_and_zone`] for each value of the five lowest bits.
static TARGETS: [Option<(MigrateType, ZoneKind)>; 32] = {
    let mut targets = [None; 32];
    let mut bits = 0;
    while bits < targets.len() {
        let gfp = Gfp::from_bits_retain(bits as u32);
        if let (Some(migratetype), Some(zone)) = (gfp.migratetype(), gfp.highest_zone()) {
            targets[bits] = Some((migratetype, zone));
        }
        bits += 1;
    }
    targets
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gfp_masks_have_linux_values() {
        let pinned: [(Gfp, u32); 10] = [
            (Gfp::ATOMIC, 0x820),
            (Gfp::NOWAIT, 0x2800),
            (Gfp::KERNEL, 0xcc0),
            (Gfp::NOIO, 0xc00),
            (Gfp::NOFS, 0xc40),
            (Gfp::USER, 0x10_0cc0),
            (Gfp::HIGHUSER, 0x10_0cc2),
            (Gfp::HIGHUSER_MOVABLE, 0x10_0cca),
            (Gfp::TRANSHUGE_LIGHT, 0x1c_20ca),
            (Gfp::TRANSHUGE, 0x1c_24ca),
        ];
        for (mask, value) in pinned {
            assert_eq!(mask.bits(), value, "{mask:?}");
        }
    }

    #[test]
    fn contradictory_gfp_flags_have_no_type_or_zone() {
        assert_eq!((Gfp::MOVABLE | Gfp::RECLAIMABLE).migratetype(), None);
        assert_eq!((Gfp::DMA | Gfp::DMA32).highest_zone(), None);
        assert_eq!(Gfp::HIGHUSER_MOVABLE.highest_zone(), Some(ZoneKind::Movable));
        assert_eq!(Gfp::KERNEL.migratetype(), Some(MigrateType::Unmovable));
    }

    #[test]
    fn low_gfp_bits_select_zone_and_migratetype() {
        use MigrateType::{Movable as M, Reclaimable as R, Unmovable as U};
        use ZoneKind::{Dma, Dma32, Movable, Normal};
        let zones = [Some(Normal), Some(Dma), Some(Normal), None, Some(Dma32), None, None, None];
        let movable = [Some(Normal), Some(Dma), Some(Movable), None, Some(Dma32), None, None, None];
        for (bits, highest) in (0..).zip(zones.into_iter().chain(movable)) {
            assert_eq!(Gfp::from_bits_retain(bits).highest_zone(), highest, "{bits:#x}");
        }
        assert_eq!(
            [0, 8, 16, 24, 7, 32].map(|bits| Gfp::from_bits_retain(bits).migratetype()),
            [Some(U), Some(M), Some(R), None, Some(U), Some(U)]
        );
    }

    #[test]
    fn table_of_targets_matches_migratetype_and_highest_zone() {
        for bits in 0..0x20_u32 {
            for higher in
                (5..32).map(|bit| 1 << bit).chain([0, !0x1f, Gfp::KERNEL.bits(), Gfp::TRANSHUGE.bits() & !0x1f])
            {
                let gfp = Gfp::from_bits_retain(bits | higher);
                let expected = gfp.migratetype().zip(gfp.highest_zone());
                assert_eq!(gfp.migratetype_and_zone(), expected, "{:#x}", gfp.bits());
            }
        }
    }
}
