//! Scenario that passes through every step of the slab. Other tests interfere with its calls, one by one.

use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp};
use freehold::slab::CacheConfig;

use crate::slab::object_model::ObjectModel;
use crate::slab::world::{Cache, Slab, judge, judge_empty, run_on};

/// Flags of requests that fail at once if there is no page.
pub(super) const NOWAIT: Gfp = Gfp::NOWAIT;
/// The CPU that goes offline.
const LEAVES: u16 = 2;

/// State of the scenario.
struct Story<'a, 's, 'n, 'm, 'l> {
    slab: &'s Slab<'n, 'm, 'l>,
    cache: &'a Cache<'s, 'n, 'm, 'l>,
    object_model: ObjectModel,
    objects: Vec<NonNull<u8>>,
    failures: u32,
}

impl Story<'_, '_, '_, '_, '_> {
    fn alloc(&mut self, cpu: u16, count: usize) {
        run_on(cpu);
        for _ in 0..count {
            match self.cache.alloc(NOWAIT) {
                Ok(object) => {
                    self.object_model.take(object, self.cache.info().layout.object_size as usize);
                    self.objects.push(object);
                }
                Err(_) => self.failures += 1,
            }
        }
        self.judge();
    }

    fn alloc_bulk(&mut self, cpu: u16) {
        run_on(cpu);
        let mut objects = [NonNull::dangling(); 5];
        match self.cache.alloc_bulk(NOWAIT, &mut objects) {
            Ok(()) => {
                for object in objects {
                    self.object_model.take(object, self.cache.info().layout.object_size as usize);
                }
                self.objects.extend(objects);
            }
            Err(_) => self.failures += 1,
        }
        self.judge();
    }

    /// Frees every `step`th object.
    fn free(&mut self, cpu: u16, step: usize) {
        run_on(cpu);
        for at in (0..self.objects.len()).step_by(step).rev() {
            let object = self.objects.remove(at);
            self.object_model.give(object);
            // SAFETY: the object was allocated from this cache and was removed from the list, so it is not used any
            // more.
            unsafe { self.cache.free(object) }.expect("the pointer must be an object of the cache");
        }
        self.judge();
    }

    fn judge(&self) {
        judge(self.slab, self.object_model.len());
    }
}

/// Plays the scenario with objects of a size, while `pages` pages are allocated elsewhere. Returns the number of failed
/// requests. At the end everything is free, even after failed requests.
pub(super) fn tell(slab: &Slab<'_, '_, '_>, size: u32, pages: u64) -> u32 {
    let cache = slab.create(&CacheConfig::new("story", size)).expect("the cache can be created");
    let (object_model, objects) = (ObjectModel::default(), Vec::new());
    let mut story = Story { slab, cache: &cache, object_model, objects, failures: 0 };
    story.alloc(0, 7);
    // Frees on another CPU, and then on the owner: the first objects, the last, and others between them.
    story.free(1, 2);
    story.free(0, 2);
    story.alloc(0, 4);
    story.alloc(LEAVES, 5);
    story.free(LEAVES, 3);
    cache.shrink();
    story.judge();
    // This request is served by the node's slabs.
    story.alloc(1, 3);
    run_on(1);
    slab.cpu_dead(CpuId(LEAVES));
    story.free(1, 2);
    story.alloc_bulk(0);
    slab.cpu_online(CpuId(LEAVES));
    story.free(LEAVES, 2);
    story.alloc(LEAVES, 2);
    story.free(0, 2);
    story.free(1, 1);
    let failures = story.failures;
    run_on(0);
    assert!(cache.destroy().is_ok(), "all objects must be freed");
    judge_empty(slab, pages);
    failures
}
