//! Slabs are taken from a CPU on which a section has begun to free into one of them.

extern crate std;

use core::cell::Cell;
use core::ptr::NonNull;
use std::vec::Vec;

use super::super::cpu::late::{CPUS, Late};
use super::super::freelist::set_link;
use super::*;
use crate::base::{Gfp, NodeId};
use crate::machine::objects::with_slab;
use crate::page::Config;
use crate::platform::NoProbe;
use crate::platform::host::{Threads, run_on_cpu};
use crate::policy::slab::SlabPolicy;
use crate::policy::{Numbers, Policy};
use crate::slab::{CacheConfig, KmemCache};

type Cache<'k, 's, 'm, 'l> = KmemCache<'k, 's, 'm, Threads<NoProbe>, Late<'l>>;

/// Three objects of this size fill a slab.
const SIZE: u32 = 1344;
/// Slabs of which one more waits for CPU 0 than may.
const SLABS: usize = 5;

fn free(cache: &Cache<'_, '_, '_, '_>, cpu: u16, objects: impl IntoIterator<Item = NonNull<u8>>) {
    run_on_cpu(CpuId(cpu));
    // SAFETY: allocated from it, and freed once.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) }.unwrap());
}

/// CPU 0 has slabs of whose objects it and CPU 1 have freed one each, and is about to free the third of one, when that slab
/// is one too many.
fn free_meanwhile(objects: SlabPolicy) {
    let numbers =
        Numbers { slab_min_objects: Some(1), slab_max_order: Some(0), slab_cpu_free: Some(0), ..Numbers::default() };
    let mut policy = Policy { numbers, ..Policy::FREEHOLD };
    policy.slab.objects = objects;
    let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS as usize], ..Config::default() };
    let begun = Cell::new(None);
    let end = |cpu| {
        let Some((slab, word)) = begun.take().filter(|_| cpu == CpuId(0)) else { return };
        let slab: *const Slab = slab;
        // SAFETY: the metadata is there as long as the machine.
        unsafe { &*slab }.local.store(word, Release);
    };
    with_slab(Threads::<NoProbe>::default(), &config, 1 << 11, Late { end: &end }, 1, |slab| {
        run_on_cpu(CpuId(0));
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let objects: Vec<_> = (0..3 * SLABS + 1).map(|_| cache.alloc(Gfp::KERNEL).unwrap()).collect();
        let of_each = |nth: usize| objects[..3 * SLABS].iter().copied().skip(nth).step_by(3);
        free(&cache, 0, of_each(0));
        free(&cache, 1, of_each(1).skip(1));
        let last = objects[2].as_ptr() as u64;
        let metadata = slab.map.slab(slab.map.pfn(last).unwrap());
        let word = if cache.info().has_bits {
            metadata.bits() | slab.bit_of(cache.id, last)
        } else {
            // SAFETY: allocated above, and freed here alone.
            unsafe { set_link(last, metadata.local().list(), cache.info().links) };
            metadata.local().with_freed(last).raw()
        };
        begun.set(Some((core::ptr::from_ref(metadata), word)));
        free(&cache, 1, [objects[1]]);
        assert!(begun.take().is_none(), "nobody waited for the section that had begun");
        // SAFETY: nothing else runs.
        let census = unsafe { slab.check() }.unwrap();
        assert_eq!(census.objects - census.free, SLABS as u64, "one of four slabs, and the last that was allocated");
        assert_eq!(slab.of_cpu(CpuId(0), cache.id).lock().len(), 0, "all that waited are the node's");
    })
    .unwrap();
}

#[test]
fn whoever_gives_waiting_slabs_to_the_node_waits_for_a_free_that_had_begun() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        free_meanwhile(objects);
    }
}
