//! Injection tests with the whole engine: `malloc` and `free` of a heap, instruction by instruction.
//!
//! Breakpoints are set in the function that calls them, including the code that the compiler has inlined into it, which
//! is the fast path. Slow paths are called functions without breakpoints, and are used by the thread and by
//! interferences.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ptr::{NonNull, null_mut};

use freehold::base::CpuId;
use freehold::policy::Policy;
use freehold::policy::slab::{SlabLinks, SlabPolicy};
use freehold::slab::CpuLocal;
use freehold::slab::fast_path::{Bitmap, FastPath, PageFieldGuarded, Sheaves, Tagged};
use freehold::slab::freelist::{Mangled, Plain};
use freehold_malloc::heap::{Heap, HeapConfig};
use freehold_malloc::os::mmap::HugePages;
use freehold_malloc::os::platform::{CurrentCpuOfProcess, Process};
use freehold_malloc::os::rseq::arch::planted::Planted;

use crate::between::Between;
use crate::cases::{Code, Report, Setting, once_with, twice_the_same};
use crate::common::machine::run_on;
use crate::defective::defective;
use crate::probes::{Act, Play};
use crate::trap::GoOn;

/// Objects that are held from the beginning, so that some slabs are full.
const HELD: usize = 900;
/// Bytes of a heap.
const BYTES: usize = 128 << 20;

/// Possible interferences. Allocations on another CPU may fence, so they restart sections.
const BETWEENS: [Between; 10] = [
    Between::Nothing,
    Between::Moved,
    Between::Allocated,
    Between::Freed,
    Between::FreedToOwn,
    Between::Twisted,
    Between::Drained,
    Between::Disowned,
    Between::Others,
    Between::Swapped,
];

#[inline(never)]
fn malloc<C: CpuLocal>(heap: &Heap<C>, size: usize) -> *mut u8 {
    heap.malloc(size).map_or(null_mut(), NonNull::as_ptr)
}

#[inline(never)]
fn free<C: CpuLocal>(heap: &Heap<C>, object: *mut u8) {
    // SAFETY: every caller passes an object that `malloc` returned, and frees it once.
    let freed = unsafe { heap.free(NonNull::new_unchecked(object)) };
    freed.unwrap_or_else(|_| std::process::abort());
}

#[inline(never)]
fn malloc_by<C: CpuLocal, F: FastPath>(heap: &Heap<C>, size: usize) -> *mut u8 {
    // SAFETY: the heap was created with the policy of the fast path `F`, so it has this frontend.
    unsafe { heap.frontend::<F>().unwrap_unchecked() }.malloc(size)
}

#[inline(never)]
fn free_by<C: CpuLocal, F: FastPath>(heap: &Heap<C>, object: *mut u8) {
    // SAFETY: the heap was created with the policy of the fast path `F`, and the caller passes the held object, once.
    unsafe { heap.frontend::<F>().unwrap_unchecked().free(object) }
}

/// The two functions of a heap.
struct FastPathCase<C: CpuLocal> {
    name: &'static str,
    malloc: fn(&Heap<C>, usize) -> *mut u8,
    free: fn(&Heap<C>, *mut u8),
}

impl<C: CpuLocal> FastPathCase<C> {
    /// Uses the general functions, which work for every fast path.
    fn any(name: &'static str) -> FastPathCase<C> {
        FastPathCase { name, malloc: malloc::<C>, free: free::<C> }
    }

    /// Uses the functions that are compiled for one fast path.
    fn for_path<F: FastPath>(name: &'static str) -> FastPathCase<C> {
        FastPathCase { name, malloc: malloc_by::<C, F>, free: free_by::<C, F> }
    }
}

/// Operation under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Malloc,
    /// A free of an object that was just allocated.
    FreeToCurrent,
    /// A free of an object that was allocated long before.
    FreeToOwn,
}

/// A heap, and the objects that are allocated from it.
struct Whole<'s, C: CpuLocal> {
    setting: &'s Setting,
    case: FastPathCase<C>,
    size: usize,
    heap: Heap<C>,
    held: RefCell<BTreeSet<NonNull<u8>>>,
    twice: Cell<Option<NonNull<u8>>>,
    operation: Cell<Operation>,
    /// Object that the operation frees.
    held_object: Cell<Option<NonNull<u8>>>,
    begun: Cell<usize>,
}

/// Tests each fast path with each operation. A build without optimisation is slow, and tests fewer of them.
pub(crate) fn every_way(setting: &Setting, report: &mut Report) {
    let (plain, mangled) = (SlabLinks::Plain, SlabLinks::Mangled);
    let cases = [
        (FastPathCase::for_path::<Sheaves>("sheaves-bitmap"), SlabPolicy::SheavesBitmap, plain, 1024),
        (FastPathCase::for_path::<Tagged<Plain>>("tagged"), SlabPolicy::Tagged, plain, 64),
        (FastPathCase::any("freehold"), Policy::FREEHOLD.slab.objects, Policy::FREEHOLD.slab.links, 64),
        (FastPathCase::for_path::<Bitmap<Plain>>("bitmap"), SlabPolicy::Bitmap, plain, 1024),
        (FastPathCase::for_path::<Tagged<Mangled>>("hardened"), SlabPolicy::Tagged, mangled, 64),
        (FastPathCase::for_path::<PageFieldGuarded<Plain>>("page-field"), SlabPolicy::PageField, plain, 64),
        (FastPathCase::for_path::<Sheaves>("sheaves"), SlabPolicy::Sheaves, plain, 64),
    ];
    let (tried, times) = if cfg!(debug_assertions) { (2, 1) } else { (cases.len(), 2) };
    for (case, objects, links, size) in cases.into_iter().take(tried) {
        let mut policy = Policy::FREEHOLD;
        (policy.slab.objects, policy.slab.links) = (objects, links);
        let whole = Whole::new(setting, case, size, policy, setting.rseq);
        for operation in [Operation::Malloc, Operation::FreeToCurrent, Operation::FreeToOwn] {
            whole.operation.set(operation);
            assert!(
                Code::new(setting, &whole).has_sections(),
                "{}: the operation has no section in the expected code",
                whole.name()
            );
            once_with(setting, &whole, &BETWEENS, report);
            if times == 2 {
                twice_the_same(setting, &whole, &BETWEENS, report);
            }
        }
        report.violations.extend(whole.end().err());
    }
}

/// Calls `show` for C's malloc and free compiled for one fast path, one operation after the other.
pub(crate) fn frontends(setting: &Setting, mut show: impl FnMut(&str, &dyn Play)) {
    for (case, objects, size) in [
        (FastPathCase::for_path::<Tagged<Plain>>("lists"), SlabPolicy::Tagged, 64),
        (FastPathCase::for_path::<Bitmap<Plain>>("bitmaps"), SlabPolicy::Bitmap, 1024),
        (FastPathCase::for_path::<Sheaves>("sheaves"), SlabPolicy::SheavesBitmap, 1024),
    ] {
        let mut policy = Policy::FREEHOLD;
        policy.slab.objects = objects;
        let whole = Whole::new(setting, case, size, policy, setting.rseq);
        for operation in [Operation::Malloc, Operation::FreeToCurrent] {
            whole.operation.set(operation);
            show(&format!("{operation:?}, {}", whole.case.name), &whole);
        }
    }
}

/// Tests tagged lists with a defect, until it is detected.
pub(crate) fn with_defect<D: Planted>(setting: &Setting, report: &mut Report) {
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = SlabPolicy::Tagged;
    let whole = Whole::new(
        setting,
        FastPathCase::for_path::<Tagged<Plain>>(D::DEFECT),
        64,
        policy,
        defective::<D>(setting.rseq),
    );
    for operation in [Operation::Malloc, Operation::FreeToCurrent] {
        whole.operation.set(operation);
        once_with(setting, &whole, &[Between::Allocated, Between::Freed], report);
    }
}

impl<'s, C: CpuLocal> Whole<'s, C> {
    fn new(setting: &'s Setting, case: FastPathCase<C>, size: usize, policy: Policy, local: C) -> Whole<'s, C> {
        let config = HeapConfig { bytes: BYTES, policy, huge_pages: HugePages::BySystem, ..HeapConfig::default() };
        let platform = Process::new(CurrentCpuOfProcess::Rseq(setting.rseq));
        let heap = Heap::new(&config, local, platform).expect("a small heap can be created");
        let whole = Whole {
            setting,
            case,
            size,
            heap,
            held: RefCell::default(),
            twice: Cell::new(None),
            operation: Cell::new(Operation::Malloc),
            held_object: Cell::new(None),
            begun: Cell::new(0),
        };
        run_on(setting.home);
        whole.settle();
        whole
    }

    fn hold(&self, object: Option<NonNull<u8>>) {
        let object = object.expect("a heap with room has an object");
        if !self.held.borrow_mut().insert(object) {
            self.twice.set(Some(object));
        }
    }

    /// Takes a held object, a different one each time.
    fn take_some(&self) -> NonNull<u8> {
        self.begun.set(self.begun.get().wrapping_mul(5) + 1);
        let mut held = self.held.borrow_mut();
        let at = self.begun.get() % held.len();
        let object = *held.iter().nth(at).expect("there must be enough objects");
        held.remove(&object);
        object
    }

    fn allocate(&self) -> NonNull<u8> {
        let object = self.heap.malloc(self.size).expect("a heap with room has an object");
        self.hold(Some(object));
        object
    }

    fn free(&self, object: NonNull<u8>) {
        self.held.borrow_mut().remove(&object);
        // SAFETY: the object was allocated and held, and is not used any more.
        unsafe { self.heap.free(object) }.expect("the pointer must be an object in use");
    }

    fn twist(&self) {
        let (first, _second) = (self.allocate(), self.allocate());
        self.free(first);
    }

    fn elsewhere(&self) -> CpuId {
        let (home, away) = (self.setting.home, self.setting.away.unwrap_or(self.setting.home));
        if self.setting.rseq.cpu() == home { away } else { home }
    }

    fn on(&self, cpu: CpuId, work: &dyn Fn()) {
        self.setting.helper.run(cpu, work);
    }

    /// Frees all objects, and checks that all objects of the heap are free.
    fn end(&self) -> Result<(), String> {
        while let Some(object) = self.held.borrow_mut().pop_first() {
            // SAFETY: the object was allocated and held, and is not used any more.
            unsafe { self.heap.free(object) }.map_err(|error| format!("{}: {error}", self.case.name))?;
        }
        self.heap.slab().shrink();
        // SAFETY: the helper is idle, so no other thread uses the heap.
        match unsafe { self.heap.slab().check() } {
            Ok(census) if census.objects == census.free => Ok(()),
            other => Err(format!("{}: {other:?} where nothing is in use", self.case.name)),
        }
    }

    /// Restores the number of held objects, and fills this CPU's list.
    fn settle(&self) {
        while self.held.borrow().len() > HELD {
            let object = self.take_some();
            self.free(object);
        }
        while self.held.borrow().len() < HELD {
            self.allocate();
        }
        let some: Vec<_> = (0..4).map(|_| self.allocate()).collect();
        some.into_iter().for_each(|object| self.free(object));
    }
}

impl<C: CpuLocal> Play for Whole<'_, C> {
    fn name(&self) -> String {
        format!("{:?} ({})", self.operation.get(), self.case.name)
    }

    fn betweens(&self) -> &'static [Between] {
        &BETWEENS
    }

    fn entry(&self) -> usize {
        let function = match self.operation.get() {
            Operation::Malloc => self.case.malloc as *const (),
            Operation::FreeToCurrent | Operation::FreeToOwn => self.case.free as *const (),
        };
        function.addr()
    }

    fn begin<'p>(&'p self, _: &'p Setting) -> Box<dyn Act + 'p> {
        self.settle();
        self.held_object.set(match self.operation.get() {
            Operation::Malloc => None,
            Operation::FreeToCurrent => {
                let object = self.allocate();
                self.held.borrow_mut().remove(&object);
                Some(object)
            }
            Operation::FreeToOwn => Some(self.take_some()),
        });
        Box::new(self)
    }
}

impl<C: CpuLocal> Act for &Whole<'_, C> {
    fn perform(&self) {
        match self.held_object.take() {
            None => self.hold(NonNull::new((self.case.malloc)(&self.heap, self.size))),
            Some(object) => (self.case.free)(&self.heap, object.as_ptr()),
        }
    }

    fn interfere(&self, between: Between) -> GoOn {
        match between {
            Between::Moved => run_on(self.elsewhere()),
            Between::Allocated => {
                self.allocate();
            }
            Between::Freed => {
                let object = self.allocate();
                self.free(object);
            }
            Between::FreedToOwn => {
                let object = self.take_some();
                self.free(object);
            }
            Between::Twisted => self.twist(),
            Between::Drained => self.on(self.elsewhere(), &|| self.heap.slab().shrink()),
            Between::Disowned => self.on(self.elsewhere(), &|| {
                let object = self.take_some();
                self.free(object);
            }),
            Between::Others => self.on(self.elsewhere(), &|| self.twist()),
            Between::Swapped => {
                let left = self.setting.rseq.cpu();
                run_on(self.elsewhere());
                self.on(left, &|| self.twist());
            }
            _ => {}
        }
        GoOn::Restarted
    }

    fn finish(&self, _: Between) {}

    fn census(&self) -> Result<(), String> {
        if let Some(object) = self.twice.get() {
            return Err(format!("{object:p} was handed out twice"));
        }
        // SAFETY: the helper is idle, and this thread is between two operations, so no operation is in progress.
        let census = unsafe { self.heap.slab().check() }.map_err(|violation| violation.to_string())?;
        // Sheaves are objects of the heap as well.
        let (used, held) = (census.objects - census.free - census.sheaves, self.held.borrow().len() as u64);
        if used == held { Ok(()) } else { Err(format!("{held} objects are held, and {used} in use")) }
    }
}
