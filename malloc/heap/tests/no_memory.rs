//! A heap asks nobody but the kernel for memory: it could be the malloc of its own program.
//!
//! What this program's own malloc is asked for is counted, thread by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::NonNull;

use freehold::slab::CpuLocal;
use freehold_malloc::heap::{Heap, HeapConfig, HeapError};

/// The system's malloc, and how often a thread has asked it.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's; a count is beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller promises what this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: the caller promises what this asks for.
        unsafe { System.dealloc(object, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often the program's malloc is asked meanwhile.
fn asked<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ASKED.get();
    let result = work();
    (ASKED.get() - before, result)
}

/// Makes a heap of two sections, fills it until there is no more, and frees all of it.
fn live<C: CpuLocal>(make: fn(&HeapConfig) -> Result<Heap<C>, HeapError>) -> Result<(), HeapError> {
    let heap = make(&HeapConfig { bytes: 256 << 20, ..HeapConfig::default() })?;
    // Each object has the address of the one before.
    let mut last: Option<NonNull<u8>> = None;
    while let Ok(object) = heap.malloc(20_000) {
        // SAFETY: it is large enough, aligned, and ours.
        unsafe { object.cast().write(last) };
        last = Some(object);
    }
    assert!(last.is_some(), "there is room for one");
    while let Some(object) = last {
        // SAFETY: an object of the loop above, with what was written there; only the one after it knew it, and is gone.
        unsafe {
            last = object.cast().read();
            heap.free(object).expect("it is an object");
        }
    }
    Ok(())
}

#[test]
fn a_heap_with_locks_asks_for_no_memory() {
    assert_eq!(asked(|| live(Heap::with_locks)), (0, Ok(())));
}

#[test]
fn a_heap_with_rseq_asks_for_no_memory() {
    let (times, made) = asked(|| live(Heap::with_rseq));
    // Where there are no restartable sequences, to find that out may take a name's error message.
    assert!(times == 0 || matches!(made, Err(HeapError::Rseq(_))), "asked {times} times");
}

#[test]
fn what_asks_is_noticed() {
    assert_eq!(asked(|| std::hint::black_box(vec![1_u8])).0, 1);
}
