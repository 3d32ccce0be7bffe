//! Tests of internal state: the sheaf that an object is in, and planted defects that the consistency check finds.

extern crate std;

use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::cell::RefCell;
use std::sync::mpsc;
use std::vec::Vec;

use super::super::cpu::FenceOutcome;
use super::super::cpu::late::LateSections;
use super::super::cpu::locked::{CpuLocks, CurrentCpu};
use super::super::cpu::section::Sections;
use super::*;
use crate::machine::objects::{HostCpu, with_locked_slab, with_slab};
use crate::machine::with_ranges;
use crate::page::Config;
use crate::platform::NoProbe;
use crate::platform::host::{CheckedSpinLock, Threads, current_cpu, run_on_cpu};
use crate::policy::Policy;
use crate::policy::slab::SlabPolicy;
use crate::slab::{AtomicU64, KmemCache, ObjectFreeError, SlabCensus, SlabViolation};

mod bulk;
mod double_free;
mod slab_batches;

type Machine<'l, 's, 'm> = SlabAllocator<'s, 'm, Threads<NoProbe>, CpuLocks<'l, CheckedSpinLock, HostCpu>>;

const GFP: Gfp = Gfp::KERNEL;
/// Object size for which a sheaf has room for 60 objects.
const SIZE: u32 = 64;
const CAPACITY: usize = 60;

fn policy() -> Policy {
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = SlabPolicy::Sheaves;
    policy.numbers.slab_sheaf = None;
    policy
}

/// Checks that every object of every slab is in exactly one place.
fn check<C: CpuLocal>(slab: &SlabAllocator<'_, '_, Threads<NoProbe>, C>) -> Result<SlabCensus, SlabViolation> {
    // SAFETY: only one thread of each test uses the allocator at the time of the check.
    unsafe { slab.check() }
}

/// Runs a test on a machine with a CPU for each of these nodes. All memory is on node 0.
fn on_machine(cpu_nodes: &[NodeId], run: impl FnOnce(&Machine<'_, '_, '_>)) {
    on_machine_with(policy(), cpu_nodes, run);
}

/// Runs a test on such a machine under a given policy.
fn on_machine_with(policy: Policy, cpu_nodes: &[NodeId], run: impl FnOnce(&Machine<'_, '_, '_>)) {
    let nodes = cpu_nodes.iter().max().map_or(1, |node| node.0 + 1);
    let config = Config { policy, cpu_nodes, nodes, ..Config::default() };
    run_on_cpu(CpuId(0));
    with_locked_slab(Threads::default(), &config, 1 << 12, 1, |slab| run(slab)).unwrap();
}

/// Returns the numbers of objects in the main sheaf, in the spare, and in the barn of a CPU.
fn held(slab: &SlabAllocator<'_, '_, Threads<NoProbe>, impl CpuLocal>, id: CacheId, cpu: CpuId) -> [usize; 3] {
    let slot = slab.slot(cpu, id);
    let in_main = slab.lock_pcs(cpu, slab.cache(id).unwrap()).main_len() as usize;
    // SAFETY: no other code runs, and the value is not used after this line, so the sheaf still has one holder.
    let in_spare = unsafe { OwnedSheaf::from_word(slot.paired.load(Relaxed)) }.map_or(0, |sheaf| sheaf.len());
    [in_main, in_spare, slab.barn(slab.pages.node_of(cpu), id).iter().map(OwnedSheaf::len).sum()]
}

fn allocate(cache: &KmemCache<'_, '_, '_, Threads<NoProbe>, impl CpuLocal>, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc(GFP).unwrap()).collect()
}

fn free(cache: &KmemCache<'_, '_, '_, Threads<NoProbe>, impl CpuLocal>, objects: &[NonNull<u8>]) {
    for &object in objects {
        // SAFETY: the object was allocated from this cache, and is freed once.
        unsafe { cache.free(object).unwrap() };
    }
}

#[test]
fn objects_move_in_whole_sheaves_between_main_and_barn() {
    go_through_sheaves(policy(), CAPACITY);
}

#[test]
fn bitmap_objects_move_in_whole_sheaves() {
    go_through_sheaves(Policy::FREEHOLD, 124);
}

fn go_through_sheaves(policy: Policy, capacity: usize) {
    on_machine_with(policy, &[NodeId(0)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let objects = allocate(&cache, 1);
        assert_eq!(
            held(slab, cache.id, CpuId(0)),
            [capacity - 1, 0, 0],
            "a refill fills one sheaf, and hands out of it"
        );
        let more = allocate(&cache, 13 * capacity);
        free(&cache, &objects);
        assert_eq!(held(slab, cache.id, CpuId(0))[0], capacity, "a free goes into the main sheaf");
        free(&cache, &more[..capacity]);
        assert_eq!(held(slab, cache.id, CpuId(0)), [capacity, capacity, 0], "then the other one is filled");
        free(&cache, &more[capacity..2 * capacity]);
        assert_eq!(held(slab, cache.id, CpuId(0)), [capacity, capacity, capacity], "then full ones go to the barn");
        free(&cache, &more[2 * capacity..]);
        assert_eq!(
            held(slab, cache.id, CpuId(0)),
            [capacity, capacity, 10 * capacity],
            "which has room for ten; the rest went to slabs"
        );
        check(slab).unwrap();
        let again = allocate(&cache, 12 * capacity);
        assert_eq!(
            held(slab, cache.id, CpuId(0)),
            [0, 0, 0],
            "the sheaves must be emptied before an object of a slab is allocated"
        );
        free(&cache, &again);
        cache.destroy().unwrap();
        slab.shrink();
        assert_eq!(check(slab).unwrap().slabs, 0);
    });
}

#[test]
fn free_of_a_remote_node_object_bypasses_the_sheaf() {
    on_machine(&[NodeId(0), NodeId(1)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let objects = allocate(&cache, 3);
        run_on_cpu(CpuId(1));
        free(&cache, &objects[..1]);
        assert_eq!(held(slab, cache.id, CpuId(1)), [0, 0, 0], "its memory is on node 0");
        let own = allocate(&cache, 1);
        let before = held(slab, cache.id, CpuId(1));
        free(&cache, &objects[2..]);
        assert_eq!(held(slab, cache.id, CpuId(1)), before, "nor does it go where a sheaf has room");
        free(&cache, &own);
        run_on_cpu(CpuId(0));
        let before = held(slab, cache.id, CpuId(0))[0];
        free(&cache, &objects[1..2]);
        assert_eq!(held(slab, cache.id, CpuId(0))[0], before + 1);
        check(slab).unwrap();
        cache.destroy().unwrap();
    });
}

#[test]
fn memoryless_node_uses_surplus_slabs_of_other_nodes() {
    on_machine(&[NodeId(0), NodeId(1)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", 1024)).unwrap();
        run_on_cpu(CpuId(1));
        let objects = allocate(&cache, 1000);
        let needed = 1000_u64.div_ceil(u64::from(cache.info().layout.objects));
        let most = needed + u64::from(cache.info().limits.node_free) + 1;
        assert!(cache.slabs() <= most, "{} slabs for {needed}", cache.slabs());
        free(&cache, &objects);
        check(slab).unwrap();
    });
}

/// Destroys the caches of sheaves, so that there is no memory for a sheaf from now on.
fn destroy_sheaf_caches(slab: &Machine<'_, '_, '_>) {
    let ids: Vec<_> = slab.each_cache().map(|cache| cache.id).filter(|&id| id >= slab.first_of_sheaves()).collect();
    ids.into_iter().for_each(|id| KmemCache { slab, id }.destroy().unwrap());
}

#[test]
fn without_sheaf_memory_objects_bypass_sheaves() {
    on_machine(&[NodeId(0)], |slab| {
        destroy_sheaf_caches(slab);
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let mut objects = allocate(&cache, 200);
        objects.sort();
        objects.dedup();
        assert_eq!(objects.len(), 200);
        assert_eq!(held(slab, cache.id, CpuId(0)), [0, 0, 0]);
        check(slab).unwrap();
        let mut more = [NonNull::dangling(); 100];
        cache.alloc_bulk(GFP, &mut more).unwrap();
        // SAFETY: the objects were allocated above, and are freed once.
        unsafe { cache.free_bulk(&more).unwrap() };
        free(&cache, &objects);
        check(slab).unwrap();
        cache.destroy().unwrap();
    });
}

/// Source of the current CPU that moves its caller to a random CPU, on average once per `one_in` calls.
#[derive(Debug)]
struct Restless {
    luck: RefCell<fastrand::Rng>,
    one_in: u32,
}

// SAFETY: the value is used by one thread only, so its cell is never shared.
unsafe impl Sync for Restless {}

impl CurrentCpu for &Restless {
    fn cpu(&self) -> CpuId {
        let mut luck = self.luck.borrow_mut();
        if luck.u32(0..self.one_in) == 0 {
            run_on_cpu(CpuId(luck.u16(0..2)));
        }
        current_cpu()
    }
}

/// With these rates and seeds, the caller is moved at each step of an exchange at some time.
#[test]
fn migrated_caller_loses_no_object() {
    for one_in in 2..12 {
        let restless = Restless { luck: RefCell::new(fastrand::Rng::with_seed(7)), one_in };
        let locks: [CheckedSpinLock; 2] = [RawLock::new(), RawLock::new()];
        let config = Config { policy: policy(), cpu_nodes: &[NodeId(0); 2], ..Config::default() };
        let local = CpuLocks::new(&locks, &restless);
        with_slab(Threads::<NoProbe>::default(), &config, 1 << 12, local, 1, |slab| {
            let cache = slab.create(&CacheConfig::new("objects", 2048)).unwrap();
            for round in 0..40 {
                let mut objects = allocate(&cache, 40 + round);
                let mut bulk = [NonNull::dangling(); 70];
                cache.alloc_bulk(GFP, &mut bulk).unwrap();
                // SAFETY: the objects were allocated above, and are freed once.
                unsafe { cache.free_bulk(&bulk).unwrap() };
                check(slab).unwrap();
                objects.sort();
                objects.dedup();
                assert_eq!(objects.len(), 40 + round, "one in {one_in}");
                free(&cache, &objects);
                check(slab).unwrap();
            }
            cache.destroy().unwrap();
            slab.shrink();
            assert_eq!(check(slab).unwrap().slabs, 0, "one in {one_in}");
        })
        .unwrap();
    }
}

/// A section on CPU 1 has read the place of its main sheaf's last object, and commits its push when it is fenced.
#[test]
fn flush_waits_for_a_started_push() {
    let push = RefCell::new(None);
    let end = |_| {
        let Some((main, top, object)): Option<(*const AtomicU64, Top, _)> = push.take() else {
            return FenceOutcome::Ended;
        };
        // SAFETY: the sheaf still exists and has room, since no code may change it before the fence has ended.
        unsafe {
            top.up().place().write(object);
            (*main).store(top.up().raw(), SeqCst);
        }
        FenceOutcome::Ended
    };
    let config = Config { policy: policy(), cpu_nodes: &[NodeId(0); 2], ..Config::default() };
    let local = LateSections { end: &end };
    with_slab(Threads::<NoProbe>::default(), &config, 1 << 12, local, 1, |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        run_on_cpu(CpuId(1));
        let object = ObjectAddress::from_ptr(cache.alloc(GFP).unwrap().as_ptr());
        let main = slab.slot(CpuId(1), cache.id).main;
        push.replace(Some((core::ptr::from_ref(main), Top::from_raw(main.load(Relaxed)), object)));
        run_on_cpu(CpuId(0));
        slab.pcs_flush_all_cpu(CpuId(1), cache.info());
        assert!(push.borrow().is_none(), "nobody waited");
        check(slab).unwrap();
        cache.destroy().expect("the late object is freed with the others");
    })
    .unwrap();
}

/// Sections whose caller once read its CPU's number as CPU 1, which is offline, and runs on CPU 0 otherwise.
#[derive(Debug)]
struct MovedCaller<'a> {
    looks: &'a AtomicUsize,
    at: usize,
}

// SAFETY: the test has one thread, so sections do not overlap.
unsafe impl Sections for MovedCaller<'_> {
    type Section<'a>
        = ()
    where
        Self: 'a;

    fn cpus(&self) -> u16 {
        2
    }

    fn cpu(&self) -> CpuId {
        CpuId(u16::from(self.looks.fetch_add(1, Relaxed) == self.at))
    }

    fn enter(&self) -> (CpuId, ()) {
        (CpuId(0), ())
    }

    fn fence(&self, _: CpuId) -> FenceOutcome {
        FenceOutcome::Ended
    }
}

#[test]
fn offline_cpu_keeps_no_sheaf() {
    let config = Config { policy: policy(), cpu_nodes: &[NodeId(0); 2], ..Config::default() };
    let looks = AtomicUsize::new(0);
    for at in 0..200 {
        looks.store(0, Relaxed);
        with_slab(Threads::<NoProbe>::default(), &config, 1 << 12, MovedCaller { looks: &looks, at }, 1, |slab| {
            let cache = slab.create(&CacheConfig::new("objects", 2048)).unwrap();
            slab.cpu_dead(CpuId(1));
            let objects = allocate(&cache, 40);
            free(&cache, &objects);
            let mut bulk = [NonNull::dangling(); 70];
            cache.alloc_bulk(GFP, &mut bulk).unwrap();
            // SAFETY: the objects were allocated above, and are freed once.
            unsafe { cache.free_bulk(&bulk).unwrap() };
            assert_eq!(held(slab, cache.id, CpuId(1))[..2], [0, 0], "after look {at}");
            check(slab).unwrap();
            cache.destroy().unwrap();
        })
        .unwrap();
    }
    assert!(looks.into_inner() < 200, "each look was the one");
}

/// Threads on two CPUs pass objects to each other, while the main thread repeatedly takes all objects from the CPUs.
#[test]
fn threads_that_exchange_objects_lose_none() {
    const THREADS: usize = 4;
    on_machine(&[NodeId(0); 2], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", 256)).unwrap();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<u64>()).unzip();
        let left = AtomicUsize::new(THREADS);
        std::thread::scope(|scope| {
            for (at, receiver) in receivers.into_iter().enumerate() {
                let (to, cache, left) = (senders[(at + 1) % THREADS].clone(), &cache, &left);
                scope.spawn(move || {
                    run_on_cpu(CpuId(at as u16 % 2));
                    for tag in 0..20_000_u64 {
                        let object = cache.alloc(GFP).unwrap().cast::<[u64; 2]>();
                        let address = object.as_ptr().expose_provenance() as u64;
                        // SAFETY: the object was allocated above and is not shared yet. It has 256 bytes and is aligned
                        // to 8.
                        unsafe { object.write([tag, address]) };
                        to.send(address).unwrap();
                        take_in(cache, receiver.try_iter());
                    }
                    drop(to);
                    take_in(cache, receiver.into_iter());
                    left.fetch_sub(1, SeqCst);
                });
            }
            drop(senders);
            while left.load(SeqCst) > 0 {
                cache.shrink();
                std::thread::yield_now();
            }
        });
        check(slab).unwrap();
        cache.destroy().unwrap();
        slab.shrink();
        assert_eq!(check(slab).unwrap().slabs, 0);
    });
}

/// Frees objects that another thread has passed on, after checking that they still contain their own address.
fn take_in(cache: &KmemCache<'_, '_, '_, Threads<NoProbe>, impl CpuLocal>, objects: impl Iterator<Item = u64>) {
    for address in objects {
        let object = NonNull::new(address as *mut u8).unwrap();
        // SAFETY: the thread that allocated the object has passed it on and does not use it any more. The object is
        // read and freed here only.
        unsafe {
            assert_eq!(object.cast::<[u64; 2]>().read()[1], address);
            cache.free(object).unwrap();
        }
    }
}

/// With the header of Linux, which is larger, the objects would fill a power of two.
#[test]
fn sheaf_memory_is_a_power_of_two_with_linux_header() {
    on_machine(&[NodeId(0)], |slab| {
        let mut sizes = Vec::new();
        slab.usage(|cache, _| {
            if cache.name.as_str().starts_with("sheaf") {
                sizes.push(cache.layout.object_size);
            }
        });
        assert_eq!(sizes, [4, 12, 28, 60, 124].map(|capacity| (capacity + 4) * 8));
    });
}

/// Plants a defect in the full sheaves of a CPU, and returns the violation that the check finds.
fn violation_of(plant: fn(&Machine<'_, '_, '_>, CacheId)) -> Option<SlabViolation> {
    let mut found = None;
    on_machine(&[NodeId(0)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let objects = allocate(&cache, 2 * CAPACITY);
        free(&cache, &objects);
        check(slab).unwrap();
        plant(slab, cache.id);
        found = check(slab).err();
    });
    found
}

#[test]
fn check_finds_lost_and_duplicate_objects() {
    let lost = violation_of(|slab, id| slab.slot(CpuId(0), id).paired.store(0, SeqCst));
    assert!(matches!(lost, Some(SlabViolation::Sheaves { expected: 2, found: 1 })), "{lost:?}");
    let twice = violation_of(|slab, id| {
        let main = slab.local.pop_sheaf(slab.slots(id)).unwrap();
        let mut pcs = slab.lock_pcs(CpuId(0), slab.cache(id).unwrap());
        let mut spare = pcs.take_spare().unwrap();
        spare.take(&mut [UNWRITTEN]);
        spare.put(&[main]);
        pcs.set_spare(spare).unwrap();
        drop(pcs);
        // SAFETY: the object was popped from the main sheaf and belongs to the test. Having put it into the spare too
        // is the planted defect.
        assert_eq!(unsafe { slab.local.push_sheaf(slab.slots(id), main) }, PushOutcome::Done);
    });
    assert!(matches!(twice, Some(SlabViolation::Shared { .. })), "{twice:?}");
    let listed = violation_of(|slab, id| {
        let object = slab.local.pop_sheaf(slab.slots(id)).unwrap();
        // SAFETY: the object was popped from this sheaf and belongs to the test. Flushing it as well afterwards is the
        // planted defect.
        assert_eq!(unsafe { slab.local.push_sheaf(slab.slots(id), object) }, PushOutcome::Done);
        slab.flush(slab.cache(id).unwrap(), &mut [object]);
    });
    assert!(matches!(listed, Some(SlabViolation::Shared { .. })), "{listed:?}");
    let overfull = violation_of(|slab, id| {
        let main = slab.slot(CpuId(0), id).main;
        let over = Top::from_raw(main.load(Relaxed)).up();
        // SAFETY: the sheaf is full, so the place above its last object is the ceiling, which is part of its memory.
        unsafe { over.place().write(over.down().place().read()) };
        main.store(over.raw(), SeqCst);
    });
    assert!(matches!(overfull, Some(SlabViolation::Sheaf { .. })), "{overfull:?}");
    let foreign = violation_of(|slab, id| {
        let none = ObjectAddress::new(slab.local.pop_sheaf(slab.slots(id)).unwrap().get() + 8);
        // SAFETY: the planted defect is an address at which no object starts. The address is only stored and compared.
        assert_eq!(unsafe { slab.local.push_sheaf(slab.slots(id), none) }, PushOutcome::Done);
    });
    assert!(matches!(foreign, Some(SlabViolation::Sheaf { .. })), "{foreign:?}");
}
