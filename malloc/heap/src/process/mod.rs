//! One malloc for a whole process: what the C library's functions and a Rust program's allocator are made of.
//!
//! ```text
//! up to 32 KiB   an object of the heap, by size; aligned by a size that is a multiple of the alignment
//! above          a run of exactly as many pages, from a range of its own
//! ```
//!
//! Which of the two an address is, the range says that it lies in.
//!
//! ```text
//! start         the heap and the runs, made by the first request
//! gate          who is within a slow path: what signal handlers and forks need to know
//! nested        what a call uses that interrupts a slow path of its own thread
//! returns       memory that goes back to the system
//! helper        a thread that gives it back
//! pressure      whether memory is short
//! cpu_activity  which CPUs have cached objects
//! hardened      seals, held blocks and guards, for a process that wants to notice misuse
//! site          who asked, for what is said of misuse
//! options       FREEHOLD_OPTIONS
//! profile       which calls hold the memory, if the options ask for it
//! stats         what was used, in numbers
//! outline       where the tables lie, for readers outside of the process
//! ```

mod cpu_activity;
mod gate;
mod hardened;
pub mod helper;
mod nested;
pub mod options;
pub mod outline;
mod pressure;
pub mod profile;
mod realloc;
mod returns;
pub mod site;
mod start;
pub mod stats;

use core::fmt;
use core::fmt::Write;
use core::ptr::{NonNull, null_mut};

use freehold::slab::cpu::PushOutcome;
use freehold::slab::fast_path::{Frontend, Sheaves};

use crate::heap::Heap;
use crate::os::platform::{LockedCpus, Process, StandardError};
use crate::os::rseq::Rseq;
use crate::runs::{FreeOutcome, PAGE};
use cpu_activity::CpuActivity;
use gate::{EntryGuard, Gate};
use hardened::RequestedSize;
pub use hardened::check_held;
use nested::Nested;
pub use realloc::{ResizeOutcome, resize};
use returns::Returns;
pub use site::Site;
use site::forward_site;
use start::{MallocCell, Mode};

/// Bytes of the largest object; what is larger is a run.
const OBJECT_MAX: usize = 32 << 10;
/// Objects are aligned up to this.
const OBJECT_ALIGN_MAX: usize = PAGE;
/// The fast path of the default policy's objects.
type DefaultFastPath = Sheaves;

static MALLOC: MallocCell = MallocCell::new();
static GATE: Gate = Gate::new();
static NESTED: Nested = Nested::new();
static RETURNS: Returns = Returns::new();
static CPU_ACTIVITY: CpuActivity = CpuActivity::new();

/// Memory that was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Where it begins.
    pub start: NonNull<u8>,
    /// Whether all of its bytes are known to be 0.
    pub is_zero: bool,
}

/// The heap that the process has.
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
use with_heap;

/// Memory as C's malloc gives it: null and `errno` if there is none, an address of its own for no bytes. Costs a
/// section if this CPU has such an object.
#[inline(always)]
pub fn malloc(size: usize) -> *mut u8 {
    // SAFETY: asks for memory alone.
    let Some(frontend) = fast_path(size) else { return unsafe { malloc_without_fast_path(size) } };
    match frontend.alloc_fast(size) {
        Some(object) => object.as_ptr(),
        None => malloc_slow(size),
    }
}

/// The same for a caller that knows who asked.
#[inline(always)]
pub fn malloc_for(size: usize, site: Site) -> *mut u8 {
    let Some(frontend) = fast_path(size) else { return malloc_without_fast_path_for(size, site) };
    match frontend.alloc_fast(size) {
        Some(object) => object.as_ptr(),
        None => malloc_slow(size),
    }
}

/// Allocates after a miss of the fast path. This is one call at the end of `malloc`, which saves no register for it.
#[cold]
#[inline(never)]
extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    let align = natural_align(size);
    let block = Place::find(size, align).and_then(|place| place.allocate(align));
    block.map_or_else(no_memory, |block| block.start.as_ptr())
}

forward_site! {
    /// Allocates for a request that may not take the fast path.
    fn malloc_without_fast_path(size: usize) -> *mut u8, "rsi", "x1", malloc_without_fast_path_for
}

#[cold]
#[inline(never)]
extern "C" fn malloc_without_fast_path_for(size: usize, site: Site) -> *mut u8 {
    let align = natural_align(size);
    let block = Place::find(size, align).and_then(|place| allocate_without_fast_path(place, size, align, site));
    block.map_or_else(no_memory, |block| block.start.as_ptr())
}

/// Null, and the error number that C has for it.
#[cold]
pub fn no_memory() -> *mut u8 {
    // SAFETY: the place is the thread's own.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// What C's malloc aligns to: no object is aligned to more than its size.
#[inline]
pub fn natural_align(size: usize) -> usize {
    if size > 8 { 16 } else { 8 }
}

/// So many bytes, aligned to a power of two. `None` if there is no memory, or the alignment is no power of two.
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

/// Allocates without the fast path: in a hardened or profiled process, and before there is a heap.
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

/// Gives back what any of these functions gave; nothing for null. The program ends with a message if it is something
/// else: what it does next would be wrong.
///
/// # Safety
/// Nobody uses it any more.
#[inline(always)]
pub unsafe fn free(object: *mut u8) {
    // SAFETY: the caller gives up what it got.
    unsafe {
        if !free_fast(object) {
            free_slow(object);
        }
    }
}

/// Leaves an object with this CPU, if that is all there is to do.
///
/// # Safety
/// As for [`free`], if so.
#[inline(always)]
unsafe fn free_fast(object: *mut u8) -> bool {
    // SAFETY: the caller gives up what it got.
    frontend().is_some_and(|frontend| unsafe { frontend.free_fast(object) } == PushOutcome::Done)
}

/// The same for a caller that knows who asked.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn free_for(object: *mut u8, site: Site) {
    free_any(object, RequestedSize::Nothing, site);
}

/// The same of so many bytes, as they were asked for: a hardened process looks whether they were.
///
/// # Safety
/// Nobody uses it any more.
#[inline(always)]
pub unsafe fn free_sized(object: *mut u8, size: usize) {
    // SAFETY: the caller gives up what it got.
    unsafe {
        if !free_fast(object) {
            free_sized_slow(object, size);
        }
    }
}

/// Bytes of a block that may be used; the program ends with a message if it is none.
///
/// # Safety
/// The caller has it.
pub unsafe fn usable(start: NonNull<u8>, site: Site) -> usize {
    let address = start.as_ptr().addr();
    if NESTED.contains(address) {
        // SAFETY: the caller has it from there.
        return unsafe { NESTED.usable(start) };
    }
    if let Some(malloc) = MALLOC.hardened() {
        return hardened::usable(malloc, start, site);
    }
    let Some(malloc) = MALLOC.get() else { refuse(start, &"it is no object of this program's malloc") };
    if malloc.runs.contains(address) {
        return malloc.runs.usable(start).unwrap_or_else(|error| refuse(start, &error));
    }
    with_heap!(&malloc.heap, heap => heap.slab().ksize(start)).unwrap_or_else(|error| refuse(start, &error))
}

/// From now on so many bytes are kept when they are free, beside a quarter of what is in use.
pub fn keep(bytes: usize) {
    RETURNS.set_keep(bytes);
}

/// Returns the heap's fast-path interface, if the process has a heap with restartable sequences.
#[inline(always)]
fn frontend() -> Option<Frontend<'static, 'static, 'static, Process, Rseq, DefaultFastPath>> {
    // SAFETY: the mode says that it was made.
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

/// Where a request is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// By an object of so many bytes, which is aligned as its size is.
    Object { size: usize },
    /// By so many pages from a multiple of `align` pages on.
    Run { pages: u32, align: u32 },
}

impl Place {
    /// `None` if it cannot be met anywhere. A size that is a multiple of an alignment is met by an object that is, too:
    /// sizes are four to a doubling, so the next larger one is a multiple of the same power of two.
    #[inline]
    fn find(size: usize, align: usize) -> Option<Place> {
        if !align.is_power_of_two() || size > isize::MAX as usize {
            return None;
        }
        let size = size.max(1);
        let stride = size.checked_next_multiple_of(align)?;
        if stride <= OBJECT_MAX && align <= OBJECT_ALIGN_MAX {
            return Some(Place::Object { size: stride });
        }
        let pages = u32::try_from(size.div_ceil(PAGE)).ok()?;
        let align = u32::try_from(align.div_ceil(PAGE)).ok()?;
        Some(Place::Run { pages, align })
    }

    /// Memory of this place, without the fast path.
    #[inline]
    fn allocate(self, align: usize) -> Option<Block> {
        match self {
            Place::Object { size } => allocate_object(size, align),
            Place::Run { pages, align } => allocate_run(pages, align),
        }
    }
}

#[inline(never)]
fn allocate_object(size: usize, align: usize) -> Option<Block> {
    let Some(_entered) = enter() else { return allocate_nested(size, align) };
    let malloc = MALLOC.or_start()?;
    malloc.note_cpu(returns::now());
    let object = with_heap!(&malloc.heap, heap => heap.malloc(size).ok());
    let object = object.or_else(|| {
        // Runs may hold memory that they do not use.
        malloc.give_all_back();
        with_heap!(&malloc.heap, heap => heap.malloc(size).ok())
    });
    RETURNS.after_growth(malloc);
    object.map(|start| Block { start, is_zero: false })
}

#[inline(never)]
fn allocate_run(pages: u32, align: u32) -> Option<Block> {
    if align == 1
        && let Some(malloc) = MALLOC.get()
        && let Some(run) = malloc.runs.alloc_cached(malloc.cpu(), pages)
    {
        return Some(Block { start: run.start, is_zero: run.is_zero });
    }
    let Some(_entered) = enter() else { return allocate_nested(pages as usize * PAGE, align as usize * PAGE) };
    let malloc = MALLOC.or_start()?;
    let run = malloc.runs.alloc(pages, align).or_else(|_| {
        malloc.give_all_back();
        malloc.runs.alloc(pages, align)
    });
    RETURNS.after_growth(malloc);
    run.ok().map(|run| Block { start: run.start, is_zero: run.is_zero })
}

fn allocate_nested(size: usize, align: usize) -> Option<Block> {
    // What is freed has room for an address.
    NESTED.alloc(size.max(8), align).map(|start| Block { start, is_zero: true })
}

forward_site! {
    /// All that is more than to leave an object with this CPU.
    fn free_slow(object: *mut u8), "rsi", "x1", free_from
}

forward_site! {
    /// The same of so many bytes.
    fn free_sized_slow(object: *mut u8, size: usize), "rdx", "x2", free_sized_from
}

/// # Safety
/// The caller gives it up.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_from(object: *mut u8, site: Site) {
    free_any(object, RequestedSize::Nothing, site);
}

/// # Safety
/// The caller gives it up.
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
        // SAFETY: the caller of `free` gave it up.
        None => unsafe { NESTED.defer(object) },
    }
}

/// Frees within a slow path.
fn free_within(object: NonNull<u8>) {
    let Some(malloc) = MALLOC.get() else { refuse(object, &"it is no object of this program's malloc") };
    let address = object.as_ptr().addr();
    if malloc.runs.contains(address) {
        profile::forget(object);
        match malloc.runs.free_cached(malloc.cpu(), object).unwrap_or_else(|error| refuse(object, &error)) {
            FreeOutcome::Cached => {}
            FreeOutcome::Uncached(claimed) => {
                let (bytes, now) = (claimed.bytes(), returns::now());
                malloc.runs.free(claimed, now);
                RETURNS.after_free(malloc, bytes, now);
            }
        }
    } else {
        // SAFETY: the caller of `free` gave it up.
        let freed = with_heap!(&malloc.heap, heap => unsafe { heap.free(object) });
        freed.unwrap_or_else(|error| refuse(object, &error));
        let now = returns::now();
        malloc.note_cpu(now);
        RETURNS.after_free(malloc, PAGE, now);
    }
}

/// Frees what a handler could not.
fn free_deferred(object: NonNull<u8>) {
    match MALLOC.hardened() {
        Some(malloc) => hardened::free_deferred(malloc, object),
        None => free_within(object),
    }
}

/// Enters a slow path; what others could not free is freed when it is left.
#[inline]
fn enter() -> Option<SlowPathGuard> {
    GATE.enter().map(|entered| SlowPathGuard { _entered: entered })
}

/// A thread is within a slow path as long as it has this.
struct SlowPathGuard {
    _entered: EntryGuard<'static>,
}

impl Drop for SlowPathGuard {
    #[inline]
    fn drop(&mut self) {
        NESTED.take_deferred().for_each(free_deferred);
    }
}

/// Ends the program: it gives back what it does not have, and whatever it does next is wrong.
#[cold]
#[inline(never)]
fn refuse(object: NonNull<u8>, error: &dyn fmt::Display) -> ! {
    let _written = writeln!(StandardError, "freehold: free({object:p}): {error}");
    // SAFETY: ends the process, whatever it is at.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(size: usize) -> Option<Place> {
        Some(Place::Object { size })
    }

    fn run(pages: u32, align: u32) -> Option<Place> {
        Some(Place::Run { pages, align })
    }

    #[test]
    fn a_request_finds_its_place() {
        assert_eq!(Place::find(0, 8), object(8));
        assert_eq!(Place::find(1, 1), object(1));
        assert_eq!(Place::find(8, 16), object(16));
        assert_eq!(Place::find(9, 16), object(16));
        assert_eq!(Place::find(100, 64), object(128));
        assert_eq!(Place::find(520, 256), object(768));
        assert_eq!(Place::find(1, 4096), object(4096));
        assert_eq!(Place::find(32 << 10, 16), object(32 << 10));
        assert_eq!(Place::find((32 << 10) + 1, 16), run(9, 1));
        assert_eq!(Place::find(100, 8192), run(1, 2));
        assert_eq!(Place::find(100, 24), None);
        assert_eq!(Place::find(usize::MAX, 16), None);
        assert_eq!(Place::find(isize::MAX as usize, 16), None);
    }
}
