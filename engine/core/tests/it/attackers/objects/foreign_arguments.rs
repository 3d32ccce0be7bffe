//! CPUs that do not exist or are offline, caches destroyed while in use, and two allocators side by side.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp, NodeId};
use freehold::page::Config;
use freehold::platform::host::run_on_cpu;
use freehold::slab::{CacheConfig, CacheFlags};

use super::{CPUS, Slab, attack, attack_with, picture, policies};

type Attack = (&'static str, fn(&Slab<'_, '_, '_, '_>));

/// Runs `act`, which must panic, and returns the message of the panic.
fn panic_of(name: &str, act: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(act)).expect_err(name);
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned())).unwrap_or_default()
}

#[test]
fn hotplug_of_a_missing_cpu_panics_as_documented() {
    let attacks: [Attack; 4] = [
        ("cpu_dead", |slab| slab.cpu_dead(CpuId(CPUS as u16))),
        ("cpu_dead of the last number", |slab| slab.cpu_dead(CpuId(u16::MAX))),
        ("cpu_online", |slab| slab.cpu_online(CpuId(CPUS as u16))),
        ("cpu_online of the last number", |slab| slab.cpu_online(CpuId(u16::MAX))),
    ];
    for policy in policies() {
        attack(policy, CacheFlags::empty(), |slab| {
            for (name, act) in attacks {
                let before = picture(slab);
                let said = panic_of(name, || act(slab));
                assert!(said.starts_with("there is no CPU"), "{name}: {said}");
                assert_eq!(picture(slab), before, "{name}");
            }
        });
    }
}

/// A thread on a CPU without a lock cannot run any operation that needs a section. Each attempt panics and changes
/// nothing.
#[test]
fn allocation_on_a_missing_cpu_panics_as_documented() {
    for policy in policies() {
        attack(policy, CacheFlags::empty(), |slab| {
            let cache = slab.create(&CacheConfig::new("stranger", 64)).expect("the cache can be created");
            _ = cache.alloc(Gfp::KERNEL).expect("enough memory must be free");
            for cpu in [CPUS as u16, u16::MAX] {
                let before = picture(slab);
                run_on_cpu(CpuId(cpu));
                let said = [
                    panic_of("alloc", || _ = cache.alloc(Gfp::KERNEL)),
                    panic_of("alloc_bulk", || _ = cache.alloc_bulk(Gfp::KERNEL, &mut [NonNull::dangling(); 9])),
                    panic_of("kmalloc", || _ = slab.kmalloc(8, Gfp::KERNEL)),
                ];
                let pages = catch_unwind(AssertUnwindSafe(|| _ = slab.kmalloc(1 << 16, Gfp::KERNEL)));
                run_on_cpu(CpuId(0));
                assert!(said.iter().all(|said| said.starts_with("there is no ")), "{said:?}");
                assert!(pages.is_err(), "an allocation on a missing CPU must panic");
                assert_eq!(picture(slab), before, "under {:?}", policy.slab);
            }
        });
    }
}

/// Sections may cover fewer CPUs than the machine has. The other CPUs hold no objects, so no fence waits for them.
#[test]
fn cpu_without_sections_supports_hotplug() {
    for policy in policies() {
        let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS], ..Config::default() };
        attack_with(&config, 1, CacheFlags::empty(), |slab| {
            let cache = slab.create(&CacheConfig::new("few", 500)).expect("the cache can be created");
            for cpu in (0..CPUS as u16).map(CpuId) {
                let mut objects = [NonNull::dangling(); 50];
                cache.alloc_bulk(Gfp::KERNEL, &mut objects).expect("enough memory must be free");
                slab.cpu_dead(cpu);
                slab.shrink();
                cache.shrink();
                slab.cpu_online(cpu);
            }
            assert_eq!(cache.destroy().expect_err("objects are in use").objects, 150);
        });
    }
}

/// Takes CPUs offline and online in any order. An offline CPU that allocates nevertheless is harmless, and a second
/// call for the same CPU has no effect.
#[test]
fn cpus_go_offline_and_online_in_any_order() {
    for policy in policies() {
        for debug in [CacheFlags::empty(), CacheFlags::DEBUG] {
            attack(policy, debug, |slab| {
                let cache = slab.create(&CacheConfig::new("away", 1344)).expect("the cache can be created");
                let mut in_use = 0;
                for step in 0..60_u16 {
                    let cpu = CpuId(step * 7 % CPUS as u16);
                    run_on_cpu(CpuId(step % CPUS as u16));
                    match step % 5 {
                        0 => slab.cpu_dead(cpu),
                        1 => (0..2).for_each(|_| slab.cpu_dead(cpu)),
                        2 => slab.cpu_online(cpu),
                        3 => (0..2).for_each(|_| slab.cpu_online(cpu)),
                        _ => slab.shrink(),
                    }
                    in_use += u64::from(cache.alloc(Gfp::KERNEL).is_ok());
                }
                run_on_cpu(CpuId(0));
                assert_eq!(cache.destroy().expect_err("objects are in use").objects, in_use);
            });
        }
    }
}

/// Callbacks of walks over caches and objects call back into the allocator with every operation that does not need the
/// cache's handle.
#[test]
fn walk_callbacks_may_call_the_allocator() {
    let deeds: [Attack; 7] = [
        ("shrink", |slab| slab.shrink()),
        ("validate", |slab| assert_eq!(slab.validate(), 0)),
        ("usage", |slab| _ = picture(slab)),
        ("kmalloc", |slab| _ = slab.kmalloc(100, Gfp::KERNEL)),
        ("a cache that comes and goes", |slab| {
            let cache = slab.create(&CacheConfig::new("guest", 8)).expect("the cache can be created");
            assert!(cache.destroy().is_ok());
        }),
        ("a CPU that comes and goes", |slab| {
            slab.cpu_dead(CpuId(1));
            slab.cpu_online(CpuId(1));
        }),
        ("a panic", |_| panic!("the visitor panics")),
    ];
    for policy in policies() {
        for (name, deed) in deeds {
            attack(policy, CacheFlags::empty(), |slab| {
                let config = CacheConfig::new("shown", 40).with_flags(CacheFlags::SANITY);
                let cache = slab.create(&config).expect("the cache can be created");
                _ = [(); 3].map(|()| cache.alloc(Gfp::KERNEL).expect("enough memory must be free"));
                let walks = [
                    catch_unwind(AssertUnwindSafe(|| slab.usage(|_, _| deed(slab)))).is_ok(),
                    catch_unwind(AssertUnwindSafe(|| cache.each_in_use(|_| deed(slab)))).is_ok(),
                ];
                assert_eq!(walks, [name != "a panic"; 2], "{name}");
                slab.shrink();
                assert_eq!(cache.destroy().expect_err("objects are in use").objects, 3, "{name}");
            });
        }
    }
}

/// Each allocator knows its own objects, and refuses an object of another allocator.
#[test]
fn foreign_objects_are_errors() {
    for policy in policies() {
        attack(policy, CacheFlags::empty(), |theirs| {
            attack(policy, CacheFlags::empty(), |ours| {
                let mine = ours.create(&CacheConfig::new("twin", 64)).expect("the cache can be created");
                let other = theirs.create(&CacheConfig::new("twin", 64)).expect("the cache can be created");
                let (object, stranger) = (mine.alloc(Gfp::KERNEL), other.alloc(Gfp::KERNEL));
                let (object, stranger) =
                    (object.expect("enough memory must be free"), stranger.expect("enough memory must be free"));
                assert_eq!((ours.ksize(object), theirs.ksize(stranger)), (Ok(64), Ok(64)));
                assert!(ours.ksize(stranger).is_err() && theirs.ksize(object).is_err());
                assert!(mine.destroy().is_err_and(|leak| leak.objects == 1), "only the own object is still in use");
                assert!(other.destroy().is_err_and(|leak| leak.objects == 1));
            });
        });
    }
}
