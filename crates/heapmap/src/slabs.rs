//! The pages of the heap that are slabs, and how many of their objects are in use.

use std::ops::Range;

use freehold::policy::Policy;
use freehold::slab::slab::Slab;
use freehold::slab::{Cache, CacheId, own_caches};
use freehold_malloc::heap::{Heap, HeapConfig};
use freehold_malloc::process::outline::Outline;
use freehold_malloc::runs::PAGE;

use crate::sheaves::AtHand;
use crate::target::{HeapError, Target};

/// Pages of a block, 2 MiB.
pub const BLOCK: u32 = 512;
/// Bytes of the map of pages that are copied at a time.
const CHUNK: usize = 1 << 20;

/// The caches of a heap, as those of this process are: the same version makes the same.
#[derive(Debug)]
pub struct Caches {
    by_number: Vec<Option<Cache>>,
    sheaves: Vec<CacheId>,
}

impl Caches {
    /// # Errors
    /// If this process has no address range for a heap.
    pub fn of_this_version(target: &Target) -> Result<Caches, HeapError> {
        let policy = Policy::default();
        let config = HeapConfig { bytes: 1 << 27, caches: own_caches(&policy), policy, ..HeapConfig::default() };
        let heap = Heap::with_locks(&config);
        let heap = heap.map_err(|error| target.impossible(&error.to_string()))?;
        let mut caches = Caches { by_number: vec![None; 256], sheaves: Vec::new() };
        heap.each_size(|cache, _| {
            caches.by_number[usize::from(cache.id.get())] = Some(*cache);
            if heap.slab().is_of_sheaves(cache.id) {
                caches.sheaves.push(cache.id);
            }
        });
        Ok(caches)
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
    pub fn is_of_sheaves(&self, id: CacheId) -> bool {
        self.sheaves.contains(&id)
    }
}

/// What each page that came online is used for: the number of its cache, 0 for none.
#[derive(Debug)]
pub struct Pages {
    memory: u64,
    kinds: Vec<u8>,
}

impl Pages {
    /// Copies what is known of all pages that came online.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(target: &Target, outline: &Outline) -> Result<Pages, HeapError> {
        let online = target.word(outline.online)? / PAGE as u64;
        if online > u32::MAX.into() {
            return Err(target.impossible("it says that it has more pages than there are numbers"));
        }
        let mut kinds = Vec::new();
        while (kinds.len() as u64) < online {
            let from = kinds.len();
            // What is not there is not made room for.
            kinds.resize((online as usize).min(from + CHUNK), 0);
            target.bytes(outline.slab.kinds + from as u64, &mut kinds[from..])?;
        }
        Ok(Pages { memory: outline.slab.memory, kinds })
    }

    /// Number of pages.
    pub fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// Where a page lies in the process.
    pub fn address(&self, page: u32) -> u64 {
        self.memory.wrapping_add(u64::from(page) * PAGE as u64)
    }

    /// What the page at an address is used for, if there is one.
    pub fn kind_at(&self, address: u64) -> Option<u8> {
        self.kinds.get((address.wrapping_sub(self.memory) / PAGE as u64) as usize).copied()
    }

    /// The first page of the slab that an object is in.
    pub fn slab_of(&self, object: u64, caches: &Caches) -> Option<u32> {
        let cache = caches.get(self.kind_at(object)?)?;
        let page = (object.wrapping_sub(self.memory) / PAGE as u64) as u32;
        Some(page & !(cache.layout.order.pages() - 1))
    }

    /// The slabs in a range of pages that begins with a block: their first pages, and their caches.
    pub fn slabs<'p>(&'p self, range: Range<u32>, caches: &'p Caches) -> impl Iterator<Item = (u32, &'p Cache)> {
        let mut page = range.start;
        std::iter::from_fn(move || {
            while page < range.end {
                let at = page;
                let cache = caches.get(self.kinds[at as usize]);
                page += cache.map_or(1, |cache| cache.layout.order.pages());
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
pub struct Part {
    /// The cache's number.
    pub cache: u8,
    /// Slabs.
    pub slabs: u32,
    /// Objects that the program has.
    pub objects: u32,
    /// Objects that CPUs have at hand.
    pub at_hand: u32,
}

/// A block of 2 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its first page.
    pub first: u32,
    /// Pages of it that came online.
    pub pages: u32,
    /// Pages that are slabs.
    pub slab_pages: u32,
    /// Pages of slabs that have no memory, since nobody has written to them.
    pub untouched_pages: u32,
    /// Pages that are none, and have memory.
    pub free_pages: u32,
    /// What lies in it, by cache.
    pub parts: Vec<Part>,
}

/// Looks at one block after the other.
///
/// # Errors
/// If the process's memory cannot be read.
pub fn blocks(
    target: &mut Target,
    outline: &Outline,
    pages: &Pages,
    caches: &Caches,
    at_hand: &AtHand,
) -> Result<Vec<Block>, HeapError> {
    let firsts = (0..pages.len()).step_by(BLOCK as usize);
    firsts.map(|first| block(target, outline, pages, caches, at_hand, first)).collect()
}

fn block(
    target: &mut Target,
    outline: &Outline,
    pages: &Pages,
    caches: &Caches,
    at_hand: &AtHand,
    first: u32,
) -> Result<Block, HeapError> {
    let range = first..(first + BLOCK).min(pages.len());
    let mut block = Block { first, pages: range.end - range.start, ..Block::default() };
    let mut has_memory = target.has_memory(pages.address(first), block.pages)?;
    let words = slab_words(target, outline, pages, caches, &range)?;
    for (page, cache) in pages.slabs(range.clone(), caches) {
        let within = (page - first) as usize;
        let active = Slab::from_words(words[within]).active(cache);
        let hand = at_hand.get(&page).copied().unwrap_or(0).min(active);
        let part = block.part(cache.id.get());
        part.slabs += 1;
        part.objects += u32::from(active - hand);
        part.at_hand += u32::from(hand);
        for has in has_memory.iter_mut().skip(within).take(cache.layout.order.pages() as usize) {
            block.slab_pages += 1;
            block.untouched_pages += u32::from(!*has);
            *has = false;
        }
    }
    block.free_pages = has_memory.iter().filter(|&&has| has).count() as u32;
    Ok(block)
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
        let offset = u64::from(range.start) * Slab::SIZE as u64;
        target.words(outline.slab.slabs + offset, &mut words)?;
    }
    Ok(words.as_chunks().0.to_vec())
}

impl Block {
    fn part(&mut self, cache: u8) -> &mut Part {
        let at = self.parts.iter().position(|part| part.cache == cache).unwrap_or_else(|| {
            self.parts.push(Part { cache, ..Part::default() });
            self.parts.len() - 1
        });
        &mut self.parts[at]
    }
}
