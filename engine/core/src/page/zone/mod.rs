//! A zone: a span of frames with its free lists, its counters and its watermarks.
//!
//! Counters of free pages are written under the zone lock, those of present and managed pages under the hotplug lock;
//! all are read anywhere. A read without the lock (the watermark check, `/proc` texts) may be slightly outdated.
//! Watermarks are written when they are computed again. Flags are hints that any code may set or clear.
//!
//! Operations under a zone's lock are methods of [`LockedZone`], all in this folder except those of `page/isolation`.
//! Operations without the lock are methods of [`Zone`]. The folder depends on `base`, `policy` and `platform`, but not
//! on per-CPU lists, compaction, or the modules above.

mod buddy;
mod compact_state;
mod expect;
mod fallback;
mod fragments;
mod free_area;
mod locked;
mod ownership;
#[cfg(feature = "damage")]
mod plant;
mod reserve;
mod stock;
mod watermark;

use core::ops::Range;
use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::base::lock::Locked;
use crate::base::{MigrateType, NodeId, Order, Pfn, RawLock, ZoneKind};
use crate::policy::flags::AllocFlags;
use crate::policy::pcp::Pressure;
use crate::policy::watermark::Watermarks;
use crate::policy::{ReserveList, ReservePolicy, ReserveWatermark};

pub use fragments::Fragments;
pub use free_area::{FreeArea, FreeAreas};
#[cfg(feature = "damage")]
pub use plant::ZoneCounter;

pub(super) use buddy::Placement;
pub(super) use compact_state::{CompactState, last_pageblock};
pub(super) use fallback::{BlockRequest, Cursor};
pub(super) use free_area::CaptureRequest;
pub(super) use locked::LockedZone;

/// Flags of a zone that can be read without a lock. linux: include/linux/mmzone.h:zone_flags
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ZoneFlag {
    /// A watermark was boosted. The next request that is allowed to wakes kswapd.
    BoostedWatermark = 1,
    /// kswapd is balancing the zone.
    ReclaimActive = 2,
    /// A request found that the zone would not stay above its high watermark. A drain of a per-CPU list that finds the
    /// zone above it clears the flag.
    BelowHigh = 4,
    /// Free pages are near the high watermark or below it, so a request must check its own watermark. Not in Linux:
    /// while the flag is clear, the fast path reads no field of the zone that other CPUs write frequently.
    NearHigh = 8,
    /// kswapd of the node is awake. Set only if requests skip such nodes: the policy requires it, and there are several
    /// nodes. Not in Linux: the flag saves the fast path a read of the node.
    NodeBusy = 16,
    /// Fewer whole pageblocks are free than CPUs are near the zone. Not in Linux: freed pages are returned to their
    /// owners only while the flag is clear, so never in a zone with fewer pageblocks than CPUs. Written under the zone
    /// lock.
    FewWhole = 32,
}

/// Flags that do not indicate pressure on the zone.
const ASIDE: u8 = ZoneFlag::NearHigh as u8 | ZoneFlag::NodeBusy as u8 | ZoneFlag::FewWhole as u8;

/// Upper bound of the number of pages in a zone. Larger watermarks are clamped to it, so that sums of watermarks do not
/// overflow.
pub(super) const PAGES_MAX: u64 = 1 << 40;

/// A span of frames with its own free lists, lock and watermarks.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Zone<L> {
    index: u8,
    node: NodeId,
    kind: ZoneKind,
    flags: AtomicU8,
    /// Set if the watermark check counts the high-atomic reserve as free for every request.
    counts_reserve: bool,
    /// Smallest order at which movable requests may use the high-atomic reserve: the order of a pageblock, or `u8::MAX` if
    /// the policy does not open the reserve to them.
    reserve_opens: u8,
    cpus: u32,
    start: AtomicU64,
    end: AtomicU64,
    present: AtomicU64,
    managed: AtomicU64,
    cma: AtomicU64,
    watermarks: [AtomicU64; 4],
    boost: AtomicU64,
    lowmem_reserve: [AtomicU64; ZoneKind::COUNT],
    pub(super) stock: Stock,
    pub(super) compaction: CompactState,
    pub(super) areas: Locked<L, FreeAreas>,
}

/// Counters that change under every hold of the lock. They are in cache lines of their own, apart from the fields that
/// every request reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Stock {
    pub(super) free: AtomicI64,
    pub(super) free_cma: AtomicI64,
    pub(super) free_highatomic: AtomicI64,
    /// Smallest value of `free_highatomic` since the last reset.
    idle_highatomic: AtomicI64,
    reserved_highatomic: AtomicU64,
    /// For each order, one bit for each type whose list is not empty.
    occupied: [AtomicU8; Order::COUNT],
}

impl<L: RawLock> Zone<L> {
    /// Creates a zone without memory, near this number of CPUs, with a policy for the reserve and the order of its
    /// pageblocks. Not inlined, because the compiler would repeat the code for each zone.
    #[inline(never)]
    pub(super) fn new(
        index: u8,
        node: NodeId,
        kind: ZoneKind,
        cpus: u32,
        reserve: ReservePolicy,
        pageblock_order: Order,
    ) -> Zone<L> {
        let is_open = reserve.list == ReserveList::Open;
        Zone {
            index,
            node,
            kind,
            flags: AtomicU8::new(ZoneFlag::FewWhole as u8),
            counts_reserve: reserve.watermark == ReserveWatermark::Counted,
            reserve_opens: if is_open { pageblock_order.get() } else { u8::MAX },
            cpus,
            start: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(0),
            present: AtomicU64::new(0),
            managed: AtomicU64::new(0),
            cma: AtomicU64::new(0),
            watermarks: [const { AtomicU64::new(0) }; 4],
            boost: AtomicU64::new(0),
            lowmem_reserve: [const { AtomicU64::new(0) }; ZoneKind::COUNT],
            stock: Stock::default(),
            compaction: CompactState::new(),
            areas: Locked::new(FreeAreas::EMPTY),
        }
    }

    /// Calls `look` with the free lists, under the zone lock.
    pub fn inspect<R>(&self, look: impl FnOnce(&FreeAreas) -> R) -> R {
        look(&self.areas.lock())
    }

    /// Lowers the zone's boost, after kswapd has reclaimed for it. linux: mm/vmscan.c:balance_pgdat
    pub(crate) fn lower_boost(&self, pages: u64) {
        let boost = self.boost.load(Relaxed);
        self.set_boost(boost.saturating_sub(pages));
    }
}

impl<L> Zone<L> {
    /// Returns the zone's index in the allocator's table of zones.
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    /// Returns the node that the zone belongs to.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the zone's kind, DMA to Movable.
    pub fn kind(&self) -> ZoneKind {
        self.kind
    }

    /// Returns the number of CPUs of the zone's node, online or not, or of all CPUs if the node has none.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Returns whether any page of the zone is online. linux: populated_zone
    pub fn is_populated(&self) -> bool {
        self.present() > 0
    }

    /// Returns the first frame, and the frame after the last; twice frame 0 if the zone has no memory.
    pub fn span(&self) -> (Pfn, Pfn) {
        let (start, end) = (self.start.load(Relaxed), self.end.load(Relaxed));
        if start >= end { (Pfn::new(0), Pfn::new(0)) } else { (Pfn::new(start as u32), Pfn::new(end as u32)) }
    }

    pub(super) fn grow_span(&self, start: Pfn, end: Pfn) {
        debug_assert!(start < end, "zone: the new span from frame {start} to {end} is empty");
        self.start.fetch_min(u64::from(start.raw()), Relaxed);
        self.end.fetch_max(u64::from(end.raw()), Relaxed);
    }

    /// Sets the span to the frames that remain in the zone.
    pub(super) fn set_span(&self, frames: Option<Range<Pfn>>) {
        let (start, end) = frames.map_or((u64::MAX, 0), |left| (left.start.raw().into(), left.end.raw().into()));
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    /// Returns the number of pages of the zone that are online. linux: zone.present_pages
    pub fn present(&self) -> u64 {
        self.present.load(Relaxed)
    }

    pub(super) fn add_present(&self, pages: u64) {
        self.present.fetch_add(pages, Relaxed);
    }

    pub(super) fn drop_present(&self, pages: u64) {
        let present = self.present.fetch_sub(pages, Relaxed);
        debug_assert!(pages <= present, "zone: {pages} pages cannot be removed from {present} present pages");
    }

    /// Returns the number of pages that were released or adopted. linux: zone.managed_pages
    pub fn managed(&self) -> u64 {
        self.managed.load(Relaxed)
    }

    pub(super) fn add_managed(&self, pages: u64) {
        let managed = self.managed.fetch_add(pages, Relaxed) + pages;
        debug_assert!(
            managed <= self.present(),
            "zone: {managed} pages are managed, but only {} are present",
            self.present()
        );
    }

    pub(super) fn drop_managed(&self, pages: u64) {
        let managed = self.managed.fetch_sub(pages, Relaxed);
        debug_assert!(pages <= managed, "zone: {pages} pages cannot be removed from {managed} managed pages");
    }

    /// Adds the pages of a pageblock to the zone's counter for its type, or subtracts them if negative. Only HighAtomic
    /// and Cma have such a counter.
    pub(super) fn count_pageblock(&self, migratetype: MigrateType, pages: i64) {
        let counter = match migratetype {
            MigrateType::HighAtomic => &self.stock.reserved_highatomic,
            MigrateType::Cma => &self.cma,
            _ => return,
        };
        let counted = counter.fetch_add(pages as u64, Relaxed);
        debug_assert!(
            counted.checked_add_signed(pages).is_some_and(|now| now <= PAGES_MAX),
            "zone: {counted} {migratetype:?} pages cannot change by {pages}"
        );
    }

    /// Returns the number of pages in CMA areas, free or not.
    pub fn cma(&self) -> u64 {
        self.cma.load(Relaxed)
    }

    /// Returns the watermarks in pages, without the boost.
    pub fn watermarks(&self) -> Watermarks {
        let [min, low, high, promo] = self.watermarks.each_ref().map(|mark| mark.load(Relaxed));
        Watermarks { min, low, high, promo }
    }

    /// Returns the watermark that the flags select, without the boost.
    #[inline]
    pub(super) fn watermark_of(&self, flags: AllocFlags) -> u64 {
        self.watermarks[flags.watermark()].load(Relaxed)
    }

    pub(super) fn set_watermarks(&self, marks: Watermarks) {
        for (mark, pages) in self.watermarks.iter().zip([marks.min, marks.low, marks.high, marks.promo]) {
            mark.store(pages.min(PAGES_MAX), Relaxed);
        }
        self.set_boost(0);
    }

    /// Returns the number of pages by which all watermarks are raised at the moment.
    pub fn boost(&self) -> u64 {
        self.boost.load(Relaxed)
    }

    /// Sets the boost, in pages.
    pub(crate) fn set_boost(&self, pages: u64) {
        self.boost.store(pages.min(PAGES_MAX), Relaxed);
        self.note_level();
    }

    /// Returns the number of pages that are kept from requests whose highest zone is `highest`.
    pub fn lowmem_reserve(&self, highest: ZoneKind) -> u64 {
        self.lowmem_reserve[highest.index()].load(Relaxed)
    }

    pub(super) fn set_lowmem_reserve(&self, highest: ZoneKind, pages: u64) {
        self.lowmem_reserve[highest.index()].store(pages.min(PAGES_MAX), Relaxed);
        self.note_level();
    }

    /// Returns the number of free pages, without isolated ones. linux: NR_FREE_PAGES
    pub fn free_pages(&self) -> u64 {
        self.stock.free.load(Relaxed).max(0) as u64
    }

    /// Returns the number of free pages on CMA lists.
    pub fn free_cma(&self) -> u64 {
        self.stock.free_cma.load(Relaxed).max(0) as u64
    }

    /// Returns the number of free pages of the high-atomic reserve.
    pub fn free_highatomic(&self) -> u64 {
        self.stock.free_highatomic.load(Relaxed).max(0) as u64
    }

    /// Returns the number of pages of the high-atomic reserve, free or not.
    pub fn reserved_highatomic(&self) -> u64 {
        self.stock.reserved_highatomic.load(Relaxed)
    }

    pub(super) fn set_reserved_highatomic(&self, pages: u64) {
        debug_assert!(pages <= PAGES_MAX, "zone: {pages} pages are too many for the high-atomic reserve");
        self.stock.reserved_highatomic.store(pages, Relaxed);
    }

    /// Returns whether free pages of the high-atomic reserve count as free for every request, by the policy.
    #[inline]
    pub(super) fn counts_reserve(&self) -> bool {
        self.counts_reserve
    }

    /// Returns whether a request of this order and with these flags may use the reserve although the reserve is not
    /// kept for it: the policy opens the reserve, and the request is movable and for a whole pageblock or more. Only
    /// movable requests have [`AllocFlags::CMA`].
    #[inline]
    pub(super) fn opens_reserve(&self, order: Order, flags: AllocFlags) -> bool {
        order.get() >= self.reserve_opens && flags.contains(AllocFlags::CMA)
    }

    /// Returns whether there is a free block of this order or a larger one, of a type whose bit is in `types`. The
    /// answer is a hint, read without the lock.
    #[inline]
    pub(super) fn has_block_of(&self, order: Order, types: u8) -> bool {
        self.stock.occupied[order.index()..].iter().any(|occupied| occupied.load(Relaxed) & types != 0)
    }

    /// Returns whether there is a free block of exactly this order, of a type whose bit is in `types`. The answer is a
    /// hint, read without the lock.
    pub(super) fn has_block_at(&self, order: Order, types: u8) -> bool {
        self.stock.occupied[order.index()].load(Relaxed) & types != 0
    }

    /// Returns whether a flag is set. The answer may be outdated.
    #[inline]
    pub fn has(&self, flag: ZoneFlag) -> bool {
        self.flags.load(Relaxed) & flag as u8 != 0
    }

    /// Returns whether the zone is boosted, under reclaim, or below its high watermark, which affects per-CPU lists.
    #[inline]
    pub(super) fn is_under_pressure(&self) -> bool {
        self.flags.load(Relaxed) & !ASIDE != 0
    }

    /// Returns the zone's situation as an input for the tuning of per-CPU lists.
    pub(super) fn pressure(&self) -> Pressure {
        Pressure { below_high: self.has(ZoneFlag::BelowHigh), reclaim_active: self.has(ZoneFlag::ReclaimActive) }
    }

    /// Returns whether the zone is under no pressure, stays above its high watermark after a request of any order, and
    /// is not on a node that requests should skip.
    #[inline]
    pub(super) fn is_well_above_high(&self) -> bool {
        self.flags.load(Relaxed) & !(ZoneFlag::FewWhole as u8) == 0
    }

    /// Returns whether the zone is well above its high watermark, and a whole pageblock is free for each CPU near it.
    #[inline]
    pub(super) fn has_plenty(&self) -> bool {
        self.flags.load(Relaxed) == 0
    }

    /// Sets or clears [`ZoneFlag::NearHigh`], after a change of the values that it depends on. If two CPUs do so at the
    /// same time, the older result may remain until the zone lock is released next. This is no worse than any watermark
    /// check, which may be outdated too.
    pub(super) fn note_level(&self) {
        let reserve = self.lowmem_reserve.iter().map(|reserve| reserve.load(Relaxed)).max().unwrap_or(0);
        let needed = self.watermark_of(AllocFlags::WMARK_HIGH) + self.boost() + reserve;
        let largest = i64::from(Order::MAX.pages());
        let usable = self.stock.free.load(Relaxed)
            - self.stock.free_cma.load(Relaxed)
            - self.stock.free_highatomic.load(Relaxed);
        if usable > needed as i64 + largest {
            self.clear(ZoneFlag::NearHigh);
        } else {
            self.set(ZoneFlag::NearHigh);
        }
    }

    /// Sets or clears [`ZoneFlag::FewWhole`], according to the number of whole free pageblocks.
    pub(super) fn note_whole(&self, pageblocks: u32) {
        if pageblocks >= self.cpus {
            self.clear(ZoneFlag::FewWhole);
        } else {
            self.set(ZoneFlag::FewWhole);
        }
    }

    /// Sets a flag. Does not write if the flag is set already.
    pub(crate) fn set(&self, flag: ZoneFlag) {
        if !self.has(flag) {
            self.flags.fetch_or(flag as u8, Relaxed);
        }
    }

    /// Clears a flag. Returns whether it was set.
    pub(crate) fn clear(&self, flag: ZoneFlag) -> bool {
        self.has(flag) && self.flags.fetch_and(!(flag as u8), Relaxed) & flag as u8 != 0
    }
}

/// Returns the bit of a type in a set of types.
pub(super) const fn bit(migratetype: MigrateType) -> u8 {
    1 << migratetype as u8
}
