//! Runs a load of `freehold load` in a program whose malloc is Freehold's heap.
//!
//! C's malloc serves all requests until the heap is created. From then on the heap serves requests, except those with
//! an alignment above 16 bytes or a size above the largest block of pages. C's malloc serves these, and the address of
//! an object identifies its malloc. The heap keeps its memory: a free returns nothing to the system.
//!
//! ```sh
//! cargo run --profile dist -p freehold-malloc --example load -- server --help
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ptr::NonNull;
use std::sync::OnceLock;

use clap::Parser;
use freehold_malloc::heap::{Heap, HeapConfig};
use freehold_malloc::os::platform::LockedCpus;
use freehold_workloads::LoadArgs;

/// Alignment in bytes of each object that has at least this many bytes.
const ALIGN: usize = 16;

/// The heap, once it is created.
static HEAP: OnceLock<Heap<LockedCpus>> = OnceLock::new();

#[global_allocator]
static MALLOC: Malloc = Malloc;

/// A global allocator that uses the heap where it can, and C's malloc elsewhere.
struct Malloc;

/// A load, with Freehold's heap as malloc.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    load: LoadArgs,
}

// SAFETY: both mallocs return memory of the requested size and alignment that belongs to the caller alone, and the
// address of an object identifies the malloc from which it came.
unsafe impl GlobalAlloc for Malloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size().max(ALIGN);
        let object = HEAP.get().filter(|_| layout.align() <= ALIGN).and_then(|heap| heap.malloc(bytes).ok());
        // SAFETY: the caller of `alloc` promises that the layout has a nonzero size.
        object.map_or_else(|| unsafe { System.alloc(layout) }, NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        match HEAP.get().filter(|heap| is_of(heap, object)).zip(NonNull::new(object)) {
            // SAFETY: the address is in the heap, so the heap allocated the object, and the caller promises not to use
            // it any more.
            Some((heap, object)) => unsafe { heap.free(object) }.expect("the heap allocated this object"),
            // SAFETY: the address is not in the heap, so `System` allocated the object, and the caller passes its
            // layout.
            None => unsafe { System.dealloc(object, layout) },
        }
    }
}

/// Returns whether an address is in the heap.
fn is_of(heap: &Heap<LockedCpus>, object: *mut u8) -> bool {
    object.addr().wrapping_sub(heap.memory().start().addr().get()) < heap.memory().bytes()
}

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let heap = Heap::with_locks(&HeapConfig::default())?;
    assert!(HEAP.set(heap).is_ok(), "the heap is set only once");
    Ok(freehold_workloads::run(cli.load)?)
}
