//! A Rust program's allocator: one heap for the whole process, made by the first request.
//!
//! ```text
//! up to 4 MiB   the heap: objects by size up to 32 KiB, blocks of pages above
//! above         a mapping of its own, which moves by mremap when it grows
//! ```
//!
//! Which of the two an allocation is, its layout says, and a program that gives memory back says the layout it was asked
//! for; so nothing has to be looked up.
//!
//! Memory of the heap stays with the process: what is freed serves later requests, and goes back to the system when the
//! process ends. Blocks of pages are powers of two.
//!
//! The heap is the one with restartable sequences where the process has them, and the one with locks elsewhere. A child
//! of `fork` may use it if the parent had one thread; otherwise, as POSIX has it, only to call `exec`, since a lock may
//! be held by a thread that the child does not have.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::Write;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use freehold::slab::ObjectFreeError;
use rustix::mm::{MremapFlags, mremap};

use crate::heap::{Heap, HeapConfig, HeapError, LARGEST_BLOCK, SECTION};
use crate::os::mmap::{Reservation, memory_bytes, page_size};
use crate::os::platform::{LockedCpus, StandardError};
use crate::os::rseq::Rseq;

/// From here on a request is a block of pages, which is aligned to its size.
const BLOCKS: usize = 64 << 10;
/// Objects are aligned to their size up to this one.
const OBJECTS_ALIGNED: usize = 4096;

/// Freehold as the program's allocator.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: freehold_malloc::Freehold = freehold_malloc::Freehold::new();
///
/// let words: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
/// assert_eq!(words[999], "999");
/// ```
#[derive(Debug, Default)]
pub struct Freehold {
    heap: OnceLock<Option<AnyHeap>>,
}

/// The heap that this process can have.
#[derive(Debug)]
enum AnyHeap {
    Rseq(Heap<Rseq>),
    Locks(Heap<LockedCpus>),
}

/// The same expression for either heap.
macro_rules! with_heap {
    ($any:expr, $heap:ident => $what:expr) => {
        match $any {
            AnyHeap::Rseq($heap) => $what,
            AnyHeap::Locks($heap) => $what,
        }
    };
}

impl Freehold {
    /// An allocator that has nothing yet: the first request makes its heap.
    pub const fn new() -> Freehold {
        Freehold { heap: OnceLock::new() }
    }

    #[inline]
    fn heap(&self) -> Option<&AnyHeap> {
        self.heap.get_or_init(AnyHeap::find).as_ref()
    }
}

impl AnyHeap {
    /// A heap that may have twice the machine's memory, or as much as the address space has room for.
    #[cold]
    fn find() -> Option<AnyHeap> {
        let most = memory_bytes().saturating_mul(2).next_power_of_two().clamp(SECTION, 8 << 40);
        let mut sizes = core::iter::successors(Some(most), |bytes| Some(bytes / 2).filter(|&half| half >= SECTION));
        sizes.find_map(|bytes| {
            let config = HeapConfig { bytes, ..HeapConfig::default() };
            match Heap::with_rseq(&config) {
                Ok(heap) => Some(AnyHeap::Rseq(heap)),
                Err(HeapError::Rseq(_)) => Heap::with_locks(&config).ok().map(AnyHeap::Locks),
                Err(_) => None,
            }
        })
    }

    fn malloc(&self, size: usize) -> *mut u8 {
        with_heap!(self, heap => heap.malloc(size)).map_or(null_mut(), NonNull::as_ptr)
    }

    /// # Safety
    /// As for [`Heap::free`].
    unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller promises the same of the object.
        if let Err(error) = with_heap!(self, heap => unsafe { heap.free(object) }) {
            refuse(object, error);
        }
    }

    /// Bytes of an object that may be used.
    fn usable(&self, object: NonNull<u8>) -> usize {
        with_heap!(self, heap => heap.slab().ksize(object)).unwrap_or(0)
    }
}

/// Ends the program: it frees what it does not have, and whatever it does next is wrong.
#[cold]
fn refuse(object: NonNull<u8>, error: ObjectFreeError) -> ! {
    let _written = writeln!(StandardError, "freehold: {object:p} is freed, but {error}");
    std::process::abort();
}

/// Bytes to ask the heap for, so that what comes is aligned: sizes that are multiples of 16 are aligned to 16, powers
/// of two to themselves, objects up to a page and blocks of pages above. `None` if the heap is not the place.
#[inline]
fn size_of_request(layout: Layout) -> Option<usize> {
    let (size, align) = (layout.size(), layout.align());
    if size > LARGEST_BLOCK || align > LARGEST_BLOCK {
        return None;
    }
    Some(match align {
        1..=8 => size,
        9..=16 => size.next_multiple_of(16),
        17..=OBJECTS_ALIGNED => size.max(align).next_power_of_two(),
        _ => size.max(align).max(BLOCKS).next_power_of_two(),
    })
}

// SAFETY: what the heap and the kernel hand out is nobody else's, as large and as aligned as was asked for; no method
// panics.
unsafe impl GlobalAlloc for Freehold {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match size_of_request(layout) {
            Some(size) => self.heap().map_or(null_mut(), |heap| heap.malloc(size)),
            None => map(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if size_of_request(layout).is_none() {
            // SAFETY: the caller gives back what `map` gave for this layout.
            return unsafe { unmap(object, layout) };
        }
        if let (Some(heap), Some(object)) = (self.heap(), NonNull::new(object)) {
            // SAFETY: the caller gives back what the heap gave.
            unsafe { heap.free(object) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises what this asks for.
        let object = unsafe { self.alloc(layout) };
        // A new mapping is zero.
        if !object.is_null() && size_of_request(layout).is_some() {
            // SAFETY: so many bytes are ours.
            unsafe { object.write_bytes(0, layout.size()) };
        }
        object
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is one of a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (size_of_request(layout), size_of_request(wanted)) {
            // SAFETY: what `map` gave for this layout.
            (None, None) if layout.align() <= page_size() => unsafe { remap(object, layout, size) },
            (Some(_), Some(needed)) if self.fits(object, needed) => object,
            // SAFETY: the caller's promise of `object` is the one of both.
            _ => unsafe { self.replace(object, layout, wanted) },
        }
    }
}

impl Freehold {
    /// Whether an object is large enough for a request, and not more than twice as large.
    fn fits(&self, object: *mut u8, needed: usize) -> bool {
        let usable = self.heap().zip(NonNull::new(object)).map_or(0, |(heap, object)| heap.usable(object));
        (usable / 2..=usable).contains(&needed)
    }

    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn replace(&self, object: *mut u8, layout: Layout, wanted: Layout) -> *mut u8 {
        // SAFETY: the caller promises a layout of some bytes, and an object of `layout`, whose bytes are copied before
        // it goes.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                new.copy_from_nonoverlapping(object, layout.size().min(wanted.size()));
                self.dealloc(object, layout);
            }
            new
        }
    }
}

/// A mapping for one request.
#[cold]
fn map(layout: Layout) -> *mut u8 {
    let mapped = Reservation::accounted(layout.size(), layout.align());
    mapped.map_or(null_mut(), |range| ManuallyDrop::new(range).start().as_ptr())
}

/// Gives a mapping back.
///
/// # Safety
/// [`map`] gave it for this layout, and nobody uses it any more.
#[cold]
unsafe fn unmap(start: *mut u8, layout: Layout) {
    if let Some(start) = NonNull::new(start) {
        // SAFETY: the caller promises what this asks for.
        drop(unsafe { Reservation::from_raw(start, layout.size()) });
    }
}

/// Makes a mapping larger or smaller, elsewhere if it must; null if that cannot be, with nothing changed.
///
/// # Safety
/// [`map`] gave it for this layout, which asks for no more than a page's alignment.
#[cold]
unsafe fn remap(start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let [old, new] = [layout.size(), size].map(|bytes| bytes.next_multiple_of(page_size()));
    // SAFETY: the caller's promise; what the kernel moves is the mapping's own.
    unsafe { mremap(start.cast(), old, new, MremapFlags::MAYMOVE) }.map_or(null_mut(), |place| place.cast())
}
