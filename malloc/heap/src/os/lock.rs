//! A spin lock that gives up the CPU, and a value under one.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use freehold::base::lock::{Rank, RawLock};
use rustix::thread::sched_yield;

/// Rounds of waiting after which a thread gives up its CPU: about as long as a lock is held.
const SPINS: u32 = 100;

/// A spin lock that gives up the CPU when it has waited for long: its holder may be waiting for that CPU.
///
/// Signals are not masked. What a handler that interrupts a holder may do is decided before any lock is asked for:
/// see `process::gate`.
#[derive(Debug, Default)]
pub struct YieldingLock(AtomicBool);

impl YieldingLock {
    /// A lock that is open.
    pub const fn open() -> YieldingLock {
        YieldingLock(AtomicBool::new(false))
    }

    #[inline]
    fn acquire(&self) {
        if !self.try_acquire() {
            self.wait();
        }
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    fn release(&self) {
        self.0.store(false, Ordering::Release);
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        while self.0.load(Ordering::Relaxed) || !self.try_acquire() {
            spins += 1;
            if spins % SPINS == 0 {
                sched_yield();
            } else {
                core::hint::spin_loop();
            }
        }
    }
}

// SAFETY: the swap with Acquire lets one caller through until the store with Release.
unsafe impl RawLock for YieldingLock {
    fn new() -> YieldingLock {
        YieldingLock::open()
    }

    #[inline]
    fn lock(&self, _rank: Rank) {
        self.acquire();
    }

    #[inline]
    fn try_lock(&self, _rank: Rank) -> bool {
        self.try_acquire()
    }

    #[inline]
    unsafe fn unlock(&self, _rank: Rank) {
        self.release();
    }
}

/// A value of the process's own, and the lock around it.
pub(crate) struct Mutex<T> {
    lock: YieldingLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard alone, of which there is one at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex { lock: YieldingLock::open(), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.lock.acquire();
        Guard { of: self }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// The right to the value; opens the lock when dropped.
#[derive(Debug)]
pub(crate) struct Guard<'g, T> {
    of: &'g Mutex<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a guard is there, so nobody else reaches the value.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is ours alone, and no other is there.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.lock.release();
    }
}
