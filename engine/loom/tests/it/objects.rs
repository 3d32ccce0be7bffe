//! A slab on loom's threads: one cache, the set of its allocated objects, and checks that no object is lost.

use std::alloc::{Layout, alloc};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Mutex;

use freehold::base::lock::RawLock;
use freehold::base::{CpuId, Gfp, NodeId, Pfn};
use freehold::policy::slab::SlabPolicy;
use freehold::policy::{Numbers, PcpPolicy, Policy};
use freehold::slab::cpu::CACHES_MAX;
use freehold::slab::cpu::locked::{CpuLocks, CurrentCpu};
use freehold::slab::{CacheConfig, CacheFlags, KmemCache, Memory, SlabAllocator, SlabCensus};
use loom::sync::atomic::AtomicU32;

use crate::world::{self, CPU, FRAMES, Lock, Loom, bytes};

/// Number of CPUs of a machine.
pub const CPUS: usize = 3;
/// Object size of which two fill a slab.
pub const HALF: u32 = 2048;
/// Object size of which three fill a slab.
pub const THIRD: u32 = 1344;

/// CPU that a thread represents; at one read it may be another one, see [`look_back_after`].
#[derive(Debug)]
pub struct ThreadCpu;

impl CurrentCpu for ThreadCpu {
    fn cpu(&self) -> CpuId {
        let looks = LOOKS_BEFORE.with(Cell::get);
        look_back_after(looks.and_then(|looks| looks.checked_sub(1)));
        if looks == Some(0) { LEFT } else { CpuId(CPU.with(Cell::get)) }
    }
}

/// Sections under a lock for each CPU.
type Local = CpuLocks<'static, Lock, ThreadCpu>;

/// Slab of a machine that is never freed.
type Slab = SlabAllocator<'static, 'static, Loom, Local>;

/// Address of an object.
pub type Object = usize;
/// The objects of a slab.
pub type Objects = [Object; 3];

/// One cache, and its allocated objects.
pub struct Scene {
    pub slab: &'static Slab,
    pub cache: KmemCache<'static, 'static, 'static, Loom, Local>,
    /// A value that is accessed with Relaxed ordering only, like the contents of objects.
    pub mark: AtomicU32,
    live: Mutex<BTreeSet<Object>>,
    size: usize,
}

/// CPU that a moved thread reads once; at the next read it gets its new CPU.
pub const LEFT: CpuId = CpuId(0);

loom::thread_local! {
    /// Number of reads of the CPU before that.
    static LOOKS_BEFORE: Cell<Option<u32>> = Cell::new(None);
}

/// Makes this thread read [`LEFT`] as its CPU once, after this number of reads; `None` for never.
pub fn look_back_after(looks: Option<u32>) {
    LOOKS_BEFORE.with(|before| before.set(looks));
}

std::thread_local! {
    /// Memory for objects, which is reused by all runs of a thread's scenes.
    static MEMORY: usize = {
        let layout = Layout::from_size_align(FRAMES as usize * 4096, 1 << 20).expect("it is valid");
        // SAFETY: the layout has a non-zero size, FRAMES times 4096 bytes.
        unsafe { alloc(layout) as usize }
    };
}

impl Scene {
    /// Creates a machine that is never freed and has no memory for sheaves.
    pub fn new(objects: SlabPolicy, size: u32) -> &'static Scene {
        Scene::on_slab(machine(objects), size)
    }

    /// Creates a machine whose caches have sheaves of four objects. The cache of these sheaves is created second,
    /// because it then has the number of the cache of the smallest sheaves in loom's small machine. It is a checked
    /// cache, which has no sheaves itself.
    pub fn with_sheaves(objects: SlabPolicy, size: u32) -> &'static Scene {
        let slab = machine(objects);
        let scene = Scene::on_slab(slab, size);
        let sheaves = CacheConfig::new("sheaf-64", 64).with_flags(CacheFlags::HWCACHE_ALIGN | CacheFlags::SANITY);
        std::mem::forget(slab.create(&sheaves).expect("it is valid"));
        scene
    }

    fn on_slab(slab: &'static Slab, size: u32) -> &'static Scene {
        let cache = slab.create(&CacheConfig::new("scene", size)).expect("it is valid");
        Box::leak(Box::new(Scene { slab, cache, mark: AtomicU32::new(0), live: Mutex::default(), size: size as usize }))
    }

    /// Allocates an object, and asserts that it is not already allocated.
    pub fn alloc(&self) -> Object {
        let object = self.cache.alloc(Gfp::KERNEL).expect("there is memory").as_ptr() as Object;
        assert!(self.live.lock().expect("nobody panicked").insert(object), "{object:#x} was allocated twice");
        object
    }

    /// Allocates `count` objects in one call.
    pub fn alloc_bulk(&self, count: usize) {
        let mut objects = vec![NonNull::dangling(); count];
        self.cache.alloc_bulk(Gfp::KERNEL, &mut objects).expect("there is memory");
        let mut live = self.live.lock().expect("nobody panicked");
        assert!(objects.iter().all(|object| live.insert(object.as_ptr() as Object)), "an object was allocated twice");
    }

    /// Frees an object, and asserts that it is allocated.
    pub fn free(&self, object: Object) {
        assert!(self.live.lock().expect("nobody panicked").remove(&object), "{object:#x} is freed, but not allocated");
        let object = NonNull::new(object as *mut u8).expect("it is an object");
        // SAFETY: the set contained the object, so it was allocated from this cache and not freed since.
        unsafe { self.cache.free(object) }.expect("it is an object");
    }

    /// Frees all allocated objects, on the current CPU.
    pub fn free_all(&self) {
        let left: Vec<_> = self.live.lock().expect("nobody panicked").iter().copied().collect();
        left.into_iter().for_each(|object| self.free(object));
    }

    /// Allocates all objects of a slab, in the order of allocation. If the CPU's slab had free objects, they come
    /// first.
    pub fn fill(&self) -> Objects {
        let mut objects = [0; 3];
        objects[..4096 / self.size].fill_with(|| self.alloc());
        objects
    }

    /// Allocates all objects of a slab, and one more, so that the CPU uses another slab.
    pub fn used_up(&self) -> Objects {
        let objects = self.fill();
        self.alloc();
        objects
    }

    /// Allocates all objects of a slab, frees the first, and gives the slab to the node.
    pub fn at_node(&self) -> Objects {
        let objects = self.fill();
        self.free(objects[0]);
        self.cache.shrink();
        objects
    }

    /// Returns the number of allocated objects.
    pub fn in_use(&self) -> usize {
        self.live.lock().expect("nobody panicked").len()
    }

    /// Returns the number of slabs with allocated objects.
    pub fn slabs_in_use(&self) -> u64 {
        let slabs: BTreeSet<_> =
            self.live.lock().expect("nobody panicked").iter().map(|object| object / 4096).collect();
        slabs.len() as u64
    }

    /// Checks that nothing is lost, and returns the census.
    pub fn check(&self) -> SlabCensus {
        // SAFETY: this is called before or after the threads of a scene run, so no other thread uses the slab.
        unsafe { self.slab.check() }.expect("nothing is lost")
    }

    /// Checks that nothing is lost, with and without the allocated objects.
    pub fn judge(&self) {
        let census = self.check();
        assert_eq!(census.objects - census.free - census.sheaves, self.in_use() as u64, "objects in use");
        self.cache.shrink();
        self.check();
        assert_eq!(self.cache.slabs(), self.slabs_in_use(), "a slab without objects in use was not found");
        self.free_all();
        self.slab.shrink();
        assert_eq!(self.check().slabs, 0);
        // SAFETY: `check` only reads, and nothing is freed through this reference.
        unsafe { self.slab.pages() }.check().expect("no page is lost");
    }
}

/// Makes later calls of this thread run on this CPU.
pub fn run_on(cpu: u16) {
    CPU.with(|current| current.set(cpu));
}

fn machine(objects: SlabPolicy) -> &'static Slab {
    let numbers = Numbers {
        slab_min_objects: Some(1),
        slab_max_order: Some(0),
        slab_cpu_free: Some(0),
        slab_sheaf: Some(1),
        ..Numbers::default()
    };
    let mut policy = Policy { pcp: PcpPolicy::Off, numbers, ..Policy::FREEHOLD };
    policy.slab.objects = objects;
    let pages = world::engine(policy, &[NodeId(0); CPUS]);
    let locks: &'static [Lock; CPUS] = Box::leak(Box::new(core::array::from_fn(|_| Lock::new())));
    let storage = bytes(SlabAllocator::<Loom, Local>::layout(FRAMES, 4096, CPUS as u16, 1, CACHES_MAX as u16));
    let base = NonNull::new(MEMORY.with(|&memory| memory) as *mut u8).expect("there is memory");
    let memory = Memory { first: Pfn::new(0), base, pages: FRAMES, caches: CACHES_MAX as u16 };
    // SAFETY: the memory is never freed, and no other machine of this thread uses it while this one is in use.
    let slab = unsafe { SlabAllocator::new(pages, CpuLocks::new(locks, ThreadCpu), memory, 1, storage) };
    Box::leak(Box::new(slab.expect("it is valid")))
}
