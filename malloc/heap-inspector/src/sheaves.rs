//! Objects in the caches of CPUs and barns. Their slabs count them as in use, although the program does not use them.
//!
//! Each sheaf is in an object of one of the caches that sheaves are allocated from, and records the number of its
//! objects. A CPU's main sheaf is an exception: its slot records the number. So barns and spare sheaves need not be
//! found.

use std::collections::HashMap;

use freehold::slab::CacheId;
use freehold::slab::cpu::sheaf::{Sheaf, Top};
use freehold::slab::cpu::{CACHES_MAX, STRIDE};
use freehold_malloc::process::outline::Outline;
use freehold_malloc::runs::PAGE;

use crate::slabs::{CachedCounts, Caches, Pages};
use crate::target::{HeapError, Target};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Words of a CPU that are read: the first words of its slots.
const SLOTS: usize = CACHES_MAX;

/// Counts the cached objects of each slab.
///
/// # Errors
/// If the process's memory cannot be read.
pub(crate) fn count_cached(
    target: &Target,
    outline: &Outline,
    pages: &Pages,
    caches: &Caches,
) -> Result<CachedCounts, HeapError> {
    let mains = mains(target, outline, pages, caches)?;
    let mut count = CachedCounts::new();
    for (page, cache) in pages.slabs(0..pages.len(), caches).filter(|(_, cache)| caches.is_sheaf_cache(cache.id)) {
        let bytes = (cache.layout.order.pages() as usize) * PAGE;
        let mut words = vec![0; bytes / WORD];
        let start = target.place(pages.memory(), page.into(), PAGE)?;
        target.words(start, &mut words)?;
        let size = cache.layout.size as usize;
        for (at, sheaf) in words.chunks_exact(size / WORD).take(cache.layout.objects.into()).enumerate() {
            let main = mains.get(&(start + (at * size) as u64)).copied();
            for slab in objects(sheaf, main).iter().filter_map(|&object| pages.slab_of(object, caches)) {
                let seen: &mut u16 = count.entry(slab).or_default();
                *seen = seen.saturating_add(1);
            }
        }
    }
    Ok(count)
}

/// State of a CPU's main sheaf, as recorded in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Main {
    len: u64,
    capacity: u64,
}

/// Returns the objects of a sheaf. `main` is the state in a slot, if the sheaf is a main sheaf. Returns nothing for
/// memory that is not a sheaf, such as a free object.
fn objects(words: &[u64], main: Option<Main>) -> &[u64] {
    let [written_len, capacity, ..] = *words else { return &[] };
    let objects = &words[Sheaf::OBJECTS_OFFSET / WORD..];
    let len = main.filter(|main| main.capacity == capacity).map_or(written_len, |main| main.len);
    let is_one = len <= capacity && capacity < objects.len() as u64 && objects[capacity as usize] == Sheaf::CEILING;
    if is_one { &objects[..len as usize] } else { &[] }
}

/// Returns all CPUs' main sheaves by address. The caches of sheaves have none, because CPUs keep their objects in
/// lists.
fn mains(target: &Target, outline: &Outline, pages: &Pages, caches: &Caches) -> Result<HashMap<u64, Main>, HeapError> {
    let mut found = HashMap::new();
    let mut words = [0; SLOTS];
    for cpu in 0..outline.cpus.min(u16::MAX.into()) {
        target.words(target.place(outline.slab.slots, cpu, STRIDE)?, &mut words)?;
        for cache in caches.iter().filter(|cache| cache.sheaf > 0 && !caches.is_sheaf_cache(cache.id)) {
            let (top, capacity) = (Top::from_raw(words[usize::from(cache.id.get())]), u64::from(cache.sheaf));
            let sheaf = top.sheaf(capacity);
            let is_sheaf = pages.kind_at(sheaf).is_some_and(|kind| caches.is_sheaf_cache(CacheId::new(kind)));
            if is_sheaf && top.raw() - sheaf >= Top::new(0, 0).raw() {
                found.insert(sheaf, Main { len: top.len(capacity), capacity });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheaf_length_is_taken_from_its_slot_if_known() {
        let sheaf = [2, 4, Sheaf::BOTTOM, 8, 16, 24, 0, Sheaf::CEILING];
        assert_eq!(objects(&sheaf, None), [8, 16]);
        assert_eq!(objects(&sheaf, Some(Main { len: 3, capacity: 4 })), [8, 16, 24]);
        assert_eq!(objects(&sheaf, Some(Main { len: 5, capacity: 4 })), [0; 0]);
        assert_eq!(
            objects(&sheaf, Some(Main { len: 3, capacity: 28 })),
            [8, 16],
            "a slot of another cache has its address"
        );
    }

    #[test]
    fn free_or_foreign_memory_has_no_sheaf_objects() {
        let link = 0x7f00_0000_1000;
        assert_eq!(objects(&[link, 4, 0, 8, 16, 24, 32, Sheaf::CEILING], None), [0; 0]);
        assert_eq!(objects(&[0; 8], None), [0; 0]);
        assert_eq!(objects(&[1, 2, 0, 8, 16, 24, 32, 40], None), [0; 0]);
        assert_eq!(objects(&[1, u64::MAX, 0, 8], None), [0; 0]);
        assert_eq!(objects(&[], None), [0; 0]);
    }
}
