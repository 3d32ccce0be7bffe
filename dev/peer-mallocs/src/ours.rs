//! Freehold's heap as a malloc: one heap, whose lists are restartable sequences, through the fast path of its policy.
//!
//! The heap lies in a static place, so that its address is known when the program is linked, as that of a malloc
//! library's own would be.

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

/// The fast path of the default policy.
type DefaultFastPath = Sheaves;

/// A place that is written once, before anybody reads it.
struct Place(UnsafeCell<MaybeUninit<Heap<Rseq>>>);

// SAFETY: `start` writes it within a `Once` and before any other function here is called; then it is only read.
unsafe impl Sync for Place {}

static HEAP: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// Builds the heap, the first time.
///
/// # Panics
/// When the system has no restartable sequences, or no room for it.
pub(crate) fn start() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let heap = Heap::with_rseq(&HeapConfig::default());
        let heap = heap.unwrap_or_else(|error| panic!("ours cannot be measured: {error}"));
        assert!(
            heap.slab().frontend::<DefaultFastPath>().is_some(),
            "the default policy has another fast path; name it here"
        );
        // SAFETY: nobody reads it yet, and this runs once.
        unsafe { (*HEAP.0.get()).write(heap) };
    });
}

#[inline(always)]
fn heap() -> &'static Heap<Rseq> {
    // SAFETY: `start` came first, on this thread or before this one was made.
    unsafe { (*HEAP.0.get()).assume_init_ref() }
}

#[inline(always)]
fn frontend() -> Frontend<'static, 'static, 'static, Process, Rseq, DefaultFastPath> {
    // SAFETY: `start` has seen that it is there, and a policy does not change.
    unsafe { heap().slab().frontend().unwrap_unchecked() }
}

/// What C calls malloc.
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    match frontend().alloc_fast(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_slow(size),
    }
}

/// Allocates after a miss of the fast path. As a function of C it lets no panic through, so that what calls it last need
/// keep nothing for that.
#[cold]
#[inline(never)]
extern "C" fn malloc_slow(size: usize) -> *mut c_void {
    // C wants an address of its own for no bytes, too.
    heap().malloc(size.max(1)).map_or(null_mut(), NonNull::as_ptr).cast()
}

/// What C calls free.
///
/// # Safety
/// As for C's `free`.
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: the caller gives up what `malloc` gave.
    if unsafe { frontend().free_fast(object.cast()) } == PushOutcome::Refused {
        free_slow(object);
    }
}

/// The same for a free.
#[cold]
#[inline(never)]
extern "C" fn free_slow(object: *mut c_void) {
    // SAFETY: the caller of `free` gave it up, and it was refused.
    unsafe { frontend().free(object.cast()) }
}
