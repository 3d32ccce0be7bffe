//! A load with Freehold's heap as the program's malloc: what `freehold load` does with the malloc that it finds.
//!
//! The heap is made first, by C's malloc. From then on it serves what it can: what is aligned to more than 16 bytes or
//! larger than a block of pages goes on to C's malloc, and an address tells whose it is. The heap keeps what it has: a
//! free gives nothing back to the system.
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

/// What each object is aligned to, if it has as many bytes.
const ALIGN: usize = 16;

/// The heap, once there is one.
static HEAP: OnceLock<Heap<LockedCpus>> = OnceLock::new();

#[global_allocator]
static MALLOC: Malloc = Malloc;

/// The heap's memory where it serves, C's elsewhere.
struct Malloc;

/// A load, with Freehold's heap as malloc.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    load: LoadArgs,
}

// SAFETY: both mallocs hand out memory that is nobody else's, as large and as aligned as was asked for, and the address
// of an object tells which of them it came from.
unsafe impl GlobalAlloc for Malloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size().max(ALIGN);
        let object = HEAP.get().filter(|_| layout.align() <= ALIGN).and_then(|heap| heap.malloc(bytes).ok());
        // SAFETY: the caller promises that the layout has a size.
        object.map_or_else(|| unsafe { System.alloc(layout) }, NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        match HEAP.get().filter(|heap| is_of(heap, object)).zip(NonNull::new(object)) {
            // SAFETY: it lies in the heap, so that is where it came from, and the caller gives it up.
            Some((heap, object)) => unsafe { heap.free(object) }.expect("it is an object"),
            // SAFETY: it is none of the heap's, so it is C's, and the caller gives it up.
            None => unsafe { System.dealloc(object, layout) },
        }
    }
}

/// Whether an address lies in the heap.
fn is_of(heap: &Heap<LockedCpus>, object: *mut u8) -> bool {
    object.addr().wrapping_sub(heap.memory().start().addr().get()) < heap.memory().bytes()
}

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let heap = Heap::with_locks(&HeapConfig::default())?;
    assert!(HEAP.set(heap).is_ok(), "there was none before");
    Ok(freehold_workloads::run(cli.load)?)
}
