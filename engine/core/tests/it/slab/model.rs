//! Random steps on the engine and on a simple model ([`ObjectModel`]). After each step every list is consistent, and
//! the number of objects in use is that of the model. After a shrink exactly those slabs are left that contain an
//! object in use. A failing list of steps is shortened before it is printed.

use std::ptr::NonNull;

use fastrand::Rng;
use freehold::base::{CpuId, Gfp};
use freehold::policy::Policy;
use freehold::policy::slab::{SlabPolicy, SlabSizes};
use freehold::slab::CacheConfig;

use crate::common::repetitions;
use crate::common::shrink::{outcome, shrink};
use crate::slab::interfering_local::Meddling;
use crate::slab::object_model::ObjectModel;
use crate::slab::world::{Cache, PAGES, SIZES, Slab, judge, judge_empty, policies, policy, run_on, with_meddler};

/// Maximum number of live objects.
const LIVE_MAX: usize = 60;
const STEPS: usize = 1200;
const CPUS: u16 = 4;
/// Upper limits of the sizes of requests: requests up to `MEDIUM` are served by objects under every size policy,
/// requests up to `LARGE` may be served by pages.
const MEDIUM: usize = 8 << 10;
const LARGE: usize = 40 << 10;
/// Word that the constructor writes into an object.
const PREPARED: u64 = 0x5afe_c0de_5afe_c0de;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { cpu: u16, cache: usize },
    Bulk { cpu: u16, cache: usize, count: usize },
    Kmalloc { cpu: u16, size: usize, gfp: Gfp },
    Krealloc { cpu: u16, pick: usize, size: usize },
    Prepared { cpu: u16 },
    Free { cpu: u16, pick: usize },
    FreeSome { cpu: u16, cache: usize, count: usize },
    Shrink,
    Reap { most: u64 },
    Offline { cpu: u16 },
    Recreate { cache: usize },
}

fn steps(seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    (0..STEPS).map(|at| step(&mut rng, at / 150 % 2 == 0)).collect()
}

/// Draws a step. More objects are allocated than freed if `grows` is set, and fewer otherwise.
fn step(rng: &mut Rng, grows: bool) -> Step {
    let (cpu, cache, pick) = (rng.u16(0..CPUS), rng.usize(0..SIZES.len()), rng.usize(..));
    let sizes = [rng.usize(0..200), rng.usize(0..MEDIUM), rng.usize(0..LARGE)];
    let size = sizes[rng.usize(0..3)];
    match rng.u32(0..100) {
        0..40 if grows => Step::Alloc { cpu, cache },
        40..50 if grows => {
            Step::Kmalloc { cpu, size, gfp: if pick % 2 == 0 { Gfp::KERNEL } else { Gfp::KERNEL | Gfp::ZERO } }
        }
        0..55 => Step::Free { cpu, pick },
        55..65 => Step::Bulk { cpu, cache, count: pick % 6 },
        65..75 => Step::FreeSome { cpu, cache, count: pick % 6 },
        75..85 => Step::Krealloc { cpu, pick, size },
        85..92 => Step::Prepared { cpu },
        92..94 => Step::Shrink,
        94 => Step::Reap { most: rng.u64(0..64 << 10) },
        95..98 => Step::Offline { cpu },
        _ => Step::Recreate { cache },
    }
}

/// The engine, and a model for each of its caches.
struct Both<'s, 'n, 'm, 'l> {
    slab: &'s Slab<'n, 'm, 'l>,
    caches: Vec<Cache<'s, 'n, 'm, 'l>>,
    object_models: Vec<ObjectModel>,
    prepared: Cache<'s, 'n, 'm, 'l>,
    by_size: ObjectModel,
}

fn prepare(object: NonNull<u8>) {
    // SAFETY: the cache calls its constructor with an object of eight words, which is aligned to a word.
    unsafe { object.cast::<[u64; 8]>().write([PREPARED; 8]) }
}

impl<'s, 'n, 'm, 'l> Both<'s, 'n, 'm, 'l> {
    fn new(slab: &'s Slab<'n, 'm, 'l>) -> Both<'s, 'n, 'm, 'l> {
        let caches =
            SIZES.iter().map(|&size| slab.create(&CacheConfig::new("model", size)).expect("the cache can be created"));
        let prepared = CacheConfig::new("prepared", 64).with_constructor(prepare);
        Both {
            slab,
            caches: caches.collect(),
            object_models: SIZES.iter().map(|_| ObjectModel::default()).collect(),
            prepared: slab.create(&prepared).expect("the cache can be created"),
            by_size: ObjectModel::default(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Alloc { cpu, cache } => self.alloc(cpu, cache, 1),
            Step::Bulk { cpu, cache, count } => self.alloc(cpu, cache, count),
            Step::Kmalloc { cpu, size, gfp } => self.kmalloc(cpu, size, gfp),
            Step::Krealloc { cpu, pick, size } => self.krealloc(cpu, pick, size),
            Step::Prepared { cpu } => self.alloc_prepared(cpu),
            Step::Free { cpu, pick } => self.free(cpu, pick),
            Step::FreeSome { cpu, cache, count } => self.free_some(cpu, cache, count),
            Step::Shrink => self.shrink(),
            Step::Reap { most } => {
                run_on(0);
                self.slab.reap(most);
            }
            Step::Offline { cpu } => {
                run_on((cpu + 1) % CPUS);
                self.slab.cpu_dead(CpuId(cpu));
                self.slab.cpu_online(CpuId(cpu));
            }
            Step::Recreate { cache } => self.recreate(cache),
        }
        let blocks = self.by_size.count_by(|address| address) - self.small();
        judge(self.slab, self.live() - blocks);
    }

    fn live(&self) -> usize {
        self.by_size.len() + self.object_models.iter().map(ObjectModel::len).sum::<usize>()
    }

    /// Returns the size of the largest object of a kmalloc cache.
    fn object_max(&self) -> usize {
        self.slab.policy().slab.sizes.largest()
    }

    /// Returns the number of live kmalloc objects that are not blocks of pages.
    fn small(&self) -> usize {
        let sizes = (0..self.by_size.len()).filter_map(|at| self.by_size.pick(at));
        sizes.filter(|&object| self.by_size.size(object) <= self.object_max()).count()
    }

    fn alloc(&mut self, cpu: u16, cache: usize, count: usize) {
        run_on(cpu);
        if self.live() + count > LIVE_MAX {
            return;
        }
        let mut objects = vec![NonNull::dangling(); count];
        self.caches[cache].alloc_bulk(Gfp::KERNEL, &mut objects).expect("enough memory must be free");
        objects.into_iter().for_each(|object| self.object_models[cache].take(object, SIZES[cache] as usize));
    }

    fn kmalloc(&mut self, cpu: u16, size: usize, gfp: Gfp) {
        run_on(cpu);
        if self.live() >= LIVE_MAX || size == 0 {
            return;
        }
        let object = self.slab.kmalloc(size, gfp).expect("enough memory must be free");
        if gfp.contains(Gfp::ZERO) {
            // SAFETY: the object was just allocated and has `size` bytes, which `Gfp::ZERO` initialised.
            let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), size) };
            assert!(bytes.iter().all(|&byte| byte == 0), "{object:p} is not zero");
        }
        self.expect_shape(object, size);
        self.by_size.take(object, size);
    }

    /// Checks that size and alignment are those of the next larger size class.
    fn expect_shape(&self, object: NonNull<u8>, size: usize) {
        let room = match (self.slab.policy().slab.sizes, size) {
            (_, ..=8) => 8,
            (SlabSizes::Linux, 65..=96) => 96,
            (SlabSizes::Linux, 129..=192) => 192,
            (SlabSizes::Linux, size) if size <= self.object_max() => size.next_power_of_two(),
            (SlabSizes::Fine, 9..=16) => 16,
            (SlabSizes::Fine, 17..=32) => 32,
            (SlabSizes::Fine, ..=128) => size.next_multiple_of(16),
            (SlabSizes::Fine, 4097..=8192) => size.next_multiple_of(size.next_power_of_two() / 16),
            (SlabSizes::Fine, size) if size <= self.object_max() => size.next_multiple_of(size.next_power_of_two() / 8),
            (_, size) => size.div_ceil(4096).next_power_of_two() * 4096,
        };
        assert_eq!(self.slab.ksize(object), Ok(room), "room for {size}");
        let align = (1 << room.trailing_zeros()).min(4096);
        assert_eq!(object.addr().get() % align, 0, "alignment of {size}");
    }

    fn krealloc(&mut self, cpu: u16, pick: usize, size: usize) {
        run_on(cpu);
        let Some(object) = self.by_size.pick(pick).filter(|_| size > 0) else { return };
        let kept = self.by_size.size(object).min(size);
        self.by_size.give(object);
        // SAFETY: the object is allocated and was filled by the model.
        let tag = unsafe { object.read() };
        // SAFETY: the object is allocated, and only the returned pointer is used afterwards.
        let moved = unsafe { self.slab.krealloc(object, size, Gfp::KERNEL) }.expect("enough memory must be free");
        // SAFETY: the object has at least `kept` bytes, which were copied from the initialised original or stayed in
        // place.
        let bytes = unsafe { std::slice::from_raw_parts(moved.as_ptr(), kept) };
        assert!(bytes.iter().all(|&byte| byte == tag), "{object:p} lost its bytes");
        // Objects that shrink stay in place, so the model records the size of their allocation.
        let room = self.slab.ksize(moved).expect("the pointer must be an object in use");
        self.by_size.take(moved, if room > self.object_max() { room } else { size.min(self.object_max()) });
    }

    /// A free object keeps the contents that its constructor or its last user left.
    fn alloc_prepared(&mut self, cpu: u16) {
        run_on(cpu);
        let object = self.prepared.alloc(Gfp::KERNEL).expect("enough memory must be free");
        // SAFETY: the object was just allocated, has eight words, and was initialised by the constructor.
        assert_eq!(unsafe { object.cast::<[u64; 8]>().read() }, [PREPARED; 8], "{object:p}");
        run_on((cpu + 1) % CPUS);
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { self.prepared.free(object) }.expect("the pointer must be an object in use");
    }

    fn free(&mut self, cpu: u16, pick: usize) {
        run_on(cpu);
        let which = pick % (SIZES.len() + 1);
        if which < SIZES.len() {
            return self.free_some(cpu, which, 1);
        }
        let Some(object) = self.by_size.pick(pick / 4) else { return };
        self.by_size.give(object);
        // SAFETY: the object was allocated and is not used any more.
        unsafe { self.slab.kfree(object) }.expect("the pointer must be an object in use");
    }

    fn free_some(&mut self, cpu: u16, cache: usize, count: usize) {
        run_on(cpu);
        let mut objects = Vec::new();
        for at in 0..count {
            let Some(object) = self.object_models[cache].pick(at * 7) else { break };
            self.object_models[cache].give(object);
            objects.push(object);
        }
        // SAFETY: the objects were allocated from this cache and are not used any more.
        unsafe { self.caches[cache].free_bulk(&objects) }.expect("the pointers must be objects in use");
    }

    fn shrink(&mut self) {
        run_on(0);
        self.slab.shrink();
        for (cache, object_model) in self.caches.iter().zip(&self.object_models) {
            let mask = cache.info().layout.mask.get() as usize;
            assert_eq!(cache.slabs(), object_model.count_by(|address| address & mask) as u64, "slabs after a shrink");
        }
    }

    /// Destroys a cache if it has no objects in use, and creates another one.
    fn recreate(&mut self, at: usize) {
        run_on(0);
        let cache = self.caches.remove(at);
        let cache = match cache.destroy() {
            Ok(()) => {
                assert_eq!(self.object_models[at].len(), 0, "a cache with objects in use ended");
                self.slab.create(&CacheConfig::new("again", SIZES[at])).expect("the cache can be created")
            }
            Err(leak) => {
                assert_eq!(leak.objects, self.object_models[at].len() as u64, "{leak}");
                leak.cache
            }
        };
        self.caches.insert(at, cache);
    }

    fn end(mut self) {
        while self.live() > 0 {
            (0..=SIZES.len()).for_each(|pick| self.free(1, pick));
        }
        run_on(0);
        self.slab.shrink();
        judge_empty(self.slab, 0);
    }
}

fn run(policy: Policy, what: Meddling, steps: &[Step]) -> Result<(), String> {
    outcome(|| {
        with_meddler(policy, PAGES, (what, 20), |slab| {
            let mut both = Both::new(slab);
            steps.iter().for_each(|&step| both.take(step));
            both.end();
        });
        Ok(())
    })
}

#[test]
fn allocator_matches_the_reference_slab() {
    for policy in policies() {
        for seed in 0..repetitions(1) {
            let steps = steps(seed);
            if let Err(problem) = run(policy, Meddling::Nothing, &steps) {
                let (short, still) = shrink(&steps, |steps| run(policy, Meddling::Nothing, steps));
                panic!("{:?}, seed {seed}: {problem}\nshortened: {still}\n{short:#?}", policy.slab);
            }
        }
    }
}

#[test]
fn fault_is_found_and_shortened() {
    let policy = policy(SlabPolicy::Tagged, 0);
    let steps = steps(1);
    run(policy, Meddling::PopsTwice, &steps).expect_err("an object was handed out twice");
    let (short, _) = shrink(&steps, |steps| run(policy, Meddling::PopsTwice, steps));
    assert!(short.len() < 60, "{} steps are left", short.len());
}
