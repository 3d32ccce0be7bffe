//! Record of the allocated objects, kept outside of the heap.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use freehold_malloc::os::mmap::Reservation;

/// Bytes between the addresses at which objects may start.
const GRAIN: usize = 8;

/// Record for each possible start address in a heap of whether an allocated object starts there.
pub(crate) struct LiveObjects {
    start: usize,
    taken: Box<[AtomicU8]>,
    live: AtomicUsize,
    is_violated: AtomicBool,
    violation: Mutex<Option<String>>,
    marks: Marks,
}

/// Words of an object that are marked.
#[derive(Clone, Copy)]
pub(crate) enum Marks {
    /// The first word and the last whole word, which are the same for the smallest objects.
    BothEnds,
    /// The word after the first, which is the link of a free object, and the last whole word.
    AfterLink,
}

/// An allocated object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub start: NonNull<u8>,
    pub size: usize,
}

// SAFETY: the value represents the object's memory, which is bound to no thread and has one holder.
unsafe impl Send for Object {}

impl LiveObjects {
    /// Creates a record without objects.
    pub(crate) fn new(memory: &Reservation, marks: Marks) -> LiveObjects {
        LiveObjects {
            start: memory.start().addr().get(),
            taken: (0..memory.bytes() / GRAIN).map(|_| AtomicU8::new(0)).collect(),
            live: AtomicUsize::new(0),
            is_violated: AtomicBool::new(false),
            violation: Mutex::new(None),
            marks,
        }
    }

    /// Returns which words are marked.
    pub(crate) fn marks(&self) -> Marks {
        self.marks
    }

    /// Records that the caller has allocated an object, and marks it.
    pub(crate) fn take(&self, object: Object) {
        if self.place(object).swap(1, SeqCst) != 0 {
            self.violate(format!("{object:x?} was handed out twice"));
        }
        self.live.fetch_add(1, Relaxed);
        for word in self.marks.words(object) {
            // SAFETY: both words are inside the object, which the caller has just allocated.
            unsafe { word.write(object.mark()) };
        }
    }

    /// Records that the caller is about to free an object. Returns `false` if the caller must not free it.
    pub(crate) fn give(&self, object: Object) -> bool {
        // SAFETY: both words are inside the object, which the caller has not freed yet.
        let is_marked = self.marks.words(object).into_iter().all(|word| unsafe { word.read() } == object.mark());
        if !is_marked {
            self.violate(format!("somebody wrote into {object:x?}"));
        }
        if self.place(object).swap(0, SeqCst) != 1 {
            self.violate(format!("{object:x?} was freed by somebody else, so it was handed out twice"));
        }
        self.live.fetch_sub(1, Relaxed);
        !self.is_violated()
    }

    /// Returns the number of allocated objects.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Returns whether a violation was found, so that all threads should stop.
    pub(crate) fn is_violated(&self) -> bool {
        self.is_violated.load(Relaxed)
    }

    /// Returns the first violation.
    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records a violation.
    pub(crate) fn violate(&self, why: String) {
        if !self.is_violated.swap(true, SeqCst) {
            *self.violation.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    }

    fn place(&self, object: Object) -> &AtomicU8 {
        &self.taken[(object.start.addr().get() - self.start) / GRAIN]
    }
}

impl Marks {
    /// Returns the binary logarithm of the smallest size that has room for one mark.
    pub(crate) fn min_size_bits(self) -> u32 {
        match self {
            Marks::BothEnds => 3,
            Marks::AfterLink => 4,
        }
    }

    fn words(self, object: Object) -> [*mut u64; 2] {
        let start = object.start.as_ptr().cast::<u64>();
        let first = match self {
            Marks::BothEnds => 0,
            Marks::AfterLink => 1,
        };
        [start.wrapping_add(first), start.wrapping_add(object.size / size_of::<u64>() - 1)]
    }
}

impl Object {
    fn mark(self) -> u64 {
        (self.start.addr().get() as u64 ^ self.size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
