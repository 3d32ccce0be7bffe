//! Pages of the heap that belong to slabs, and the number of their objects in use.

use std::collections::HashMap;
use std::ops::Range;

use freehold::policy::Policy;
use freehold::slab::slab::Slab;
use freehold::slab::{Cache, CacheId, own_caches};
use freehold_malloc::heap::{Heap, HeapConfig, HeapError as HeapConfigError};
use freehold_malloc::process::outline::Outline;
use freehold_malloc::runs::PAGE;

use crate::target::{HeapError, Target};

/// Number of objects in per-CPU caches, by the first page of their slab.
pub(crate) type CachedCounts = HashMap<u32, u16>;

/// Pages of a block of 2 MiB.
pub(crate) const BLOCK: u32 = 512;
/// Bytes of the page map that are copied at a time.
const CHUNK: usize = 1 << 20;

/// The caches of a heap, taken from a heap in this process. The same version of Freehold creates the same caches.
#[derive(Debug)]
pub struct Caches {
    by_number: Vec<Option<Cache>>,
    sheaves: Vec<CacheId>,
    fingerprint: u64,
}

impl Caches {
    /// Returns the caches of this version.
    ///
    /// # Errors
    /// If this process has no address range for the heap that creates them.
    pub fn for_this_version() -> Result<Caches, CachesError> {
        let policy = Policy::default();
        let config = HeapConfig { bytes: 1 << 27, caches: own_caches(&policy), policy, ..HeapConfig::default() };
        let heap = Heap::with_locks(&config).map_err(CachesError)?;
        let fingerprint = heap.slab().fingerprint();
        let mut caches = Caches { by_number: vec![None; 256], sheaves: Vec::new(), fingerprint };
        heap.each_size(|cache, _| {
            caches.by_number[usize::from(cache.id.get())] = Some(*cache);
            if heap.slab().is_sheaf_cache(cache.id) {
                caches.sheaves.push(cache.id);
            }
        });
        Ok(caches)
    }

    /// Returns the fingerprint of these caches. A process with the same caches has the same one in its outline.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the cache with a number.
    pub fn get(&self, number: u8) -> Option<&Cache> {
        self.by_number[usize::from(number)].as_ref()
    }

    /// Returns all caches by number.
    pub fn iter(&self) -> impl Iterator<Item = &Cache> {
        self.by_number.iter().flatten()
    }

    /// Returns the least and the most bytes of the requests that a cache serves; `None` for a cache of sheaves. A
    /// request for a large alignment may be smaller.
    pub fn request_bytes(&self, cache: &Cache) -> Option<[u32; 2]> {
        if self.is_sheaf_cache(cache.id) {
            return None;
        }
        let sizes = self.iter().filter(|other| !self.is_sheaf_cache(other.id)).map(Cache::object_size);
        let below = sizes.filter(|&size| size < cache.object_size()).max().unwrap_or(0);
        Some([below + 1, cache.object_size()])
    }

    /// Returns whether the objects of a cache contain sheaves.
    pub fn is_sheaf_cache(&self, id: CacheId) -> bool {
        self.sheaves.contains(&id)
    }
}

/// Error: no heap could be created in this process, from which the caches are taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a heap for comparison: {0}")]
pub struct CachesError(HeapConfigError);

/// Kind of each page that has come online: the number of its cache, or 0. Pages in holes have kind 0 as well.
#[derive(Debug)]
pub(crate) struct Pages {
    memory: u64,
    kinds: Vec<u8>,
    /// Pages between those that have come online, where the program has other mappings.
    holes: Vec<Range<u32>>,
}

impl Pages {
    /// Copies the kinds of all pages that have come online.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn read(target: &Target, outline: &Outline) -> Result<Pages, HeapError> {
        let holes = target.holes(outline.online_holes)?;
        let online = target.end_page(target.word(outline.online)? / PAGE as u64, &holes)? as usize;
        let mut kinds = Vec::new();
        while kinds.len() < online {
            let from = kinds.len();
            // Memory is allocated only for data that can be read.
            kinds.resize(online.min(from + CHUNK), 0);
            target.bytes(target.place(outline.slab.kinds, from as u64, 1)?, &mut kinds[from..])?;
        }
        Ok(Pages { memory: outline.slab.memory, kinds, holes })
    }

    /// Returns the number of pages.
    pub(crate) fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// Returns the address of the first page in the process.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the kind of the page at an address, if there is one.
    pub(crate) fn kind_at(&self, address: u64) -> Option<u8> {
        self.kinds.get((address.wrapping_sub(self.memory) / PAGE as u64) as usize).copied()
    }

    /// Returns the first page of the slab that contains an object.
    pub(crate) fn slab_of(&self, object: u64, caches: &Caches) -> Option<u32> {
        let cache = caches.get(self.kind_at(object)?)?;
        let page = (object.wrapping_sub(self.memory) / PAGE as u64) as u32;
        Some(page & !(cache.layout.order.pages() - 1))
    }

    /// Returns the slabs in a range of pages that begins with a block: their first pages and their caches.
    pub(crate) fn slabs<'p>(&'p self, range: Range<u32>, caches: &'p Caches) -> impl Iterator<Item = (u32, &'p Cache)> {
        let mut page = range.start;
        std::iter::from_fn(move || {
            while page < range.end {
                let at = page;
                let cache = caches.get(self.kinds[at as usize]);
                page = page.saturating_add(cache.map_or(1, |cache| cache.layout.order.pages()));
                if let Some(cache) = cache {
                    return Some((at, cache));
                }
            }
            None
        })
    }
}

/// Slabs of one cache in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number of the cache.
    pub cache: u8,
    /// Number of slabs.
    pub slabs: u32,
    /// Pages of the slabs that are in memory.
    pub pages_in_memory: u32,
    /// Objects in use by the program.
    pub objects: u32,
    /// Objects cached by CPUs and barns.
    pub cached: u32,
}

/// A block of 2 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// Address of the first byte in the process.
    pub address: u64,
    /// Pages that have come online.
    pub pages: u32,
    /// Pages that belong to slabs.
    pub slab_pages: u32,
    /// Pages of these that are in memory. The other ones were never written to, or are swapped out.
    pub slab_pages_in_memory: u32,
    /// Pages that are in memory and belong to no slab.
    pub free_pages_in_memory: u32,
    /// Slabs in the block, by cache.
    pub parts: Vec<Part>,
}

/// Reads all blocks, one after the other.
///
/// # Errors
/// If the process's memory cannot be read.
pub(crate) fn blocks(
    target: &mut Target,
    outline: &Outline,
    pages: &Pages,
    caches: &Caches,
    cached: &CachedCounts,
) -> Result<Vec<Block>, HeapError> {
    let firsts = (0..pages.len()).step_by(BLOCK as usize);
    // The bounds of holes are multiples of a block.
    let firsts = firsts.filter(|first| !pages.holes.iter().any(|hole| hole.contains(first)));
    firsts
        .map(|first| {
            let range = first..first.saturating_add(BLOCK).min(pages.len());
            let words = slab_words(target, outline, pages, caches, &range)?;
            let address = target.place(pages.memory(), first.into(), PAGE)?;
            let mut block = Block { address, pages: range.end - range.start, ..Block::default() };
            let mut in_memory = target.in_memory(address, block.pages)?;
            for (page, cache) in pages.slabs(range, caches) {
                let within = (page - first) as usize;
                let active = Slab::from_words(words[within]).active(cache);
                let held = cached.get(&page).copied().unwrap_or(0);
                // A sheaf is not an object of the program.
                let cached_objects = if caches.is_sheaf_cache(cache.id) { active } else { held.min(active) };
                let part = block.add(cache.id.get(), active - cached_objects, cached_objects);
                let (mut pages, mut pages_in_memory) = (0, 0);
                for is in in_memory.iter_mut().skip(within).take(cache.layout.order.pages() as usize) {
                    pages += 1;
                    pages_in_memory += u32::from(std::mem::take(is));
                }
                part.pages_in_memory += pages_in_memory;
                block.slab_pages += pages;
                block.slab_pages_in_memory += pages_in_memory;
            }
            block.free_pages_in_memory = in_memory.iter().filter(|&&is| is).count() as u32;
            Ok(block)
        })
        .collect()
}

/// Reads the metadata of all pages in a range; returns zeros if none of them belongs to a slab.
fn slab_words(
    target: &Target,
    outline: &Outline,
    pages: &Pages,
    caches: &Caches,
    range: &Range<u32>,
) -> Result<Vec<[u64; 4]>, HeapError> {
    let mut words = vec![0; 4 * range.len()];
    if pages.slabs(range.clone(), caches).next().is_some() {
        target.words(target.place(outline.slab.slabs, range.start.into(), Slab::SIZE)?, &mut words)?;
    }
    Ok(words.as_chunks().0.to_vec())
}

impl Block {
    /// Adds a slab with `objects` objects in use and `cached` cached objects, and returns the slabs of its cache.
    fn add(&mut self, cache: u8, objects: u16, cached: u16) -> &mut Part {
        let at = self.parts.iter().position(|part| part.cache == cache).unwrap_or_else(|| {
            self.parts.push(Part { cache, ..Part::default() });
            self.parts.len() - 1
        });
        let part = &mut self.parts[at];
        part.slabs += 1;
        part.objects += u32::from(objects);
        part.cached += u32::from(cached);
        part
    }
}
