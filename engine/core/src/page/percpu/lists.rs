//! A CPU's lists of a zone: blocks by order and type, the count of their pages, and the tuning of the limit.

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

/// Order of the first part of a block, which is split into blocks of the requested order only. If a block above
/// [`Order::COSTLY`] is split for a smaller request, as many blocks of the requested order are made as fill one block
/// of this order, so that the next requests find blocks.
const CUT: Order = Order::new(4);
/// Order of that part for requests of single pages, if the block is that large. About one request in a hundred then has
/// to split a block.
const CUT_SINGLES: Order = Order::new(if cfg!(loom) { 4 } else { 7 });
/// Ticks without activity after which lists of another node's zone give pages back.
/// linux: mm/vmstat.c:refresh_cpu_vm_stats
const REMOTE_TICKS: u8 = 3;
/// Largest number of pages that lists can count, far more than any limit.
const COUNT_MAX: u32 = u32::MAX / 2;

/// State that the lock protects. The fields that every pair of allocation and free accesses are in one cache line with
/// the lock.
#[derive(Debug)]
#[repr(C)]
pub struct PcpLists {
    /// Count of pages, limit, and the state that tunes the limit.
    pub(in crate::page) tuning: Tuning,
    pub(in crate::page) limits: Limits,
    /// Recently freed pages from which on a CPU counts as one that frees blocks of order 1 to 3 and allocates none.
    pub(in crate::page) high_order_frees: u32,
    /// Set if the last block freed was of order 1 to 3.
    previous_was_high_order: bool,
    /// Pages of the data cache that the CPU has to itself.
    cache_slice: u32,
    pub(in crate::page) lists: [List; PCP_LISTS],
    /// Set if blocks were exchanged with the zone since the last tick.
    pub(in crate::page) is_stirred: bool,
    /// Ticks without activity until a batch is given back, for lists of another node's zone.
    /// linux: per_cpu_pages.expire
    ticks_left: u8,
}

impl Ranked for PcpLists {
    const RANK: Rank = Rank::Pcp;
}

impl PcpLists {
    /// Creates lists without blocks and without limits, for a CPU that has this many pages of data cache to itself.
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

    /// Returns the number of pages on all of the CPU's lists for this zone.
    pub fn count(&self) -> u32 {
        self.tuning.count
    }

    /// Returns the lists' limit as tuned now: the number of pages at which a free drains the lists. If memory is short,
    /// a free may drain them earlier.
    pub fn high(&self) -> u32 {
        self.tuning.high
    }

    /// Returns the bounds of the limit, and the batch.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limit to a recorded value, clamped to its bounds, and resets the history of recent allocations and
    /// frees. Later refills and frees change the limit again.
    pub(in crate::page) fn resume_at(&mut self, high: u32) {
        self.tuning = Tuning { count: self.tuning.count, high: self.limits.clamp(high), ..Tuning::default() };
        self.previous_was_high_order = false;
    }

    /// Adds pages that joined a list to the count.
    #[inline]
    pub(in crate::page) fn count_in(&mut self, pages: u32) {
        debug_assert!(
            self.tuning.count <= COUNT_MAX,
            "per-CPU lists: {pages} pages cannot be added to {}",
            self.tuning.count
        );
        self.tuning.count += pages;
    }

    /// Subtracts pages that left a list from the count.
    #[inline]
    pub(in crate::page) fn count_out(&mut self, pages: u32) {
        debug_assert!(
            pages <= self.tuning.count,
            "per-CPU lists: {pages} pages cannot be removed from {}",
            self.tuning.count
        );
        self.tuning.count -= pages;
    }

    /// Checks, in debug builds, that the word of a frame that came off a list names this list.
    #[inline]
    pub(in crate::page) fn expect_from(&self, pfn: Pfn, frame: &Frame, index: usize, order: Order) {
        debug_assert!(
            is_on_list(frame.word(), index, order),
            "per-CPU lists: frame {pfn} is {:?}, but on list {index} of order {}",
            frame.word(),
            order.get()
        );
    }

    /// Checks, in debug builds, that the limit is within its bounds.
    #[inline]
    pub(in crate::page) fn expect_limited(&self) {
        let (high, limits) = (self.tuning.high, self.limits);
        debug_assert!(limits.allows(high), "per-CPU lists: the limit {high} is outside of {limits:?}");
    }

    /// Checks, in debug builds, that the limit of the CPU's stack is within its bounds.
    #[inline]
    pub(in crate::page) fn expect_remote_frees_limited(&self, pages: u32, cpu: CpuId) {
        debug_assert!(
            self.limits.allows(pages),
            "per-CPU lists: the limit of {pages} pages on the stack of CPU {} is outside of {:?}",
            cpu.0,
            self.limits
        );
    }

    /// Returns the count and the limit, for damage.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant(&mut self) -> &mut Tuning {
        &mut self.tuning
    }

    /// Returns one of the lists, for damage.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_list(&mut self, index: usize) -> &mut List {
        &mut self.lists[index]
    }

    /// Returns one of the [`PCP_LISTS`] lists.
    pub fn list(&self, index: usize) -> &List {
        &self.lists[index]
    }

    /// Returns whether blocks of order 1 to 3 stay on the lists for reuse, because more than three batches of pages fit
    /// the CPU's share of the cache.
    pub(in crate::page) fn keeps_high_orders(&self) -> bool {
        self.cache_slice > 3 * self.limits.batch
    }

    #[inline]
    pub(in crate::page) fn push_head(&mut self, map: &MemMap<'_>, pfn: Pfn, order: Order, index: u8, cpu: CpuId) {
        self.lists[usize::from(index)].push_head(map, pfn, Word::pcp_cached(order, index, cpu));
        self.count_in(order.pages());
    }

    /// Adds a block like [`push_head`](Self::push_head), whose word is already set.
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

    /// Takes the first block of a list, or returns `None` if the list is empty. The block's word becomes `word`, that
    /// of an allocated or claimed block, before the lock is released, so that a merging drain on another CPU does not
    /// take it for a block of the list.
    #[inline]
    pub(in crate::page) fn pop_head(&mut self, map: &MemMap<'_>, order: Order, word: Word, index: u8) -> Option<Pfn> {
        debug_assert_eq!(word.order(), order);
        let (pfn, frame) = self.lists[usize::from(index)].pop_head(map)?;
        self.expect_from(pfn, frame, usize::from(index), order);
        frame.set(word);
        self.count_out(order.pages());
        Some(pfn)
    }

    /// Returns the cause that a drain at this free of a block of `order` has, which shows whether the CPU frees blocks
    /// of order 1 to 3 and allocates none. Remembers for the next free whether `order` is 1 to 3.
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

    /// Counts a tick for lists of another node's zone. Returns whether it is the third tick since the lists last
    /// exchanged blocks with the zone. While the lists are empty, ticks do not count.
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

    /// Takes blocks off the lists until at least `budget` pages are removed, which must not be more than the lists
    /// count: list after list, starting with `first`, and each list from its tail until it is empty. Calls `visit` for
    /// each block; `visit` may remove further blocks.
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
                assert!(empty <= 2 * PCP_LISTS, "per-CPU lists: the lists have fewer pages than the count");
                index = (index + 1) % PCP_LISTS;
                continue;
            };
            // The next victim is prefetched while this one is handled. The links of this one gave its number.
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

    /// Takes the first block of the smallest order above `order` and below the pageblock order that the lists of a type
    /// have, and returns it with its order. The block's word still names its list. The last `kept` blocks of each list
    /// of order 1 to 3 are not taken. Returns `None` if there is no other block. Cost: one step per list, and one per
    /// block that is kept.
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

    /// Puts a block on the lists, except for its first part of `order`, which the caller takes. The block is halved
    /// repeatedly, and the upper halves go on the lists. For a block above [`Order::COSTLY`] the halving stops at order
    /// [`CUT`] ([`CUT_SINGLES`] if `order` is 0), and the rest is split into blocks of `order`, so that the next
    /// requests find blocks. Returns the number of blocks that joined the lists.
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
            let index =
                part_index(half, migratetype, map.pageblock_order()).expect("the order is below that of a pageblock");
            self.push_head(map, pfn.offset(half.pages()), half, index, cpu);
            blocks += 1;
        }
        let rest = pfn.offset(order.pages())..pfn.offset(low.pages());
        if !rest.is_empty() {
            let index =
                part_index(order, migratetype, map.pageblock_order()).expect("the order is below that of a pageblock");
            self.lists[usize::from(index)].push_run(map, rest, order, Word::pcp_cached(order, index, cpu));
            self.count_in(low.pages() - order.pages());
            blocks += low.pages() / order.pages() - 1;
        }
        blocks
    }
}

/// Returns whether a word is that of a block of this order on this list.
fn is_on_list(word: Word, index: usize, order: Order) -> bool {
    match word.is_sound().then(|| word.state()) {
        Some(State::PcpCached { list, order: own, .. }) => usize::from(list) == index && own == order,
        _ => false,
    }
}
