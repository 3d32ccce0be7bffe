//! Per-CPU lists: where most requests begin and end, under a lock that nobody else wants.
//!
//! A CPU has, for each zone, fourteen lists of free blocks: orders 0 to 3 for each of the three types that have
//! lists, and two of pageblock order, for huge pages. A request takes the head of a list; a free puts its block at
//! the head. An empty list is filled from the zone (`refill`), a full one gives back from its tails
//! (`drain`), an idle one shrinks with time (`decay` in `drain`). Lists hold pages, not zones: a block on a list
//! is not free in the eyes of the zone.
//!
//! Under the policies that own pageblocks, a list takes whole ones and its CPU owns them (`owned`): a free of one of
//! their pages goes home, to the owner's lists or onto the owner's stack (`home`), and what merges there to a whole
//! pageblock goes back as one. Then there are lists for the orders between as well.
//!
//! What protects what: everything in [`PcpLists`] stands under the list's own lock, of rank Pcp. A CPU only ever
//! *tries* its lock and goes to the zone, or to its own stack, if that fails; a drain of another CPU waits for it.
//! The stack needs none.
//!
//! linux: mm/page_alloc.c:rmqueue_pcplist, free_unref_page

mod drain;
mod home;
mod merge;
mod owned;
mod refill;

use core::sync::atomic::Ordering::Relaxed;

use crate::base::atomic::AtomicU32;
use crate::base::frame::Frame;
use crate::base::list::List;
use crate::base::lock::{Guard, Locked, Rank, Ranked};
use crate::base::memmap::MemMap;
use crate::base::stack::Stack;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn, RawLock, State};
use crate::page::free::Freed;
use crate::policy::Numbers;
use crate::policy::pcp::{Limits, Tuning};

/// Lists that Linux has too. linux: NR_PCP_LISTS
const LINUX_LISTS: usize = 14;
/// Number of lists: those, and one for each type and order between them, for blocks that a CPU owns.
pub const PCP_LISTS: usize = LINUX_LISTS + MigrateType::PCP_COUNT * (Order::COUNT - 1 - Order::COSTLY.index() - 1);
/// Ticks for which lists of another node's zone are left alone. linux: mm/vmstat.c:refresh_cpu_vm_stats
const REMOTE_TICKS: u8 = 3;
/// Pages that lists can count: far more than any limit.
const COUNT_MAX: u32 = u32::MAX / 2;
/// First of the two lists for huge pages.
const HUGE: usize = 12;

/// One CPU's lists for one zone, with their lock and its stack.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Pcp<L> {
    lists: Locked<L, PcpLists>,
    home: Home,
}

/// What other CPUs touch when they free.
#[derive(Debug)]
#[repr(align(128))]
struct Home {
    /// Blocks of its own pageblocks, freed by other CPUs.
    stack: Stack,
    /// Pages that may wait on the stack: the lists' limit, as it was lately.
    limit: AtomicU32,
}

/// What the lock protects. What every pair of requests touches lies in one cache line with the lock.
#[derive(Debug)]
#[repr(C)]
pub struct PcpLists {
    /// Count, limit and what tunes it.
    pub(super) tuning: Tuning,
    limits: Limits,
    /// Pages freed lately that show a CPU which frees blocks of order 1 to 3 and allocates none.
    high_order_frees: u32,
    /// The block freed last was of order 1 to 3.
    previous_was_high_order: bool,
    /// Pages of cache a CPU has to itself.
    cache_slice: u32,
    lists: [List; PCP_LISTS],
    /// Blocks came from the zone or went there since the last tick.
    is_stirred: bool,
    /// Ticks until a batch goes back, if nothing stirs; for lists of another node's zone. linux: per_cpu_pages.expire
    ticks_left: u8,
}

impl Ranked for PcpLists {
    const RANK: Rank = Rank::Pcp;
}

impl<L: RawLock> Pcp<L> {
    pub(super) fn new(cache_slice: u32) -> Pcp<L> {
        Pcp {
            lists: Locked::new(PcpLists {
                tuning: Tuning::default(),
                limits: Limits::NONE,
                high_order_frees: 1,
                previous_was_high_order: false,
                cache_slice,
                lists: [const { List::EMPTY }; PCP_LISTS],
                is_stirred: false,
                ticks_left: 0,
            }),
            home: Home { stack: Stack::new(), limit: AtomicU32::new(0) },
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<Guard<'_, L, PcpLists>> {
        self.lists.try_lock()
    }

    pub(super) fn lock(&self) -> Guard<'_, L, PcpLists> {
        self.lists.lock()
    }

    /// Gives the lists their limits; their present limit starts at the bottom. linux:
    /// __zone_set_pageset_high_and_batch
    pub(super) fn set_limits(&self, limits: Limits, numbers: &Numbers) {
        let mut lists = self.lists.lock();
        lists.high_order_frees = limits.high_order_frees(numbers);
        debug_assert!(limits.batch > 0, "per-CPU lists: their limits are to be {limits:?}");
        lists.limits = limits;
        lists.tuning.high = limits.high_min;
        self.home.limit.store(limits.high_min, Relaxed);
    }

    /// Blocks on their way home to this CPU.
    pub(crate) fn stack(&self) -> &Stack {
        &self.home.stack
    }

    /// Pages on their way home to this CPU, a moment ago.
    pub fn waiting(&self) -> u32 {
        self.home.stack.pages()
    }

    /// Writes the pages that may wait on the stack.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_limit(&self, pages: u32) {
        self.home.limit.store(pages, Relaxed);
    }

    /// Pages that may wait on the stack.
    pub(in crate::page) fn home_limit(&self) -> u32 {
        self.home.limit.load(Relaxed)
    }

    /// Looks at the lists, under their lock.
    pub fn inspect<R>(&self, look: impl FnOnce(&PcpLists) -> R) -> R {
        look(&self.lists.lock())
    }
}

impl PcpLists {
    /// Pages on all of the CPU's lists for this zone.
    pub fn count(&self) -> u32 {
        self.tuning.count
    }

    /// Pages above which a free drains the lists, as tuned now.
    pub fn high(&self) -> u32 {
        self.tuning.high
    }

    /// What the limit moves between, and the unit of movement.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Puts the limit where a recorded list had it, and forgets what happened lately; the next refill or free
    /// moves it on.
    pub(in crate::page) fn resume_at(&mut self, high: u32) {
        self.tuning = Tuning { count: self.tuning.count, high: self.limits.clamp(high), ..Tuning::default() };
        self.previous_was_high_order = false;
    }

    /// Counts pages that joined a list.
    #[inline]
    fn count_in(&mut self, pages: u32) {
        debug_assert!(
            self.tuning.count <= COUNT_MAX,
            "per-CPU lists: {} pages are on them, {pages} more asked for",
            self.tuning.count
        );
        self.tuning.count += pages;
    }

    /// Counts pages that left one of the lists.
    #[inline]
    fn count_out(&mut self, pages: u32) {
        debug_assert!(
            pages <= self.tuning.count,
            "per-CPU lists: {} pages are on them, {pages} less asked for",
            self.tuning.count
        );
        self.tuning.count -= pages;
    }

    /// Whether a frame that came off a list was on it, by its word.
    #[inline]
    fn expect_from(&self, pfn: Pfn, frame: &Frame, index: usize, order: Order) {
        let is_from = |word: Word| match word.is_sound().then(|| word.state()) {
            Some(State::PcpCached { list, order: own, .. }) => usize::from(list) == index && own == order,
            _ => false,
        };
        debug_assert!(
            is_from(frame.word()),
            "per-CPU lists: frame {pfn} is {:?}, on list {index} of order {}",
            frame.word(),
            order.get()
        );
    }

    /// Whether the limit is within those that it moves between.
    #[inline]
    fn expect_limited(&self) {
        let (high, limits) = (self.tuning.high, self.limits);
        debug_assert!(limits.allows(high), "per-CPU lists: their limit is {high}, outside of {limits:?}");
    }

    /// What they count and where their limit is, to be written.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant(&mut self) -> &mut Tuning {
        &mut self.tuning
    }

    /// One of the lists, to be written.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_list(&mut self, index: usize) -> &mut List {
        &mut self.lists[index]
    }

    /// One of the [`PCP_LISTS`] lists.
    pub fn list(&self, index: usize) -> &List {
        &self.lists[index]
    }

    /// Blocks of order 1 to 3 stay for reuse as long as they fit the CPU's share of the cache.
    fn keeps_high_orders(&self) -> bool {
        self.cache_slice > 3 * self.limits.batch
    }

    #[inline]
    pub(in crate::page) fn push_head(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order, index: u8, cpu: CpuId) {
        self.lists[usize::from(index)].push_head(map, pfn, Word::pcp_cached(order, index, cpu));
        self.count_in(order.pages());
    }

    /// As [`push_head`](Self::push_head), for a block that is in that state already, with its metadata at hand.
    #[inline]
    fn link_head(&mut self, map: &MemMap<'_>, freed: Freed<'_>, index: u8) {
        self.lists[usize::from(index)].link_head(map, freed.pfn);
        self.count_in(freed.order.pages());
    }

    #[inline]
    fn push_tail(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order, index: u8, cpu: CpuId) {
        self.lists[usize::from(index)].push_tail(map, pfn, Word::pcp_cached(order, index, cpu));
        self.count_in(order.pages());
    }

    /// Takes the first block of a list. It leaves as `word`, an allocated block, before the lock is open again: a
    /// drain from another CPU that merges must not take it for a block of the list.
    #[inline]
    fn pop_head(&mut self, map: &MemMap<'_>, order: Order, word: Word, index: u8) -> Option<Pfn> {
        debug_assert_eq!(word.order(), order);
        let (pfn, frame) = self.lists[usize::from(index)].pop_head(map)?;
        self.expect_from(pfn, frame, usize::from(index), order);
        frame.set(word);
        self.count_out(order.pages());
        Some(pfn)
    }
}

/// Whether there is a CPU of this number, of so many.
#[inline]
pub(super) fn expect_there(cpu: CpuId, cpus: usize) {
    debug_assert!(cpu.index() < cpus, "per-CPU lists: there is no CPU {}, of {cpus}", cpu.0);
}

/// The list for blocks of this order and type; `None` if there is none. linux: order_to_pindex, pcp_allowed_order
#[inline]
pub(super) fn list_index(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<u8> {
    if order <= Order::COSTLY {
        return Some(order.get() * MigrateType::PCP_COUNT as u8 + migratetype as u8);
    }
    let huge = HUGE as u8 + u8::from(migratetype == MigrateType::Movable);
    (order == pageblock_order).then_some(huge)
}

/// The list for parts of pageblocks that a CPU owns: as [`list_index`], and one for each order up to a pageblock's.
#[inline]
fn part_index(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<u8> {
    if order <= Order::COSTLY || order >= pageblock_order {
        return list_index(order, migratetype, pageblock_order).filter(|_| order < pageblock_order);
    }
    let between = order.get() - Order::COSTLY.get() - 1;
    Some(LINUX_LISTS as u8 + between * MigrateType::PCP_COUNT as u8 + migratetype as u8)
}

/// Whether per-CPU lists hold blocks of this order, on a machine with pageblocks of that one. linux: pcp_allowed_order
pub fn has_pcp_list(order: Order, pageblock_order: Order) -> bool {
    list_index(order, MigrateType::Unmovable, pageblock_order).is_some()
}

/// The order of the blocks on a list. linux: pindex_to_order
fn list_order(index: u8, pageblock_order: Order) -> Order {
    let (index, types) = (usize::from(index), MigrateType::PCP_COUNT);
    let order = match index {
        0..HUGE => index / types,
        HUGE..LINUX_LISTS => return pageblock_order,
        _ => Order::COSTLY.index() + 1 + (index - LINUX_LISTS) / types,
    };
    Order::new(order as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigrateType::{Movable, Reclaimable, Unmovable};

    const HUGE_PAGE: Order = Order::new(9);

    #[test]
    fn lists_are_for_cheap_orders_by_type_and_for_huge_pages_by_mobility() {
        let of = |order, migratetype| list_index(Order::new(order), migratetype, HUGE_PAGE);
        assert_eq!(
            [0, 1, 2, 3, 4, 8].map(|order| of(order, Unmovable)),
            [Some(0), Some(3), Some(6), Some(9), None, None]
        );
        assert_eq!([Unmovable, Movable, Reclaimable].map(|of_type| of(3, of_type)), [Some(9), Some(10), Some(11)]);
        assert_eq!([Unmovable, Movable, Reclaimable].map(|of_type| of(9, of_type)), [Some(12), Some(13), Some(12)]);
        assert_eq!(of(10, Movable), None);
        assert!(has_pcp_list(HUGE_PAGE, HUGE_PAGE) && !has_pcp_list(Order::new(9), Order::MAX));
    }

    #[test]
    fn parts_of_owned_pageblocks_have_a_list_at_every_order_below() {
        let of = |order, migratetype| part_index(Order::new(order), migratetype, HUGE_PAGE);
        assert_eq!([0, 3, 4, 5, 8].map(|order| of(order, Unmovable)), [Some(0), Some(9), Some(14), Some(17), Some(26)]);
        assert_eq!((of(4, Reclaimable), of(9, Movable), of(10, Movable)), (Some(16), None, None));
        assert_eq!(part_index(Order::new(3), Movable, Order::new(3)), None, "a small pageblock is none of its parts");
        for order in Order::ZERO.to(Order::new(8)) {
            for migratetype in [Unmovable, Movable, Reclaimable] {
                let index = of(order.get(), migratetype).expect("there is one");
                assert!(usize::from(index) < PCP_LISTS);
                assert_eq!(list_order(index, HUGE_PAGE), order);
            }
        }
        assert_eq!([12, 13].map(|index| list_order(index, HUGE_PAGE)), [HUGE_PAGE; 2]);
    }

    #[test]
    fn large_blocks_stay_where_three_batches_fit_a_share_of_the_cache() {
        let keeps = |cache_slice, batch| {
            let pcp = Pcp::<crate::base::lock::SoloLock>::new(cache_slice);
            pcp.set_limits(Limits { batch, high_min: 0, high_max: 0 }, &Numbers::default());
            pcp.inspect(PcpLists::keeps_high_orders)
        };
        assert!(keeps(190, 63) && !keeps(189, 63));
    }
}
