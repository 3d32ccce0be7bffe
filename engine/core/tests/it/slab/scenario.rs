//! One story that comes by every step of the slab: what others meddle with, call by call.

use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp};
use freehold::slab::CacheConfig;

use crate::slab::object_model::ObjectModel;
use crate::slab::world::{Cache, Slab, judge, judge_empty, run_on};

/// Fails at once if there is no page.
pub(super) const NOWAIT: Gfp = Gfp::NOWAIT;
/// The CPU that goes offline.
const LEAVES: u16 = 2;

/// The story's state.
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

    /// Frees every `step`th of what there is.
    fn free(&mut self, cpu: u16, step: usize) {
        run_on(cpu);
        for at in (0..self.objects.len()).step_by(step).rev() {
            let object = self.objects.remove(at);
            self.object_model.give(object);
            // SAFETY: it was allocated, and is nobody's now.
            unsafe { self.cache.free(object) }.expect("it is an object of the cache");
        }
        self.judge();
    }

    fn judge(&self) {
        judge(self.slab, self.object_model.len());
    }
}

/// Tells the story of objects of a size, while somebody else has so many pages; how many requests failed. Whatever
/// happens, everything is back at the end.
pub(super) fn tell(slab: &Slab<'_, '_, '_>, size: u32, pages: u64) -> u32 {
    let cache = slab.create(&CacheConfig::new("story", size)).expect("there is room for a cache");
    let (object_model, objects) = (ObjectModel::default(), Vec::new());
    let mut story = Story { slab, cache: &cache, object_model, objects, failures: 0 };
    story.alloc(0, 7);
    // From elsewhere, then by their owner: first, last, and in between.
    story.free(1, 2);
    story.free(0, 2);
    story.alloc(0, 4);
    story.alloc(LEAVES, 5);
    story.free(LEAVES, 3);
    cache.shrink();
    story.judge();
    // From the node.
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
    assert!(cache.destroy().is_ok(), "all objects are back");
    judge_empty(slab, pages);
    failures
}
