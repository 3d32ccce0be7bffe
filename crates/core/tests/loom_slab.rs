//! Objects on their way home, in every order of steps that the memory model allows.
//!
//! The world is loom's ([`world`]): 64 frames, three CPUs, one cache whose slabs are single pages of two or three
//! objects. Sections are locks ([`Locked`]); a drain's exchange takes none, so it comes at any point within them. Each
//! scene has two or three threads that meet at one slab, some of them on the same CPU. Meanwhile no object is handed
//! out that somebody has; afterwards every list is what it says, every slab with free objects is found, and when all
//! objects are back, so is all memory.
//!
//! ```text
//! RUSTFLAGS='--cfg loom' cargo test --release -p freehold --test loom_slab
//! ```
#![cfg(loom)]

#[path = "common/loom.rs"]
mod world;

use std::alloc::{Layout, alloc};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use freehold::base::fault::Fault;
use freehold::base::lock::RawLock;
use freehold::base::{CpuId, Gfp, NodeId, Pfn};
use freehold::policy::slab::SlabPolicy;
use freehold::policy::{Numbers, PcpPolicy, Policy};
use freehold::slab::cpu::locked::{CurrentCpu, Locked};
use freehold::slab::{CacheConfig, KmemCache, Memory, SlabAllocator, SlabCensus};

use world::{CPU, FRAMES, Lock, Loom, bytes, finds};

/// Most orders of a scene.
const ORDERS_MAX: usize = 10_000;
const CPUS: usize = 3;
/// Two objects of this size fill a slab.
const HALF: u32 = 2048;
/// Three do.
const THIRD: u32 = 1344;

#[derive(Debug)]
struct ThreadCpu;

impl CurrentCpu for ThreadCpu {
    fn cpu(&self) -> CpuId {
        match LOOKS_BEFORE.get() {
            Some(0) => {
                LOOKS_BEFORE.set(None);
                return LEFT;
            }
            before => LOOKS_BEFORE.set(before.map(|looks| looks - 1)),
        }
        CpuId(CPU.with(|cpu| cpu.get()))
    }
}

type Local = Locked<'static, Lock, ThreadCpu>;

/// An object's address.
type Object = usize;
/// The objects of a slab.
type Objects = [Object; 3];

/// One cache, and its objects that are in use.
struct Scene {
    slab: &'static SlabAllocator<'static, 'static, Loom, Local>,
    cache: KmemCache<'static, 'static, 'static, Loom, Local>,
    live: Mutex<BTreeSet<Object>>,
    size: usize,
}

/// The CPU that a thread finds itself on once, and not any more at the next look.
const LEFT: CpuId = CpuId(0);

std::thread_local! {
    /// Looks at the CPU that the thread has before that.
    static LOOKS_BEFORE: Cell<Option<u32>> = const { Cell::new(None) };
    /// Memory for objects, the same in every run of a thread's scenes.
    static MEMORY: usize = {
        let layout = Layout::from_size_align(FRAMES as usize * 4096, 1 << 20).expect("it is valid");
        // SAFETY: the layout is not empty.
        unsafe { alloc(layout) as usize }
    };
}

impl Scene {
    /// A machine that is never taken down.
    fn new(objects: SlabPolicy, size: u32) -> &'static Scene {
        let numbers = Numbers {
            slab_min_objects: Some(1),
            slab_max_order: Some(0),
            slab_cpu_free: Some(0),
            ..Numbers::default()
        };
        let mut policy = Policy { pcp: PcpPolicy::Off, numbers, ..Policy::FREEHOLD };
        policy.slab.objects = objects;
        let pages = world::engine(policy, &[NodeId(0); CPUS]);
        let locks: &'static [Lock; CPUS] = Box::leak(Box::new(core::array::from_fn(|_| Lock::new())));
        let storage = bytes(SlabAllocator::<Loom, Local>::layout(FRAMES, 4096, CPUS as u16, 1));
        let base = NonNull::new(MEMORY.with(|&memory| memory) as *mut u8).expect("there is memory");
        let memory = Memory { first: Pfn::new(0), base, pages: FRAMES };
        // SAFETY: the memory is there for ever, and nobody else has it while this machine lives.
        let slab = unsafe { SlabAllocator::new(pages, Locked::new(locks, ThreadCpu), memory, 1, storage) };
        let slab = Box::leak(Box::new(slab.expect("it is valid")));
        let cache = slab.create(&CacheConfig::new("scene", size)).expect("it is valid");
        Box::leak(Box::new(Scene { slab, cache, live: Mutex::default(), size: size as usize }))
    }

    /// An object that nobody has.
    fn alloc(&self) -> Object {
        let object = self.cache.alloc(Gfp::KERNEL).expect("there is memory").as_ptr() as Object;
        assert!(self.live.lock().expect("nobody panicked").insert(object), "{object:#x} is somebody's");
        object
    }

    fn free(&self, object: Object) {
        assert!(self.live.lock().expect("nobody panicked").remove(&object), "{object:#x} is nobody's");
        let object = NonNull::new(object as *mut u8).expect("it is an object");
        // SAFETY: it was allocated, and is not any more.
        unsafe { self.cache.free(object) }.expect("it is an object");
    }

    /// The same for all that are left, on some CPU.
    fn free_all(&self) {
        let left: Vec<_> = self.live.lock().expect("nobody panicked").iter().copied().collect();
        left.into_iter().for_each(|object| self.free(object));
    }

    /// All objects of a new slab, which the CPU has just used up; those that there are, first.
    fn fill(&self) -> Objects {
        let mut objects = [0; 3];
        objects[..4096 / self.size].fill_with(|| self.alloc());
        objects
    }

    /// The same; the CPU has turned to another slab.
    fn used_up(&self) -> Objects {
        let objects = self.fill();
        self.alloc();
        objects
    }

    /// The same in a slab that is the node's, after the first was freed.
    fn at_node(&self) -> Objects {
        let objects = self.fill();
        self.free(objects[0]);
        self.cache.shrink();
        objects
    }

    /// Slabs with objects in use.
    fn slabs_in_use(&self) -> u64 {
        let slabs: BTreeSet<_> =
            self.live.lock().expect("nobody panicked").iter().map(|object| object / 4096).collect();
        slabs.len() as u64
    }

    /// Nothing is lost.
    fn check(&self) -> SlabCensus {
        // SAFETY: scenes are judged before and after their threads.
        unsafe { self.slab.check() }.expect("nothing is lost")
    }

    /// Nothing is lost, whatever is in use.
    fn judge(&self) {
        let census = self.check();
        let live = self.live.lock().expect("nobody panicked").len() as u64;
        assert_eq!(census.objects - census.free, live, "objects in use");
        self.cache.shrink();
        self.check();
        assert_eq!(self.cache.slabs(), self.slabs_in_use(), "a slab without objects in use was not found");
        self.free_all();
        self.cache.shrink();
        assert_eq!(self.check().slabs, 0);
        // SAFETY: `check` only reads; nothing is given back through this reference.
        unsafe { self.slab.pages() }.check().expect("no page is lost");
    }
}

/// What comes next runs on this CPU.
fn run_on(cpu: u16) {
    CPU.with(|current| current.set(cpu));
}

/// What a thread of a scene does.
type Act = fn(&Scene, Objects);

/// Runs the acts, each in a thread that begins on the CPU it says, in every order with two preemptions; `set_up` comes
/// first, on CPU 0, and `then` last, on CPU 1. All that under every policy: under those with sheaves there is no memory
/// for any here, so that each object goes to its slab alone, which is nobody's.
#[track_caller]
fn run<const N: usize>(size: u32, set_up: fn(&Scene) -> Objects, acts: [(u16, Act); N], then: fn(&Scene)) {
    for objects in
        [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap, SlabPolicy::Sheaves, SlabPolicy::SheavesBitmap]
    {
        let orders = run_under(objects, size, set_up, acts, then);
        println!("{orders} orders");
        // Under sheaves, some scenes are about what is not there.
        assert!(
            orders >= 5 || objects.has_sheaves(),
            "only {orders} orders under {objects:?}: the scene does not meet"
        );
    }
}

fn run_under<const N: usize>(
    policy: SlabPolicy,
    size: u32,
    set_up: fn(&Scene) -> Objects,
    acts: [(u16, Act); N],
    then: fn(&Scene),
) -> u32 {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 100_000;
    model.max_permutations = Some(ORDERS_MAX);
    let orders = Arc::new(AtomicU32::new(0));
    let counter = orders.clone();
    model.check(move || {
        counter.fetch_add(1, Relaxed);
        run_on(0);
        let scene = Scene::new(policy, size);
        let objects = set_up(scene);
        let play = move |(cpu, act): (u16, Act)| {
            run_on(cpu);
            act(scene, objects);
        };
        let others = acts[1..].iter().map(|&act| loom::thread::spawn(move || play(act))).collect::<Vec<_>>();
        play(acts[0]);
        others.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        run_on(1);
        then(scene);
        scene.judge();
    });
    orders.load(Relaxed)
}

fn alloc_one(scene: &Scene, _: Objects) {
    scene.alloc();
}

fn shrink(scene: &Scene, _: Objects) {
    scene.cache.shrink();
}

fn free_first(scene: &Scene, [one, ..]: Objects) {
    scene.free(one);
}

fn free_second(scene: &Scene, [_, two, _]: Objects) {
    scene.free(two);
}

fn free_second_and_alloc(scene: &Scene, [_, two, _]: Objects) {
    scene.free(two);
    scene.alloc();
}

fn nothing(_: &Scene) {}

#[test]
fn a_free_elsewhere_meets_the_end_of_the_owners_list() {
    run(HALF, Scene::fill, [(0, alloc_one), (1, free_first)], nothing);
}

#[test]
fn the_first_free_of_the_owner_meets_one_from_elsewhere() {
    run(HALF, Scene::used_up, [(0, free_first), (1, free_second)], nothing);
}

#[test]
fn a_slab_of_the_node_is_taken_while_it_is_freed_into() {
    run(HALF, Scene::at_node, [(0, alloc_one), (1, free_second_and_alloc)], nothing);
}

#[test]
fn a_slab_is_settled_while_it_is_freed_into() {
    settled_while_freed_into();
}

fn settled_while_freed_into() {
    let set_up = |scene: &Scene| {
        let objects = scene.used_up();
        scene.free(objects[0]);
        objects
    };
    run(THIRD, set_up, [(2, shrink), (1, free_second_and_alloc)], nothing);
}

#[test]
fn a_list_is_drained_while_its_slab_is_freed_into() {
    run(HALF, Scene::fill, [(2, shrink), (1, free_second_and_alloc)], nothing);
}

#[test]
fn a_list_is_drained_while_its_slab_is_freed_into_here_and_elsewhere() {
    run(HALF, Scene::fill, [(2, shrink), (0, free_first), (1, free_second_and_alloc)], nothing);
}

#[test]
fn a_list_is_drained_while_its_cpu_pops_and_pushes() {
    drained_while_used();
}

fn drained_while_used() {
    let set_up = |scene: &Scene| [scene.alloc(), 0, 0];
    let here = |scene: &Scene, [one, ..]: Objects| {
        scene.alloc();
        scene.free(one);
    };
    run(THIRD, set_up, [(1, shrink), (0, here)], nothing);
}

#[test]
fn the_first_free_of_the_owner_meets_the_end_of_the_slab() {
    first_free_meets_the_end();
}

fn first_free_meets_the_end() {
    let there = |scene: &Scene, objects: Objects| {
        free_second(scene, objects);
        scene.cache.shrink();
        (0..2).for_each(|_| _ = scene.alloc());
    };
    run(HALF, Scene::used_up, [(0, free_first), (1, there)], nothing);
}

/// The CPU that freed the last object but one is still on the way to the stack when the slab is wholly free.
#[test]
fn a_slab_goes_while_it_is_pushed() {
    let there = |scene: &Scene, objects: Objects| {
        free_second(scene, objects);
        scene.cache.shrink();
    };
    run(HALF, Scene::used_up, [(1, free_first), (2, there)], nothing);
}

#[test]
fn a_slab_is_taken_over_while_its_cpu_frees_into_it() {
    taken_over_while_freed_into();
}

fn taken_over_while_freed_into() {
    let set_up = |scene: &Scene| {
        let objects = scene.used_up();
        scene.free(objects[0]);
        objects
    };
    run(THIRD, set_up, [(1, shrink), (0, free_second)], nothing);
}

#[test]
fn a_cpu_goes_offline_while_its_slab_is_pushed() {
    let offline = |scene: &Scene, _: Objects| scene.slab.cpu_dead(CpuId(0));
    run(HALF, Scene::used_up, [(2, offline), (1, free_first)], all_are_found);
}

/// A CPU that has nothing finds all free objects.
fn all_are_found(scene: &Scene) {
    let census = scene.check();
    (0..census.free).for_each(|_| _ = scene.alloc());
    assert_eq!(scene.cache.slabs(), census.slabs, "an object was free, and a slab was made");
}

#[test]
fn two_slabs_of_a_cpu_that_is_offline_are_pushed_at_once() {
    pushed_offline();
}

fn pushed_offline() {
    let set_up = |scene: &Scene| {
        let ([one, ..], [two, ..]) = (scene.fill(), scene.used_up());
        scene.slab.cpu_dead(CpuId(0));
        [one, two, 0]
    };
    run(HALF, set_up, [(1, free_first), (2, free_second)], all_are_found);
}

/// The refill for that CPU has been moved from it, and brings home what was just pushed.
#[test]
fn a_slab_of_a_cpu_that_is_offline_is_pushed_while_somebody_looks_there() {
    let set_up = |scene: &Scene| {
        let [one, ..] = scene.used_up();
        scene.slab.cpu_dead(LEFT);
        run_on(1);
        [one, 0, 0]
    };
    let there = |scene: &Scene, _: Objects| {
        // The first two looks are those of sections that find nothing.
        LOOKS_BEFORE.set(Some(2));
        scene.alloc();
        LOOKS_BEFORE.set(None);
    };
    run(HALF, set_up, [(2, there), (1, free_first)], all_are_found);
}

/// One more waits for a CPU than may, and the CPU that freed into it gives all of them to the node.
#[test]
fn a_cpu_looks_at_its_slabs_while_too_many_wait() {
    let set_up = |scene: &Scene| {
        let [[one, two, _], others @ ..] = core::array::from_fn::<_, 5, _>(|_| scene.fill());
        scene.alloc();
        scene.free(one);
        others.iter().for_each(|&[one, ..]| scene.free(one));
        run_on(1);
        others.iter().for_each(|&[_, two, _]| scene.free(two));
        run_on(0);
        [one, two, 0]
    };
    let here = |scene: &Scene, _: Objects| (0..3).for_each(|_| _ = scene.alloc());
    run(HALF, set_up, [(0, here), (1, free_second)], nothing);
}

/// A slab of a CPU for which too many wait goes to the node, and its owner has begun to free into it.
#[test]
fn waiting_slabs_go_to_the_node_while_their_cpu_frees_into_one() {
    waiting_slabs_go();
}

fn waiting_slabs_go() {
    let set_up = |scene: &Scene| {
        let [slab, others @ ..] = core::array::from_fn::<_, 5, _>(|_| scene.fill());
        scene.alloc();
        scene.free(slab[0]);
        others.iter().for_each(|&[one, ..]| scene.free(one));
        run_on(1);
        others.iter().for_each(|&[_, two, _]| scene.free(two));
        run_on(0);
        slab
    };
    run(THIRD, set_up, [(1, free_second), (0, |scene, [.., three]| scene.free(three))], nothing);
}

/// The second thread has preempted the first on the same CPU.
#[test]
fn a_cpu_frees_into_a_slab_while_it_turns_to_it() {
    let set_up = |scene: &Scene| {
        let objects = scene.fill();
        scene.fill();
        scene.free(objects[0]);
        objects
    };
    run(HALF, set_up, [(0, alloc_one), (0, free_second)], nothing);
}

#[test]
fn two_requests_of_a_cpu_refill_its_list() {
    run(HALF, Scene::at_node, [(0, alloc_one), (0, alloc_one)], nothing);
}

/// The free of the last object in use finds the slab on no list yet: the other CPU has to see that it is wholly free.
#[test]
fn two_free_all_of_a_full_slab_of_the_node() {
    let set_up = |scene: &Scene| {
        let first = scene.fill();
        scene.fill();
        first
    };
    run(HALF, set_up, [(0, free_first), (1, free_second)], Scene::free_all);
}

#[test]
fn faults_of_drains_are_found() {
    finds(Fault::DrainLooksOnce, drained_while_used);
    finds(Fault::DisownsUnfenced, taken_over_while_freed_into);
    finds(Fault::DisownsUnfenced, waiting_slabs_go);
}

#[test]
fn faults_of_holding_are_found() {
    finds(Fault::TakesQueue, settled_while_freed_into);
    finds(Fault::LetsGoEarly, settled_while_freed_into);
    finds(Fault::FreesUnlocked, first_free_meets_the_end);
    finds(Fault::ClosedIsTried, pushed_offline);
}
