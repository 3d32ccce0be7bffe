//! Periodic signals to a thread.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;

use libc::{
    CLOCK_MONOTONIC, SA_RESTART, SIGEV_THREAD_ID, SIGUSR1, itimerspec, sigaction, sigevent, timer_create, timer_delete,
    timer_settime, timer_t, timespec,
};
use rustix::thread::gettid;

/// Nanoseconds between two signals.
const INTERVAL: i64 = 30_000;

/// A timer of the calling thread. After it is dropped, no more signals are sent.
pub(crate) struct Timer(timer_t);

/// Installs a handler for the signal, for all threads.
pub(crate) fn handle(handler: extern "C" fn(c_int)) {
    // SAFETY: an all-zero `sigaction` is valid, and the handler has the signature that its flags require.
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = handler as *const c_void as usize;
        action.sa_flags = SA_RESTART;
        assert_eq!(sigaction(SIGUSR1, &raw const action, null_mut()), 0, "the signal handler cannot be set");
    }
}

impl Timer {
    /// Starts to send signals to the calling thread.
    pub(crate) fn start() -> Timer {
        let interval = timespec { tv_sec: 0, tv_nsec: INTERVAL };
        let every = itimerspec { it_interval: interval, it_value: interval };
        // SAFETY: all pointers are to live local variables, and an all-zero `sigevent` is valid.
        unsafe {
            let mut event: sigevent = zeroed();
            event.sigev_notify = SIGEV_THREAD_ID;
            event.sigev_signo = SIGUSR1;
            event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
            let mut timer: timer_t = null_mut();
            assert_eq!(timer_create(CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0, "the timer cannot be created");
            assert_eq!(timer_settime(timer, 0, &raw const every, null_mut()), 0, "the timer cannot be set");
            Timer(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `start` created the timer, which is deleted once, when the value is dropped.
        unsafe { timer_delete(self.0) };
    }
}
