//! A probe that calls the slab while the page allocator holds its locks, which is forbidden. The call panics in the
//! lock that it needs, or succeeds if no held lock is in the way. In either case the slab stays in order.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use freehold::base::lock::RawLock;
use freehold::base::{CpuId, Gfp, NodeId};
use freehold::machine::objects::{HostCpu, with_slab};
use freehold::page::Config;
use freehold::platform::host::{CheckedSpinLock, Threads};
use freehold::platform::{Event, Probe};
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::{CacheConfig, SlabAllocator};

use crate::common::panic_hook;
use crate::slab::world::{policies, run_on};

type Slab<'n, 'm, 'l> = SlabAllocator<'n, 'm, Threads<Caller>, CpuLocks<'l, CheckedSpinLock, HostCpu>>;
type Misdeed = fn(&Slab<'_, '_, '_>);

const CPUS: usize = 3;
/// Maximum number of calls.
const MISDEEDS_MAX: u32 = 60;
const SIZE: u32 = 1344;

const MISDEEDS: [(&str, Misdeed); 6] = [
    ("kmalloc and kfree", |slab| {
        let object = slab.kmalloc(1000, Gfp::NOWAIT).expect("enough memory must be free");
        // SAFETY: the object was just allocated and is not used any more.
        unsafe { slab.kfree(object) }.expect("the pointer must be an object in use");
    }),
    ("a block", |slab| _ = slab.kmalloc(3 * 4096, Gfp::KERNEL)),
    ("shrink", |slab| slab.shrink()),
    ("usage", |slab| slab.usage(|_, usage| assert!(usage.active <= usage.objects))),
    ("a CPU that comes and goes", |slab| {
        slab.cpu_dead(CpuId(0));
        slab.cpu_online(CpuId(0));
    }),
    ("a cache", |slab| _ = slab.create(&CacheConfig::new("guest", SIZE)).map(|cache| cache.alloc(Gfp::NOWAIT))),
];

std::thread_local! {
    /// Address of the slab while the probe may call it; and the number of the misdeed, with the number of its calls so
    /// far.
    static SLAB: Cell<usize> = const { Cell::new(0) };
    static MISDEED: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

#[derive(Debug)]
struct Caller;

impl Probe for Caller {
    fn report(&self, _: Event) {
        let (which, done) = MISDEED.get();
        let slab = SLAB.take();
        if slab == 0 || done > MISDEEDS_MAX {
            SLAB.set(slab);
            return;
        }
        MISDEED.set((which, done + 1));
        // SAFETY: `SLAB` is set only while the slab exists, and holds its address.
        let called = unsafe { &*(slab as *const Slab<'_, '_, '_>) };
        _ = catch_unwind(AssertUnwindSafe(|| MISDEEDS[which].1(called)));
        SLAB.set(slab);
    }
}

fn work(slab: &Slab<'_, '_, '_>) {
    let cache = slab.create(&CacheConfig::new("work", SIZE)).expect("the cache can be created");
    for round in 0..4 {
        run_on(round % 3);
        let objects: Vec<NonNull<u8>> = (0..60).filter_map(|_| cache.alloc(Gfp::NOWAIT).ok()).collect();
        run_on((round + 1) % 3);
        for (at, object) in objects.into_iter().enumerate() {
            run_on(at as u16 % 2);
            // SAFETY: the object was allocated above from this cache and is not used any more.
            unsafe { cache.free(object) }.expect("the pointer must be an object in use");
        }
        slab.shrink();
    }
    run_on(0);
}

#[test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only debug builds check ranks; elsewhere the probe waits for a lock of its own"
)]
fn probe_may_call_the_slab() {
    panic_hook::silence(|_| MISDEED.get().1 != 0);
    for policy in policies() {
        for (which, (name, _)) in MISDEEDS.iter().enumerate() {
            let locks = [(); CPUS].map(|()| CheckedSpinLock::new());
            let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS], ..Config::default() };
            run_on(0);
            with_slab(Threads::new(Caller), &config, 1 << 11, CpuLocks::new(&locks, HostCpu), 7, |slab| {
                MISDEED.set((which, 0));
                SLAB.set(core::ptr::from_ref(slab) as usize);
                let worked = catch_unwind(AssertUnwindSafe(|| work(slab)));
                SLAB.set(0);
                let (_, done) = MISDEED.replace((0, 0));
                let scene = format!("{name} under {:?}", policy.slab.objects);
                assert!(worked.is_ok() && done > 10, "{scene}: {done} calls");
                // SAFETY: no other thread uses the allocator, and the pages are checked only.
                let (objects, pages) = unsafe { (slab.check(), slab.pages().check()) };
                objects.unwrap_or_else(|violation| panic!("{scene}: {violation}"));
                pages.unwrap_or_else(|violation| panic!("{scene}: {violation}"));
            })
            .expect("the configuration must be valid");
        }
    }
}
