//! The objects that are allocated, written down outside of the heap.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use freehold_malloc::os::mmap::Reservation;

/// Bytes between places where objects may begin.
const GRAIN: usize = 8;

/// For each place of a heap, whether an object that somebody has begins there.
pub(crate) struct LiveObjects {
    start: usize,
    taken: Box<[AtomicU8]>,
    live: AtomicUsize,
    is_violated: AtomicBool,
    violation: Mutex<Option<String>>,
}

/// An object that somebody has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub start: NonNull<u8>,
    pub size: usize,
}

// SAFETY: its holder has its bytes.
unsafe impl Send for Object {}

impl LiveObjects {
    /// Nobody has anything.
    pub(crate) fn new(memory: &Reservation) -> LiveObjects {
        LiveObjects {
            start: memory.start().addr().get(),
            taken: (0..memory.bytes() / GRAIN).map(|_| AtomicU8::new(0)).collect(),
            live: AtomicUsize::new(0),
            is_violated: AtomicBool::new(false),
            violation: Mutex::new(None),
        }
    }

    /// Writes down that the caller has an object that was just allocated, and marks both of its ends.
    pub(crate) fn take(&self, object: Object) {
        if self.place(object).swap(1, SeqCst) != 0 {
            self.violate(format!("{object:x?} was handed out twice"));
        }
        self.live.fetch_add(1, Relaxed);
        for end in object.ends() {
            // SAFETY: so many bytes are the caller's.
            unsafe { end.write(object.mark()) };
        }
    }

    /// Writes down that the caller is about to free an object; `false` if it had better not.
    pub(crate) fn give(&self, object: Object) -> bool {
        // SAFETY: so many bytes are the caller's, until it frees the object.
        let is_marked = object.ends().into_iter().all(|end| unsafe { end.read() } == object.mark());
        if !is_marked {
            self.violate(format!("somebody wrote into {object:x?}"));
        }
        if self.place(object).swap(0, SeqCst) != 1 {
            self.violate(format!("{object:x?} was freed by somebody else, so it was handed out twice"));
        }
        self.live.fetch_sub(1, Relaxed);
        !self.is_violated()
    }

    /// Objects that somebody has.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Whether all should stop.
    pub(crate) fn is_violated(&self) -> bool {
        self.is_violated.load(Relaxed)
    }

    /// What was wrong first.
    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes something that must not be.
    pub(crate) fn violate(&self, why: String) {
        if !self.is_violated.swap(true, SeqCst) {
            *self.violation.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    }

    fn place(&self, object: Object) -> &AtomicU8 {
        &self.taken[(object.start.addr().get() - self.start) / GRAIN]
    }
}

impl Object {
    /// Its first word and its last whole one; the same one if there are no more.
    fn ends(self) -> [*mut u64; 2] {
        let start = self.start.as_ptr().cast::<u64>();
        [start, start.wrapping_add(self.size / size_of::<u64>() - 1)]
    }

    fn mark(self) -> u64 {
        (self.start.addr().get() as u64 ^ self.size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
