//! Creation and destruction of caches, lookup by number, and shrinking.

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

/// Cache of objects of one size. linux: struct kmem_cache
///
/// A cache that is dropped without [`destroy`](Self::destroy) exists for ever.
pub struct KmemCache<'k, 's, 'm, P: Platform, C> {
    pub(super) slab: &'k SlabAllocator<'s, 'm, P, C>,
    pub(super) id: CacheId,
}

/// Error of destroying a cache that still has objects in use. The cache stays usable.
#[derive(Debug)]
pub struct Leak<K> {
    /// The cache, unchanged.
    pub cache: K,
    /// Number of objects that are still in use.
    pub objects: u64,
    /// Number of objects that debugging found damaged and took out of use.
    pub taken_out: u64,
    /// Address of one of the objects in use, if one was found.
    pub example: Option<NonNull<u8>>,
}

impl<P: Platform, C: CpuLocal> fmt::Debug for KmemCache<'_, '_, '_, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KmemCache").field("name", &self.info().name.as_str()).finish()
    }
}

/// Prints one sentence, followed by each object if the cache records allocations. linux: mm/slub.c:list_slab_objects
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
    /// Creates a cache.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(&self, config: &CacheConfig<'_>) -> Result<KmemCache<'_, 's, 'm, P, C>, CreateError> {
        let id = self.ids().skip(1).find(|&id| self.entry(id).claim()).ok_or(CreateError::TooMany)?;
        self.make(id, &self.with_debug_flags(config), self.pages.policy())
    }

    /// Creates a cache with a given number, from which sheaves of other caches are allocated. The created cache has no
    /// sheaves itself, so its objects are allocated from slabs and freed to slabs one by one, and allocating a sheaf
    /// never needs another sheaf.
    ///
    /// # Errors
    /// If the number is not vacant, or as for [`create`](Self::create).
    pub(super) fn create_at(
        &self,
        id: CacheId,
        config: &CacheConfig<'_>,
    ) -> Result<KmemCache<'_, 's, 'm, P, C>, CreateError> {
        let mut policy = *self.pages.policy();
        policy.numbers.slab_sheaf = Some(0);
        // Slabs of one page are available even if memory is fragmented.
        (policy.numbers.slab_min_objects, policy.numbers.slab_max_order) = (Some(1), Some(0));
        if !self.entry(id).claim() {
            return Err(CreateError::TooMany);
        }
        self.make(id, config, &policy)
    }

    /// Creates the cache of a number that the caller has claimed.
    ///
    /// # Errors
    /// If no such cache is possible ([`Cache::new`]). The number is vacant again then.
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
        // SAFETY: the caller has claimed the number, which had no cache, so no handle and no object keeps a cache of
        // it.
        unsafe { self.entry(id).set(Some(cache)) };
        // SAFETY: the caller has claimed the number, so no other call sets this value. No page has this kind, so no
        // fast path holds a reference to the old value.
        unsafe { self.hots[id.index()].set(hot) };
        self.entry(id).open();
        Ok(KmemCache { slab: self, id })
    }

    /// Returns all numbers that caches can have, and number 0. The last number is never used.
    fn ids(&self) -> impl Iterator<Item = CacheId> + use<P, C> {
        (0..(self.caches.len() - 1) as u8).map(CacheId::new)
    }

    fn entry(&self, id: CacheId) -> &CacheEntry {
        &self.caches[id.index()]
    }

    /// Returns a cache by its number; `None` if no cache has the number. The caller has a handle or an object of the
    /// cache, so the cache is not destroyed meanwhile.
    #[inline(always)]
    pub(super) fn cache(&self, id: CacheId) -> Option<&Cache> {
        self.caches.get(id.index())?.get()
    }

    /// Returns a cache by its number for callers without a handle, with a reference that keeps the cache. Returns
    /// `None` if no cache has the number, or if the cache is being created or destroyed.
    pub(super) fn find_cache(&self, id: CacheId) -> Option<CacheRef<'_>> {
        match self.caches.get(id.index())?.find() {
            Lookup::Cache(cache) => Some(cache),
            Lookup::Vacant | Lookup::Closed => None,
        }
    }

    /// Returns the name of the cache with a number ([`ObjectFreeError::WrongCache`]). Returns `None` if there is no
    /// such cache, or if it is being created or destroyed.
    pub fn name_of(&self, cache: CacheId) -> Option<Name> {
        self.find_cache(cache).map(|cache| cache.name)
    }

    /// Returns all caches except those that are being created or destroyed, each with a reference that keeps it.
    pub(super) fn each_cache(&self) -> impl Iterator<Item = CacheRef<'_>> {
        self.ids().filter_map(|id| self.find_cache(id))
    }

    /// Gives back all unused memory of a cache, except for slabs and sheaves of CPUs that are out of reach
    /// ([`CpuLocal::is_out_of_reach`]) and checked slabs with damaged objects. For the cost see [`KmemCache::shrink`].
    pub(super) fn shrink_cache(&self, cache: &Cache) {
        self.flush_cache(cache);
        self.node_ids().for_each(|node| self.shrink_node(node, cache));
    }

    /// Takes all objects and slabs of a cache from CPUs and barns, and gives them to the nodes.
    pub(super) fn flush_cache(&self, cache: &Cache) {
        for cpu in self.pages.cpu_ids() {
            self.flush_cpu_slab(cpu, cache);
        }
        // All barns are emptied before the nodes' slabs are looked at, since they may have objects of other nodes'
        // slabs.
        if self.path(cache) == Path::Sheaves {
            self.node_ids().for_each(|node| self.barn_shrink(node, cache));
        }
    }

    /// Gives back the unused memory of all caches, each as [`KmemCache::shrink`] does. This is the function that a
    /// shrinker calls when memory is short, for example from [`Platform::reclaim`]. Caches that are being created or
    /// destroyed are skipped.
    pub fn shrink(&self) {
        for cache in self.each_cache() {
            self.shrink_cache(&cache);
        }
    }

    /// Takes all objects and slabs of every cache from a CPU, for CPUs that have been idle. Sheaves are flushed to
    /// their slabs; slabs go to the CPU's node or, if they are wholly free and the node has enough of them, to the page
    /// allocator. Costs up to two fences of the CPU per cache, and one more each time that a section changes a slot
    /// meanwhile. Does nothing if the CPU is out of reach ([`CpuLocal::is_out_of_reach`]).
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn drain_cpu(&self, cpu: CpuId) {
        self.pages.expect_cpu(cpu);
        for cache in self.each_cache() {
            self.flush_cpu_slab(cpu, &cache);
        }
    }

    /// Takes all objects and slabs from a CPU that does not run any more, as [`drain_cpu`](Self::drain_cpu) does. Slabs
    /// of that CPU into which objects are freed later go to the node too. No section may run on the CPU any more. Waits
    /// for caches that are being created or destroyed. The corresponding function for pages is
    /// [`PageAllocator::cpu_dead`](crate::page::PageAllocator::cpu_dead). linux: mm/slub.c:slub_cpu_dead
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

    /// Calls `ask` until it returns a value. Used to wait for walks over caches, and for caches that are being created
    /// or destroyed.
    fn wait_until<T>(&self, ask: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            core::hint::spin_loop();
            let _patience = self.pages.platform().relax();
        }
    }

    /// Returns the first word of a slot that has no objects.
    pub(super) fn no_list(&self, path: Path) -> u64 {
        match path {
            Path::Bitmap => self.map.word_of(self.map.nowhere()),
            Path::Sheaves => self.no_sheaf().raw(),
            // A fast path that was compiled for sheaves interprets the word of a checked cache's slot as a sheaf too.
            Path::Checked if self.has_sheaves() => self.no_sheaf().raw(),
            _ => EMPTY,
        }
    }

    /// Writes the first words of the slots of a number that no cache in use has, so that no slot has objects. Objects
    /// in them would be lost.
    pub(super) fn clear_slots(&self, id: CacheId, path: Path) {
        for cpu in self.pages.cpu_ids() {
            self.slot(cpu, id).main.store(self.no_list(path), Relaxed);
        }
    }

    /// Returns the number of objects of a cache that are in use or taken out of use, and one of them, if one was found.
    /// The caller has emptied the slots of all CPUs and the barns; an object that is still in one counts as in use.
    fn in_use(&self, cache: &Cache) -> (u64, Option<NonNull<u8>>) {
        let (mut objects, mut example) = (0, None);
        for pfn in self.map.slabs_of_cache(cache.id, cache.layout.order) {
            // An object that was freed twice may be on its slab's list twice.
            objects += u64::from(cache.layout.objects.saturating_sub(self.free_objects(cache, pfn)));
            example = example.or_else(|| self.one_in_use(cache, pfn));
        }
        (objects, example)
    }

    /// Returns an object of a slab that is not free in the slab, or `None` if all are.
    fn one_in_use(&self, cache: &Cache, pfn: crate::base::Pfn) -> Option<NonNull<u8>> {
        let mut objects = cache.layout.objects_of(self.map.slab_address(pfn));
        NonNull::new(objects.find(|&object| !self.is_free_in_slab(cache, pfn, object))?.as_ptr())
    }
}

impl<P: Platform, C: CpuLocal> KmemCache<'_, '_, '_, P, C> {
    /// Returns whether the cache has this number.
    pub(super) fn is_number(&self, id: CacheId) -> bool {
        self.id == id
    }

    /// Returns the properties of the cache. They are borrowed from the handle, since the next cache with this number
    /// overwrites them:
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
        self.slab.cache(self.id).expect("a handle keeps its cache alive")
    }

    /// Allocates an object. The object is zeroed if the flags demand it; otherwise its contents are those that the
    /// constructor or the last user left. Zone modifiers have no effect, since all memory of a cache is of one kind.
    ///
    /// # Errors
    /// If there is no free object, and no page for a slab.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        self.slab.slab_alloc::<AnyFastPath>(self.id, usize::MAX, gfp)
    }

    /// Frees an object.
    ///
    /// # Errors
    /// If no object of this cache starts at the address, if the object is found to be free already
    /// ([`ObjectFreeError::DoubleFree`] lists the cases), or if the cache is checked and the object is damaged.
    ///
    /// # Safety
    /// If the address is that of an object of this cache, the object is not free, and is not used any more. The cache
    /// is not destroyed before this call returns.
    #[inline]
    #[track_caller]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        let address = ObjectAddress::from_ptr(object.as_ptr());
        let kind = self.slab.map.kind_at::<P>(address.get()).unwrap_or(map::NONE);
        if kind == self.id {
            // SAFETY: the page belongs to this cache, and the caller promises the rest.
            return unsafe { self.slab.slab_free::<AnyFastPath>(self.id, address) };
        }
        Err(self.slab.refuse(self.info(), address))
    }

    /// Allocates an object for every element of `objects`, or none. linux: kmem_cache_alloc_bulk
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc). No object is allocated then, and `objects` has no valid addresses.
    #[track_caller]
    pub fn alloc_bulk(&self, gfp: Gfp, objects: &mut [NonNull<u8>]) -> Result<(), ObjectError> {
        self.slab.alloc_bulk(self.id, gfp, objects)
    }

    /// Frees many objects. Objects that cannot be freed are left alone. linux: kmem_cache_free_bulk
    ///
    /// # Errors
    /// The first error that is detected. The other objects are freed nevertheless.
    ///
    /// # Safety
    /// As for [`free`](Self::free), for each object.
    #[track_caller]
    pub unsafe fn free_bulk(&self, objects: &[NonNull<u8>]) -> Result<(), ObjectFreeError> {
        if self.slab.path(self.info()) == Path::Sheaves {
            // SAFETY: the caller promises for each object what `free` demands, which is all that `free_bulk_to_pcs`
            // demands.
            return unsafe { self.free_bulk_to_pcs(objects) };
        }
        let mut result = Ok(());
        for &object in objects {
            // SAFETY: the caller promises for each object what `free` demands.
            result = result.and(unsafe { self.free(object) });
        }
        result
    }

    /// Gives back all slabs without objects in use, of all CPUs and nodes, and flushes all sheaves. Slabs and sheaves
    /// of CPUs that do not answer a fence, and checked slabs with damaged objects, stay. Costs a fence for each CPU
    /// that has a main sheaf of the cache or, if CPUs own slabs, one or two fences for each CPU; one more each time
    /// that a section changes a slot meanwhile. linux: kmem_cache_shrink
    pub fn shrink(&self) {
        self.slab.shrink_cache(self.info());
    }

    /// Checks every object, if the cache is checked, and reports damaged objects. Returns the number of damaged
    /// objects. Those in use are repaired, so that each is reported once; damaged free objects are not used again.
    /// linux: mm/slub.c:validate_slab_cache
    pub fn validate(&self) -> u64 {
        self.slab.validate_cache(self.info())
    }

    /// Calls `visit` for every object in use, if the cache is checked. Other CPUs may allocate and free meanwhile;
    /// objects that they allocate or free may be visited or not. `visit` is called with no lock held, and may allocate
    /// and free.
    pub fn each_in_use(&self, visit: impl FnMut(&InUse)) {
        self.slab.each_in_use(self.info(), visit);
    }

    /// Returns the number of slabs that the cache has now, with or without objects in use.
    pub fn slabs(&self) -> u64 {
        self.slab.counts[self.id.index()].load(Relaxed)
    }

    /// Destroys the cache. Waits for walks over it that are under way, such as [`SlabAllocator::shrink`]. So it must
    /// not be called from within a walk, for example from [`Platform::slab_error`]. linux: kmem_cache_destroy
    ///
    /// # Errors
    /// If objects are still in use, or were found damaged and permanently taken out of use. The cache stays.
    pub fn destroy(self) -> Result<(), Leak<Self>> {
        let entry = self.slab.entry(self.id);
        self.slab.wait_until(|| entry.close().then_some(()));
        // The platform may panic when pages are given back. The cache then stays, and is open to walks again.
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
        // SAFETY: the entry was closed above and this is the only handle, so no walk and no handle keeps the cache.
        // There is no object of it, and the call that freed the last one has returned, as `free` demands.
        unsafe { entry.set(None) };
        // SAFETY: for the same reasons no other call sets this value. No page has this kind any more, so no fast path
        // holds a reference to the old value.
        unsafe { self.slab.hots[self.id.index()].set(Hot::absent()) };
        entry.vacate();
        Ok(())
    }
}

/// Cache that is being destroyed. Dropping the value opens the cache again.
struct ReopenOnDrop<'a>(&'a CacheEntry);

impl Drop for ReopenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}
