//! A sampled heap profile: which calls hold the memory that is in use.
//!
//! ```text
//! sampler   which requests are sampled: bytes between two of them are drawn
//! stack     the calls that led to a request
//! recall    stacks that were taken before
//! samples   the blocks that were sampled and are in use
//! path      the name of a profile
//! dump      a profile as a file
//! ```
//!
//! Each request of a process that is profiled counts down a word of its thread before it takes the fast path, on a
//! way beside that of other processes. A request that is sampled gets a run of pages of its own, so that frees of
//! objects are what they are without: only a free of a run looks whether it was a sample. Where no profile is asked
//! for, nothing is counted; a request without a fast path looks at one word more.
//!
//! A profile is written at exit ([`at_exit`]), when it is asked for ([`write()`]), and by a signal, whose handler
//! writes it at once unless it has interrupted the allocator: then the thread's next request does, or the helper.

mod dump;
mod path;
mod recall;
mod sampler;
mod samples;
mod stack;

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
use stack::Walker;

/// Bytes between two samples, on average, where nothing else is said: as in other allocators.
pub const MEAN: usize = 512 << 10;
/// Samples that there may be at a time.
const SAMPLES: usize = 1 << 20;
/// What a limited address space is divided by for the samples.
const SAMPLES_SHARE: usize = 64;

/// What a user may choose of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Where profiles go; there is none without.
    pub path: Template,
    /// Bytes between two samples, on average.
    pub mean: usize,
    /// A signal that has a profile written, or 0.
    pub signal: i32,
}

impl Choice {
    /// No profile.
    pub const NONE: Choice = Choice { path: Template::NONE, mean: MEAN, signal: 0 };
}

/// What a profiled process has.
#[derive(Debug)]
struct State {
    samples: Samples,
    walker: Walker,
    path: Template,
    mean: usize,
    /// The process that began with the options.
    process: i32,
}

/// The place that it lies in, and the words that writing needs.
struct Profile {
    is_on: AtomicBool,
    state: UnsafeCell<MaybeUninit<State>>,
    /// Whether somebody writes, who then has the words.
    is_busy: AtomicBool,
    /// The words of the thread that does.
    writer: AtomicUsize,
    scratch: UnsafeCell<Scratch>,
    /// Whether a signal has asked for a profile that nobody has written yet.
    is_wanted: AtomicBool,
    /// Profiles that this process has written.
    written: AtomicU32,
}

// SAFETY: the state is written before the word says that it is on, and only read from then on; the words are those of
// whoever has made the process busy.
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

/// Whether requests are counted.
#[inline(always)]
pub(super) fn is_on() -> bool {
    PROFILE.is_on.load(Relaxed)
}

fn state() -> Option<&'static State> {
    // SAFETY: the word says that it was written, and nobody changes it any more.
    PROFILE.is_on.load(Acquire).then(|| unsafe { (*PROFILE.state.get()).assume_init_ref() })
}

/// Begins to profile, if the options of the process ask for it. Once, before the program has threads; within no slow
/// path.
pub fn begin() {
    let Some(malloc) = MALLOC.get().filter(|_| !is_on()) else { return };
    let Choice { path, mean, signal } = malloc.options.profile;
    if path.is_none() {
        return;
    }
    if MALLOC.hardened().is_some() {
        return warn(format_args!("no profile is taken of a hardened process; choose one of the two"));
    }
    let places = address_space_limit().map_or(SAMPLES, |limit| limit / SAMPLES_SHARE / size_of::<Sample>());
    let made =
        Samples::new(malloc.runs.range(), places.min(SAMPLES)).and_then(|samples| Ok((samples, Walker::find()?)));
    let (samples, walker) = match made {
        Ok(made) => made,
        Err(error) => return warn(format_args!("no profile is taken, for want of addresses: {error}")),
    };
    if !walker.is_there() {
        warn(format_args!("the profile has no stacks: libgcc_s.so.1 cannot be loaded"));
    }
    // What it makes once, it makes now.
    walker.walk(thread::current());
    sampler::seed();
    // SAFETY: asks for a number alone.
    let process = unsafe { libc::getpid() };
    // SAFETY: nobody reads it before the word says that it is there, and this is called by one thread.
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

/// Counts a request of a profiled process; false if it is perhaps to be sampled, and was not counted.
#[inline(always)]
pub(super) fn passes(size: usize) -> bool {
    sampler::passes(thread::current(), size)
}

/// Memory for a request that has no fast path: of a profiled process, perhaps a sample.
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

/// A sample for a request that was not counted, if it is to be one and can be.
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

/// Whether a request is to be a sample, where it can be one: not within a slow path, nor while a stack is taken.
fn is_drawn(state: &State, thread: &Thread, size: usize) -> bool {
    serve();
    let is_due = sampler::is_due(thread, size, state.mean);
    is_due && thread.depth.load(Relaxed) == 0 && thread.takes_stack.load(Relaxed) == 0
}

/// Takes note that a run has another size where it is: the bytes of before are forgotten, and those of now drawn.
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

/// Forgets a run that is about to be free. Within a slow path.
#[inline]
pub(super) fn forget(start: NonNull<u8>) {
    if let Some(state) = state() {
        state.samples.remove(start);
    }
}

/// In a child, which has one thread, and profiles of its own.
pub(super) fn in_child() {
    if is_on() {
        sampler::reseed(thread::current());
        PROFILE.is_busy.store(false, Relaxed);
        PROFILE.is_wanted.store(false, Relaxed);
        PROFILE.written.store(0, Relaxed);
    }
}

/// Writes a profile: under this name, or where the options say.
///
/// # Errors
/// If the process is not profiled, the file cannot be written, or a handler of a signal has interrupted the allocator.
pub fn write(name: Option<&CStr>) -> Result<(), Errno> {
    let state = state().ok_or(Errno::OPNOTSUPP)?;
    if thread::current().depth.load(Relaxed) != 0 {
        return Err(Errno::AGAIN);
    }
    let own = core::ptr::from_ref(thread::current()).addr();
    while PROFILE.is_busy.swap(true, Acquire) {
        // A handler that interrupts whoever writes would wait for ever.
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

/// Writes a profile where the options say, if the process is profiled: at its end. What is wrong with it, `to` is told.
pub fn at_exit(to: &mut dyn Write) {
    let Some(state) = state() else { return };
    if let Err(error) = write(None) {
        let _written = writeln!(to, "freehold: the profile cannot be written: {error}");
    }
    let lost = state.samples.lost();
    if lost > 0 {
        let _written = writeln!(to, "freehold: the profile lacks {lost} samples; take fewer, by profile-rate=SIZE");
    }
}

/// By whoever has made the process busy.
fn write_busy(state: &State, name: Option<&CStr>) -> Result<(), Errno> {
    PROFILE.writer.store(core::ptr::from_ref(thread::current()).addr(), Relaxed);
    let result = write_by(state, name);
    PROFILE.writer.store(0, Relaxed);
    result
}

/// By the thread that is noted as the one that writes.
fn write_by(state: &State, name: Option<&CStr>) -> Result<(), Errno> {
    // SAFETY: whoever has made the process busy has the words.
    let scratch = unsafe { &mut *PROFILE.scratch.get() };
    let named = match name {
        Some(name) => scratch.name.set(name),
        None => {
            // SAFETY: asks for a number alone.
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

/// Writes the profile that a signal has asked for, if there is one to write and nobody is at it.
pub(super) fn serve() {
    let Some(state) = state().filter(|_| PROFILE.is_wanted.load(Relaxed)) else { return };
    if thread::current().depth.load(Relaxed) != 0 {
        return;
    }
    while PROFILE.is_wanted.load(Acquire) && !PROFILE.is_busy.swap(true, Acquire) {
        PROFILE.is_wanted.store(false, Relaxed);
        if let Err(error) = write_busy(state, None) {
            warn(format_args!("the profile cannot be written: {error}"));
        }
        PROFILE.is_busy.store(false, Release);
    }
}

/// Has a signal write a profile.
fn listen(signal: c_int) {
    extern "C" fn on_signal(_: c_int) {
        // SAFETY: the place is the thread's own.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above, and a number is there.
        let before = unsafe { *errno };
        PROFILE.is_wanted.store(true, Release);
        // If the allocator was interrupted, nothing is written now: the thread's next request looks.
        sampler::restart(thread::current());
        serve();
        // SAFETY: as above, and a number belongs there.
        unsafe { *errno = before };
    }
    // SAFETY: a handler that stays where it is, and does what handlers may; zeros are an action without a mask.
    let failed = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = (on_signal as extern "C" fn(c_int)) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, null_mut()) != 0
    };
    if failed {
        warn(format_args!("signal {signal} cannot have a profile written"));
    }
}
