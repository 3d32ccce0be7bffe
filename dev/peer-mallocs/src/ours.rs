//! Freehold's heap as a malloc: one heap that uses restartable sequences, called through the fast path of its policy.
//!
//! The heap is in a static variable, so that its address is known at link time, as it would be in a malloc library.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;

use freehold::slab::cpu::PushOutcome;
use freehold::slab::fast_path::{Frontend, Sheaves};
use freehold_malloc::heap::{Heap, HeapConfig};
use freehold_malloc::os::platform::Process;
use freehold_malloc::os::rseq::Rseq;

/// Fast path of the default policy.
type DefaultFastPath = Sheaves;

/// Cell that is written once, before its first read.
struct Place(UnsafeCell<MaybeUninit<Heap<Rseq>>>);

// SAFETY: `start` writes the cell inside a `Once`, before any other function of this module may be called. After that
// the cell is only read, and the methods of `Heap` may be called from any thread.
unsafe impl Sync for Place {}

static HEAP: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// Builds the heap at the first call.
///
/// # Panics
/// Panics if the system has no restartable sequences, or no memory for the heap.
pub(crate) fn start() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let heap = Heap::with_rseq(&HeapConfig::default());
        let heap = heap.unwrap_or_else(|error| panic!("cannot measure Freehold's malloc: {error}"));
        assert!(
            heap.slab().frontend::<DefaultFastPath>().is_some(),
            "the default policy has a fast path that this function does not name"
        );
        // SAFETY: the `Once` runs this closure once and alone, and the cell is not read before `start` has returned.
        unsafe { (*HEAP.0.get()).write(heap) };
    });
}

#[inline(always)]
fn heap() -> &'static Heap<Rseq> {
    // SAFETY: `start` wrote the cell before. It ran on this thread, or before this thread was created.
    unsafe { (*HEAP.0.get()).assume_init_ref() }
}

#[inline(always)]
fn frontend() -> Frontend<'static, 'static, 'static, Process, Rseq, DefaultFastPath> {
    // SAFETY: `start` asserted that the heap has this frontend, and the policy of a heap does not change.
    unsafe { heap().slab().frontend().unwrap_unchecked() }
}

/// C's `malloc`.
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    match frontend().alloc_fast(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_slow(size),
    }
}

/// Allocates after the fast path has failed. An `extern "C"` function lets no panic through, so that a caller can call
/// it in tail position and needs no unwinding code.
#[cold]
#[inline(never)]
extern "C" fn malloc_slow(size: usize) -> *mut c_void {
    // C's `malloc` returns a unique address for zero bytes, too.
    heap().malloc(size.max(1)).map_or(null_mut(), NonNull::as_ptr).cast()
}

/// C's `free`.
///
/// # Safety
/// As for C's `free`.
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the caller promises that `malloc` returned the object, and does not use it after this call.
    if unsafe { frontend().free_fast(object.cast()) } == PushOutcome::Refused {
        free_slow(object);
    }
}

/// Frees after the fast path has refused the object.
#[cold]
#[inline(never)]
extern "C" fn free_slow(object: *mut c_void) {
    // SAFETY: the caller of `free` promises that `malloc` returned the object. The fast path refused it, so it has not
    // been freed yet.
    unsafe { frontend().free(object.cast()) }
}
