//! Fragmentation: how much memory a policy leaves for large blocks.
//!
//! One walk over the heads of all blocks computes all numbers, from the blocks' state words and the pageblocks' owners.
//! It takes no lock, so it does not influence a running simulation, in which nothing else runs during the walk. The
//! walk takes a step for each block: large free blocks are cheap, single pages are expensive. The worst case is a few
//! milliseconds per GiB.
//!
//! linux: mm/vmstat.c:unusable_free_index, mm/page_owner.c:pagetypeinfo_showmixedcount_print

use freehold::PageAllocator;
use freehold::base::pageblock::NO_ZONE;
use freehold::base::{Order, Pfn, State};
use freehold::platform::Platform;
use serde::Serialize;

/// Unusable share of free memory if no memory is free, as in Linux.
const ALL_UNUSABLE: u64 = 1000;

/// State of memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fragmentation {
    /// Free pages in the zones.
    pub free_pages: u64,
    /// Pageblocks that are wholly free.
    pub free_pageblocks: u64,
    /// Free pages per thousand that are in blocks smaller than a pageblock: the unusable free index for huge pages
    /// (order 9).
    pub unusable_permille: u64,
    /// Pageblocks with both movable and unmovable allocated pages, which compaction cannot empty.
    pub mixed_pageblocks: u64,
    /// Pageblocks that a CPU owns.
    pub owned_pageblocks: u64,
    /// Free pages in the zone within owned pageblocks.
    pub owned_free_pages: u64,
    /// Pages on per-CPU lists.
    pub listed_pages: u64,
    /// Pages on stacks, on their way to the list of their owner.
    pub stacked_pages: u64,
    /// Allocated pages.
    pub allocated_pages: u64,
}

impl Fragmentation {
    /// Measures a machine. Takes a step for each block.
    pub fn measure<P: Platform>(allocator: &PageAllocator<'_, P>) -> Fragmentation {
        let map = allocator.map();
        let mut walk = Walk { seen: Fragmentation::default(), large: 0, pageblock: map.pageblock_order() };
        for block in map.pageblocks().filter(|&block| map.pageblock(block).zone() != NO_ZONE) {
            walk.visit(allocator, block);
        }
        walk.finish()
    }

    /// Returns the worst of both in every field: the minimum of free memory, the maximum of everything else.
    pub fn worse(&self, other: &Fragmentation) -> Fragmentation {
        Fragmentation {
            free_pages: self.free_pages.min(other.free_pages),
            free_pageblocks: self.free_pageblocks.min(other.free_pageblocks),
            unusable_permille: self.unusable_permille.max(other.unusable_permille),
            mixed_pageblocks: self.mixed_pageblocks.max(other.mixed_pageblocks),
            owned_pageblocks: self.owned_pageblocks.max(other.owned_pageblocks),
            owned_free_pages: self.owned_free_pages.max(other.owned_free_pages),
            listed_pages: self.listed_pages.max(other.listed_pages),
            stacked_pages: self.stacked_pages.max(other.stacked_pages),
            allocated_pages: self.allocated_pages.max(other.allocated_pages),
        }
    }
}

/// State of a walk.
struct Walk {
    seen: Fragmentation,
    /// Free pages in blocks of at least pageblock order.
    large: u64,
    /// Order of a pageblock.
    pageblock: Order,
}

/// Contents of one pageblock.
#[derive(Default)]
struct Contents {
    free: u64,
    movable: bool,
    fixed: bool,
}

impl Walk {
    /// Counts the blocks of one pageblock.
    fn visit<P: Platform>(&mut self, allocator: &PageAllocator<'_, P>, block: Pfn) {
        let map = allocator.map();
        let mut contents = Contents::default();
        let (mut at, end) = (block, block.offset(self.pageblock.pages()));
        while at < end {
            at = at.offset(self.count(map.frame(at).word().state(), &mut contents));
        }
        self.seen.mixed_pageblocks += u64::from(contents.movable && contents.fixed);
        if map.pageblock(block).owner().is_some() {
            self.seen.owned_pageblocks += 1;
            self.seen.owned_free_pages += contents.free;
        }
    }

    /// Counts one block. Returns the number of frames to advance.
    fn count(&mut self, state: State, contents: &mut Contents) -> u32 {
        match state {
            State::ZoneFree { order, .. } => {
                let pages = u64::from(order.pages());
                self.seen.free_pages += pages;
                contents.free += pages;
                if order >= self.pageblock {
                    self.large += pages;
                }
                order.pages()
            }
            State::PcpCached { order, .. } => {
                self.seen.listed_pages += u64::from(order.pages());
                order.pages()
            }
            State::RemotePending { order } => {
                self.seen.stacked_pages += u64::from(order.pages());
                order.pages()
            }
            State::Allocated { order, movable, .. } => {
                self.seen.allocated_pages += u64::from(order.pages());
                contents.movable |= movable;
                contents.fixed |= !movable;
                order.pages()
            }
            // A pageblock that begins inside a block is the second half of a block that was counted with the first
            // half.
            State::Absent | State::Claimed { .. } | State::Interior | State::Reserved | State::Withheld => 1,
        }
    }

    fn finish(self) -> Fragmentation {
        let Walk { mut seen, large, pageblock } = self;
        seen.free_pageblocks = large >> pageblock.get();
        let in_small = (seen.free_pages - large) * 1000;
        seen.unusable_permille = in_small.checked_div(seen.free_pages).unwrap_or(ALL_UNUSABLE);
        seen
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{CpuId, Gfp};
    use freehold::page::Config;
    use freehold::platform::NoProbe;
    use freehold::platform::host::Solo;
    use freehold::{Policy, machine};

    use super::*;

    /// 64 MiB: 32 pageblocks.
    const PAGES: u32 = 1 << 14;

    fn with_machine(policy: Policy, run: impl FnOnce(&PageAllocator<'_, Solo<NoProbe>>)) {
        let config = Config { policy, ..Config::default() };
        machine::with_memory(Solo::default(), &config, PAGES, run).expect("a machine");
    }

    #[test]
    fn fresh_machine_is_unfragmented() {
        with_machine(Policy::LINUX_6_12, |engine| {
            let seen = Fragmentation::measure(engine);
            let whole = Fragmentation { free_pages: PAGES.into(), free_pageblocks: 32, ..Fragmentation::default() };
            assert_eq!(seen, whole);
        });
    }

    #[test]
    fn fragmentation_counts_allocated_and_listed_pages() {
        with_machine(Policy::LINUX_6_12, |engine| {
            let pages: Vec<Pfn> =
                (0..600).map(|_| engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("free")).collect();
            let seen = Fragmentation::measure(engine);
            let census = engine.check().expect("a sound machine");
            assert_eq!((seen.allocated_pages, seen.free_pages), (600, census.free));
            assert_eq!(seen.listed_pages, census.cached);
            assert_eq!((seen.mixed_pageblocks, seen.owned_pageblocks, seen.stacked_pages), (0, 0, 0));
            for pfn in pages {
                engine.free_pages(pfn, Order::ZERO).expect("ours");
            }
            engine.drain_all_pages();
            assert_eq!(Fragmentation::measure(engine).free_pageblocks, 32);
        });
    }

    #[test]
    fn single_block_makes_the_pageblock_unusable() {
        with_machine(Policy::LINUX_6_12, |engine| {
            engine.alloc_pages(Gfp::KERNEL, Order::new(4)).expect("free");
            let seen = Fragmentation::measure(engine);
            assert_eq!(seen.free_pageblocks, 31);
            assert_eq!(seen.unusable_permille, 496 * 1000 / seen.free_pages);
        });
    }

    #[test]
    fn kernel_page_among_movable_pages_mixes_the_pageblock() {
        with_machine(Policy::LINUX_6_12, |engine| {
            // All memory is in use, except that one block of 16 movable pages is freed.
            let order = Order::new(9);
            while engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::new(4)).is_ok() {}
            assert_eq!(Fragmentation::measure(engine).mixed_pageblocks, 0);
            let last = Pfn::new(0).align_down(order);
            engine.free_pages(last, Order::new(4)).expect("ours");
            engine.alloc_pages(Gfp::ATOMIC, Order::ZERO).expect("it was freed");
            assert_eq!(Fragmentation::measure(engine).mixed_pageblocks, 1);
        });
    }

    #[test]
    fn owned_pageblocks_and_stacked_pages_are_counted() {
        let pcp = freehold::policy::PcpPolicy::OwnedRemote;
        let config = Config {
            policy: Policy { pcp, ..Policy::FREEHOLD },
            cpu_nodes: &[freehold::base::NodeId(0); 2],
            ..Config::default()
        };
        machine::with_memory(Solo::<NoProbe>::default(), &config, 1 << 18, |engine| {
            let page = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("free");
            let seen = Fragmentation::measure(engine);
            assert_eq!((seen.owned_pageblocks, seen.listed_pages), (1, 511));
            engine.platform().run_on(CpuId(1));
            engine.free_pages(page, Order::ZERO).expect("ours");
            assert_eq!(Fragmentation::measure(engine).stacked_pages, 1);
        })
        .expect("a machine");
    }

    #[test]
    fn worst_combines_the_worst_of_each_field() {
        let calm = Fragmentation { free_pages: 9, free_pageblocks: 3, mixed_pageblocks: 1, ..Fragmentation::default() };
        let torn = Fragmentation { free_pages: 7, free_pageblocks: 4, mixed_pageblocks: 2, ..Fragmentation::default() };
        let worst = calm.worse(&torn);
        assert_eq!((worst.free_pages, worst.free_pageblocks, worst.mixed_pageblocks), (7, 3, 2));
        assert_eq!(worst, torn.worse(&calm));
    }
}
