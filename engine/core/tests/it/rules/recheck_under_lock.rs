//! Changes by another caller between a check without the lock and the acquisition of the lock. The check must be
//! repeated under the lock, and frames that the caller has let go must not be used any more.
//!
//! No thread waits for another: this platform's lock runs a scene's action immediately before it is acquired.

use std::cell::{Cell, RefCell};

use freehold::Policy;
use freehold::base::lock::{Rank, RawLock, SoloLock};
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, FreeError, MinFree, PageAllocator};
use freehold::platform::{Event, Platform, Probe};
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::common::{Memory, build_on, range};
use crate::rules::highatomic::{CAP, PAGES};

type Meanwhile = Box<dyn FnOnce()>;

thread_local! {
    /// Action before the next acquisition of a zone's lock.
    static BEFORE_LOCK: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
    /// Action that is armed as `BEFORE_LOCK` after a request above order 0 that may use the reserve was served.
    static ONCE_SERVED: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

/// A lock that runs an action before it is acquired.
struct LateLock(SoloLock);

// SAFETY: `SoloLock` provides the exclusion. The action runs before the inner lock is acquired and does not affect it.
unsafe impl RawLock for LateLock {
    fn new() -> LateLock {
        LateLock(SoloLock::new())
    }

    fn lock(&self, rank: Rank) {
        if rank == Rank::Zone
            && let Some(meanwhile) = BEFORE_LOCK.take()
        {
            meanwhile();
        }
        self.0.lock(rank);
    }

    fn try_lock(&self, rank: Rank) -> bool {
        self.0.try_lock(rank)
    }

    unsafe fn unlock(&self, rank: Rank) {
        // SAFETY: the caller holds this lock, as the contract of `unlock` requires, and therefore holds the inner lock.
        unsafe { self.0.unlock(rank) }
    }
}

/// Platform of one thread on a CPU that the scene selects.
#[derive(Default)]
struct Late {
    cpu: Cell<u16>,
}

impl Probe for Late {
    fn report(&self, event: Event) {
        if matches!(event, Event::HighAtomicServed { .. }) {
            BEFORE_LOCK.set(ONCE_SERVED.take());
        }
    }
}

impl Platform for Late {
    type Lock = LateLock;
    type Probe = Late;

    fn probe(&self) -> &Late {
        self
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }
}

/// Builds a machine with one zone whose memory is all free. The machine is leaked, because actions that run inside a
/// lock cannot borrow it.
fn machine(policy: Policy, pages: u32) -> &'static PageAllocator<'static, Late> {
    let config = Config { cpu_nodes: &[NodeId(0); 2], policy, ..Config::default() };
    let memory = [range(ZoneKind::Normal, 0, 0, pages)];
    let bytes = Box::leak(Box::new(Memory::on::<Late>(&config, &memory)));
    let engine = Box::leak(Box::new(build_on(Late::default(), &config, &memory, bytes)));
    engine.release(Pfn::new(0), Pfn::new(pages)).expect("the range is online");
    engine
}

/// The cap is checked before the lock is taken, to avoid unnecessary acquisitions, and again under the lock, because
/// others may have reserved in between. linux: mm/page_alloc.c:reserve_highatomic_pageblock
#[test]
fn concurrent_reserve_does_not_exceed_the_cap() {
    let engine = machine(Policy::LINUX_6_12, PAGES);
    engine.set_up_watermarks(MinFree::Pages(40_000));
    let zone = engine.zone(NodeId(0), ZoneKind::Normal);
    while zone.free_pages() > zone.watermarks().low {
        engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::MAX).expect("enough memory must be free");
    }
    ONCE_SERVED.set(Some(Box::new(|| {
        // These are whole blocks, none of which contains the block that was allocated for the first caller.
        engine.platform().cpu.set(1);
        while zone.reserved_highatomic() < CAP {
            engine.alloc_pages(Gfp::ATOMIC, Order::MAX).expect("the zone must be far above the min watermark");
        }
        engine.platform().cpu.set(0);
    })));
    assert_eq!(zone.reserved_highatomic(), 0);
    let block = engine.alloc_pages(Gfp::ATOMIC, Order::new(2)).expect("the zone must be far above the min watermark");
    assert!(ONCE_SERVED.take().is_none() && BEFORE_LOCK.take().is_none(), "both hooks must have run");
    assert_eq!(
        zone.reserved_highatomic(),
        3 * u64::from(Order::MAX.pages()),
        "only the concurrent requests may have reserved"
    );
    assert!(engine.map().pageblock(block).migratetype().is_mergeable());
    engine.check().expect("the check must find no error");
}

/// A page that another caller frees after the range was checked is reported. Every other page of the range is freed.
#[test]
fn page_freed_concurrently_is_reported_from_the_range() {
    for contig in [ContigPolicy::OneByOne, ContigPolicy::Batched] {
        let engine = machine(Policy { contig, pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, 1 << 12);
        let order = Order::new(3);
        let block = engine.alloc_pages(Gfp::KERNEL, order).expect("enough memory must be free");
        engine.split_page(block, order).expect("the test holds these pages");
        // The fourth page has an additional reference, which ends the run that can be claimed at once.
        engine.get_page(block.offset(3)).expect("the test holds these pages");
        let stolen = block.offset(5);
        BEFORE_LOCK
            .set(Some(Box::new(move || engine.free_pages(stolen, Order::ZERO).expect("the pages must be allocated"))));
        let error = engine
            .free_contig_range(block..block.offset(8))
            .expect_err("a page of the range is not allocated, so the free must fail");
        assert!(matches!(error, FreeError::NotAllocated { pfn, .. } if pfn == stolen), "{contig:?}: {error}");
        assert_eq!(
            engine.check().expect("the check must find no error").allocated,
            1,
            "{contig:?}: what others refer to"
        );
    }
}

/// All references but one to a shared block are dropped, so all frames but the first are freed. Before that, the last
/// reference is dropped as well, and the first frame becomes the inside of a larger free block. The free must not touch
/// that frame any more.
#[test]
fn first_frame_freed_during_the_free_of_the_others_is_left_alone() {
    let engine = machine(Policy { pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, 1 << 12);
    let order = Order::new(1);
    let [below, shared] = [(); 2].map(|()| engine.alloc_pages(Gfp::KERNEL, order).expect("enough memory must be free"));
    assert_eq!(shared, below.offset(2), "the blocks must be buddies");
    engine.get_page(shared).expect("the test holds these pages");
    engine.free_pages(below, order).expect("the test holds these pages");
    BEFORE_LOCK
        .set(Some(Box::new(move || engine.free_pages(shared, Order::ZERO).expect("the page has one reference"))));
    engine.free_pages(shared, order).expect("the block has two references");
    assert!(BEFORE_LOCK.take().is_none(), "the hook must have run");
    let census = engine.check().expect("the check must find no error");
    assert_eq!((census.allocated, census.claimed), (0, 0));
}
