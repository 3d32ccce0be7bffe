//! The slab allocator's fast paths with restartable sequences: for each one, functions to measure and a heap in a
//! prepared state.

use std::hint::black_box;
use std::ptr::{NonNull, null_mut};

use freehold::base::CpuId;
use freehold::policy::Policy;
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabPolicy};
use freehold::slab::fast_path::{Bitmap, FastPath, PageField, PageFieldGuarded, Sheaves, Tagged};
use freehold::slab::freelist::{Mangled, Plain};
use freehold_malloc::heap::{Heap, HeapConfig};
use freehold_malloc::os::mmap::HugePages;
use freehold_malloc::os::rseq::Rseq;

use crate::counts::Counts;
use crate::machine::Apart;
use crate::processor::run_on;
use crate::step::Trace;

/// Bytes of a heap.
const BYTES: usize = 128 << 20;
/// Objects that are held from the beginning, so that some slabs are full.
const HELD: usize = 200;
/// Operations before the measured one.
const WARM: usize = 16;

/// A measured function. It gets the size of objects, and an object that it may free.
type Act = fn(&Heap<Rseq>, usize, *mut u8) -> *mut u8;

/// A fast path with the functions that use it.
pub(crate) struct FastPathCase {
    pub name: &'static str,
    policy: Policy,
    size: usize,
    alloc: Act,
    free: Act,
    pair: Act,
}

/// Measured operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Alloc,
    Free,
    Pair,
    /// A free on a CPU other than the one that allocated the object; that CPU has freed an object of the same slab
    /// before.
    FreeElsewhere,
}

impl Operation {
    pub(crate) const ALL: [Operation; 4] =
        [Operation::Alloc, Operation::Free, Operation::Pair, Operation::FreeElsewhere];

    /// Returns the title of the operation's rows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Operation::Alloc => "alloc: the cache of the size, then a section.",
            Operation::Free => "free of the object that was allocated last: the cache of its page, then a section.",
            Operation::Pair => "alloc, then free.",
            Operation::FreeElsewhere => {
                "free on another CPU, which has just freed an object of that slab: to that CPU's array, or, by a locked\n\
                 # instruction, to the slab's remote frees."
            }
        }
    }
}

/// Returns a policy without hardening and without preemption guards.
fn plain(objects: SlabPolicy) -> Policy {
    let mut policy = Policy::FREEHOLD;
    (policy.slab.objects, policy.slab.links, policy.slab.guard) = (objects, SlabLinks::Plain, SlabGuard::None);
    policy
}

/// Returns every fast path in the order of the table. Paths with a bitmap use large objects.
pub(crate) fn cases() -> [FastPathCase; 8] {
    use SlabPolicy::{Bitmap as Bits, PageField as Field, Sheaves as Arrays, SheavesBitmap, Tagged as Lists};
    let (mut guarded, mut hardened) = (plain(Field), plain(Lists));
    guarded.slab.guard = SlabGuard::Preempt;
    hardened.slab.links = SlabLinks::Mangled;
    [
        FastPathCase::for_path::<Sheaves>("sheaves-bitmap", plain(SheavesBitmap), 1024),
        FastPathCase::for_path::<Sheaves>("sheaves", plain(Arrays), 64),
        FastPathCase::for_path::<Bitmap<Plain>>("bitmap", plain(Bits), 1024),
        FastPathCase::for_path::<Tagged<Plain>>("tagged", plain(Lists), 64),
        FastPathCase::for_path::<Tagged<Mangled>>("tagged, hardened", hardened, 64),
        FastPathCase::for_path::<PageField<Plain>>("page-field", plain(Field), 64),
        FastPathCase::for_path::<PageFieldGuarded<Plain>>("page-field, guarded", guarded, 64),
        FastPathCase {
            alloc: alloc_any,
            free: free_any,
            pair: pair_any,
            ..FastPathCase::for_path::<Sheaves>("by policy", Policy::FREEHOLD, 1024)
        },
    ]
}

impl FastPathCase {
    fn for_path<F: FastPath>(name: &'static str, policy: Policy, size: usize) -> FastPathCase {
        FastPathCase { name, policy, size, alloc: alloc::<F>, free: free::<F>, pair: pair::<F> }
    }

    /// Measures an operation.
    pub(crate) fn counts(&self, rseq: Rseq, [home, away]: [CpuId; 2], operation: Operation) -> Counts {
        run_on(home);
        let heap = Box::new(Apart(self.heap(rseq)));
        let heap = &heap.0;
        let (act, object) = match operation {
            Operation::Alloc => (self.alloc, null_mut()),
            Operation::Pair => (self.pair, null_mut()),
            Operation::Free => (self.free, self.get(heap)),
            Operation::FreeElsewhere => (self.free, self.held_elsewhere(heap, away)),
        };
        let trace =
            Trace::record(act as *const (), || _ = black_box(act(heap, black_box(self.size), black_box(object))));
        run_on(home);
        Counts::from_trace(&trace)
    }

    /// Creates a heap in which some slabs are full, and this CPU has cached objects of a slab that is not full.
    fn heap(&self, rseq: Rseq) -> Heap<Rseq> {
        use freehold_malloc::os::platform::{CurrentCpuOfProcess, Process};
        let config =
            HeapConfig { bytes: BYTES, policy: self.policy, huge_pages: HugePages::BySystem, ..HeapConfig::default() };
        let heap = Heap::new(&config, rseq, Process::new(CurrentCpuOfProcess::Rseq(rseq)))
            .expect("a small heap can be created");
        let warm: Vec<_> = (0..WARM).map(|_| self.get(&heap)).collect();
        warm.into_iter().for_each(|object| self.put(&heap, object));
        (0..WARM).for_each(|_| _ = (self.pair)(&heap, self.size, null_mut()));
        heap
    }

    /// Returns an object whose slab its CPU no longer allocates from. A neighbour of the object was just freed on the
    /// other CPU, on which the caller runs afterwards.
    fn held_elsewhere(&self, heap: &Heap<Rseq>, away: CpuId) -> *mut u8 {
        let held: Vec<_> = (0..HELD).map(|_| self.get(heap)).collect();
        run_on(away);
        let warm: Vec<_> = (0..WARM).map(|_| self.get(heap)).collect();
        warm.into_iter().for_each(|object| self.put(heap, object));
        self.put(heap, held[WARM]);
        held[WARM + 2]
    }

    fn get(&self, heap: &Heap<Rseq>) -> *mut u8 {
        let object = (self.alloc)(heap, self.size, null_mut());
        assert!(!object.is_null(), "a heap with room has an object");
        object
    }

    fn put(&self, heap: &Heap<Rseq>, object: *mut u8) {
        (self.free)(heap, self.size, object);
    }
}

#[inline(never)]
fn alloc<F: FastPath>(heap: &Heap<Rseq>, size: usize, _: *mut u8) -> *mut u8 {
    // SAFETY: `F` is the fast path of the case's policy, so the heap has this frontend.
    unsafe { heap.frontend::<F>().unwrap_unchecked() }.malloc(size)
}

#[inline(never)]
fn free<F: FastPath>(heap: &Heap<Rseq>, _: usize, object: *mut u8) -> *mut u8 {
    // SAFETY: `F` is the fast path of the case's policy, and callers pass an allocated object that is not used any
    // more.
    unsafe { heap.frontend::<F>().unwrap_unchecked().free(object) };
    object
}

#[inline(never)]
fn pair<F: FastPath>(heap: &Heap<Rseq>, size: usize, _: *mut u8) -> *mut u8 {
    // SAFETY: `F` is the fast path of the case's policy, so the heap has this frontend.
    let frontend = unsafe { heap.frontend::<F>().unwrap_unchecked() };
    let object = frontend.malloc(size);
    // SAFETY: the object was just allocated and is not used any more.
    unsafe { frontend.free(object) };
    object
}

#[inline(never)]
fn alloc_any(heap: &Heap<Rseq>, size: usize, _: *mut u8) -> *mut u8 {
    heap.malloc(size).map_or(null_mut(), NonNull::as_ptr)
}

#[inline(never)]
fn free_any(heap: &Heap<Rseq>, _: usize, object: *mut u8) -> *mut u8 {
    // SAFETY: callers pass an allocated object that is not used any more.
    let freed = NonNull::new(object).map(|object| unsafe { heap.free(object) });
    if freed.is_some_and(|freed| freed.is_ok()) { object } else { null_mut() }
}

#[inline(never)]
fn pair_any(heap: &Heap<Rseq>, size: usize, _: *mut u8) -> *mut u8 {
    let Ok(object) = heap.malloc(size) else { return null_mut() };
    // SAFETY: the object was just allocated and is not used any more.
    let freed = unsafe { heap.free(object) };
    if freed.is_ok() { object.as_ptr() } else { null_mut() }
}
