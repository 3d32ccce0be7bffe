//! A number that a cache may have: the cache, and how many walks look at it.
//!
//! A handle ([`KmemCache`](super::KmemCache)), or an object, keeps the cache. Any other call, which comes upon it by
//! its number while others go on (a walk over all caches; an address handed in that is in some cache's page), first
//! takes a reference, and [`destroy`](super::KmemCache::destroy) waits for those.
//!
//! ```text
//! vacant  --claim-->  closed  --open-->  open, with n references  --close, once n is 0-->  closed  --vacate-->  vacant
//! ```
//!
//! There is no lock to hold over a walk. Linux has one that sleeps (slab_mutex); one that masks interrupts would be
//! held for as long as all pages take, through fences and reports. So a platform that is asked to
//! [`reclaim`](crate::platform::Platform::reclaim) may shrink caches, whatever request it does so for: to take a
//! reference waits for nobody, and what is being made or destroyed is passed over.
//!
//! linux: mm/slab_common.c:slab_mutex

use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Cache;
use crate::base::atomic::AtomicU32;
use crate::base::published::Published;

/// The count of a number that no cache has.
const VACANT: u32 = u32::MAX;
/// The cache is being made or destroyed.
const CLOSED: u32 = u32::MAX - 1;

/// A number that a cache may have: a count of references, and the cache.
#[derive(Debug)]
pub(super) struct CacheEntry {
    /// References, or one of the above.
    references: AtomicU32,
    cache: Published<Option<Cache>>,
}

/// Result of a lookup of a cache by its number.
#[derive(Debug)]
pub(super) enum Lookup<'a> {
    /// No cache has the number.
    Vacant,
    /// One that is being made or destroyed.
    Closed,
    /// A cache, with a reference to it.
    Cache(CacheRef<'a>),
}

/// A reference to a cache: while it is there, the cache is.
#[derive(Debug)]
pub(super) struct CacheRef<'a> {
    references: &'a AtomicU32,
    cache: &'a Cache,
}

impl Deref for CacheRef<'_> {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        self.cache
    }
}

impl Drop for CacheRef<'_> {
    fn drop(&mut self) {
        self.references.fetch_sub(1, Release);
    }
}

impl CacheEntry {
    /// A number that no cache has, ready to be claimed.
    pub(super) fn vacant() -> CacheEntry {
        CacheEntry { references: AtomicU32::new(VACANT), cache: Published::new(None) }
    }

    /// The cache. The caller has a handle of it or an object, so it is not destroyed meanwhile.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&Cache> {
        self.cache.get().as_ref()
    }

    /// The cache, for everybody else.
    pub(super) fn find(&self) -> Lookup<'_> {
        match self.references.fetch_update(Acquire, Relaxed, with_another_reference) {
            Ok(_) => {}
            Err(VACANT) => return Lookup::Vacant,
            Err(_closed) => return Lookup::Closed,
        }
        let cache = self.cache.get().as_ref().expect("what is open has a cache");
        Lookup::Cache(CacheRef { references: &self.references, cache })
    }

    /// Takes a vacant number for a cache that is to be made.
    pub(super) fn claim(&self) -> bool {
        self.references.compare_exchange(VACANT, CLOSED, Acquire, Relaxed).is_ok()
    }

    /// Closes an open one, if nobody has a reference.
    pub(super) fn close(&self) -> bool {
        self.references.compare_exchange(0, CLOSED, Acquire, Relaxed).is_ok()
    }

    /// Puts a cache into what the caller has closed, or takes it out.
    ///
    /// # Safety
    /// The caller has closed it, and nobody keeps the cache that is there by a handle or an object.
    pub(super) unsafe fn set(&self, cache: Option<Cache>) {
        // SAFETY: a reader that finds it closed does not look, and every other is the caller, or kept out by the
        // caller.
        unsafe { self.cache.set(cache) };
    }

    /// Lets everybody look at what the caller has closed.
    pub(super) fn open(&self) {
        self.references.store(0, Release);
    }

    /// Gives a number back that the caller has closed, and that has no cache.
    pub(super) fn vacate(&self) {
        self.references.store(VACANT, Release);
    }
}

/// Returns the count with one more reference, if the number is open.
fn with_another_reference(references: u32) -> Option<u32> {
    (references != VACANT && references != CLOSED).then(|| references + 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::CacheConfig;
    use super::super::cache::CacheParams;
    use super::super::id::CacheId;
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn a_cache_that_somebody_looks_at_does_not_close() {
        let entry = CacheEntry::vacant();
        assert!(matches!(entry.find(), Lookup::Vacant) && !entry.close());
        assert!(entry.claim() && !entry.claim());
        assert!(matches!(entry.find(), Lookup::Closed), "nobody looks at what is being made");
        let params =
            CacheParams { id: CacheId::new(1), policy: &Policy::FREEHOLD, cpus: 1, page_size: 4096, secret: 0 };
        let cache = Cache::new(&CacheConfig::new("entry", 8), &params).unwrap();
        // SAFETY: it was claimed, and had no cache.
        unsafe { entry.set(Some(cache)) };
        entry.open();
        let [one, other] = [(); 2].map(|()| entry.find());
        assert!(matches!(&one, Lookup::Cache(cache) if cache.name.as_str() == "entry") && !entry.close());
        drop(one);
        assert!(!entry.close(), "there is another one");
        drop(other);
        assert!(entry.close() && matches!(entry.find(), Lookup::Closed));
    }
}
