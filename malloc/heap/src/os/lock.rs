//! A spin lock that yields the CPU after a number of spins, and a mutex that is built on it.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use freehold::base::lock::{Rank, RawLock};
use rustix::thread::sched_yield;

/// Spins after which a waiting thread yields its CPU. They take about as long as the lock is usually held.
const SPINS: u32 = 100;

/// A spin lock that yields the CPU during a long wait, because the holder may be waiting for that CPU.
///
/// Signals are not masked. `process::gate` decides what a signal handler that interrupts a holder may do, before any
/// lock is taken.
#[derive(Debug, Default)]
pub struct YieldingLock(AtomicBool);

impl YieldingLock {
    /// Returns an unlocked lock.
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

// SAFETY: the swap with Acquire succeeds for one caller at a time, until that caller's store with Release.
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

/// A value of this crate, and the lock that protects it.
pub(crate) struct Mutex<T> {
    lock: YieldingLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessible only through a `Guard`, and the lock allows one guard at a time.
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

/// Exclusive access to the value. Dropping the guard releases the lock.
#[derive(Debug)]
pub(crate) struct Guard<'g, T> {
    of: &'g Mutex<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so no other guard can reach the value.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, so no other guard exists, and `&mut self` excludes other borrows of this
        // one.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.lock.release();
    }
}
