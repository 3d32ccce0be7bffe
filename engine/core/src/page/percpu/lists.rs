//! A CPU's lists of a zone: blocks by order and type, how many pages they have, and what tunes that.

use core::mem;

use super::index::{PCP_LISTS, list_order, part_index};
use crate::base::frame::Frame;
use crate::base::list::List;
use crate::base::lock::{Rank, Ranked};
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn, State};
use crate::policy::pcp::{Cause, Limits, Tuning};

/// A block that leaves a CPU's lists for the zone.
pub(in crate::page) struct Victim<'f> {
    pub(in crate::page) pfn: Pfn,
    pub(in crate::page) order: Order,
    /// Metadata of the block's first frame.
    pub(in crate::page) frame: &'f Frame,
}

/// From a block of this order or more, smaller ones are cut as so many as fit one of this order, so that the next
/// requests find theirs.
const CUT: Order = Order::new(4);
/// The same for single pages, as far as the block goes: where it is that large, one request in a hundred has to cut.
const CUT_SINGLES: Order = Order::new(if cfg!(loom) { 4 } else { 7 });
/// Ticks for which lists of another node's zone are left alone. linux: mm/vmstat.c:refresh_cpu_vm_stats
const REMOTE_TICKS: u8 = 3;
/// Pages that lists can count: far more than any limit.
const COUNT_MAX: u32 = u32::MAX / 2;

/// What the lock protects. What every pair of requests touches lies in one cache line with the lock.
#[derive(Debug)]
#[repr(C)]
pub struct PcpLists {
    /// Count, limit and what tunes it.
    pub(in crate::page) tuning: Tuning,
    pub(in crate::page) limits: Limits,
    /// Pages freed lately that show a CPU which frees blocks of order 1 to 3 and allocates none.
    pub(in crate::page) high_order_frees: u32,
    /// The block freed last was of order 1 to 3.
    previous_was_high_order: bool,
    /// Pages of cache a CPU has to itself.
    cache_slice: u32,
    pub(in crate::page) lists: [List; PCP_LISTS],
    /// Blocks came from the zone or went there since the last tick.
    pub(in crate::page) is_stirred: bool,
    /// Ticks until a batch goes back, if nothing stirs; for lists of another node's zone. linux: per_cpu_pages.expire
    ticks_left: u8,
}

impl Ranked for PcpLists {
    const RANK: Rank = Rank::Pcp;
}

impl PcpLists {
    /// No blocks, and no limits yet, for a CPU with so many pages of cache to itself.
    pub(in crate::page) fn new(cache_slice: u32) -> PcpLists {
        PcpLists {
            tuning: Tuning::default(),
            limits: Limits::NONE,
            high_order_frees: 1,
            previous_was_high_order: false,
            cache_slice,
            lists: [const { List::EMPTY }; PCP_LISTS],
            is_stirred: false,
            ticks_left: 0,
        }
    }

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
    pub(in crate::page) fn count_in(&mut self, pages: u32) {
        debug_assert!(
            self.tuning.count <= COUNT_MAX,
            "per-CPU lists: {} pages are on them, {pages} more asked for",
            self.tuning.count
        );
        self.tuning.count += pages;
    }

    /// Counts pages that left one of the lists.
    #[inline]
    pub(in crate::page) fn count_out(&mut self, pages: u32) {
        debug_assert!(
            pages <= self.tuning.count,
            "per-CPU lists: {} pages are on them, {pages} less asked for",
            self.tuning.count
        );
        self.tuning.count -= pages;
    }

    /// Whether a frame that came off a list was on it, by its word.
    #[inline]
    pub(in crate::page) fn expect_from(&self, pfn: Pfn, frame: &Frame, index: usize, order: Order) {
        debug_assert!(
            is_on_list(frame.word(), index, order),
            "per-CPU lists: frame {pfn} is {:?}, on list {index} of order {}",
            frame.word(),
            order.get()
        );
    }

    /// Whether the limit is within those that it moves between.
    #[inline]
    pub(in crate::page) fn expect_limited(&self) {
        let (high, limits) = (self.tuning.high, self.limits);
        debug_assert!(limits.allows(high), "per-CPU lists: their limit is {high}, outside of {limits:?}");
    }

    /// Whether so many pages may wait on the CPU's stack.
    #[inline]
    pub(in crate::page) fn expect_home_limited(&self, pages: u32, cpu: CpuId) {
        debug_assert!(
            self.limits.allows(pages),
            "per-CPU lists: {pages} pages may wait on the stack of CPU {}, and {:?}",
            cpu.0,
            self.limits
        );
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
    pub(in crate::page) fn keeps_high_orders(&self) -> bool {
        self.cache_slice > 3 * self.limits.batch
    }

    #[inline]
    pub(in crate::page) fn push_head(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order, index: u8, cpu: CpuId) {
        self.lists[usize::from(index)].push_head(map, pfn, Word::pcp_cached(order, index, cpu));
        self.count_in(order.pages());
    }

    /// As [`push_head`](Self::push_head), for a block that is in that state already.
    #[inline]
    pub(in crate::page) fn link_head(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order, index: u8) {
        self.lists[usize::from(index)].link_head(map, pfn);
        self.count_in(order.pages());
    }

    #[inline]
    pub(in crate::page) fn push_tail(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order, index: u8, cpu: CpuId) {
        self.lists[usize::from(index)].push_tail(map, pfn, Word::pcp_cached(order, index, cpu));
        self.count_in(order.pages());
    }

    /// Takes the first block of a list. It leaves as `word`, an allocated block, before the lock is open again: a
    /// drain from another CPU that merges must not take it for a block of the list.
    #[inline]
    pub(in crate::page) fn pop_head(&mut self, map: &MemMap<'_>, order: Order, word: Word, index: u8) -> Option<Pfn> {
        debug_assert_eq!(word.order(), order);
        let (pfn, frame) = self.lists[usize::from(index)].pop_head(map)?;
        self.expect_from(pfn, frame, usize::from(index), order);
        frame.set(word);
        self.count_out(order.pages());
        Some(pfn)
    }

    /// Whether this free of a block of order 1 to 3 shows a CPU that frees such blocks and allocates none.
    #[inline]
    pub(in crate::page) fn cause_of_drain(&mut self, order: Order) -> Cause {
        if order == Order::ZERO || order > Order::COSTLY {
            self.previous_was_high_order = false;
            return Cause::Full;
        }
        let batch = self.limits.batch;
        let freeing = self.tuning.free_count >= self.high_order_frees && self.previous_was_high_order;
        self.previous_was_high_order = true;
        if freeing && (!self.keeps_high_orders() || self.tuning.count >= batch) {
            Cause::HighOrderFrees
        } else {
            Cause::Full
        }
    }

    /// One more tick; says whether it was the last of those in which nothing stirred.
    pub(in crate::page) fn is_left_alone(&mut self) -> bool {
        if mem::take(&mut self.is_stirred) {
            self.ticks_left = REMOTE_TICKS;
        }
        if self.ticks_left == 0 || self.tuning.count == 0 {
            return false;
        }
        self.ticks_left -= 1;
        self.ticks_left == 0
    }

    /// Takes blocks off the lists until `budget` pages are spent: list after list from `first` round, each from its
    /// tail until it is empty.
    pub(in crate::page) fn for_each_victim(
        &mut self,
        map: &MemMap<'_>,
        budget: u32,
        first: u8,
        mut visit: impl FnMut(&mut PcpLists, Victim<'_>),
    ) {
        let stop = self.tuning.count - budget;
        let (mut index, mut empty) = (usize::from(first), 0);
        while self.tuning.count > stop {
            let Some((pfn, frame)) = self.lists[index].pop_tail(map) else {
                empty += 1;
                assert!(empty <= 2 * PCP_LISTS, "per-CPU lists: they hold fewer pages than they count");
                index = (index + 1) % PCP_LISTS;
                continue;
            };
            // The next victim comes while this one is dealt with: who it is, this one's links said.
            self.lists[index].last().into_iter().for_each(|next| map.prefetch(next));
            let order = list_order(index as u8, map.pageblock_order());
            self.expect_from(pfn, frame, index, order);
            self.count_out(order.pages());
            visit(self, Victim { pfn, order, frame });
            if self.tuning.count <= stop {
                break;
            }
        }
    }

    /// Takes a block off the list that its word names.
    pub(in crate::page) fn remove(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        self.lists[usize::from(word.list())].remove(map, pfn);
        self.count_out(word.order().pages());
    }

    /// Takes the smallest block larger than `order` of a pageblock's parts; its state still names its list. Leaves
    /// `kept` blocks of each order from 1 to 3, counted from the end of a list. Costs a step a block that is kept.
    pub(in crate::page) fn pop_larger(
        &mut self,
        map: &MemMap<'_>,
        order: Order,
        migratetype: MigrateType,
        kept: usize,
    ) -> Option<(Pfn, Order)> {
        let orders = order.to(map.pageblock_order()).skip(1);
        let mut indices =
            orders.map_while(|found| Some((found, part_index(found, migratetype, map.pageblock_order())?)));
        indices.find_map(|(found, index)| {
            if found <= Order::COSTLY && self.lists[usize::from(index)].iter_back(map).nth(kept).is_none() {
                return None;
            }
            let (pfn, frame) = self.lists[usize::from(index)].pop_head(map)?;
            self.expect_from(pfn, frame, usize::from(index), found);
            self.count_out(found.pages());
            Some((pfn, found))
        })
    }

    /// Puts all of a block but its lowest part of `order` on the lists: halves of it, and if it is larger than Linux
    /// has lists for, so many of `order` that the next requests need no cut. Says how many blocks joined the lists.
    pub(in crate::page) fn expand(
        &mut self,
        map: &MemMap<'_>,
        block: (Pfn, Order),
        order: Order,
        migratetype: MigrateType,
        cpu: CpuId,
    ) -> u32 {
        let (pfn, found) = block;
        let cut = if order == Order::ZERO { CUT_SINGLES } else { CUT };
        let low = if found > Order::COSTLY { found.min(order.max(cut)) } else { order };
        let mut blocks = 0;
        for half in low.to(found).rev().skip(1) {
            let index = part_index(half, migratetype, map.pageblock_order()).expect("smaller than a pageblock");
            self.push_head(map, pfn.offset(half.pages()), half, index, cpu);
            blocks += 1;
        }
        let rest = pfn.offset(order.pages())..pfn.offset(low.pages());
        if !rest.is_empty() {
            let index = part_index(order, migratetype, map.pageblock_order()).expect("smaller than a pageblock");
            self.lists[usize::from(index)].push_run(map, rest, order, Word::pcp_cached(order, index, cpu));
            self.count_in(low.pages() - order.pages());
            blocks += low.pages() / order.pages() - 1;
        }
        blocks
    }
}

/// Whether a word says that a block of this order is on this list.
fn is_on_list(word: Word, index: usize, order: Order) -> bool {
    match word.is_sound().then(|| word.state()) {
        Some(State::PcpCached { list, order: own, .. }) => usize::from(list) == index && own == order,
        _ => false,
    }
}
