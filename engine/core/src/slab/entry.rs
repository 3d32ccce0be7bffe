//! Entry of a cache number: the cache, and the number of walks that use it.
//!
//! A handle ([`KmemCache`](super::KmemCache)) or an object keeps the cache. Other calls find a cache by its number
//! while it may be destroyed: a walk over all caches, or a call that is given an address in some cache's page. Such a
//! call first takes a reference, and [`destroy`](super::KmemCache::destroy) waits until there are none.
//!
//! ```text
//! vacant  --claim-->  closed  --open-->  open, with n references  --close, once n is 0-->  closed  --vacate-->  vacant
//! ```
//!
//! No lock is held during a walk. Linux has a sleeping lock for this purpose (slab_mutex). A lock that masks interrupts
//! would be held while all pages are visited, including fences and reports. Without a lock, a platform may shrink
//! caches in [`reclaim`](crate::platform::Platform::reclaim) for any request: taking a reference never waits, and a
//! cache that is being created or destroyed is skipped.
//!
//! linux: mm/slab_common.c:slab_mutex

use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Cache;
use crate::base::atomic::AtomicU32;
use crate::base::published::Published;

/// Reference count of a number that no cache has.
const VACANT: u32 = u32::MAX;
/// Reference count of a number whose cache is being created or destroyed.
const CLOSED: u32 = u32::MAX - 1;

/// Entry of a cache number: a reference count and the cache.
#[derive(Debug)]
pub(super) struct CacheEntry {
    /// Number of references, or one of the two constants above.
    references: AtomicU32,
    cache: Published<Option<Cache>>,
}

/// Result of a lookup of a cache by its number.
#[derive(Debug)]
pub(super) enum Lookup<'a> {
    /// No cache has the number.
    Vacant,
    /// The cache is being created or destroyed.
    Closed,
    /// The cache, with a reference to it.
    Cache(CacheRef<'a>),
}

/// Reference to a cache, which keeps the cache from being destroyed.
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
    /// Creates the entry of a number that no cache has.
    #[inline(never)]
    pub(super) fn vacant() -> CacheEntry {
        CacheEntry { references: AtomicU32::new(VACANT), cache: Published::new(None) }
    }

    /// Returns the cache, or `None` if no cache has the number. The caller has a handle or an object of the cache, so
    /// the cache is not destroyed meanwhile.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&Cache> {
        self.cache.get().as_ref()
    }

    /// Takes a reference to the cache, for callers without a handle or an object.
    pub(super) fn find(&self) -> Lookup<'_> {
        match self.references.fetch_update(Acquire, Relaxed, with_another_reference) {
            Ok(_) => {}
            Err(VACANT) => return Lookup::Vacant,
            Err(_closed) => return Lookup::Closed,
        }
        let cache = self.cache.get().as_ref().expect("an open entry has a cache");
        Lookup::Cache(CacheRef { references: &self.references, cache })
    }

    /// Claims a vacant number for a cache that is to be created; returns `false` if it is not vacant.
    pub(super) fn claim(&self) -> bool {
        self.references.compare_exchange(VACANT, CLOSED, Acquire, Relaxed).is_ok()
    }

    /// Closes an open entry; returns `false` if the entry has references or is not open.
    pub(super) fn close(&self) -> bool {
        self.references.compare_exchange(0, CLOSED, Acquire, Relaxed).is_ok()
    }

    /// Stores a cache in an entry that the caller has closed, or removes it.
    ///
    /// # Safety
    /// The caller has closed the entry, and no handle or object keeps the cache in it.
    pub(super) unsafe fn set(&self, cache: Option<Cache>) {
        // SAFETY: a walk that finds the entry closed does not read the cache. All other readers have a handle or an
        // object, of which there are none except the caller's, as the caller promises.
        unsafe { self.cache.set(cache) };
    }

    /// Opens an entry that the caller has closed, so that others can take references.
    pub(super) fn open(&self) {
        self.references.store(0, Release);
    }

    /// Makes the number of a closed entry without a cache vacant.
    pub(super) fn vacate(&self) {
        self.references.store(VACANT, Release);
    }
}

/// Returns the count with one more reference, or `None` if the number is not open.
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
    fn cache_in_use_by_a_lookup_does_not_close() {
        let entry = CacheEntry::vacant();
        assert!(matches!(entry.find(), Lookup::Vacant) && !entry.close());
        assert!(entry.claim() && !entry.claim());
        assert!(matches!(entry.find(), Lookup::Closed), "an entry is visible before its cache is complete");
        let params =
            CacheParams { id: CacheId::new(1), policy: &Policy::FREEHOLD, cpus: 1, page_size: 4096, secret: 0 };
        let cache = Cache::new(&CacheConfig::new("entry", 8), &params).unwrap();
        // SAFETY: the test has claimed the entry, which closes it, and the entry had no cache.
        unsafe { entry.set(Some(cache)) };
        entry.open();
        let [one, other] = [(); 2].map(|()| entry.find());
        assert!(matches!(&one, Lookup::Cache(cache) if cache.name.as_str() == "entry") && !entry.close());
        drop(one);
        assert!(!entry.close(), "another reference exists");
        drop(other);
        assert!(entry.close() && matches!(entry.find(), Lookup::Closed));
    }
}
