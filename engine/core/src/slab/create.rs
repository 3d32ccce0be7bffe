//! Caches come and go: made, found by their number, shrunk, destroyed.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::address::ObjectAddress;
use super::cache::{CacheParams, Name, Path};
use super::cpu::CpuLocal;
use super::debug::InUse;
use super::entry::{CacheEntry, CacheRef, Lookup};
use super::fast_path::AnyFastPath;
use super::hot::Hot;
use super::id::CacheId;
use super::mix::mix;
use super::word::EMPTY;
use super::{Cache, CacheConfig, CreateError, ObjectError, ObjectFreeError, SlabAllocator, map};
use crate::base::{CpuId, Gfp};
use crate::platform::Platform;
use crate::policy::Policy;

/// A cache of objects of one size. linux: struct kmem_cache
///
/// Dropped without [`destroy`](Self::destroy), it stays for ever.
pub struct KmemCache<'k, 's, 'm, P: Platform, C> {
    pub(super) slab: &'k SlabAllocator<'s, 'm, P, C>,
    pub(super) id: CacheId,
}

/// A cache was to be destroyed whose objects are not all back; it stays usable.
#[derive(Debug)]
pub struct Leak<K> {
    /// The cache, which stays as it was.
    pub cache: K,
    /// Objects that are still in use.
    pub objects: u64,
    /// Objects that debugging found damaged and took out of use.
    pub taken_out: u64,
    /// The address of one of these objects, if one was found.
    pub example: Option<NonNull<u8>>,
}

impl<P: Platform, C: CpuLocal> fmt::Debug for KmemCache<'_, '_, '_, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KmemCache").field("name", &self.info().name.as_str()).finish()
    }
}

/// One sentence; then each object, if the cache remembers who allocated it. linux: mm/slub.c:list_slab_objects
impl<P: Platform, C: CpuLocal> fmt::Display for Leak<KmemCache<'_, '_, '_, P, C>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects of the cache still in use: {}", self.objects)?;
        self.example.map_or(Ok(()), |object| write!(f, ", one of them at {object:p}"))?;
        if self.taken_out > 0 {
            write!(f, "; damaged and taken out of use, so that the cache stays: {}", self.taken_out)?;
        }
        let mut listed = Ok(());
        self.cache.each_in_use(|object| {
            if let Some(track) = object.allocated {
                let mut line =
                    || write!(f, "\nObject {:#x} @offset={}\nAllocated in {track}", object.address, object.offset);
                listed = listed.and_then(|()| line());
            }
        });
        listed
    }
}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Makes a cache.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(&self, config: &CacheConfig<'_>) -> Result<KmemCache<'_, 's, 'm, P, C>, CreateError> {
        let id = self.ids().skip(1).find(|&id| self.entry(id).claim()).ok_or(CreateError::TooMany)?;
        self.make(id, &self.with_debug_flags(config), self.pages.policy())
    }

    /// Makes a cache of a certain number, for the sheaves of all others: its own objects go to their slabs and come
    /// from there one by one, so that nothing calls itself.
    pub(super) fn create_at(
        &self,
        id: CacheId,
        config: &CacheConfig<'_>,
    ) -> Result<KmemCache<'_, 's, 'm, P, C>, CreateError> {
        let mut policy = *self.pages.policy();
        policy.numbers.slab_sheaf = Some(0);
        // They must be had where memory is in pieces, too.
        (policy.numbers.slab_min_objects, policy.numbers.slab_max_order) = (Some(1), Some(0));
        if !self.entry(id).claim() {
            return Err(CreateError::TooMany);
        }
        self.make(id, config, &policy)
    }

    /// Gives a number that the caller has claimed its cache; or gives it back, if there can be no such cache.
    fn make(
        &self,
        id: CacheId,
        config: &CacheConfig<'_>,
        policy: &Policy,
    ) -> Result<KmemCache<'_, 's, 'm, P, C>, CreateError> {
        let (cpus, page_size) = (self.pages.cpus(), self.pages.page_size());
        let secret = mix(self.seed.fetch_add(1, Relaxed));
        let made = Cache::new(config, &CacheParams { id, policy, cpus, page_size, secret });
        let cache = made.inspect_err(|_| self.entry(id).vacate())?;
        let links = self.pages.policy().slab.links;
        let hot = Hot::new(&cache, links, self.map.origin(), self.pages.nodes());
        self.clear_slots(id, self.path(&cache));
        self.barn_init(&cache);
        // SAFETY: the caller has claimed the number, which had no cache: there is no handle, and no object.
        unsafe { self.entry(id).set(Some(cache)) };
        // SAFETY: likewise, and no page is of that kind, so no fast path looks.
        unsafe { self.hots[id.index()].set(hot) };
        self.entry(id).open();
        Ok(KmemCache { slab: self, id })
    }

    /// Numbers that caches can have, from 0; the last one that there is is not used.
    fn ids(&self) -> impl Iterator<Item = CacheId> + use<P, C> {
        (0..(self.caches.len() - 1) as u8).map(CacheId::new)
    }

    fn entry(&self, id: CacheId) -> &CacheEntry {
        &self.caches[id.index()]
    }

    /// A cache by its number. The caller has a handle of it or an object, so it is not destroyed meanwhile.
    #[inline(always)]
    pub(super) fn cache(&self, id: CacheId) -> Option<&Cache> {
        self.caches.get(id.index())?.get()
    }

    /// A cache by its number, for callers without a handle: with a reference for as long as they look.
    pub(super) fn find_cache(&self, id: CacheId) -> Option<CacheRef<'_>> {
        match self.caches.get(id.index())?.find() {
            Lookup::Cache(cache) => Some(cache),
            Lookup::Vacant | Lookup::Closed => None,
        }
    }

    /// The name of the cache of a number ([`ObjectFreeError::WrongCache`]), if there is one.
    pub fn name_of(&self, cache: CacheId) -> Option<Name> {
        self.find_cache(cache).map(|cache| cache.name)
    }

    /// All caches, each kept while it is looked at.
    pub(super) fn each_cache(&self) -> impl Iterator<Item = CacheRef<'_>> {
        self.ids().filter_map(|id| self.find_cache(id))
    }

    /// Gives everything back that lies idle in a cache.
    pub(super) fn shrink_cache(&self, cache: &Cache) {
        for cpu in self.pages.cpu_ids() {
            self.flush_cpu_slab(cpu, cache);
        }
        // Barns first, all of them: they may have objects of other nodes' slabs.
        if self.path(cache) == Path::Sheaves {
            self.node_ids().for_each(|node| self.barn_shrink(node, cache));
        }
        self.node_ids().for_each(|node| self.shrink_node(node, cache));
    }

    /// Gives everything back that lies idle in any cache: what a shrinker calls when memory is short, be it from
    /// [`Platform::reclaim`]. Caches that are being made or destroyed are passed over.
    pub fn shrink(&self) {
        for cache in self.each_cache() {
            self.shrink_cache(&cache);
        }
    }

    /// Takes from a CPU what it has of every cache: it goes to its node. For CPUs that have been idle, and those that
    /// are too many. Waits for sections that run on it, once or twice a cache.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn drain_cpu(&self, cpu: CpuId) {
        self.pages.expect_cpu(cpu);
        for cache in self.each_cache() {
            self.flush_cpu_slab(cpu, &cache);
        }
    }

    /// Takes its objects and slabs from a CPU that does not run any more: they go to its node, and so does what is
    /// freed into them later. No section may run on it any more. Waits for caches that are being made or destroyed. The
    /// page allocator's part is [`PageAllocator::cpu_dead`](crate::page::PageAllocator::cpu_dead). linux:
    /// mm/slub.c:slub_cpu_dead
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_dead(&self, cpu: CpuId) {
        self.pages.expect_cpu(cpu);
        for id in self.ids() {
            self.cpu_partial(cpu, id).stack.close();
        }
        for id in self.ids() {
            let found =
                self.wait_until(|| Some(self.entry(id).find()).filter(|found| !matches!(found, Lookup::Closed)));
            if let Lookup::Cache(cache) = found {
                self.flush_cpu_slab(cpu, &cache);
            }
        }
    }

    /// Lets a CPU that runs again keep objects and slabs.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_online(&self, cpu: CpuId) {
        self.pages.expect_cpu(cpu);
        for id in self.ids() {
            self.cpu_partial(cpu, id).stack.open();
        }
    }

    /// Asks again until there is an answer; for what walks keep others from.
    fn wait_until<T>(&self, ask: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            core::hint::spin_loop();
            let _patience = self.pages.platform().relax();
        }
    }

    /// What a CPU's slot says that has no objects.
    pub(super) fn no_list(&self, path: Path) -> u64 {
        match path {
            Path::Bitmap => self.map.word_of(self.map.nowhere()),
            Path::Sheaves => self.no_sheaf().raw(),
            // A fast path that was built for sheaves takes for one what is there.
            Path::Checked if self.has_sheaves() => self.no_sheaf().raw(),
            _ => EMPTY,
        }
    }

    /// Leaves no objects with any CPU, while nobody uses the cache.
    pub(super) fn clear_slots(&self, id: CacheId, path: Path) {
        for cpu in self.pages.cpu_ids() {
            self.slot(cpu, id).main.store(self.no_list(path), Relaxed);
        }
    }

    /// Objects of a cache that are in use or taken out of use, and one of them, when nothing is with a CPU.
    fn in_use(&self, cache: &Cache) -> (u64, Option<NonNull<u8>>) {
        let (mut objects, mut example) = (0, None);
        for pfn in self.map.slabs_of_cache(cache.id, cache.layout.order) {
            // What was freed twice may be on its list twice.
            objects += u64::from(cache.layout.objects.saturating_sub(self.free_objects(cache, pfn)));
            example = example.or_else(|| self.one_in_use(cache, pfn));
        }
        (objects, example)
    }

    /// Some object of a slab that is on none of its lists.
    fn one_in_use(&self, cache: &Cache, pfn: crate::base::Pfn) -> Option<NonNull<u8>> {
        let mut objects = cache.layout.objects_of(self.map.slab_address(pfn));
        NonNull::new(objects.find(|&object| !self.is_free_in_slab(cache, pfn, object))?.as_ptr())
    }
}

impl<P: Platform, C: CpuLocal> KmemCache<'_, '_, '_, P, C> {
    /// Whether this is the cache of a number.
    pub(super) fn is_number(&self, id: CacheId) -> bool {
        self.id == id
    }

    /// What was decided about it. The handle lends it, since the number's next cache is written over it:
    ///
    /// ```compile_fail,E0505
    /// use freehold::slab::{CpuLocal, KmemCache};
    /// fn outlive<P: freehold::platform::Platform, C: CpuLocal>(cache: KmemCache<'_, '_, '_, P, C>) -> u32 {
    ///     let info = cache.info();
    ///     cache.destroy().expect("no object is in use");
    ///     info.layout.size
    /// }
    /// ```
    pub fn info(&self) -> &Cache {
        self.slab.cache(self.id).expect("a handle's cache is there")
    }

    /// An object. Zeroed if the flags say so, else as the constructor, or its last user, left it. Zone modifiers change
    /// nothing: a cache has memory of one kind.
    ///
    /// # Errors
    /// If there is no object, and no page for a slab.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        self.slab.slab_alloc::<AnyFastPath>(self.id, usize::MAX, gfp)
    }

    /// Gives an object back.
    ///
    /// # Errors
    /// If it is not where an object of this cache begins, or is noticed to be free ([`ObjectFreeError::DoubleFree`]
    /// says when).
    ///
    /// # Safety
    /// If it is an object of this cache, nobody uses it any more, and it is not free. The cache is not destroyed before
    /// this has returned.
    #[inline]
    #[track_caller]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        let address = ObjectAddress::from_ptr(object.as_ptr());
        let kind = self.slab.map.kind_at(address.get()).unwrap_or(map::NONE);
        if kind == self.id {
            // SAFETY: the page is this cache's; the rest is the caller's promise.
            return unsafe { self.slab.slab_free::<AnyFastPath>(self.id, address) };
        }
        Err(self.slab.refuse(self.info(), address))
    }

    /// Fills `objects`, or none of it. linux: kmem_cache_alloc_bulk
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); nothing is allocated then.
    #[track_caller]
    pub fn alloc_bulk(&self, gfp: Gfp, objects: &mut [NonNull<u8>]) -> Result<(), ObjectError> {
        self.slab.alloc_bulk(self.id, gfp, objects)
    }

    /// Gives many objects back; those that cannot be are left alone. linux: kmem_cache_free_bulk
    ///
    /// # Errors
    /// The first one that is noticed; the others were freed all the same.
    ///
    /// # Safety
    /// As for [`free`](Self::free), for each.
    #[track_caller]
    pub unsafe fn free_bulk(&self, objects: &[NonNull<u8>]) -> Result<(), ObjectFreeError> {
        if self.slab.path(self.info()) == Path::Sheaves {
            // SAFETY: the caller promises for each object what `free` demands, as `free_bulk_to_pcs` does.
            return unsafe { self.free_bulk_to_pcs(objects) };
        }
        let mut result = Ok(());
        for &object in objects {
            // SAFETY: the caller's promise, for each.
            result = result.and(unsafe { self.free(object) });
        }
        result
    }

    /// Gives back all slabs without objects in use, on all CPUs. Costs a fence for each CPU that has sheaves of the
    /// cache, or two for each one where CPUs own slabs. linux: kmem_cache_shrink
    pub fn shrink(&self) {
        self.slab.shrink_cache(self.info());
    }

    /// Looks at every object, if the cache is checked, and reports those that are damaged; says how many there were.
    /// What is in use is mended, so that it is reported once; what is free is not used again. linux:
    /// mm/slub.c:validate_slab_cache
    pub fn validate(&self) -> u64 {
        self.slab.validate_cache(self.info())
    }

    /// Shows every object in use, if the cache is checked. May be called while others allocate: what comes and goes
    /// meanwhile is shown or not. `visit` is called with no lock held, and may allocate and free.
    pub fn each_in_use(&self, visit: impl FnMut(&InUse)) {
        self.slab.each_in_use(self.info(), visit);
    }

    /// Slabs that the cache has now, with objects in use or without.
    pub fn slabs(&self) -> u64 {
        self.slab.counts[self.id.index()].load(Relaxed)
    }

    /// Ends the cache. Waits for walks over it that are under way: [`SlabAllocator::shrink`], for one. So it may not be
    /// called from within one, where [`Platform::slab_error`] is told what a walk has found. linux: kmem_cache_destroy
    ///
    /// # Errors
    /// If objects are still in use, or were found damaged and taken out of use, for good; the cache stays.
    pub fn destroy(self) -> Result<(), Leak<Self>> {
        let entry = self.slab.entry(self.id);
        self.slab.wait_until(|| entry.close().then_some(()));
        // A platform may panic when pages are given back: the cache stays then, for everybody who walks over caches.
        let closed = ReopenOnDrop(entry);
        self.shrink();
        if self.slabs() > 0 {
            drop(closed);
            let (all, example) = self.slab.in_use(self.info());
            let (mut objects, mut first) = (0, None);
            self.each_in_use(|object| {
                objects += 1;
                first = first.or(NonNull::new(object.address as *mut u8));
            });
            return Err(if self.slab.is_checked(self.info()) {
                Leak { cache: self, objects, taken_out: all - objects, example: first }
            } else {
                Leak { cache: self, objects: all, taken_out: 0, example }
            });
        }
        core::mem::forget(closed);
        self.slab.clear_slots(self.id, Path::Tagged);
        // SAFETY: closed above; this is the only handle, there is no object, and the free of the last one has come
        // back, as `free` demands.
        unsafe { entry.set(None) };
        // SAFETY: likewise, and no page is of this kind any more.
        unsafe { self.slab.hots[self.id.index()].set(Hot::absent()) };
        entry.vacate();
        Ok(())
    }
}

/// A cache that is being destroyed, and that stays unless all of it is done.
struct ReopenOnDrop<'a>(&'a CacheEntry);

impl Drop for ReopenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}
