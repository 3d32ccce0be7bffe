//! Caches that are created and destroyed while another thread walks over all caches.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use freehold::base::{CpuId, Gfp};
use freehold::policy::slab::SlabPolicy;
use freehold::slab::{CacheConfig, CacheFlags};

use crate::slab::world::{CPUS, Slab, judge_empty, policies, policy, run_on, with_world};

const ROUNDS: u32 = 2000;
/// Sizes, and the names of their caches. A walk that sees a partly created cache would see a name that does not match
/// the size.
const CACHES: [(u32, &str); 3] = [(16, "16"), (1344, "1344"), (4096, "4096")];
/// Checks without reports, so that a walk examines every byte.
const CHECKS: [CacheFlags; 2] = [CacheFlags::empty(), CacheFlags::RED_ZONE.union(CacheFlags::POISON)];

fn come_and_go(slab: &Slab<'_, '_, '_>, cpu: u16) {
    run_on(cpu);
    for round in 0..ROUNDS as usize {
        let (size, name) = CACHES[round % CACHES.len()];
        let config = CacheConfig::new(name, size).with_flags(CHECKS[round % CHECKS.len()]);
        let cache = slab.create(&config).expect("the cache can be created");
        let object = cache.alloc(Gfp::KERNEL).expect("enough memory must be free");
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { cache.free(object) }.expect("the pointer must be an object in use");
        assert!(cache.destroy().is_ok(), "{name} has no objects, so it can be destroyed");
    }
}

fn walk(slab: &Slab<'_, '_, '_>) {
    slab.usage(|cache, usage| {
        let name = cache.name.as_str();
        assert!(usage.active <= usage.objects);
        if !name.starts_with("kmalloc") && !name.starts_with("sheaf") {
            assert_eq!(name.parse(), Ok(cache.layout.object_size), "a walk must not show an incomplete cache");
        }
    });
    slab.shrink();
    assert_eq!(slab.validate(), 0, "no object may be damaged");
    slab.cpu_dead(CpuId(CPUS - 1));
    slab.cpu_online(CpuId(CPUS - 1));
}

#[test]
fn walks_during_cache_creation_see_whole_caches() {
    for policy in policies() {
        with_world(policy, |slab| {
            let (is_over, walks) = (AtomicBool::new(false), AtomicUsize::new(0));
            thread::scope(|scope| {
                let walker = scope.spawn(|| {
                    run_on(CPUS - 2);
                    while !is_over.load(Relaxed) || walks.load(Relaxed) == 0 {
                        walk(slab);
                        walks.fetch_add(1, Relaxed);
                    }
                });
                let makers: Vec<_> = (0..2).map(|cpu| scope.spawn(move || come_and_go(slab, cpu))).collect();
                let ends: Vec<_> = makers.into_iter().map(thread::ScopedJoinHandle::join).collect();
                is_over.store(true, Relaxed);
                walker.join().expect("the walking thread must not panic");
                ends.into_iter().for_each(|end| end.expect("caches end"));
            });
            judge_empty(slab, 0);
        });
    }
}

#[test]
fn usage_callback_may_destroy_and_create_caches() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        let mut goes = slab.create(&CacheConfig::new("goes", 64)).ok();
        let mut names = Vec::new();
        slab.usage(|cache, _| {
            names.push(cache.name);
            if let Some(goes) = goes.take_if(|_| cache.name.as_str() == "goes") {
                assert!(goes.destroy().is_ok());
                slab.create(&CacheConfig::new("comes", 64)).expect("the cache can be created");
                slab.shrink();
            }
        });
        assert!(goes.is_none());
        assert_eq!(names.last().map(|name| name.as_str()), Some("goes"));
        judge_empty(slab, 0);
    });
}
