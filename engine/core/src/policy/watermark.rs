//! Watermarks: the pages that a zone keeps free, and the requests that may use them.

use super::flags::AllocFlags;
use crate::base::ZoneKind;

/// Default distance between watermarks, in 1/10000 of the zone.
pub const SCALE_FACTOR: u32 = 10;
/// Default limit of the boost, in 1/10000 of the high watermark.
pub const BOOST_FACTOR: u32 = 15_000;
/// Divisors of the lowmem reserve: 1/ratio of the higher zones' pages is kept from requests that could use those zones.
/// With 0 nothing is kept.
pub const LOWMEM_RESERVE_RATIO: [u64; ZoneKind::COUNT] = [256, 256, 32, 0];

/// Returns the pages that a zone of `managed` pages keeps from requests that could use `above` pages of higher zones.
/// linux: mm/page_alloc.c:setup_per_zone_lowmem_reserve
pub const fn lowmem_reserve(managed: u64, above: u64, ratio: u64) -> u64 {
    if ratio == 0 || managed == 0 { 0 } else { above / ratio }
}

/// Watermarks of a zone, in pages, without boost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Number of free pages below which only reserves are left.
    pub min: u64,
    /// Number of free pages below which kswapd is woken.
    pub low: u64,
    /// Number of free pages at which kswapd stops.
    pub high: u64,
    /// Number of free pages at which memory tiering stops promotion.
    pub promo: u64,
}

impl Watermarks {
    /// Returns the marks with the values of `/proc/zoneinfo`; the promo mark continues their spacing.
    pub const fn given(min: u64, low: u64, high: u64) -> Watermarks {
        Watermarks { min, low, high, promo: high + high.saturating_sub(low) }
    }

    /// Returns the marks of a zone of `managed` pages, where `min_pages` of all `lowmem` pages are to be kept free: the
    /// zone's share of them, or for a Movable zone 1/1024 of the zone, from 32 to 128 pages.
    pub fn compute(kind: ZoneKind, managed: u64, min_pages: u64, lowmem: u64, scale_factor: u32) -> Watermarks {
        // The product does not fit only if more pages are to be kept free than there are frame numbers.
        let share = min_pages.saturating_mul(managed) / lowmem.max(1);
        let min = if kind == ZoneKind::Movable { (managed / 1024).clamp(32, 128) } else { share };
        let gap = (share / 4).max(managed * u64::from(scale_factor) / 10_000);
        Watermarks { min, low: min + gap, high: min + 2 * gap, promo: min + 3 * gap }
    }
}

/// Returns the pages to keep free on a machine with `lowmem` pages in its zones up to Normal: in KiB, the square root
/// of sixteen times that memory, from 128 KiB to 256 MiB.
pub fn min_free_pages(lowmem: u64, page_size: u32) -> u64 {
    let kib = u64::from(page_size) / 1024;
    root_up_to(16 * lowmem * kib, 262_144).max(128) / kib.max(1)
}

/// Returns the square root, rounded down, or the power of two `most` if the root is larger. Smaller code than
/// `u64::isqrt`, which is made for speed.
fn root_up_to(square: u64, most: u64) -> u64 {
    let (mut root, mut bit) = (0, most);
    while bit > 0 && root < most {
        let more: u64 = root | bit;
        if more * more <= square {
            root = more;
        }
        bit /= 2;
    }
    root
}

/// Returns the pages to keep free so that huge pages stay available, on a machine with this number of zones up to
/// Normal in use.
pub fn recommended_pages(zones: u64, pageblock_pages: u64, lowmem: u64) -> u64 {
    const PCP_TYPES: u64 = 3;
    (pageblock_pages * zones * (2 + PCP_TYPES * PCP_TYPES)).min(lowmem / 20)
}

/// Inputs of the check of a watermark.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Level {
    /// Free pages of the zone, by its counter.
    pub free: i64,
    /// Free pages of the high-atomic reserve among them.
    pub free_highatomic: i64,
    /// Free pages of CMA areas among them.
    pub free_cma: i64,
    /// Pages kept from this request because it could use higher zones.
    pub lowmem_reserve: u64,
}

impl Level {
    /// Returns the number of free pages that a request with these flags cannot use, plus the pages of its block but
    /// one.
    #[inline]
    pub fn unusable(&self, flags: AllocFlags, order_pages: u32) -> i64 {
        let mut unusable = i64::from(order_pages) - 1;
        if !flags.intersects(AllocFlags::RESERVES) {
            unusable += self.free_highatomic;
        }
        if !flags.contains(AllocFlags::CMA) {
            unusable += self.free_cma;
        }
        unusable
    }

    /// Returns whether enough pages above `mark` are free for a request with these flags, regardless of the sizes of
    /// the free blocks.
    #[inline]
    pub fn is_above(&self, mark: u64, flags: AllocFlags, order_pages: u32) -> bool {
        let free = self.free - self.unusable(flags, order_pages);
        free > (lowered(mark, flags) + self.lowmem_reserve) as i64
    }
}

/// Returns the mark, lowered for requests that may use part of the reserve: to 1/2, or to 3/8 if they also cannot wait.
/// On behalf of a task that is being ended the result is halved again.
#[inline]
fn lowered(mut mark: u64, flags: AllocFlags) -> u64 {
    if flags.contains(AllocFlags::MIN_RESERVE) {
        mark -= mark / 2;
        if flags.contains(AllocFlags::NON_BLOCK) {
            mark -= mark / 4;
        }
    }
    if flags.contains(AllocFlags::OOM) {
        mark -= mark / 2;
    }
    mark
}

/// Returns the boost after another mix of types in a zone. `None` if the zone is too small, has no watermarks yet, or
/// boosting is off.
pub fn boosted(boost: u64, high: u64, factor: u32, managed: u64, pageblock_pages: u64) -> Option<u64> {
    let most = high * u64::from(factor) / 10_000;
    if most == 0 || pageblock_pages * 4 > managed {
        return None;
    }
    Some((boost + pageblock_pages).min(most.max(pageblock_pages)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_flags_lower_the_mark() {
        let flags = AllocFlags::MIN_RESERVE;
        assert_eq!(lowered(1000, flags), 500);
        assert_eq!(lowered(1000, flags | AllocFlags::NON_BLOCK), 375);
        assert_eq!(lowered(1000, AllocFlags::NON_BLOCK), 1000);
        assert_eq!(lowered(1000, AllocFlags::OOM), 500);
        assert_eq!(lowered(1000, flags | AllocFlags::OOM), 250);
        assert_eq!(lowered(1001, flags | AllocFlags::NON_BLOCK), 376);
    }

    #[test]
    fn watermarks_of_a_small_machine_match_linux() {
        // 1 GiB in one zone, default settings: isqrt(16 x 1 GiB in kB) kB.
        let pages = min_free_pages(262_144, 4096);
        assert_eq!(pages, 1024);
        let marks = Watermarks::compute(ZoneKind::Normal, 262_144, pages, 262_144, SCALE_FACTOR);
        assert_eq!(marks, Watermarks { min: 1024, low: 1286, high: 1548, promo: 1810 });
    }

    #[test]
    fn boost_grows_by_pageblocks_up_to_its_cap() {
        assert_eq!(boosted(0, 3000, BOOST_FACTOR, 100_000, 512), Some(512));
        assert_eq!(boosted(4400, 3000, BOOST_FACTOR, 100_000, 512), Some(4500));
        assert_eq!(boosted(0, 10, BOOST_FACTOR, 2000, 512), None, "too small");
        assert_eq!(boosted(0, 3000, 0, 100_000, 512), None, "switched off");
        assert_eq!(boosted(0, 0, BOOST_FACTOR, 100_000, 512), None, "no watermarks yet");
    }

    #[test]
    fn movable_zone_min_is_a_1024th_between_32_and_128() {
        assert_eq!(movable_marks(1 << 14).min, 32, "1/1024 is 16");
        assert_eq!(movable_marks(1 << 16), Watermarks { min: 64, low: 129, high: 194, promo: 259 });
        assert_eq!(movable_marks(1 << 20).min, 128, "1/1024 is 1024");
        let of_share = Watermarks::compute(ZoneKind::Movable, 1 << 16, 4000, 1 << 17, SCALE_FACTOR);
        assert_eq!((of_share.min, of_share.low), (64, 564), "the distance is a quarter of its proportional share");
    }

    fn movable_marks(managed: u64) -> Watermarks {
        Watermarks::compute(ZoneKind::Movable, managed, 0, 1 << 20, SCALE_FACTOR)
    }

    #[test]
    fn promo_extends_given_marks_by_their_distance() {
        assert_eq!(Watermarks::given(100, 130, 150), Watermarks { min: 100, low: 130, high: 150, promo: 170 });
        assert_eq!(Watermarks::given(0, 20, 10).promo, 10);
    }

    #[test]
    fn min_free_has_bounds_in_bytes() {
        assert_eq!(min_free_pages(100, 4096), 128 / 4, "128 KiB at least");
        assert_eq!(min_free_pages(1 << 40, 4096), 262_144 / 4, "256 MiB at most");
        assert_eq!(min_free_pages(1 << 14, 65_536), 4096 / 64, "a gibibyte in larger pages");
        assert_eq!(min_free_pages(1 << 40, 512), 128, "pages of less than a KiB count as such");
    }

    #[test]
    fn huge_page_min_free_is_capped_at_a_twentieth() {
        assert_eq!(recommended_pages(2, 512, 1 << 20), 2 * 512 * 11);
        assert_eq!(recommended_pages(2, 512, 100_000), 5000);
    }

    #[test]
    fn unusable_pages_do_not_count_above_the_mark() {
        let level = Level { free: 1000, free_highatomic: 100, free_cma: 10, lowmem_reserve: 1 };
        let none = AllocFlags::empty();
        let ordinary = [(none, 1, 890), (none, 8, 883), (AllocFlags::CMA, 1, 900), (AllocFlags::CMA, 2, 899)];
        let rushed = [AllocFlags::OOM, AllocFlags::NON_BLOCK, AllocFlags::MIN_RESERVE, AllocFlags::HIGHATOMIC];
        for (flags, pages, usable) in ordinary.into_iter().chain(rushed.map(|flags| (flags, 1, 990))) {
            assert_eq!(level.free - level.unusable(flags, pages), usable, "{pages} pages with {flags:?}");
        }
        assert!(level.is_above(888, none, 1) && !level.is_above(889, none, 1), "the lowmem reserve is kept too");
        assert!(
            level.is_above(881, none, 8) && !level.is_above(882, none, 8),
            "all pages of the block except the last count as used"
        );
    }

    #[test]
    fn boost_needs_a_zone_of_four_pageblocks() {
        assert_eq!(boosted(0, 3000, BOOST_FACTOR, 2048, 512), Some(512));
        assert_eq!(boosted(0, 3000, BOOST_FACTOR, 2047, 512), None);
        assert_eq!(boosted(512, 100, BOOST_FACTOR, 2048, 512), Some(512), "at least a pageblock, even above the cap");
        assert_eq!(boosted(0, 1, 10_000, 2048, 512), Some(512), "a cap of one page counts");
    }
}
