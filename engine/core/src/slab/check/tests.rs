//! Tests of the consistency check with planted defects: slabs on a wrong list, slabs on no list, and slabs that are
//! counted wrongly.

extern crate std;

use core::ptr::NonNull;
use std::vec::Vec;

use super::super::address::SlabAddress;
use super::super::bits::Bits;
use super::super::cpu::locked::CpuLocks;
use super::super::freelist::{Chain, set_freepointer};
use super::super::word::Local;
use super::*;
use crate::base::{CpuId, Gfp, NodeId};
use crate::machine::objects::{HostCpu, with_locked_slab};
use crate::page::Config;
use crate::platform::NoProbe;
use crate::platform::host::{CheckedSpinLock, Threads, run_on_cpu};
use crate::policy::Policy;
use crate::policy::slab::SlabPolicy;
use crate::slab::CacheConfig;

type Machine<'l, 's, 'm> = SlabAllocator<'s, 'm, Threads<NoProbe>, CpuLocks<'l, CheckedSpinLock, HostCpu>>;

const CPU: CpuId = CpuId(0);
const SIZE: u32 = 1024;

/// Plants a defect in a cache, and returns the violation that the check finds. CPU 0 has two of the cache's slabs on
/// its list, in each of which only the first object is free. A third slab is used up and on no list.
fn violation_of(plant: fn(&Machine<'_, '_, '_>, CacheId, [Pfn; 3])) -> Option<SlabViolation> {
    violation_of_closure(SlabPolicy::Tagged, &plant)
}

fn violation_of_closure(
    objects: SlabPolicy,
    plant: &dyn Fn(&Machine<'_, '_, '_>, CacheId, [Pfn; 3]),
) -> Option<SlabViolation> {
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = objects;
    let config = Config { policy, cpu_nodes: &[NodeId(0)], ..Config::default() };
    run_on_cpu(CPU);
    with_locked_slab(Threads::default(), &config, 1 << 13, 1, |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let count = usize::from(cache.info().layout.objects);
        let objects: Vec<NonNull<u8>> = (0..4 * count).map(|_| cache.alloc(Gfp::KERNEL).unwrap()).collect();
        for first in [objects[0], objects[count]] {
            // SAFETY: the object was allocated above, and is freed once.
            unsafe { cache.free(first) }.unwrap();
        }
        // SAFETY: this is the only thread, so nothing uses the allocator during the check.
        unsafe { slab.check() }.unwrap();
        let slabs = [0, 1, 2].map(|at| slab.map.pfn(objects[at * count].as_ptr() as u64).unwrap());
        plant(slab, cache.id, slabs);
        // SAFETY: this is the only thread, so nothing uses the allocator during the check.
        unsafe { slab.check() }.err()
    })
    .unwrap()
}

#[test]
fn slab_on_no_list_is_lost() {
    let lost = violation_of(|slab, id, [one, ..]| slab.cpu_partial(CPU, id).lock().remove(slab.map, one));
    assert!(matches!(lost, Some(SlabViolation::Lost { .. })), "{lost:?}");
}

/// The numbers of listed and queued slabs are equal in this case.
#[test]
fn unqueued_slab_on_a_list_is_misplaced() {
    let swapped = violation_of(|slab, id, [one, _, used_up]| {
        let mut list = slab.cpu_partial(CPU, id).lock();
        list.remove(slab.map, one);
        list.push(slab.map, used_up);
    });
    assert!(matches!(swapped, Some(SlabViolation::Misplaced { .. })), "{swapped:?}");
}

#[test]
fn unowned_slab_on_a_cpu_list_is_misplaced() {
    let nobodys = violation_of(|slab, _, [one, ..]| slab.map.slab(one).disown());
    assert!(matches!(nobodys, Some(SlabViolation::Misplaced { .. })), "{nobodys:?}");
}

#[test]
fn slab_with_used_objects_counted_free_is_miscounted() {
    let counted = violation_of(|slab, id, [one, ..]| slab.cpu_partial(CPU, id).lock().count_free(slab.map.slab(one)));
    assert!(matches!(counted, Some(SlabViolation::Miscounted { .. })), "{counted:?}");
}

#[test]
fn uncounted_waiting_slab_is_miscounted() {
    let uncounted = violation_of(|slab, id, [one, ..]| {
        let (second, links) = (slab.map.address(one) + u64::from(SIZE), slab.cache(id).unwrap().links);
        let chain = Chain { head: second, len: 1 };
        let _queued = slab.map.slab(one).push_remote(chain, ObjectAddress::new(second), links);
    });
    assert!(matches!(uncounted, Some(SlabViolation::Miscounted { .. })), "{uncounted:?}");
}

/// Returns a defect: a link of the first slab that leads to the address that `wrong` computes from the addresses of two
/// slabs. The first object of each of the two slabs is free, and alone on its list.
fn links_to(wrong: fn([u64; 2]) -> u64) -> impl Fn(&Machine<'_, '_, '_>, CacheId, [Pfn; 3]) {
    move |slab, id, [one, two, _]| {
        let (links, [one, two]) = (slab.cache(id).unwrap().links, [one, two].map(|pfn| slab.map.address(pfn)));
        let next = wrong([one, two]);
        // SAFETY: `one` is a free object. `next` is `one`, another free object, or an address inside an allocated
        // object that the test does not access; each has room for a link and is aligned to it. The wrong link is the
        // planted defect. The list ends in a mark or is circular, and the check counts objects, so it terminates.
        unsafe {
            set_freepointer(ObjectAddress::new(one), next, links);
            if next != one {
                set_freepointer(ObjectAddress::new(next), end_mark(SlabAddress::new(one)), links);
            }
        }
        let local = slab.map.slab(slab.map.pfn(one).unwrap());
        local.set_local(Local::new(one, local.local().used() - 1));
    }
}

#[test]
fn links_out_of_the_slab_or_in_a_circle_are_detected() {
    let elsewhere = links_to(|[_, two]| two);
    let between = links_to(|[one, _]| one + u64::from(SIZE) + 8);
    let circle = links_to(|[one, _]| one);
    let found = [
        violation_of_closure(SlabPolicy::Tagged, &elsewhere),
        violation_of_closure(SlabPolicy::Tagged, &between),
        violation_of_closure(SlabPolicy::Tagged, &circle),
    ];
    assert!(found.iter().all(|found| matches!(found, Some(SlabViolation::List { .. }))), "{found:?}");
}

/// An object is free twice: the owner has freed it, and its bit is also set among the remote frees.
#[test]
fn object_freed_by_owner_and_remotely_is_detected() {
    let twice = violation_of_closure(SlabPolicy::Bitmap, &|slab, _, [one, ..]| {
        let slab = slab.map.slab(one);
        let _queued = slab.push_remote_bits(slab.bits());
    });
    assert!(matches!(twice, Some(SlabViolation::List { .. })), "{twice:?}");
}

/// A bit is set beyond those of the slab's objects.
#[test]
fn free_bit_without_an_object_is_detected() {
    let beyond = violation_of_closure(SlabPolicy::Bitmap, &|slab, id, [one, ..]| {
        let objects = u32::from(slab.cache(id).unwrap().layout.objects);
        let slab = slab.map.slab(one);
        slab.set_local(Local::from_raw(slab.bits().with(Bits::single(objects)).raw()));
    });
    assert!(matches!(beyond, Some(SlabViolation::List { .. })), "{beyond:?}");
}
