//! A thread that returns free memory to the system, for programs that become idle and therefore make no frees.
//!
//! [`start`] is called after the program has created a thread, in the context of that call, and nowhere else.
//! Allocations and frees never start the helper: the C library frees memory while it holds locks that `pthread_create`
//! takes, such as the lock of its stack cache. So a program without threads has no helper, and its frees return memory.
//!
//! The helper sleeps for a quarter of a second between two passes. It blocks all signals. Some namespaces can be left
//! only by a process with one thread, so [`stop`] ends the helper before such a system call. The helper also ends by
//! itself when for ten seconds the program has had only one thread and has not freed more than a mebibyte at once. The
//! next thread of the program starts it again.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use rustix::thread::{futex, sched_yield};

use super::options::GiveBack;
use super::parts::Malloc;
use super::{AnyHeap, MALLOC, RETURNS, enter, owner, pressure, profile, sandbox, ticks, with_heap};

/// Bytes of the helper's stack. If the C library refuses this size, because the program's static thread-local data
/// needs more, the size is doubled up to `STACK_MAX`.
const STACK: usize = 64 << 10;
const STACK_MAX: usize = 64 << 20;
/// Bytes of free memory up to which no step is made.
const LITTLE: usize = 1 << 20;
/// Bytes of one step. Between two steps other threads can take the locks.
const STEP: usize = 2 << 20;
/// Sleep between two passes.
const PAUSE: rustix::fs::Timespec = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// Passes without a change of the used and free bytes, after which objects in CPUs' caches are returned as well.
const IDLE: u32 = 8;
/// Passes without a change after which all that can be returned has been, so further passes return nothing. The helper
/// also ends after this many passes in which the program had only one thread and did not free much.
const SETTLED: u32 = 40;

/// State of the helper: one of the constants below.
static ORDER: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
/// A thread is starting the helper, or joins it.
const CHANGING: u32 = 1;
const RUN: u32 = 2;
const STOP: u32 = 3;
/// The helper has ended by itself, and no thread has joined it.
const LEFT: u32 = 4;
/// The helper must not start any more.
const NEVER: u32 = 5;
/// The helper's `pthread_t`: a number with glibc, an address with musl.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// Starts the helper if the options enable it, it is not running, and the process is not restricted by a filter. Must
/// not be called within a slow path or under a lock of the C library. If the system cannot create a thread, frees
/// continue to return memory.
pub fn start() {
    let is_wanted = MALLOC.get().is_some_and(|malloc| malloc.options.give_back == GiveBack::Helper);
    if !is_wanted || !begin_start() {
        return;
    }
    // The caller of `restrict` waits in `stop` while the state is `CHANGING`.
    if sandbox::is_restricted() {
        return ORDER.store(NONE, Release);
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::zeroed();
    // SAFETY: attributes and signal sets are initialised before use, attributes are destroyed last, and `run` is a
    // function of this library, which is never unloaded.
    let started = unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let mut bytes = STACK.max(libc::PTHREAD_STACK_MIN);
        let started = loop {
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes);
            let error = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, null_mut());
            if error != libc::EINVAL || bytes >= STACK_MAX {
                break error == 0;
            }
            bytes *= 2;
        };
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        THREAD.store(thread.assume_init() as usize, Release);
        started
    };
    ORDER.store(if started { RUN } else { NONE }, Release);
}

/// Claims the right to start the helper, if it is not running.
fn begin_start() -> bool {
    if ORDER.compare_exchange(NONE, CHANGING, SeqCst, Relaxed).is_ok() {
        return true;
    }
    let has_left = ORDER.compare_exchange(LEFT, CHANGING, SeqCst, Relaxed).is_ok();
    if has_left {
        join();
    }
    has_left
}

/// Waits for the end of the helper's thread.
fn join() {
    // SAFETY: the thread was started, and only the caller that changed the state to `STOP`, or from `LEFT`, joins it.
    unsafe { libc::pthread_join(THREAD.load(Acquire) as libc::pthread_t, null_mut()) };
}

/// Returns whether the helper runs and returns memory.
#[inline]
pub(super) fn is_running() -> bool {
    ORDER.load(Relaxed) == RUN
}

/// Ends the helper if it runs, and waits for its end. Must not be called within a slow path. Does nothing in a child
/// process of `vfork` or of a raw `clone`, which has no helper.
pub fn stop() {
    end(NONE);
}

/// Ends the helper as [`stop`] does, and prevents further starts, if the caller is the main thread, which is about to
/// exit. The C library ends a process with its last thread, so a helper would keep the process alive, and run the
/// program's handlers at exit.
pub fn stop_before_main_thread_exits() {
    if rustix::thread::gettid().as_raw_nonzero().get() == owner::process_id() {
        end(NEVER);
    }
}

/// Ends the helper and sets the state to `after`.
fn end(after: u32) {
    if !owner::is_own_process() {
        return;
    }
    loop {
        match ORDER.load(SeqCst) {
            NEVER => return,
            NONE if ORDER.compare_exchange(NONE, after, SeqCst, Relaxed).is_ok() => return,
            RUN if ORDER.compare_exchange(RUN, STOP, SeqCst, Relaxed).is_ok() => {
                let _woken = futex::wake(&ORDER, futex::Flags::PRIVATE, 1);
                break;
            }
            LEFT if ORDER.compare_exchange(LEFT, CHANGING, SeqCst, Relaxed).is_ok() => break,
            // Another thread is starting or stopping the helper.
            _ => sched_yield(),
        }
    }
    join();
    ORDER.store(after, Release);
}

/// Lets the helper, which calls this, end by itself. Returns `false` if it is being stopped.
fn leave() -> bool {
    ORDER.compare_exchange(RUN, LEFT, SeqCst, Relaxed).is_ok()
}

/// Returns whether the process has only one thread besides the helper. The number of links of the folder is that of the
/// threads and two more. linux: fs/proc/base.c:proc_task_getattr
fn is_only_other_thread() -> bool {
    rustix::fs::stat(c"/proc/self/task").is_ok_and(|task| task.st_nlink == 2 + 2)
}

/// Resets the state in a forked child, in which the helper does not exist.
pub(super) fn forget() {
    ORDER.store(NONE, Relaxed);
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let Some(malloc) = MALLOC.get() else { return null_mut() };
    // SAFETY: the name ends in a zero byte and is shorter than 16 bytes.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), c"freehold".as_ptr()) };
    let has_own_files = has_own_files();
    let mut seen = (0, 0);
    let (mut idle, mut alone) = (0_u32, 0_u32);
    while ORDER.load(Acquire) != STOP {
        let _woken = futex::wait(&ORDER, futex::Flags::PRIVATE, RUN, Some(&PAUSE));
        profile::serve();
        let now = malloc.measure();
        idle = if (now.used, now.free) == seen { idle.saturating_add(1) } else { 0 };
        if idle < SETTLED {
            make_pass(malloc, idle, has_own_files);
        }
        let has_freed = now.free > seen.1 + LITTLE;
        alone = if is_only_other_thread() && !has_freed { alone + 1 } else { 0 };
        if alone >= SETTLED && leave() {
            break;
        }
        let now = malloc.measure();
        seen = (now.used, now.free);
    }
    null_mut()
}

/// Returns memory after `idle` passes without a change.
fn make_pass(malloc: &Malloc, idle: u32, has_own_files: bool) {
    RETURNS.look_at_huge_pages(malloc);
    let moment = ticks::now();
    let is_first = RETURNS.begin_moment(moment);
    let free = malloc.measure().free;
    if idle == IDLE || has_own_files && free > LITTLE && pressure::is_short() {
        shrink(malloc, moment);
    } else if free > LITTLE {
        give_back_old(malloc, moment);
    }
    if is_first && let Some(_within) = enter() {
        malloc.drain_idle(moment);
        RETURNS.reap_if_old(malloc, moment);
        RETURNS.give_back_pieces(malloc, LITTLE, usize::MAX, moment);
    }
}

/// Gives this thread an empty file table of its own; returns whether that succeeded. Files that it opens then use no
/// descriptor of the program, and the program's files are closed in it. linux: CLOSE_RANGE_UNSHARE
fn has_own_files() -> bool {
    const UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: with `CLOSE_RANGE_UNSHARE` the call closes files in a private copy of the file table only.
    unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, UNSHARE) == 0 }
}

/// Returns all old runs, and the heap's free blocks until little memory is free, in steps.
fn give_back_old(malloc: &Malloc, now: u32) {
    let until = now.saturating_sub(malloc.options.age / ticks::TICK);
    if let Some(_within) = enter() {
        malloc.runs.drain(now);
    }
    give_runs_back(malloc, until);
    give_heap_back(malloc);
}

/// Returns the runs that were freed no later than `until`.
fn give_runs_back(malloc: &Malloc, until: u32) {
    while let Some(_within) = enter()
        && malloc.runs.give_back(STEP, until) > 0
    {}
}

/// Returns free blocks of the heap until little free memory is left. The heap does not record when memory was freed.
fn give_heap_back(malloc: &Malloc) {
    while malloc.measure().free > LITTLE
        && let Some(_within) = enter()
        && with_heap!(&malloc.heap, heap => heap.give_back(STEP)) > 0
    {}
}

/// Returns all runs, drains the caches of CPUs if that is possible, and returns the memory that is free then.
fn shrink(malloc: &Malloc, now: u32) {
    give_runs_back(malloc, now);
    if let Some(_within) = enter()
        && malloc.can_fence()
    {
        with_heap!(&malloc.heap, heap => heap.slab().shrink());
    }
    give_heap_back(malloc);
}
