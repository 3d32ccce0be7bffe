//! A thread that gives back what nobody needs: for programs that become idle, in which no free would do it.
//!
//! It starts when a program with threads frees memory, never in one that has a single thread: that may still want to
//! leave a namespace, which threads forbid. All signals are blocked in it. It sleeps a quarter of a second between its
//! steps, 2 MiB each, while something is free, and otherwise until it is called.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use super::start::Malloc;
use super::{AnyHeap, MADE, enter, returns, with_heap};

/// Bytes of its stack.
const STACK: usize = 64 << 10;
/// Free memory that is not worth a step.
const LITTLE: usize = 1 << 20;
/// Bytes of a step, after which other threads may come by.
const STEP: usize = 2 << 20;

/// Starts it if the program has threads; says whether it did. Within a slow path: what the C library allocates for it
/// is of the piece set aside.
pub(super) fn start() -> bool {
    if is_single_threaded() {
        return false;
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: attributes are initialized before they are used, and destroyed at last; the function stays where it is.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK.max(libc::PTHREAD_STACK_MIN));
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        let started = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        started == 0
    }
}

/// As glibc knows it; on other systems it is taken for one.
fn is_single_threaded() -> bool {
    // SAFETY: a name that ends in zero; the variable is a char.
    unsafe {
        let known = libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()).cast::<u8>();
        known.is_null() || known.read() != 0
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let Some(malloc) = MADE.get() else { return null_mut() };
    // SAFETY: a name that ends in zero, shorter than 16 bytes.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), c"freehold".as_ptr()) };
    let age = malloc.options.age.div_ceil(1000).max(1);
    let mut idle_for = 0;
    loop {
        // SAFETY: asks for nothing but time.
        unsafe { libc::poll(null_mut(), 0, 250) };
        idle_for = if malloc.measure().free > LITTLE || idle_for == 0 { 0 } else { idle_for + 1 };
        give_back_old(malloc, age);
    }
}

/// Gives back all that is old, in steps.
fn give_back_old(malloc: &Malloc, age: u32) {
    let until = returns::now().saturating_sub(4 * age);
    if let Some(_within) = enter() {
        malloc.runs.drain(returns::now());
    }
    loop {
        let Some(_within) = enter() else { return };
        let given = malloc.runs.give_back(STEP, until);
        if given == 0 {
            break;
        }
    }
    while malloc.measure().free > LITTLE {
        let Some(_within) = enter() else { return };
        if with_heap!(&malloc.heap, heap => heap.give_back(STEP)) == 0 {
            break;
        }
    }
}
