//! Test of the number of objects that a flush frees to a slab together.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::base::{CpuId, Gfp, NodeId};
use crate::machine::objects::with_locked_slab;
use crate::page::Config;
use crate::platform::NoProbe;
use crate::platform::host::{Threads, run_on_cpu};
use crate::policy::Policy;
use crate::policy::slab::SlabPolicy;
use crate::slab::CacheConfig;

/// Frees objects of ten slabs in turn, and returns the number of objects of each step of the flush.
fn together(objects: SlabPolicy) -> Vec<usize> {
    const SLABS: usize = 10;
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = objects;
    let config = Config { policy, cpu_nodes: &[NodeId(0)], ..Config::default() };
    run_on_cpu(CpuId(0));
    with_locked_slab(Threads::<NoProbe>::default(), &config, 1 << 12, 1, |slab| {
        let handle = slab.create(&CacheConfig::new("together", 64)).expect("there is room");
        let (cache, in_slab) = (handle.info(), usize::from(handle.info().layout.objects));
        let allocated = (0..SLABS * in_slab).map(|_| handle.alloc(Gfp::KERNEL).expect("there is memory"));
        let mut all: Vec<_> = allocated.map(|object| ObjectAddress::from_ptr(object.as_ptr())).collect();
        all.sort_unstable();
        let mut in_turn: Vec<_> = (0..6 * SLABS).map(|at| all[at % SLABS * in_slab + at / SLABS]).collect();
        let mut flush = Flush::new(slab, cache, &mut in_turn);
        let mut groups = Vec::new();
        while !flush.objects.is_empty() {
            let neighbours = flush.next();
            groups.push(neighbours.len());
            flush.allocator.free_neighbours(cache, neighbours);
        }
        groups
    })
    .expect("the configuration is right")
}

/// Linux searches no further than past three objects of other slabs.
#[test]
fn bitmap_policy_frees_all_objects_of_a_slab_together() {
    assert_eq!(together(SlabPolicy::SheavesBitmap), [6; 10]);
    assert_eq!(together(SlabPolicy::Sheaves), [1; 60]);
}
