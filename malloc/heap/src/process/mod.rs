//! The malloc of a whole process, on which the C library's functions and the allocator of Rust programs are built.
//!
//! ```text
//! up to 32 KiB   an object of the heap, by size; its size is a multiple of the requested alignment
//! above          a run of exactly the needed pages, in a separate range
//! ```
//!
//! Objects and runs are distinguished by their address ranges.
//!
//! ```text
//! start         creates the heap and the runs at the first request
//! parts         the heap, the runs and the options
//! gate          records which threads are in a slow path, for signal handlers and forks
//! owner         the process that the malloc belongs to
//! place         kind of memory that serves a request
//! fork          handlers of forks, which wait for the gate
//! nested        serves calls that interrupt a slow path of their own thread
//! returns       returns free memory to the system
//! growth        growth of the heap and of the runs, for `returns`
//! low_water     bytes that have been free for some time
//! helper        a thread that returns free memory
//! pressure      detects memory pressure
//! cpu_activity  tracks which CPUs have cached objects
//! hardened      seals, held blocks and guards, for a process that detects misuse
//! site          return addresses of callers, for reports of misuse
//! ticks         coarse time
//! options       the environment variable FREEHOLD_OPTIONS
//! sandbox       system calls of a process under a filter
//! profile       the heap profiler, if the options enable it
//! check         consistency of the malloc's tables
//! stats         statistics of used memory
//! usage         name, memory and CPU time of the process
//! line          the line of statistics that a process writes at exit
//! count_file    counts the processes without a line
//! outline       addresses of the malloc's tables, for readers outside of the process
//! ```

pub mod check;
mod count_file;
mod cpu_activity;
pub mod fork;
mod gate;
mod growth;
mod hardened;
pub mod helper;
pub mod line;
mod low_water;
mod nested;
pub mod options;
pub mod outline;
pub mod owner;
mod parts;
mod place;
mod pressure;
pub mod profile;
mod realloc;
mod returns;
pub mod sandbox;
pub mod site;
mod start;
pub mod stats;
mod ticks;
pub mod usage;

use core::fmt;
use core::fmt::Write;
use core::ptr::{NonNull, null_mut};

use freehold::slab::cpu::PushOutcome;
use freehold::slab::fast_path::{Frontend, Sheaves};

use crate::heap::Heap;
use crate::os::budget::MemoryBudget;
use crate::os::platform::{Process, StandardError};
use crate::os::rseq::Rseq;
use crate::runs::{FreeOutcome, PAGE};
use cpu_activity::CpuActivity;
use gate::{EntryGuard, Gate};
use hardened::RequestedSize;
pub use hardened::check_held;
use nested::Nested;
use parts::{AnyHeap, FreeRefusal, with_heap};
use place::{Place, allocate_nested, allocate_object, allocate_run};
pub use realloc::{ResizeOutcome, object_fits, resize};
use returns::Returns;
pub use site::Site;
use site::forward_site;
use start::{MallocCell, Mode};

/// Fast path of the default policy's objects.
type DefaultFastPath = Sheaves;

static MALLOC: MallocCell = MallocCell::new();
static GATE: Gate = Gate::new();
static NESTED: Nested = Nested::new();
/// Limit of the heap's and the runs' memory, if the options set one.
static BUDGET: MemoryBudget = MemoryBudget::unlimited();
static RETURNS: Returns = Returns::new();
static CPU_ACTIVITY: CpuActivity = CpuActivity::new();

/// Memory that was allocated.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Address of the first byte.
    pub start: NonNull<u8>,
    /// Whether all bytes are known to be zero.
    pub is_zero: bool,
}

impl Block {
    /// Writes zeros to the first `bytes` bytes, unless they are known to be zero, and returns the address.
    ///
    /// # Safety
    /// The block was just allocated with at least `bytes` bytes, and only the caller knows it.
    #[inline]
    pub(crate) unsafe fn zeroed(self, bytes: usize) -> *mut u8 {
        if !self.is_zero {
            // SAFETY: the caller promises that the block has `bytes` bytes, which nothing else uses.
            unsafe { self.start.write_bytes(0, bytes) };
        }
        self.start.as_ptr()
    }
}

/// Allocates memory as C's `malloc` does: returns null and sets `errno` if there is none, and returns a unique address
/// if `size` is 0. Costs one section if this CPU has a cached object of the size.
#[inline(always)]
pub fn malloc(size: usize) -> *mut u8 {
    // SAFETY: `malloc_without_fast_path_for` is safe to call, and the forwarding function only adds the site argument.
    let Some(frontend) = fast_path(size) else { return unsafe { malloc_without_fast_path(size) } };
    match frontend.alloc_fast(size) {
        Some(object) => object.as_ptr(),
        None => malloc_slow(size),
    }
}

/// Does the same as [`malloc`] for a caller that knows the call site.
#[inline(always)]
pub fn malloc_for(size: usize, site: Site) -> *mut u8 {
    let Some(frontend) = fast_path(size) else { return malloc_without_fast_path_for(size, site) };
    match frontend.alloc_fast(size) {
        Some(object) => object.as_ptr(),
        None => malloc_slow(size),
    }
}

/// Allocates after a miss of the fast path. It is a tail call of `malloc`, so `malloc` saves no registers for it.
#[cold]
#[inline(never)]
extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    allocate_slow(size).map_or_else(no_memory, |block| block.start.as_ptr())
}

/// Allocates with the natural alignment after a miss of the fast path.
#[inline]
fn allocate_slow(size: usize) -> Option<Block> {
    let align = natural_align(size);
    Place::find(size, align)?.allocate(align)
}

forward_site! {
    /// Allocates for a request that may not take the fast path.
    fn malloc_without_fast_path(size: usize) -> *mut u8, "rsi", "x1", malloc_without_fast_path_for
}

#[cold]
#[inline(never)]
extern "C" fn malloc_without_fast_path_for(size: usize, site: Site) -> *mut u8 {
    allocate_for(size, site).map_or_else(no_memory, |block| block.start.as_ptr())
}

/// Allocates with the natural alignment and without the fast path.
#[inline]
fn allocate_for(size: usize, site: Site) -> Option<Block> {
    let align = natural_align(size);
    allocate_without_fast_path(Place::find(size, align)?, size, align, site)
}

/// Allocates zeroed memory for `count` elements of `size` bytes as C's `calloc` does. Pages that are known to be zero
/// are not written.
#[inline(always)]
pub fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else { return no_memory() };
    // SAFETY: `calloc_without_fast_path_for` is safe to call, and the forwarding function only adds the site argument.
    let Some(frontend) = fast_path(bytes) else { return unsafe { calloc_without_fast_path(bytes) } };
    match frontend.alloc_fast(bytes) {
        // SAFETY: the object was just allocated with at least `bytes` bytes, and only this function knows it.
        Some(start) => unsafe { Block { start, is_zero: false }.zeroed(bytes) },
        None => calloc_slow(bytes),
    }
}

/// Allocates zeroed memory after a miss of the fast path.
#[cold]
#[inline(never)]
extern "C" fn calloc_slow(bytes: usize) -> *mut u8 {
    // SAFETY: the block was just allocated with `bytes` bytes, and only this function knows it.
    allocate_slow(bytes).map_or_else(no_memory, |block| unsafe { block.zeroed(bytes) })
}

forward_site! {
    /// Allocates zeroed memory for a request that may not take the fast path.
    fn calloc_without_fast_path(bytes: usize) -> *mut u8, "rsi", "x1", calloc_without_fast_path_for
}

#[cold]
#[inline(never)]
extern "C" fn calloc_without_fast_path_for(bytes: usize, site: Site) -> *mut u8 {
    // SAFETY: the block was just allocated with `bytes` bytes, and only this function knows it.
    allocate_for(bytes, site).map_or_else(no_memory, |block| unsafe { block.zeroed(bytes) })
}

/// Sets `errno` to `ENOMEM`, and returns null.
#[cold]
pub fn no_memory() -> *mut u8 {
    // SAFETY: `__errno_location` returns the address of the calling thread's own `errno`.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// Returns the alignment that C's `malloc` guarantees for a size. An object for up to 8 bytes has 8 bytes, so it is
/// aligned to 8 only.
#[inline]
pub fn natural_align(size: usize) -> usize {
    if size > 8 { 16 } else { 8 }
}

/// Allocates `size` bytes with an alignment that is a power of two. Returns `None` if there is no memory, or if the
/// alignment is not a power of two.
#[inline]
pub fn allocate(size: usize, align: usize, site: Site) -> Option<Block> {
    let place = Place::find(size, align)?;
    if let Place::Object { size: stride } = place
        && let Some(frontend) = fast_path(size)
    {
        let start = frontend.alloc_fast(stride);
        return start.map(|start| Block { start, is_zero: false }).or_else(|| place.allocate(align));
    }
    allocate_without_fast_path(place, size, align, site)
}

/// Allocates without the fast path: in a hardened or profiled process, with a heap of locks, before the heap exists,
/// and for a run of pages.
#[inline(never)]
fn allocate_without_fast_path(place: Place, size: usize, align: usize, site: Site) -> Option<Block> {
    if let Some(malloc) = MALLOC.hardened() {
        return hardened::allocate(malloc, size, align, site);
    }
    if MALLOC.get().is_none() {
        let Some(within) = enter() else { return allocate_nested(size, align) };
        if MALLOC.or_start().is_none() {
            return allocate_nested(size, align);
        }
        drop(within);
        return allocate(size, align, site);
    }
    profile::allocate(place, size, align)
}

/// Frees a block that a function of this module allocated. Null is ignored. For an address that is found not to be that
/// of a block in use, the process is terminated with a message, because the program's further behaviour would be
/// undefined.
///
/// # Safety
/// The block is not used any more.
#[inline(always)]
pub unsafe fn free(object: *mut u8) {
    // SAFETY: the caller promises that the block is not used any more, and it is freed by only one of the two calls.
    unsafe {
        if !free_fast(object) {
            free_slow(object);
        }
    }
}

/// Pushes an object to this CPU's cache, and returns whether that was possible. If not, nothing was changed.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
unsafe fn free_fast(object: *mut u8) -> bool {
    // SAFETY: the caller promises that the object is not used any more.
    frontend().is_some_and(|frontend| unsafe { frontend.free_fast(object) } == PushOutcome::Done)
}

/// Does the same as [`free`] for a caller that knows the call site.
///
/// # Safety
/// The block is not used any more.
pub unsafe fn free_for(object: *mut u8, site: Site) {
    free_any(object, RequestedSize::Nothing, site);
}

/// Does the same as [`free`] for a block that was requested with `size` bytes. A hardened process checks the size.
///
/// # Safety
/// The block is not used any more.
#[inline(always)]
pub unsafe fn free_sized(object: *mut u8, size: usize) {
    // SAFETY: the caller promises that the block is not used any more, and it is freed by only one of the two calls.
    unsafe {
        if !free_fast(object) {
            free_sized_slow(object, size);
        }
    }
}

/// Returns the usable bytes of a block, or 0 for null. If the address is not the start of a block, the process is
/// terminated with a message. Costs as many loads as a free up to its section.
///
/// # Safety
/// The block is null or belongs to the caller.
#[inline(always)]
pub unsafe fn usable_size(object: *mut u8) -> usize {
    // SAFETY: the caller promises that the block is null or belongs to it.
    object_bytes(object).unwrap_or_else(|| unsafe { usable_size_slow(object) })
}

/// Returns the bytes of an object, if the heap has restartable sequences and an object starts at the address.
#[inline(always)]
fn object_bytes(object: *mut u8) -> Option<usize> {
    frontend().and_then(|frontend| frontend.object_bytes(object))
}

forward_site! {
    /// Returns the usable bytes of a block that is no object, or of any block in a process without restartable
    /// sequences.
    fn usable_size_slow(object: *mut u8) -> usize, "rsi", "x1", usable_size_from
}

/// Returns the usable bytes of a block for a call site, or 0 for null.
///
/// # Safety
/// As for [`usable_size`].
#[cold]
#[inline(never)]
unsafe extern "C" fn usable_size_from(object: *mut u8, site: Site) -> usize {
    // SAFETY: the caller promises that the block belongs to it.
    NonNull::new(object).map_or(0, |start| unsafe { usable(start, site) })
}

/// Returns the usable bytes of a block for a call site. If the address is not the start of a block, the process is
/// terminated with a message.
///
/// # Safety
/// The block belongs to the caller.
pub unsafe fn usable(start: NonNull<u8>, site: Site) -> usize {
    let address = start.as_ptr().addr();
    if NESTED.contains(address) {
        // SAFETY: the address is in the reserved piece, and the caller promises that the block belongs to it.
        return unsafe { NESTED.usable(start) };
    }
    if let Some(malloc) = MALLOC.hardened() {
        return hardened::usable(malloc, start, site);
    }
    let Some(malloc) = MALLOC.get() else { refuse(start, &"the address is not an object of this program's malloc") };
    if malloc.runs.contains(address) {
        return malloc.runs.usable(start).unwrap_or_else(|error| refuse(start, &error));
    }
    with_heap!(&malloc.heap, heap => heap.slab().ksize(start)).unwrap_or_else(|error| refuse(start, &error))
}

/// Sets the number of free bytes that are kept, which replaces [`Options::keep`](options::Options::keep).
pub fn keep(bytes: usize) {
    RETURNS.set_keep(bytes);
}

/// Returns the heap's fast-path interface, if the process has a heap with restartable sequences.
#[inline(always)]
fn frontend() -> Option<Frontend<'static, 'static, 'static, Process, Rseq, DefaultFastPath>> {
    // SAFETY: the mode is `Rseq`, which is stored only after the heap was written.
    (MALLOC.mode() == Mode::Rseq).then(|| frontend_of(unsafe { MALLOC.rseq_heap() }))
}

/// Returns the fast-path interface of a heap.
#[inline(always)]
fn frontend_of(heap: &'static Heap<Rseq>) -> Frontend<'static, 'static, 'static, Process, Rseq, DefaultFastPath> {
    // SAFETY: `AnyHeap::make` keeps a heap with restartable sequences only if its policy has this fast path.
    unsafe { heap.slab().frontend().unwrap_unchecked() }
}

/// Returns the heap's fast-path interface for a request of `size` bytes, unless the request has to take the slow path.
#[inline(always)]
fn fast_path(size: usize) -> Option<Frontend<'static, 'static, 'static, Process, Rseq, DefaultFastPath>> {
    // SAFETY: the heap is written before the request mode allows the fast path.
    MALLOC.allows_fast_path(size).then(|| frontend_of(unsafe { MALLOC.rseq_heap() }))
}

forward_site! {
    /// Frees a block that the fast path did not take.
    fn free_slow(object: *mut u8), "rsi", "x1", free_from
}

forward_site! {
    /// Frees a block of a known size that the fast path did not take.
    fn free_sized_slow(object: *mut u8, size: usize), "rdx", "x2", free_sized_from
}

/// Frees a block for a call site.
///
/// # Safety
/// The block is not used any more.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_from(object: *mut u8, site: Site) {
    free_any(object, RequestedSize::Nothing, site);
}

/// Frees a block of a known size for a call site.
///
/// # Safety
/// The block is not used any more.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_sized_from(object: *mut u8, size: usize, site: Site) {
    free_any(object, RequestedSize::Bytes(size), site);
}

#[inline]
fn free_any(object: *mut u8, asked: RequestedSize, site: Site) {
    if let Some(malloc) = MALLOC.hardened() {
        return hardened::free(malloc, object, asked, site);
    }
    let Some(object) = NonNull::new(object) else { return };
    if NESTED.contains(object.as_ptr().addr()) {
        return;
    }
    match enter() {
        Some(_entered) => free_within(object),
        // SAFETY: the caller of `free` promised not to use the object any more, and every block has at least 8 bytes.
        None => unsafe { NESTED.defer(object) },
    }
}

/// Frees an object or a run. The caller is in a slow path.
fn free_within(object: NonNull<u8>) {
    let Some(malloc) = MALLOC.get() else { refuse(object, &"the address is not an object of this program's malloc") };
    let address = object.as_ptr().addr();
    if malloc.runs.contains(address) {
        profile::forget(object);
        match malloc.runs.free_cached(malloc.cpu(), object).unwrap_or_else(|error| refuse(object, &error)) {
            FreeOutcome::Cached => {}
            FreeOutcome::Uncached(claimed) => {
                let (bytes, now) = (claimed.bytes(), ticks::now());
                malloc.runs.free(claimed, now);
                RETURNS.after_free(malloc, bytes, now);
            }
        }
    } else {
        // SAFETY: the caller of `free` promised that the object is not used any more.
        let freed = with_heap!(&malloc.heap, heap => unsafe { heap.free(object) });
        freed.unwrap_or_else(|error| refuse(object, &FreeRefusal(error)));
        let now = ticks::now();
        malloc.note_cpu(now);
        RETURNS.after_free(malloc, 0, now);
    }
}

/// Frees a block whose free was deferred, because it was requested within a slow path.
fn free_deferred(object: NonNull<u8>) {
    match MALLOC.hardened() {
        Some(malloc) => hardened::free_deferred(malloc, object),
        None => free_within(object),
    }
}

/// Enters a slow path; returns `None` if the thread is in one already ([`Gate::enter`]). When the guard is dropped,
/// deferred blocks are freed.
#[inline]
fn enter() -> Option<SlowPathGuard> {
    GATE.enter().map(|entered| SlowPathGuard { _entered: entered })
}

/// Guard of a slow path: while it exists, the thread is in a slow path.
struct SlowPathGuard {
    _entered: EntryGuard<'static>,
}

impl Drop for SlowPathGuard {
    #[inline]
    fn drop(&mut self) {
        NESTED.take_deferred().for_each(free_deferred);
    }
}

/// Terminates the process with a message: the program frees an address that it does not own, so its state is invalid.
#[cold]
#[inline(never)]
fn refuse(object: NonNull<u8>, error: &dyn fmt::Display) -> ! {
    let _written = writeln!(StandardError, "freehold: free({object:p}): {error}");
    // SAFETY: `abort` takes no arguments and has no preconditions.
    unsafe { libc::abort() }
}
