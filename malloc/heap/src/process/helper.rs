//! A thread that gives free memory back: for programs that become idle, in which no free would do it.
//!
//! [`start`] is called after the program has created a thread of its own, in that caller's context, and nowhere else.
//! An allocation or a free never starts the helper: the C library frees memory while it holds locks that
//! `pthread_create` takes, such as the lock of its stack cache. So a program without threads has no helper, and frees
//! give its memory back.
//!
//! The helper sleeps a quarter of a second between its looks. All signals are blocked in it. Some namespaces can only be
//! left by a process with one thread: [`stop`] ends the helper before, and the program's next thread starts it again.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use rustix::thread::{futex, sched_yield};

use super::options::GiveBack;
use super::start::Malloc;
use super::{AnyHeap, MALLOC, RETURNS, enter, pressure, profile, returns, with_heap};

/// Bytes of its stack.
const STACK: usize = 64 << 10;
/// Free memory that is not worth a step.
const LITTLE: usize = 1 << 20;
/// Bytes of a step, after which other threads may come by.
const STEP: usize = 2 << 20;
/// Between two looks.
const PAUSE: rustix::fs::Timespec = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// Looks at a program that does nothing, after which the objects that CPUs have cached are given back, too.
const IDLE: u32 = 8;

/// Whether it is to go on.
static ORDER: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
/// Somebody starts it, and does not know its name yet.
const STARTING: u32 = 1;
const RUN: u32 = 2;
const STOP: u32 = 3;
/// Its name for the C library.
static THREAD: AtomicU64 = AtomicU64::new(0);

/// Starts the helper if the options ask for it, and it is not there yet. Within no slow path, and under no lock of the C
/// library. Where the system has no thread for it, frees go on giving memory back.
pub fn start() {
    let is_wanted = MALLOC.get().is_some_and(|malloc| malloc.options.give_back == GiveBack::Helper);
    if !is_wanted || ORDER.compare_exchange(NONE, STARTING, Acquire, Relaxed).is_err() {
        return;
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::zeroed();
    // SAFETY: attributes are initialized before they are used, and destroyed at last; the function stays where it is.
    let started = unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK.max(libc::PTHREAD_STACK_MIN));
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let started = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, null_mut()) == 0;
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        THREAD.store(thread.assume_init(), Release);
        started
    };
    ORDER.store(if started { RUN } else { NONE }, Release);
}

/// Whether the helper is there, and gives memory back.
#[inline]
pub(super) fn is_running() -> bool {
    ORDER.load(Relaxed) == RUN
}

/// Ends it, if it is there, and waits until it is gone. Within no slow path.
pub fn stop() {
    while let Err(order) = ORDER.compare_exchange(RUN, STOP, Acquire, Relaxed) {
        if order == NONE {
            return;
        }
        // Somebody else is at it.
        sched_yield();
    }
    let _woken = futex::wake(&ORDER, futex::Flags::PRIVATE, 1);
    // SAFETY: the thread was started and not yet waited for, by the order that was taken back here.
    unsafe { libc::pthread_join(THREAD.load(Acquire), null_mut()) };
    ORDER.store(NONE, Release);
}

/// In a child, which does not have it.
pub(super) fn forget() {
    ORDER.store(NONE, Relaxed);
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let Some(malloc) = MALLOC.get() else { return null_mut() };
    // SAFETY: a name that ends in zero, shorter than 16 bytes.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), c"freehold".as_ptr()) };
    let has_own_files = has_own_files();
    let mut seen = (0, 0);
    let mut idle = 0;
    while ORDER.load(Acquire) != STOP {
        let _woken = futex::wait(&ORDER, futex::Flags::PRIVATE, RUN, Some(&PAUSE));
        profile::serve();
        let moment = returns::now();
        let is_first = RETURNS.begin_moment(moment);
        let now = malloc.measure();
        idle = if (now.used, now.free) == seen { idle + 1 } else { 0 };
        if idle == IDLE || has_own_files && now.free > LITTLE && pressure::is_short() {
            shrink(malloc, moment);
        } else if now.free > LITTLE {
            give_back_old(malloc, moment);
        }
        if is_first && let Some(_within) = enter() {
            malloc.drain_idle(moment);
        }
        let now = malloc.measure();
        seen = (now.used, now.free);
    }
    null_mut()
}

/// Gives this thread a table of files of its own, without any: what it opens has no number of the program's, and what
/// the program closes is closed. linux: CLOSE_RANGE_UNSHARE
fn has_own_files() -> bool {
    const UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: closes files of no other thread's table.
    unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, UNSHARE) == 0 }
}

/// Gives back all that is old, in steps.
fn give_back_old(malloc: &Malloc, now: u32) {
    let until = now.saturating_sub(malloc.options.age / returns::TICK);
    if let Some(_within) = enter() {
        malloc.runs.drain(now);
    }
    give_runs_back(malloc, until);
    give_heap_back(malloc);
}

/// Gives back the runs that were freed until then.
fn give_runs_back(malloc: &Malloc, until: u32) {
    while let Some(_within) = enter()
        && malloc.runs.give_back(STEP, until) > 0
    {}
}

/// The heap knows no age of what is free: it keeps what the program's next frees may do without.
fn give_heap_back(malloc: &Malloc) {
    while malloc.measure().free > LITTLE
        && let Some(_within) = enter()
        && with_heap!(&malloc.heap, heap => heap.give_back(STEP)) > 0
    {}
}

/// Gives back all runs, and what CPUs have cached, if that can be taken from afar, and all that is free then.
fn shrink(malloc: &Malloc, now: u32) {
    give_runs_back(malloc, now);
    if let Some(_within) = enter()
        && malloc.can_fence()
    {
        with_heap!(&malloc.heap, heap => heap.slab().shrink());
    }
    give_heap_back(malloc);
}
