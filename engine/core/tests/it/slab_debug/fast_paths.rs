//! Checked caches with all fast paths, and under several concurrent threads.

use core::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, RawLock as _};
use freehold::machine::objects::{HostCpu, with_checked_slab};
use freehold::page::Config;
use freehold::platform::NoProbe;
use freehold::platform::host::{CheckedSpinLock, Threads, run_on_cpu};
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabPolicy};
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::fast_path::{AnyFastPath, Bitmap, FastPath, PageField, PageFieldGuarded, Sheaves, Tagged};
use freehold::slab::freelist::{Mangled, Plain};
use freehold::slab::{CacheFlags, ObjectFreeError};

use super::{check, listener, with_world};

fn policy(objects: SlabPolicy, guard: SlabGuard, links: SlabLinks) -> Policy {
    let mut policy = Policy::FREEHOLD;
    (policy.slab.objects, policy.slab.guard, policy.slab.links) = (objects, guard, links);
    policy
}

/// Tests a frontend for one fast path, on an allocator all of whose caches are checked.
fn through<F: FastPath>(policy: Policy) {
    with_world(policy, CacheFlags::DEBUG, |slab| {
        let frontend = slab.frontend::<F>().expect("the policy must have this front end");
        for size in [1, 13, 100, 500, 3000, 8192] {
            let objects = [(); 40].map(|()| frontend.kmalloc(size, Gfp::KERNEL).unwrap());
            for object in objects {
                // SAFETY: the object was just allocated, has `size` bytes, and is not used after the free.
                unsafe {
                    object.write_bytes(0xee, size);
                    frontend.kfree(object).unwrap();
                }
            }
            let address = objects[7].as_ptr() as u64;
            // SAFETY: the contract is violated on purpose, since the object is free. The checks refuse the free.
            let again = unsafe { frontend.kfree(objects[7]) };
            assert_eq!(again, Err(ObjectFreeError::DoubleFree { address }));
            assert!(listener(slab).take_one(0).contains(": Object already free\n"));
        }
        let object = frontend.malloc(20);
        assert!(!object.is_null());
        // SAFETY: the 21st byte is a red zone in the object's slab. The write is the damage that the test plants. The
        // object is not used after the free.
        unsafe {
            object.add(20).write(1);
            frontend.free(object);
        }
        assert!(listener(slab).take_one(0).contains(": kmalloc Redzone overwritten\n"));
        let object = frontend.malloc(20);
        // SAFETY: the object is not used any more. The second free violates the contract on purpose, and the checks
        // refuse it.
        unsafe {
            frontend.free(object);
            frontend.free(object);
        }
        assert!(
            listener(slab).take_one(0).contains(": Object already free\n"),
            "a refused free must be reported exactly once"
        );
        check(slab).unwrap();
    });
}

#[test]
fn checks_apply_on_every_fast_path() {
    use SlabGuard::{None, Preempt};
    use SlabLinks::{Mangled as IsMangled, Plain as IsPlain};
    through::<Tagged<Plain>>(policy(SlabPolicy::Tagged, None, IsPlain));
    through::<Tagged<Mangled>>(policy(SlabPolicy::Tagged, None, IsMangled));
    through::<PageField<Plain>>(policy(SlabPolicy::PageField, None, IsPlain));
    through::<PageFieldGuarded<Mangled>>(policy(SlabPolicy::PageField, Preempt, IsMangled));
    through::<Sheaves>(policy(SlabPolicy::Sheaves, None, IsPlain));
    through::<Sheaves>(policy(SlabPolicy::SheavesBitmap, None, IsPlain));
    through::<Bitmap<Plain>>(policy(SlabPolicy::Bitmap, None, IsPlain));
    through::<AnyFastPath>(Policy::FREEHOLD);
}

/// Passes objects around four threads, each of which frees objects that its neighbour allocated.
#[test]
fn correct_threads_cause_no_reports() {
    static NODES: [NodeId; 4] = [NodeId(0); 4];
    const STEPS: usize = 3000;
    let config = Config { cpu_nodes: &NODES, ..Config::default() };
    let locks = [(); 4].map(|()| CheckedSpinLock::new());
    let local = CpuLocks::new(&locks, HostCpu);
    let platform = Threads::<NoProbe>::default();
    with_checked_slab(platform, &config, 1 << 14, local, (7, CacheFlags::DEBUG), |slab| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::channel::<(usize, u8, usize)>()).unzip();
        thread::scope(|scope| {
            for (cpu, receiver) in receivers.into_iter().enumerate() {
                let next = senders[(cpu + 1) % 4].clone();
                scope.spawn(move || {
                    run_on_cpu(CpuId(cpu as u16));
                    let mut rng = fastrand::Rng::with_seed(cpu as u64);
                    for _ in 0..STEPS {
                        let (size, tag) = (rng.usize(1..300), rng.u8(..));
                        let object = slab.kmalloc(size, Gfp::KERNEL).expect("enough memory must be free");
                        // SAFETY: the object was just allocated and has `size` bytes.
                        unsafe { object.write_bytes(tag, size) };
                        next.send((object.as_ptr().expose_provenance(), tag, size))
                            .expect("every thread must still receive");
                        let (address, tag, size) =
                            receiver.recv().expect("every thread must send as many objects as it receives");
                        let object = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(address)).unwrap();
                        // SAFETY: the sender does not use the object any more, and has initialised its `size` bytes.
                        let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), size) };
                        assert!(bytes.iter().all(|byte| *byte == tag));
                        // SAFETY: this thread received the object and is its only owner; it does not use the object any
                        // more.
                        unsafe { slab.kfree(object).expect("the object must be in use") };
                        if rng.u32(0..500) == 0 {
                            slab.shrink();
                            assert_eq!(slab.validate(), 0);
                        }
                    }
                });
            }
        });
        assert_eq!((slab.validate(), slab.taken_out_of_use()), (0, 0));
        slab.shrink();
        assert_eq!(check(slab).unwrap().slabs, 0);
    })
    .expect("the configuration of the machine must be valid");
}
