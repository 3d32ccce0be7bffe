//! What another caller does between a look without the lock and the lock: what was seen is looked at again under it.
//!
//! Nobody waits for anybody: the lock of this platform lets a scene do something when it is asked for, before it
//! closes.

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
    /// What happens when a zone's lock is asked for next.
    static BEFORE_LOCK: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
    /// What is put there once a request above order 0 was served that may use the reserve.
    static ONCE_SERVED: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

/// A lock before which a scene happens.
struct LateLock(SoloLock);

// SAFETY: exclusion is `SoloLock`'s; the scene comes before it is asked.
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
        // SAFETY: the caller holds the lock, by this function's own contract.
        unsafe { self.0.unlock(rank) }
    }
}

/// One thread, and a CPU that the scene chooses.
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

/// All memory of one zone, free. Scenes run from within a lock, which cannot borrow: the machine stays for ever.
fn machine(policy: Policy, pages: u32) -> &'static PageAllocator<'static, Late> {
    let config = Config { cpu_nodes: &[NodeId(0); 2], policy, ..Config::default() };
    let memory = [range(ZoneKind::Normal, 0, 0, pages)];
    let bytes = Box::leak(Box::new(Memory::on::<Late>(&config, &memory)));
    let engine = Box::leak(Box::new(build_on(Late::default(), &config, &memory, bytes)));
    engine.release(Pfn::new(0), Pfn::new(pages)).expect("the range is online");
    engine
}

/// The cap is looked at before the lock is taken, so as not to take it in vain, and under it, because others may have
/// reserved in between. linux: mm/page_alloc.c:reserve_highatomic_pageblock
#[test]
fn a_reserve_that_others_filled_meanwhile_does_not_grow() {
    let engine = machine(Policy::LINUX_6_12, PAGES);
    engine.set_up_watermarks(MinFree::Pages(40_000));
    let zone = engine.zone(NodeId(0), ZoneKind::Normal);
    while zone.free_pages() > zone.watermarks().low {
        engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::MAX).expect("memory is left");
    }
    ONCE_SERVED.set(Some(Box::new(|| {
        // Whole blocks: the one that the first caller was served from is nobody else's.
        engine.platform().cpu.set(1);
        while zone.reserved_highatomic() < CAP {
            engine.alloc_pages(Gfp::ATOMIC, Order::MAX).expect("the min mark is far");
        }
        engine.platform().cpu.set(0);
    })));
    assert_eq!(zone.reserved_highatomic(), 0);
    let block = engine.alloc_pages(Gfp::ATOMIC, Order::new(2)).expect("the min mark is far");
    assert!(ONCE_SERVED.take().is_none() && BEFORE_LOCK.take().is_none(), "the others came between");
    assert_eq!(zone.reserved_highatomic(), 3 * u64::from(Order::MAX.pages()), "what the others reserved");
    assert!(engine.map().pageblock(block).migratetype().is_mergeable());
    engine.check().expect("nothing is lost");
}

/// What somebody else frees of a range, after it was looked over, is reported; every other page of it goes back.
#[test]
fn a_range_of_which_others_free_a_page_meanwhile_goes_back_but_for_that() {
    for contig in [ContigPolicy::OneByOne, ContigPolicy::Batched] {
        let engine = machine(Policy { contig, pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, 1 << 12);
        let order = Order::new(3);
        let block = engine.alloc_pages(Gfp::KERNEL, order).expect("memory is plenty");
        engine.split_page(block, order).expect("it is ours");
        // Others refer to the fourth page too, which ends what can be claimed at once.
        engine.get_page(block.offset(3)).expect("it is ours");
        let stolen = block.offset(5);
        BEFORE_LOCK.set(Some(Box::new(move || engine.free_pages(stolen, Order::ZERO).expect("it is allocated"))));
        let error = engine.free_contig_range(block..block.offset(8)).expect_err("a page was taken away");
        assert!(matches!(error, FreeError::NotAllocated { pfn, .. } if pfn == stolen), "{contig:?}: {error}");
        assert_eq!(engine.check().expect("nothing is lost").allocated, 1, "{contig:?}: what others refer to");
    }
}
