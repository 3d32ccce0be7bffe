//! Slabs are taken from a CPU on which a section has begun to free into one of them.

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
use crate::slab::{CacheConfig, KmemCache};

type Slabs<'s, 'm, 'l> = SlabAllocator<'s, 'm, Threads<NoProbe>, LateSections<'l>>;
type Cache<'k, 's, 'm, 'l> = KmemCache<'k, 's, 'm, Threads<NoProbe>, LateSections<'l>>;

/// Three objects of this size fill a slab.
const SIZE: u32 = 1344;
/// Slabs of which one more waits for CPU 0 than may.
const SLABS: usize = 5;

fn free(cache: &Cache<'_, '_, '_, '_>, cpu: u16, objects: impl IntoIterator<Item = NonNull<u8>>) {
    run_on_cpu(CpuId(cpu));
    // SAFETY: allocated from it, and freed once.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) }.unwrap());
}

/// Runs on a machine whose CPUs keep no free slab, and let four wait.
fn on_machine(objects: SlabPolicy, local: LateSections<'_>, run: impl FnOnce(&Slabs<'_, '_, '_>)) {
    let numbers =
        Numbers { slab_min_objects: Some(1), slab_max_order: Some(0), slab_cpu_free: Some(0), ..Numbers::default() };
    let mut policy = Policy { numbers, ..Policy::FREEHOLD };
    policy.slab.objects = objects;
    let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS as usize], ..Config::default() };
    run_on_cpu(CpuId(0));
    with_slab(Threads::default(), &config, 1 << 11, local, 1, |slab| run(slab)).unwrap();
}

/// All objects of so many slabs, and as many more, in the order in which they were allocated.
fn fill(cache: &Cache<'_, '_, '_, '_>, more: usize) -> Vec<NonNull<u8>> {
    (0..3 * SLABS + more).map(|_| cache.alloc(Gfp::KERNEL).unwrap()).collect()
}

/// CPU 0 has slabs of whose objects it and CPU 1 have freed one each, and is about to free the third of one, when that
/// slab is one too many.
fn free_meanwhile(objects: SlabPolicy) {
    let begun = Cell::new(None);
    let end = |cpu| {
        let Some((slab, word)) = begun.take().filter(|_| cpu == CpuId(0)) else { return };
        let slab: *const Slab = slab;
        // SAFETY: the metadata is there as long as the machine.
        unsafe { &*slab }.local.store(word, Release);
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
            // SAFETY: allocated above, and freed here alone.
            unsafe { set_freepointer(last, metadata.local().list(last.get()), cache.info().links) };
            metadata.local().with_freed(last).raw()
        };
        begun.set(Some((core::ptr::from_ref(metadata), word)));
        free(&cache, 1, [objects[1]]);
        assert!(begun.take().is_none(), "nobody waited for the section that had begun");
        // SAFETY: no other thread uses the slab meanwhile.
        let census = unsafe { slab.check() }.unwrap();
        assert_eq!(census.objects - census.free, SLABS as u64, "one of four slabs, and the last that was allocated");
        assert_eq!(slab.cpu_partial(CpuId(0), cache.id).lock().len(), 0, "all that waited are the node's");
    });
}

#[test]
fn whoever_gives_waiting_slabs_to_the_node_waits_for_a_free_that_had_begun() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        free_meanwhile(objects);
    }
}

/// Of one slab on the way to CPU 0 that CPU has taken back what was freed, since it still allocates from it: nothing
/// waits there.
#[test]
fn a_slab_of_which_all_was_taken_back_does_not_count_as_waiting() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        on_machine(objects, LateSections { end: &|_| () }, |slab| {
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

/// Whoever has slabs in hand does not come back: the node has them, and counts those that are wholly free.
#[test]
fn slabs_in_hand_are_the_nodes_if_their_holder_does_not_come_back() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        on_machine(objects, LateSections { end: &|_| () }, |slab| {
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
            // SAFETY: no other thread uses the slab meanwhile.
            unsafe { slab.check() }.unwrap();
        });
    }
}

/// What came in whatever order of address goes together, if it lies side by side.
#[test]
fn slabs_that_lie_side_by_side_are_given_back_together() {
    on_machine(SlabPolicy::Bitmap, LateSections { end: &|_| () }, |slab| {
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
        // SAFETY: no other thread uses the slab meanwhile.
        unsafe { slab.check() }.unwrap();
    });
}
