//! All attacks at once: threads that allocate, threads that create and destroy caches, and a thread that walks and
//! shrinks all caches and takes CPUs offline and online. No thread waits for another. The interleaving is random, but
//! the result must always be in order.

use std::thread;

use freehold::base::{CpuId, Gfp};
use freehold::platform::host::run_on_cpu;
use freehold::slab::{CacheConfig, CacheFlags};

use super::{CPUS, Slab, attack, picture, policies};

const ROUNDS: usize = if cfg!(miri) { 3 } else { 150 };

fn allocate(slab: &Slab<'_, '_, '_, '_>) {
    let cache = slab.create(&CacheConfig::new("crowd", 96)).expect("the cache can be created");
    let mut objects = Vec::new();
    for round in 0..ROUNDS {
        objects.extend(cache.alloc(Gfp::NOWAIT));
        objects.extend(slab.kmalloc(round * 7 % 300 + 1, Gfp::NOWAIT));
    }
    objects.sort();
    let len = objects.len();
    objects.dedup();
    assert_eq!(objects.len(), len, "an object was allocated twice");
    assert!(cache.destroy().is_err_and(|leak| leak.objects > 0));
}

fn come_and_go(slab: &Slab<'_, '_, '_, '_>) {
    for _ in 0..ROUNDS {
        let cache = slab.create(&CacheConfig::new("guest", 700)).expect("the cache can be created");
        cache.shrink();
        assert!(cache.destroy().is_ok(), "the cache has no objects, so it can be destroyed");
    }
}

fn disturb(slab: &Slab<'_, '_, '_, '_>) {
    for round in 0..ROUNDS {
        let cpu = CpuId((round % CPUS) as u16);
        slab.cpu_dead(cpu);
        slab.shrink();
        slab.cpu_online(cpu);
        assert!(picture(slab).iter().all(|(_, usage)| usage.active <= usage.objects));
        assert_eq!(slab.validate(), 0);
        if round % 2 == 0 { slab.fail_without_slab() } else { slab.take_pages_without_slab() }
    }
}

#[test]
fn concurrent_slab_misuse_keeps_the_state_valid() {
    let deeds: [fn(&Slab<'_, '_, '_, '_>); 5] = [allocate, allocate, come_and_go, come_and_go, disturb];
    for policy in policies() {
        for debug in [CacheFlags::empty(), CacheFlags::DEBUG] {
            attack(policy, debug, |slab| {
                thread::scope(|scope| {
                    for (at, deed) in deeds.into_iter().enumerate() {
                        scope.spawn(move || {
                            run_on_cpu(CpuId((at % CPUS) as u16));
                            deed(slab);
                        });
                    }
                });
            });
        }
    }
}
