//! The pages of the heap that are slabs, and how many of their objects are in use.

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

/// Pages of a block, 2 MiB.
pub(crate) const BLOCK: u32 = 512;
/// Bytes of the map of pages that are copied at a time.
const CHUNK: usize = 1 << 20;

/// The caches of a heap, as those of this process are: the same version makes the same.
#[derive(Debug)]
pub struct Caches {
    by_number: Vec<Option<Cache>>,
    sheaves: Vec<CacheId>,
    fingerprint: u64,
}

impl Caches {
    /// Those of this version.
    ///
    /// # Errors
    /// If this process has no address range for a heap, which makes them.
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

    /// What a process says whose caches are the same.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The cache of a number.
    pub fn get(&self, number: u8) -> Option<&Cache> {
        self.by_number[usize::from(number)].as_ref()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Cache> {
        self.by_number.iter().flatten()
    }

    /// Whether sheaves lie in its objects.
    pub fn is_sheaf_cache(&self, id: CacheId) -> bool {
        self.sheaves.contains(&id)
    }
}

/// There is no heap here to learn from what another's is like.
#[derive(Debug, thiserror::Error)]
#[error("no heap can be made to compare with: {0}")]
pub struct CachesError(HeapConfigError);

/// What each page that came online is used for: the number of its cache, 0 for none.
#[derive(Debug)]
pub(crate) struct Pages {
    memory: u64,
    kinds: Vec<u8>,
}

impl Pages {
    /// Copies what is known of all pages that came online.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(target: &Target, outline: &Outline) -> Result<Pages, HeapError> {
        let online = target.pages(target.word(outline.online)? / PAGE as u64)? as usize;
        let mut kinds = Vec::new();
        while kinds.len() < online {
            let from = kinds.len();
            // No room is made for what is not there to be read.
            kinds.resize(online.min(from + CHUNK), 0);
            target.bytes(target.place(outline.slab.kinds, from as u64, 1)?, &mut kinds[from..])?;
        }
        Ok(Pages { memory: outline.slab.memory, kinds })
    }

    /// Number of pages.
    pub(crate) fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// Where the first one lies in the process.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// What the page at an address is used for, if there is one.
    pub(crate) fn kind_at(&self, address: u64) -> Option<u8> {
        self.kinds.get((address.wrapping_sub(self.memory) / PAGE as u64) as usize).copied()
    }

    /// The first page of the slab that an object is in.
    pub(crate) fn slab_of(&self, object: u64, caches: &Caches) -> Option<u32> {
        let cache = caches.get(self.kind_at(object)?)?;
        let page = (object.wrapping_sub(self.memory) / PAGE as u64) as u32;
        Some(page & !(cache.layout.order.pages() - 1))
    }

    /// The slabs in a range of pages that begins with a block: their first pages, and their caches.
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

/// What slabs of one cache there are in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The cache's number.
    pub cache: u8,
    /// Slabs.
    pub slabs: u32,
    /// Objects that the program has.
    pub objects: u32,
    /// Objects that CPUs have at hand.
    pub cached: u32,
}

/// A block of 2 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// Where it begins in the process.
    pub address: u64,
    /// Pages of it that came online.
    pub pages: u32,
    /// Pages that are slabs.
    pub slab_pages: u32,
    /// Those of them that are in memory: the others, nobody has written to.
    pub slab_pages_in_memory: u32,
    /// Pages that are none, and are in memory.
    pub free_pages_in_memory: u32,
    /// What lies in it, by cache.
    pub parts: Vec<Part>,
}

/// Looks at one block after the other.
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
                // A sheaf is nobody's object.
                let cached_objects = if caches.is_sheaf_cache(cache.id) { active } else { held.min(active) };
                block.add(cache.id.get(), active - cached_objects, cached_objects);
                for is in in_memory.iter_mut().skip(within).take(cache.layout.order.pages() as usize) {
                    block.slab_pages += 1;
                    block.slab_pages_in_memory += u32::from(std::mem::take(is));
                }
            }
            block.free_pages_in_memory = in_memory.iter().filter(|&&is| is).count() as u32;
            Ok(block)
        })
        .collect()
}

/// Metadata of all pages in a range; zeros where none of them is a slab's.
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
    /// Adds a slab with so many objects in use and at hand.
    fn add(&mut self, cache: u8, objects: u16, cached: u16) {
        let at = self.parts.iter().position(|part| part.cache == cache).unwrap_or_else(|| {
            self.parts.push(Part { cache, ..Part::default() });
            self.parts.len() - 1
        });
        let part = &mut self.parts[at];
        part.slabs += 1;
        part.objects += u32::from(objects);
        part.cached += u32::from(cached);
    }
}
