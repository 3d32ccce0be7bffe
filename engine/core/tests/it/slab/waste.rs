//! Bytes of a slab that belong to no object: few, for every page size.

use freehold::base::{Gfp, NodeId};
use freehold::machine::objects::with_locked_slab;
use freehold::page::Config;
use freehold::platform::NoProbe;
use freehold::platform::host::Threads;
use freehold::policy::slab::SlabSizes;
use freehold::policy::{Numbers, Policy};
use freehold::slab::Cache;

use crate::slab::world::{PAGES, judge_empty, policies, run_on, with_world};

/// Calls `look` for each kmalloc cache on a machine with this page size.
fn each_kmalloc(policy: Policy, page_size: u32, mut look: impl FnMut(&Cache)) {
    run_on(0);
    let config = Config { policy, page_size, cpu_nodes: &[NodeId(0); 4], ..Config::default() };
    let mut seen = 0;
    with_locked_slab(Threads::<NoProbe>::default(), &config, PAGES, 7, |slab| {
        slab.usage(|cache, _| {
            if cache.name.as_str().starts_with("kmalloc") {
                seen += 1;
                look(cache);
            }
        });
    })
    .expect("the configuration must be valid");
    assert_eq!(seen, if policy.slab.sizes == SlabSizes::Linux { 13 } else { 45 }, "caches by size");
}

#[test]
fn slab_waste_is_at_most_an_eighth() {
    let by_default = policies().into_iter().map(|policy| Policy { numbers: Numbers::default(), ..policy });
    for policy in policies().into_iter().chain(by_default) {
        for page_size in [4096, 16384, 65536] {
            each_kmalloc(policy, page_size, |cache| {
                let (name, layout) = (cache.name.as_str(), cache.layout);
                let used = u64::from(layout.objects) * u64::from(layout.size);
                let wasted = layout.slab_bytes() - used;
                assert!(
                    wasted <= layout.slab_bytes() / 8,
                    "{wasted} of {} bytes of {name} with pages of {page_size}, under {:?}",
                    layout.slab_bytes(),
                    policy.slab,
                );
            });
        }
    }
}

/// Free objects of at least a 64th of a page are bits, because 63 of them fill the word. Smaller objects are on lists.
#[test]
fn bitmap_starts_at_a_64th_of_a_page() {
    for (page_size, smallest) in [(4096, 64), (16384, 256), (65536, 1024)] {
        each_kmalloc(Policy::FREEHOLD, page_size, |cache| {
            assert_eq!(cache.has_bits, cache.layout.size >= smallest, "{} of {page_size}", cache.name.as_str());
        });
    }
}

/// The unused bytes of an object in a fine size class: at most a quarter from 64 bytes on, an eighth from 4 to 8 KiB.
#[test]
fn fine_sizes_waste_at_most_a_quarter() {
    with_world(Policy::FREEHOLD, |slab| {
        for size in 64..=Policy::FREEHOLD.slab.sizes.largest() {
            let object = slab.kmalloc(size, Gfp::KERNEL).expect("enough memory must be free");
            let room = slab.ksize(object).expect("the pointer must be an object in use");
            let share = if (4096..=8192).contains(&size) { 8 } else { 4 };
            assert!(room >= size && share * (room - size) <= size, "{room} bytes for {size}");
            // SAFETY: the object was just allocated and is not used any more.
            unsafe { slab.kfree(object) }.expect("the pointer must be an object in use");
            // The world has no room for the free objects that each size keeps.
            slab.shrink();
        }
        judge_empty(slab, 0);
    });
}
