//! Sampled heap profiler: call stacks of the memory that is in use.
//!
//! ```text
//! sampler   selects the requests to sample, by random distances in bytes
//! walker    walks the stack of a request
//! stack     call stacks of requests
//! recall    cache of stacks
//! samples   the sampled blocks that are in use
//! path      file names of profiles
//! dump      writes a profile to a file
//! ```
//!
//! Each request of a profiled process decrements a word of its thread before it takes the fast path. Other processes
//! skip this code. A sampled request gets a run of pages of its own, so frees of objects need no additional work: only
//! a free of a run checks whether the block is a sample. If profiling is off, nothing is counted; a request without a
//! fast path reads one additional word.
//!
//! A profile is written at exit ([`at_exit`]), on request ([`write()`]), and by a signal. The signal's handler writes
//! it at once, unless it has interrupted the allocator or a thread is writing a profile. In these cases the thread's
//! next request, the helper or the thread that writes does it.
//!
//! # Design
//!
//! Profiling has no cost when it is off. A request reads one word that shows whether it may use the CPU's cache, and in
//! a profiled process that word leads to the countdown of bytes. So other processes execute no additional instruction.
//!
//! A stack is taken before a slow path is entered. The unwinder may take the loader's lock, and the holder of that lock
//! may be waiting for a slow path. A walk of a stack takes microseconds; the check of a cached stack takes a tenth of
//! that (`recall`).
//!
//! The library writes text, because that needs no memory. The laboratory converts the text to pprof's format with its
//! own messages, encoded by `prost`. The package `pprof_util` does a similar conversion, but has no function names, one
//! number per sample, and no distinction between the addresses of two libraries.

mod dump;
mod path;
mod recall;
mod sampler;
mod samples;
mod stack;
mod walker;

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use rustix::io::Errno;
use rustix::thread::sched_yield;

use super::{Block, MALLOC, PAGE, Place, allocate_run, enter, frontend};
use crate::os::mmap::address_space_limit;
use crate::os::platform::StandardError;
use crate::os::thread::{self, Thread};
use dump::Scratch;
use path::Process;
pub use path::Template;
use samples::{Sample, Samples};
use walker::Walker;

/// Default mean of the bytes between two samples. Other allocators use the same value.
pub const MEAN: usize = 512 << 10;
/// Most samples in use at a time.
const SAMPLES: usize = 1 << 20;
/// Divisor of a limited address space, for the range of the samples.
const SAMPLES_SHARE: usize = 64;

/// Options of the profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// File name of profiles. Without a name profiling is off.
    pub path: Template,
    /// Mean of the bytes between two samples.
    pub mean: usize,
    /// Signal that requests a profile, or 0.
    pub signal: i32,
}

impl Choice {
    /// Options by which profiling is off.
    pub const NONE: Choice = Choice { path: Template::NONE, mean: MEAN, signal: 0 };
}

/// State of the profiler.
#[derive(Debug)]
struct State {
    samples: Samples<'static>,
    walker: Walker,
    path: Template,
    mean: usize,
    /// Process ID of the process that read the options.
    process: i32,
}

/// The profiler's state, and the buffers for writing a profile.
struct Profile {
    is_on: AtomicBool,
    state: UnsafeCell<MaybeUninit<State>>,
    /// Whether a thread is writing a profile. That thread owns the buffers.
    is_busy: AtomicBool,
    /// Address of the [`Thread`] of the thread that writes; 0 if there is none.
    writer: AtomicUsize,
    scratch: UnsafeCell<Scratch>,
    /// Whether a signal has requested a profile that is not written yet.
    is_wanted: AtomicBool,
    /// Number of profiles that this process has written.
    written: AtomicU32,
}

// SAFETY: the state is written before `is_on` is set, and only read afterwards. The buffers belong to the thread that
// has set `is_busy`.
unsafe impl Sync for Profile {}

static PROFILE: Profile = Profile {
    is_on: AtomicBool::new(false),
    state: UnsafeCell::new(MaybeUninit::uninit()),
    is_busy: AtomicBool::new(false),
    writer: AtomicUsize::new(0),
    scratch: UnsafeCell::new(Scratch::new()),
    is_wanted: AtomicBool::new(false),
    written: AtomicU32::new(0),
};

/// Returns whether requests are counted.
#[inline(always)]
pub(super) fn is_on() -> bool {
    PROFILE.is_on.load(Relaxed)
}

fn state() -> Option<&'static State> {
    // SAFETY: `is_on` is set after the state was written, and the state does not change any more.
    PROFILE.is_on.load(Acquire).then(|| unsafe { (*PROFILE.state.get()).assume_init_ref() })
}

/// Starts profiling, if the options of the process enable it and the process is not hardened. What prevents it is
/// reported on standard error. Called once, before the program has threads, and not within a slow path.
pub fn begin() {
    let Some(malloc) = MALLOC.get().filter(|_| !is_on()) else { return };
    let Choice { path, mean, signal } = malloc.options.profile;
    if path.is_none() {
        return;
    }
    if MALLOC.hardened().is_some() {
        return warn(format_args!("a hardened process cannot be profiled; use one of the two options"));
    }
    let places = address_space_limit().map_or(SAMPLES, |limit| limit / SAMPLES_SHARE / size_of::<Sample>());
    let made =
        Samples::new(malloc.runs.range(), places.min(SAMPLES)).and_then(|samples| Ok((samples, Walker::find()?)));
    let (samples, walker) = match made {
        Ok(made) => made,
        Err(error) => return warn(format_args!("no profile: cannot reserve address space: {error}")),
    };
    if !walker.is_there() {
        warn(format_args!("the profile has no stacks: cannot load libgcc_s.so.1"));
    }
    // The first walk performs the unwinder's one-time initialisation.
    walker.walk(thread::current());
    sampler::seed();
    // SAFETY: `getpid` takes no arguments and has no preconditions.
    let process = unsafe { libc::getpid() };
    // SAFETY: only one thread calls this function, and no thread reads the state before `is_on` is set.
    unsafe { (*PROFILE.state.get()).write(State { samples, walker, path, mean, process }) };
    PROFILE.is_on.store(true, Release);
    MALLOC.count_requests();
    if signal != 0 {
        listen(signal);
    }
}

fn warn(what: core::fmt::Arguments<'_>) {
    let _written = writeln!(StandardError, "freehold: {what}");
}

/// Counts a request of a profiled process. Returns `false` if the request may have to be sampled; it is not counted
/// then.
#[inline(always)]
pub(super) fn passes(size: usize) -> bool {
    sampler::passes(thread::current(), size)
}

/// Allocates for a request without a fast path. In a profiled process the block may become a sample. Returns `None` if
/// there is no memory.
#[inline(always)]
pub(super) fn allocate(place: Place, size: usize, align: usize) -> Option<Block> {
    if is_on() { allocate_profiled(place, size, align) } else { place.allocate(align) }
}

#[inline(never)]
fn allocate_profiled(place: Place, size: usize, align: usize) -> Option<Block> {
    if !passes(size)
        && let Some(block) = sample(size, align)
    {
        return Some(block);
    }
    if let Place::Object { size } = place
        && let Some(start) = frontend().and_then(|frontend| frontend.alloc_fast(size))
    {
        return Some(Block { start, is_zero: false });
    }
    place.allocate(align)
}

/// Allocates a sample for a request that was not counted, if the request is selected and can be a sample, and there is
/// memory for it. Returns `None` otherwise.
#[cold]
#[inline(never)]
fn sample(size: usize, align: usize) -> Option<Block> {
    let thread = thread::current();
    let state = state()?;
    if !is_drawn(state, thread, size) {
        return None;
    }
    let stack = state.walker.walk(thread);
    let pages = u32::try_from(size.div_ceil(PAGE)).ok()?;
    let block = allocate_run(pages, u32::try_from(align.div_ceil(PAGE)).ok()?)?;
    if let Some(_within) = enter() {
        state.samples.put(block.start, size, stack);
    }
    Some(block)
}

/// Returns whether a request becomes a sample. Requests within a slow path, or while a stack is taken, cannot be
/// sampled. Also writes a profile that a signal has requested.
fn is_drawn(state: &State, thread: &Thread, size: usize) -> bool {
    serve();
    let is_due = sampler::is_due(thread, size, state.mean);
    is_due && thread.depth.load(Relaxed) == 0 && thread.takes_stack.load(Relaxed) == 0
}

/// Handles a change of a run's size in place: its old sample is removed, and the new size is sampled like a request.
pub(super) fn note_resize(start: NonNull<u8>, size: usize) {
    let Some(state) = state() else { return };
    let thread = thread::current();
    if let Some(_within) = enter() {
        state.samples.remove(start);
    }
    if !passes(size) && is_drawn(state, thread, size) {
        let stack = state.walker.walk(thread);
        if let Some(_within) = enter() {
            state.samples.put(start, size, stack);
        }
    }
}

/// Removes the sample of a run that is about to be freed. Called within a slow path.
#[inline]
pub(super) fn forget(start: NonNull<u8>) {
    if let Some(state) = state() {
        state.samples.remove(start);
    }
}

/// Resets the profiler in a forked child, which has one thread and writes profiles of its own.
pub(super) fn in_child() {
    if is_on() {
        sampler::reseed(thread::current());
        PROFILE.is_busy.store(false, Relaxed);
        PROFILE.is_wanted.store(false, Relaxed);
        PROFILE.written.store(0, Relaxed);
    }
}

/// Writes a profile to a file with this name, or with the name in the options. Waits for another thread that writes a
/// profile.
///
/// # Errors
/// If the process is not profiled, if the file cannot be written, or if a signal handler has interrupted the allocator
/// or the writing of a profile.
pub fn write(name: Option<&CStr>) -> Result<(), Errno> {
    let state = state().ok_or(Errno::OPNOTSUPP)?;
    if thread::current().depth.load(Relaxed) != 0 {
        return Err(Errno::AGAIN);
    }
    let own = core::ptr::from_ref(thread::current()).addr();
    while PROFILE.is_busy.swap(true, Acquire) {
        // A signal handler that interrupts the writer would wait for ever.
        if PROFILE.writer.load(Relaxed) == own {
            return Err(Errno::AGAIN);
        }
        sched_yield();
    }
    let result = write_busy(state, name);
    PROFILE.is_busy.store(false, Release);
    serve();
    result
}

/// Writes a profile at the end of a profiled process. Errors and lost samples are reported to `to`.
pub fn at_exit(to: &mut dyn Write) {
    let Some(state) = state() else { return };
    if let Err(error) = write(None) {
        let _written = writeln!(to, "freehold: cannot write the profile: {error}");
    }
    let lost = state.samples.lost();
    if lost > 0 {
        let _written = writeln!(to, "freehold: the profile lacks {lost} samples; increase profile-rate=SIZE");
    }
}

/// Writes a profile. The caller has set `is_busy`.
fn write_busy(state: &State, name: Option<&CStr>) -> Result<(), Errno> {
    PROFILE.writer.store(core::ptr::from_ref(thread::current()).addr(), Relaxed);
    let result = write_by(state, name);
    PROFILE.writer.store(0, Relaxed);
    result
}

/// Writes a profile. The calling thread is recorded as the writer.
fn write_by(state: &State, name: Option<&CStr>) -> Result<(), Errno> {
    // SAFETY: the caller has set `is_busy`, so this thread owns the buffers.
    let scratch = unsafe { &mut *PROFILE.scratch.get() };
    let named = match name {
        Some(name) => scratch.name.set(name),
        None => {
            // SAFETY: `getpid` takes no arguments and has no preconditions.
            let pid = unsafe { libc::getpid() };
            let process = if pid == state.process { Process::First(pid) } else { Process::Child(pid) };
            state.path.fill(process, PROFILE.written.load(Relaxed), &mut scratch.name)
        }
    };
    named.map_err(|_| Errno::NAMETOOLONG)?;
    scratch.write(state)?;
    if name.is_none() {
        PROFILE.written.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Writes a profile that a signal has requested, unless a thread is writing one or this thread is in a slow path.
pub(super) fn serve() {
    let Some(state) = state().filter(|_| PROFILE.is_wanted.load(Relaxed)) else { return };
    if thread::current().depth.load(Relaxed) != 0 {
        return;
    }
    while PROFILE.is_wanted.load(Acquire) && !PROFILE.is_busy.swap(true, Acquire) {
        PROFILE.is_wanted.store(false, Relaxed);
        if let Err(error) = write_busy(state, None) {
            warn(format_args!("cannot write the profile: {error}"));
        }
        PROFILE.is_busy.store(false, Release);
    }
}

/// Installs a handler by which a signal writes a profile.
fn listen(signal: c_int) {
    extern "C" fn on_signal(_: c_int) {
        // SAFETY: `__errno_location` returns the address of the calling thread's own `errno`.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: `errno` is the address of the calling thread's own, initialised `errno`.
        let before = unsafe { *errno };
        PROFILE.is_wanted.store(true, Release);
        // If the signal interrupted the allocator, nothing is written now; the thread's next request will write the
        // profile.
        sampler::restart(thread::current());
        serve();
        // SAFETY: `errno` is the address of the calling thread's own `errno`.
        unsafe { *errno = before };
    }
    // SAFETY: an all-zero `sigaction` is valid and has an empty mask. The handler is in this library, which is never
    // unloaded, and makes only calls that are safe in a signal handler.
    let failed = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = (on_signal as extern "C" fn(c_int)) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, null_mut()) != 0
    };
    if failed {
        warn(format_args!("cannot install a handler for signal {signal}, so that signal writes no profile"));
    }
}
