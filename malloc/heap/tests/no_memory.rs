//! A heap takes memory from the kernel only, so it can serve as the malloc of its own program.
//!
//! The tests count the requests to this program's malloc for each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::NonNull;

use freehold::slab::CpuLocal;
use freehold_malloc::heap::{Heap, HeapConfig, HeapError};

/// The system's malloc with a count of each thread's requests.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all requests are passed to `System`; the count does not affect them.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller promises the preconditions of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: the caller promises the preconditions of `System.dealloc`.
        unsafe { System.dealloc(object, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs `work`, and returns the number of requests that it made to the program's malloc.
fn asked<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ASKED.get();
    let result = work();
    (ASKED.get() - before, result)
}

/// Creates a heap of two sections, allocates objects until its memory is exhausted, and frees them all.
fn live<C: CpuLocal>(make: fn(&HeapConfig) -> Result<Heap<C>, HeapError>) -> Result<(), HeapError> {
    let heap = make(&HeapConfig { bytes: 256 << 20, ..HeapConfig::default() })?;
    // Each object holds the address of the previous one.
    let mut last: Option<NonNull<u8>> = None;
    while let Ok(object) = heap.malloc(20_000) {
        // SAFETY: the object was just allocated with 20,000 bytes, which have room for an aligned address.
        unsafe { object.cast().write(last) };
        last = Some(object);
    }
    assert!(last.is_some(), "there is room for one");
    while let Some(object) = last {
        // SAFETY: the object was allocated and written by the loop above, and no live object holds its address any
        // more.
        unsafe {
            last = object.cast().read();
            heap.free(object).expect("the pointer must be an object in use");
        }
    }
    Ok(())
}

#[test]
fn heap_with_locks_allocates_no_memory_itself() {
    assert_eq!(asked(|| live(Heap::with_locks)), (0, Ok(())));
}

#[test]
fn heap_with_rseq_allocates_no_memory_itself() {
    let (times, made) = asked(|| live(Heap::with_rseq));
    // Without restartable sequences, the search for a symbol may allocate an error message.
    assert!(times == 0 || matches!(made, Err(HeapError::Rseq(_))), "asked {times} times");
}

#[test]
fn counted_allocation_is_detected() {
    assert_eq!(asked(|| std::hint::black_box(vec![1_u8])).0, 1);
}
