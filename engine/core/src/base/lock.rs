//! Locks with ranks. The platform supplies the lock; the engine says what it protects.
//!
//! A lock may only be taken while all locks held have a lower rank: a cache's slabs of a CPU ([`Rank::SlabCpu`]) before
//! those of a node ([`Rank::SlabNode`]); in the page allocator what is online ([`Rank::Hotplug`]) before an area's
//! bitmap ([`Rank::Cma`]) before a CPU's lists ([`Rank::Pcp`]) before a zone's free lists ([`Rank::Zone`]). No slab
//! lock is held when pages are asked for or given back. The rank is a property of the protected type, and is handed to
//! the platform's lock on each call, so that a checking platform (such as the host's in debug builds) can refuse a
//! wrong order.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// Order in which locks nest: lower first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// A CPU's part of one cache: its slabs or its sheaves.
    SlabCpu = 0,
    /// A node's part of one cache: its slabs, and its barn.
    SlabNode = 1,
    /// What is online, under the lock that memory comes and goes by.
    Hotplug = 2,
    /// The bitmap of units that a CMA area has handed out.
    Cma = 3,
    /// A CPU's page lists of one zone.
    Pcp = 4,
    /// A zone's free lists, counters and pageblock types.
    Zone = 5,
    /// What keeps others off a CPU, where a lock does that: nothing is taken after it.
    Section = 6,
}

/// A mutual-exclusion primitive of the platform.
///
/// In a kernel, `lock` and `try_lock` also mask whatever could interrupt the holder and allocate; `unlock` undoes it,
/// with the flags that the first of the locks that this CPU holds has saved. And a CPU that waits answers other CPUs'
/// calls in the loop in which it waits: who calls it may hold the lock, and two CPUs that both wait with interrupts off
/// and do not answer wait for ever. `freehold::kernel::SpinLock` does all of that.
///
/// # Safety
/// Between a `lock`, or a `try_lock` that returned true, and the next `unlock` no other caller may get through
/// either; what the holder wrote before `unlock` must be visible to the next holder.
pub unsafe trait RawLock {
    /// A new lock, which is open.
    fn new() -> Self;
    /// Waits until the lock is the caller's.
    fn lock(&self, rank: Rank);
    /// Takes the lock if it is open; never waits.
    fn try_lock(&self, rank: Rank) -> bool;
    /// Opens the lock.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn unlock(&self, rank: Rank);
}

/// A type that a lock protects says which rank that lock has.
pub trait Ranked {
    /// The rank of the lock around this type.
    const RANK: Rank;
}

/// A value, and the lock that protects it.
#[derive(Debug)]
#[repr(C)]
pub struct Locked<L, T> {
    raw: L,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and `RawLock` promises one guard at a time.
unsafe impl<L: Sync, T: Send> Sync for Locked<L, T> {}

impl<L: RawLock, T: Ranked> Locked<L, T> {
    /// The value under a new lock, which is open.
    pub fn new(value: T) -> Locked<L, T> {
        Locked { raw: L::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock, and opens it when the guard is dropped.
    #[inline]
    pub fn lock(&self) -> Guard<'_, L, T> {
        self.raw.lock(T::RANK);
        Guard { locked: self, here: PhantomData }
    }

    /// Takes the lock if that needs no waiting.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, L, T>> {
        self.raw.try_lock(T::RANK).then(|| Guard { locked: self, here: PhantomData })
    }

    /// The value, where the borrow already proves that nobody else can reach it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Proof that the lock is held; gives access to the value, and opens the lock when dropped. It stays on the thread that
/// took the lock: another may not be the one to open it, nor be shown a value that only one may use at a time.
#[derive(Debug)]
pub struct Guard<'a, L: RawLock, T: Ranked> {
    locked: &'a Locked<L, T>,
    here: PhantomData<*mut ()>,
}

impl<L: RawLock, T: Ranked> Deref for Guard<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so the lock is held, so nobody else has a reference to the value.
        unsafe { &*self.locked.value.get() }
    }
}

impl<L: RawLock, T: Ranked> DerefMut for Guard<'_, L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { &mut *self.locked.value.get() }
    }
}

impl<L: RawLock, T: Ranked> Drop for Guard<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made by a successful `lock` or `try_lock` and is not used again.
        unsafe { self.locked.raw.unlock(T::RANK) }
    }
}

/// A test-and-set spin lock for real threads: what a platform without a better one uses.
#[derive(Debug, Default)]
pub struct SpinLock(AtomicBool);

// SAFETY: the swap with Acquire lets one caller through until the store with Release.
unsafe impl RawLock for SpinLock {
    fn new() -> SpinLock {
        SpinLock(AtomicBool::new(false))
    }

    #[inline]
    fn lock(&self, rank: Rank) {
        while !self.try_lock(rank) {
            while self.0.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    #[inline]
    fn try_lock(&self, _rank: Rank) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self, _rank: Rank) {
        self.0.store(false, Ordering::Release);
    }
}

/// A lock for an executor on which nothing else can run: it waits for nobody, and panics if it would have to.
///
/// It is not `Sync`, so an allocator built on it stays on its thread.
#[derive(Debug, Default)]
pub struct SoloLock(core::cell::Cell<bool>);

// SAFETY: not `Sync`, so all callers are on one thread, and the flag keeps a second one out.
unsafe impl RawLock for SoloLock {
    fn new() -> SoloLock {
        SoloLock(core::cell::Cell::new(false))
    }

    #[inline]
    fn lock(&self, rank: Rank) {
        assert!(self.try_lock(rank), "a lock of rank {rank:?} was taken twice on one thread");
    }

    #[inline]
    fn try_lock(&self, _rank: Rank) -> bool {
        !self.0.replace(true)
    }

    #[inline]
    unsafe fn unlock(&self, _rank: Rank) {
        self.0.set(false);
    }
}
