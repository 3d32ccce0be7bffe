//! Objects come and go at random, on several CPUs, under each policy, and nothing is lost.
use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp, NodeId};
use freehold::machine::objects::with_locked_slab;
use freehold::page::Config;
use freehold::platform::NoProbe;
use freehold::platform::host::{Threads, run_on_cpu};
use freehold::policy::Policy;
use freehold::policy::slab::{SlabLinks, SlabOrder, SlabPolicy};

fn config(policy: Policy) -> Config<'static> {
    static NODES: [NodeId; 4] = [NodeId(0); 4];
    Config { policy, cpu_nodes: &NODES, ..Config::default() }
}

#[test]
fn random_steps_lose_nothing() {
    for objects in [SlabPolicy::Bitmap, SlabPolicy::Tagged, SlabPolicy::PageField] {
        for links in [SlabLinks::Plain, SlabLinks::Mangled] {
            let mut policy = Policy::FREEHOLD;
            policy.slab.objects = objects;
            policy.slab.links = links;
            policy.slab.order = if links == SlabLinks::Plain { SlabOrder::Address } else { SlabOrder::Random };
            policy.numbers.slab_cpu_free = Some(64);
            with_locked_slab(Threads::<NoProbe>::default(), &config(policy), 1 << 15, 7, |slab| {
                let mut rng = fastrand::Rng::with_seed(1);
                let mut live: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
                for step in 0..300_000 {
                    run_on_cpu(CpuId(rng.u16(0..4)));
                    if live.len() < 4000 && rng.u32(0..100) < if step / 5000 % 2 == 0 { 70 } else { 30 } {
                        let size = 1 << rng.u32(0..15);
                        let object = slab.kmalloc(size, Gfp::KERNEL).unwrap();
                        let tag = rng.u8(..);
                        unsafe { object.write_bytes(tag, size) };
                        live.push((object, size, tag));
                    } else if !live.is_empty() {
                        let (object, size, tag) = live.swap_remove(rng.usize(0..live.len()));
                        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), size) };
                        assert!(bytes.iter().all(|byte| *byte == tag), "{step} {size}");
                        unsafe { slab.kfree(object).unwrap() };
                    }
                    if step % 1000 == 0 {
                        slab.check().unwrap();
                    }
                    if rng.u32(0..5000) == 0 {
                        slab.shrink();
                    }
                    if rng.u32(0..5000) == 0 {
                        let cpu = CpuId(rng.u16(0..4));
                        slab.cpu_offline(cpu);
                        slab.cpu_online(cpu);
                    }
                }
                for (object, ..) in live.drain(..) {
                    unsafe { slab.kfree(object).unwrap() };
                }
                println!("{:?}", slab.check().unwrap());
                slab.shrink();
                println!("{:?}", slab.check().unwrap());
                assert_eq!(slab.check().unwrap().slabs, 0);
            })
            .unwrap();
        }
    }
}
