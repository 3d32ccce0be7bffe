//! Test of the number of objects that a flush frees to a slab together.

extern crate std;

use core::ops::Range;
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

/// Number of slabs that [`together`] fills.
const SLABS: usize = 20;

/// Frees objects, each given by the number of its slab and its number in the slab. Returns the number of objects of
/// each step of the flush.
fn together(objects: SlabPolicy, freed: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
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
        let mut addresses: Vec<_> = freed.into_iter().map(|(of, nth)| all[of * in_slab + nth]).collect();
        let mut flush = Flush::new(slab, cache, &mut addresses);
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

/// Returns the first `count` objects of each of these slabs, slab by slab in turn.
fn in_turn(slabs: Range<usize>, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |nth| slabs.clone().map(move |of| (of, nth)))
}

/// Linux searches no further than past three objects of other slabs.
#[test]
fn bitmap_policy_frees_all_objects_of_a_slab_together() {
    assert_eq!(together(SlabPolicy::SheavesBitmap, in_turn(0..10, 6)), [6; 10]);
    assert_eq!(together(SlabPolicy::Sheaves, in_turn(0..10, 6)), [1; 60]);
}

/// Most slabs have one object in the flush, so the objects are not grouped. Later, only objects of five slabs are left,
/// which would be worth grouping, but the order is examined once a flush.
#[test]
fn flush_examines_the_order_of_its_objects_once() {
    let freed = in_turn(0..15, 1).chain(in_turn(15..20, 4));
    assert_eq!(together(SlabPolicy::SheavesBitmap, freed), [1; 35]);
    assert_eq!(together(SlabPolicy::SheavesBitmap, in_turn(15..20, 4)), [4; 5]);
}
