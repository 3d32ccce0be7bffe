//! Locks with ranks. The platform supplies the lock, and the engine wraps the protected value in it.
//!
//! A thread may wait for a lock only if all locks that it holds have a lower rank. In the slab, a CPU's part of a cache
//! ([`Rank::SlabCpu`]) comes before a node's part ([`Rank::SlabNode`]), which is its list of slabs or its barn. In the
//! page allocator the order is: the online memory ([`Rank::Hotplug`]), a CMA area's bitmap ([`Rank::Cma`]), a CPU's
//! lists ([`Rank::Pcp`]), a zone's free lists ([`Rank::Zone`]). No slab lock is held while pages are allocated or
//! freed.
//!
//! The rank is a constant of the protected type and is passed to the platform's lock with each call. A checking
//! platform, such as that of the host in debug builds, can therefore reject a wrong order.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// Order in which locks nest, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// A CPU's part of one cache: its slabs or its sheaves.
    SlabCpu = 0,
    /// A node's part of one cache: its slabs and its barn.
    SlabNode = 1,
    /// The set of online memory, which hotplug changes.
    Hotplug = 2,
    /// The bitmap of a CMA area's allocated units.
    Cma = 3,
    /// A CPU's page lists of one zone.
    Pcp = 4,
    /// A zone's free lists, counters and pageblock types.
    Zone = 5,
    /// A section of a CPU, on platforms that implement sections by a lock: no lock is taken after it.
    Section = 6,
}

/// A mutual-exclusion primitive of the platform.
///
/// In a kernel, `lock` and `try_lock` also mask every interrupt whose handler could allocate. `unlock` restores the
/// interrupt state that was saved with the first of the locks that this CPU holds. A CPU that waits for a lock must
/// answer calls of other CPUs in its spin loop, since the caller may hold the lock: two CPUs that wait with interrupts
/// off and do not answer would deadlock. `freehold::kernel::SpinLock` implements all of this.
///
/// # Safety
/// Between a `lock`, or a `try_lock` that returned true, and the next `unlock`, no other caller gets the lock. All
/// writes of the holder before `unlock` are visible to the next holder.
pub unsafe trait RawLock {
    /// Creates an unlocked lock.
    fn new() -> Self;
    /// Waits for the lock and takes it.
    fn lock(&self, rank: Rank);
    /// Takes the lock if it is free, without waiting; returns whether it was taken.
    fn try_lock(&self, rank: Rank) -> bool;
    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self, rank: Rank);
}

/// A type that a lock protects, with the rank of that lock.
pub trait Ranked {
    /// Rank of the lock around this type.
    const RANK: Rank;
}

/// A value and the lock that protects it.
#[derive(Debug)]
#[repr(C)]
pub struct Locked<L, T> {
    raw: L,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through a guard, and `RawLock` promises that at most one guard exists at a time.
unsafe impl<L: Sync, T: Send> Sync for Locked<L, T> {}

impl<L: RawLock, T: Ranked> Locked<L, T> {
    /// Wraps a value in a new, unlocked lock.
    pub fn new(value: T) -> Locked<L, T> {
        Locked { raw: L::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock; dropping the guard releases it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, L, T> {
        self.raw.lock(T::RANK);
        Guard { locked: self, here: PhantomData }
    }

    /// Takes the lock if that is possible without waiting; returns `None` otherwise.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, L, T>> {
        self.raw.try_lock(T::RANK).then(|| Guard { locked: self, here: PhantomData })
    }

    /// Returns the value without locking, because the exclusive borrow excludes all other access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Proof that the lock is held. It gives access to the value and releases the lock when dropped. It stays on the thread
/// that took the lock: no other thread is allowed to release it, and the value need not be `Sync`.
#[derive(Debug)]
pub struct Guard<'a, L: RawLock, T: Ranked> {
    locked: &'a Locked<L, T>,
    here: PhantomData<*mut ()>,
}

impl<L: RawLock, T: Ranked> Deref for Guard<'_, L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so the lock is held, and no other guard gives out a reference to the value.
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
        // SAFETY: the guard was created by a successful `lock` or `try_lock` and is not used again, so the caller holds
        // the lock.
        unsafe { self.locked.raw.unlock(T::RANK) }
    }
}

/// A test-and-set spin lock for threads: the default for platforms without a better lock.
#[derive(Debug, Default)]
pub struct SpinLock(AtomicBool);

// SAFETY: the swap with Acquire admits one caller until the store with Release.
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

/// A lock for a single-threaded executor. It never waits: `lock` panics if the lock is already held.
///
/// It is not `Sync`, so an allocator built on it stays on its thread.
#[derive(Debug, Default)]
pub struct SoloLock(core::cell::Cell<bool>);

// SAFETY: the type is not `Sync`, so all callers are on one thread, and the flag excludes a second caller.
unsafe impl RawLock for SoloLock {
    fn new() -> SoloLock {
        SoloLock(core::cell::Cell::new(false))
    }

    #[inline]
    fn lock(&self, rank: Rank) {
        assert!(self.try_lock(rank), "a lock of rank {rank:?} was taken twice by one thread");
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
