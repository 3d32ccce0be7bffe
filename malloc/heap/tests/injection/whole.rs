//! The same with the whole engine around the sections: `malloc` and `free` of a heap, instruction by instruction.
//!
//! Breakpoints are in the function that calls them and in what the compiler has put into it: the fast path. Slow paths
//! are called, and run through, by the thread as well as by what interferes.

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

/// Objects that are held from the beginning: some slabs full.
const HELD: usize = 900;
/// Bytes of a heap.
const BYTES: usize = 128 << 20;

/// What may come between. Another CPU's allocations may fence, so they restart.
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
    // SAFETY: the caller passes an object of this heap that is in use, and does not use it afterwards.
    let freed = unsafe { heap.free(NonNull::new_unchecked(object)) };
    freed.unwrap_or_else(|_| std::process::abort());
}

#[inline(never)]
fn malloc_by<C: CpuLocal, F: FastPath>(heap: &Heap<C>, size: usize) -> *mut u8 {
    // SAFETY: the way was looked up where it was chosen.
    unsafe { heap.frontend::<F>().unwrap_unchecked() }.malloc(size)
}

#[inline(never)]
fn free_by<C: CpuLocal, F: FastPath>(heap: &Heap<C>, object: *mut u8) {
    // SAFETY: as above; the held object.
    unsafe { heap.frontend::<F>().unwrap_unchecked().free(object) }
}

/// A heap's two functions.
struct FastPathCase<C: CpuLocal> {
    name: &'static str,
    malloc: fn(&Heap<C>, usize) -> *mut u8,
    free: fn(&Heap<C>, *mut u8),
}

impl<C: CpuLocal> FastPathCase<C> {
    /// Whatever the heap's way.
    fn any(name: &'static str) -> FastPathCase<C> {
        FastPathCase { name, malloc: malloc::<C>, free: free::<C> }
    }

    /// One way.
    fn for_path<F: FastPath>(name: &'static str) -> FastPathCase<C> {
        FastPathCase { name, malloc: malloc_by::<C, F>, free: free_by::<C, F> }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Malloc,
    /// An object that was just allocated.
    FreeToCurrent,
    /// One that was allocated long ago.
    FreeToOwn,
}

/// A heap, and the objects that are allocated of it.
struct Whole<'s, C: CpuLocal> {
    setting: &'s Setting,
    case: FastPathCase<C>,
    size: usize,
    heap: Heap<C>,
    held: RefCell<BTreeSet<NonNull<u8>>>,
    twice: Cell<Option<NonNull<u8>>>,
    operation: Cell<Operation>,
    /// What the operation frees.
    held_object: Cell<Option<NonNull<u8>>>,
    begun: Cell<usize>,
}

/// Each way to have objects, and each operation on it. A build that is not optimised is slow to count, and tries less.
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
            assert!(Code::new(setting, &whole).has_sections(), "{}: the sections are somewhere else", whole.name());
            once_with(setting, &whole, &BETWEENS, report);
            if times == 2 {
                twice_the_same(setting, &whole, &BETWEENS, report);
            }
        }
        report.violations.extend(whole.end().err());
    }
}

/// C's malloc and free in which nothing is decided, one operation after the other.
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

/// Tagged lists with a defect, until it is seen.
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
        let heap = Heap::new(&config, local, platform).expect("a small heap");
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

    /// Some object that is held, another one each time.
    fn take_some(&self) -> NonNull<u8> {
        self.begun.set(self.begun.get().wrapping_mul(5) + 1);
        let mut held = self.held.borrow_mut();
        let at = self.begun.get() % held.len();
        let object = *held.iter().nth(at).expect("there are so many");
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
        // SAFETY: it was allocated and held, and is given up here.
        unsafe { self.heap.free(object) }.expect("it is an object");
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

    /// Frees everything: then everything must be free.
    fn end(&self) -> Result<(), String> {
        while let Some(object) = self.held.borrow_mut().pop_first() {
            // SAFETY: it was allocated and held, and is given up here.
            unsafe { self.heap.free(object) }.map_err(|error| format!("{}: {error}", self.case.name))?;
        }
        self.heap.slab().shrink();
        // SAFETY: all others are at rest.
        match unsafe { self.heap.slab().check() } {
            Ok(census) if census.objects == census.free => Ok(()),
            other => Err(format!("{}: {other:?} where nothing is in use", self.case.name)),
        }
    }

    /// As many objects as at first are held, and this CPU's list has some.
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
        // SAFETY: all others are at rest, and this thread is between two operations.
        let census = unsafe { self.heap.slab().check() }.map_err(|violation| violation.to_string())?;
        // Sheaves are objects themselves.
        let (used, held) = (census.objects - census.free - census.sheaves, self.held.borrow().len() as u64);
        if used == held { Ok(()) } else { Err(format!("{held} objects are held, and {used} in use")) }
    }
}
