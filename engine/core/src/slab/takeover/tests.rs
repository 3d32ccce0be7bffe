//! Tests of slabs that are taken from a CPU while a section on it has begun to free into one of them.

extern crate std;

use core::cell::Cell;
use core::ptr::NonNull;
use std::vec::Vec;

use super::super::address::ObjectAddress;
use super::super::cpu::late::{CPUS, LateSections};
use super::super::freelist::set_freepointer;
use super::*;
use crate::base::{Gfp, NodeId};
use crate::machine::objects::with_slab;
use crate::page::Config;
use crate::platform::NoProbe;
use crate::platform::host::{Threads, run_on_cpu};
use crate::policy::slab::SlabPolicy;
use crate::policy::{Numbers, Policy};
use crate::slab::{CacheConfig, KmemCache, SlabViolation};

type Slabs<'s, 'm, 'l> = SlabAllocator<'s, 'm, Threads<NoProbe>, LateSections<'l>>;
type Cache<'k, 's, 'm, 'l> = KmemCache<'k, 's, 'm, Threads<NoProbe>, LateSections<'l>>;

/// Object size, three of which fill a slab.
const SIZE: u32 = 1344;
/// Number of slabs, one more than may wait for CPU 0.
const SLABS: usize = 5;

fn free(cache: &Cache<'_, '_, '_, '_>, cpu: u16, objects: impl IntoIterator<Item = NonNull<u8>>) {
    run_on_cpu(CpuId(cpu));
    // SAFETY: the objects were allocated from this cache, and are freed once.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) }.unwrap());
}

/// Runs a test on a machine whose CPUs keep no free slab, and on which four slabs may wait for a CPU.
fn on_machine(objects: SlabPolicy, local: LateSections<'_>, run: impl FnOnce(&Slabs<'_, '_, '_>)) {
    let numbers =
        Numbers { slab_min_objects: Some(1), slab_max_order: Some(0), slab_cpu_free: Some(0), ..Numbers::default() };
    let mut policy = Policy { numbers, ..Policy::FREEHOLD };
    policy.slab.objects = objects;
    let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS as usize], ..Config::default() };
    run_on_cpu(CpuId(0));
    with_slab(Threads::default(), &config, 1 << 11, local, 1, |slab| run(slab)).unwrap();
}

/// Allocates all objects of `SLABS` slabs, and `more` objects in addition. Returns them in the order of allocation.
fn fill(cache: &Cache<'_, '_, '_, '_>, more: usize) -> Vec<NonNull<u8>> {
    (0..3 * SLABS + more).map(|_| cache.alloc(Gfp::KERNEL).unwrap()).collect()
}

/// Moves waiting slabs to the node while CPU 0 frees into one of them. CPU 0 has five slabs. It has freed an object of
/// each of them, and CPU 1 an object of each of four. A section on CPU 0 has begun to free the last object of the fifth
/// slab when CPU 1 frees into that slab too, so that one slab too many waits.
fn free_meanwhile(objects: SlabPolicy) {
    let begun = Cell::new(None);
    let end = |cpu| {
        let Some((slab, word)) = begun.take().filter(|_| cpu == CpuId(0)) else {
            return FenceOutcome::Ended;
        };
        let slab: *const Slab = slab;
        // SAFETY: the slab's metadata exists as long as the machine does.
        unsafe { &*slab }.local.store(word, Release);
        FenceOutcome::Ended
    };
    on_machine(objects, LateSections { end: &end }, |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let objects = fill(&cache, 1);
        let in_slabs = objects[..3 * SLABS].iter().copied();
        free(&cache, 0, in_slabs.clone().step_by(3));
        free(&cache, 1, in_slabs.skip(4).step_by(3));
        let last = ObjectAddress::from_ptr(objects[2].as_ptr());
        let metadata = slab.map.slab(slab.map.pfn(last.get()).unwrap());
        let word = if cache.info().has_bits {
            metadata.bits().with(slab.bit_of(cache.id, last)).raw()
        } else {
            // SAFETY: the object was allocated above, and is freed only here.
            unsafe { set_freepointer(last, metadata.local().list(last.get()), cache.info().links) };
            metadata.local().with_freed(last).raw()
        };
        begun.set(Some((core::ptr::from_ref(metadata), word)));
        free(&cache, 1, [objects[1]]);
        assert!(begun.take().is_none(), "nobody waited for the section that had begun");
        // SAFETY: this is the only thread, so nothing uses the allocator during the check.
        let census = unsafe { slab.check() }.unwrap();
        assert_eq!(census.objects - census.free, SLABS as u64, "one of four slabs, and the last that was allocated");
        assert_eq!(slab.cpu_partial(CpuId(0), cache.id).lock().len(), 0, "all that waited are the node's");
    });
}

#[test]
fn takeover_waits_for_a_started_free() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        free_meanwhile(objects);
    }
}

/// CPU 0 does not answer the fence, so a section on it may still free into the slabs that were taken from it. Therefore
/// no node gets these slabs, and their free objects are lost.
#[test]
fn slabs_of_a_cpu_that_does_not_answer_are_leaked() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        on_machine(objects, LateSections { end: &|_| FenceOutcome::Unanswered }, |slab| {
            let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
            let objects_of_slabs = fill(&cache, 1);
            free(&cache, 1, objects_of_slabs[..3 * SLABS].iter().copied().step_by(3));
            assert_eq!(slab.cpu_partial(CpuId(0), cache.id).lock().len(), 0, "{objects:?}");
            assert_eq!(slab.node_partial(NodeId(0), cache.id).lock().len(), 0, "{objects:?}");
            // SAFETY: this is the only thread, so nothing uses the allocator during the check.
            let violation = unsafe { slab.check() }.expect_err("leaked slabs are on no list");
            assert!(matches!(violation, SlabViolation::Lost { .. }), "{objects:?}: {violation}");
        });
    }
}

/// One of the slabs on CPU 0's stack has no remote frees any more: CPU 0 still allocates from it, and has taken them
/// back. So that slab is not counted as waiting.
#[test]
fn fully_reallocated_slab_does_not_count_as_waiting() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        on_machine(objects, LateSections { end: &|_| FenceOutcome::Ended }, |slab| {
            let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
            let objects = fill(&cache, 0);
            let (others, current) = objects.split_at(3 * (SLABS - 1));
            free(&cache, 1, [current[0]]);
            run_on_cpu(CpuId(0));
            assert_eq!(cache.alloc(Gfp::KERNEL), Ok(current[0]));
            free(&cache, 1, others.iter().copied().step_by(3));
            let list = slab.cpu_partial(CpuId(0), cache.id).lock();
            assert_eq!((list.len(), list.waiting()), (SLABS as u32, SLABS as u32 - 1), "{objects:?}");
        });
    }
}

/// The holder of disowned slabs does not finish, as in a panic. The node then has these slabs, and counts those that
/// are wholly free.
#[test]
fn dropped_disowned_slabs_return_to_the_node() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        on_machine(objects, LateSections { end: &|_| FenceOutcome::Ended }, |slab| {
            let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
            let objects = fill(&cache, 1);
            free(&cache, 1, objects[..4].iter().copied());
            let mut disowned = slab.disowned_slabs(cache.info());
            let mut list = slab.cpu_partial(CpuId(0), cache.id).lock();
            slab.flush_cpu_stack(CpuId(0), cache.id, &mut list);
            while let Some(pfn) = list.first() {
                list.remove(slab.map, pfn);
                disowned.disown(pfn);
            }
            drop(list);
            drop(disowned);
            let list = slab.node_partial(NodeId(0), cache.id).lock();
            assert_eq!((list.len(), list.wholly_free()), (2, 1), "{objects:?}");
            drop(list);
            // SAFETY: this is the only thread, so nothing uses the allocator during the check.
            unsafe { slab.check() }.unwrap();
        });
    }
}

/// Adjacent slabs that were added one after the other are given back together, if they were added in ascending or
/// descending order of addresses.
#[test]
fn adjacent_disowned_slabs_are_freed_together() {
    on_machine(SlabPolicy::Bitmap, LateSections { end: &|_| FenceOutcome::Ended }, |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let info = cache.info();
        for (came, together) in [
            ([0, 1, 2, 3], [(0, 4)].as_slice()),
            ([3, 2, 1, 0], &[(0, 4)]),
            ([1, 0, 2, 3], &[(2, 4), (0, 2)]),
            ([0, 2, 1, 3], &[(3, 4), (0, 3)]),
        ] {
            let slabs = slab.new_slabs(info, Gfp::KERNEL, NodeId(0), 2).unwrap();
            let mut disowned = slab.disowned_slabs(info);
            came.into_iter().for_each(|at| disowned.disown(slabs.start.offset(at)));
            let runs: Vec<_> = core::iter::from_fn(|| disowned.pop_adjacent()).collect();
            let places: Vec<_> = runs
                .iter()
                .map(|run| (run.start.raw() - slabs.start.raw(), run.end.raw() - slabs.start.raw()))
                .collect();
            assert_eq!(places, together, "those that came last are the first, and these came as {came:?}");
            runs.into_iter().for_each(|run| slab.discard_slabs(info, run));
        }
        assert_eq!(cache.slabs(), 0);
        // SAFETY: this is the only thread, so nothing uses the allocator during the check.
        unsafe { slab.check() }.unwrap();
    });
}
