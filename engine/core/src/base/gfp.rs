//! GFP flags: what a request asks for and what the allocator may do to satisfy it.
//!
//! Bits and masks have Linux's values up to bit 23; higher bits depend on the kernel's configuration and
//! are decoded by name by a reader of a trace. linux: include/linux/gfp_types.h

use super::{MigrateType, ZoneKind};

bitflags::bitflags! {
    /// What a request says about itself, as a set of flags.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Gfp: u32 {
        /// Zone modifier: from the DMA zone only.
        const DMA = 0x1;
        /// Zone modifier: memory the kernel does not map for ever.
        const HIGHMEM = 0x2;
        /// Zone modifier: from DMA32 and below.
        const DMA32 = 0x4;
        /// The page can be migrated or reclaimed; with [`Gfp::HIGHMEM`] also a zone modifier.
        const MOVABLE = 0x8;
        /// The page is dropped by a shrinker.
        const RECLAIMABLE = 0x10;
        /// High priority: may dip into the reserve.
        const HIGH = 0x20;
        /// The request may start physical I/O.
        const IO = 0x40;
        /// The request may call into a file system.
        const FS = 0x80;
        /// Hand out zeroed memory. (The engine never touches page contents: the caller's duty.)
        const ZERO = 0x100;
        /// May reclaim directly, and so sleep.
        const DIRECT_RECLAIM = 0x400;
        /// Wake kswapd when the low watermark is reached.
        const KSWAPD_RECLAIM = 0x800;
        /// The caller means to dirty the page.
        const WRITE = 0x1000;
        /// The platform prints no message if the request fails.
        const NOWARN = 0x2000;
        /// Try hard, but fail in the end.
        const RETRY_MAYFAIL = 0x4000;
        /// The request must not fail: it tries for as long as the platform waits.
        const NOFAIL = 0x8000;
        /// Give up after the first round.
        const NORETRY = 0x10000;
        /// The request may use all reserves.
        const MEMALLOC = 0x20000;
        /// The block is compound: freed whole, by its head.
        const COMP = 0x40000;
        /// The request may use no emergency reserve, whatever its task may.
        const NOMEMALLOC = 0x80000;
        /// The request keeps to its cpuset's nodes.
        const HARDWALL = 0x100000;
        /// The request takes memory of the named node only.
        const THISNODE = 0x200000;
        /// Account to the memory control group.
        const ACCOUNT = 0x400000;
        /// Memory tags are zeroed along with the memory.
        const ZEROTAGS = 0x800000;

        /// Both kinds of reclaim: the request's own, and kswapd's.
        const RECLAIM = Self::DIRECT_RECLAIM.bits() | Self::KSWAPD_RECLAIM.bits();
        /// Cannot sleep, may dip into the reserve.
        const ATOMIC = Self::HIGH.bits() | Self::KSWAPD_RECLAIM.bits();
        /// Ordinary kernel memory: may sleep, reclaim, and start I/O.
        const KERNEL = Self::RECLAIM.bits() | Self::IO.bits() | Self::FS.bits();
        /// Kernel memory charged to a control group.
        const KERNEL_ACCOUNT = Self::KERNEL.bits() | Self::ACCOUNT.bits();
        /// For callers that cannot sleep, without access to reserves.
        const NOWAIT = Self::KSWAPD_RECLAIM.bits() | Self::NOWARN.bits();
        /// May reclaim, but start no I/O.
        const NOIO = Self::RECLAIM.bits();
        /// May reclaim, but call no file system.
        const NOFS = Self::RECLAIM.bits() | Self::IO.bits();
        /// Memory for user space that the kernel maps too.
        const USER = Self::KERNEL.bits() | Self::HARDWALL.bits();
        /// Memory for user space, from any zone but Movable.
        const HIGHUSER = Self::USER.bits() | Self::HIGHMEM.bits();
        /// Memory for user space that can move.
        const HIGHUSER_MOVABLE = Self::HIGHUSER.bits() | Self::MOVABLE.bits();
        /// A transparent huge page, without any reclaim.
        const TRANSHUGE_LIGHT = (Self::HIGHUSER_MOVABLE.bits() | Self::COMP.bits()
            | Self::NOMEMALLOC.bits() | Self::NOWARN.bits()) & !Self::RECLAIM.bits();
        /// A transparent huge page, with direct reclaim.
        const TRANSHUGE = Self::TRANSHUGE_LIGHT.bits() | Self::DIRECT_RECLAIM.bits();

        // Recordings carry bits of other kernels too.
        const _ = !0;
    }
}

impl Gfp {
    /// The migratetype the request asks for; `None` where both mobility bits are set, which is illegal.
    /// linux: include/linux/gfp.h:gfp_migratetype
    #[inline]
    pub const fn migratetype(self) -> Option<MigrateType> {
        let mobility = (self.bits() >> 3 & 3) as usize;
        if mobility < MigrateType::PCP_COUNT { Some(MigrateType::from_index(mobility)) } else { None }
    }

    /// The highest zone the request may use; `None` where the zone modifiers contradict each other.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_linux_values() {
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
    fn contradictions_are_refused() {
        assert_eq!((Gfp::MOVABLE | Gfp::RECLAIMABLE).migratetype(), None);
        assert_eq!((Gfp::DMA | Gfp::DMA32).highest_zone(), None);
        assert_eq!(Gfp::HIGHUSER_MOVABLE.highest_zone(), Some(ZoneKind::Movable));
        assert_eq!(Gfp::KERNEL.migratetype(), Some(MigrateType::Unmovable));
    }

    #[test]
    fn the_lowest_four_bits_say_which_zones_and_two_of_them_which_type() {
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
}
