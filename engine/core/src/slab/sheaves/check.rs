//! Consistency check of sheaves: they contain free objects only, each object once, and no sheaf is lost. The check runs
//! while no other code uses the allocator.

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::id::CacheId;
use super::super::word::OBJECTS_MAX;
use super::super::{SlabAllocator, SlabViolation};
use crate::base::Pfn;
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Counts the objects of a slab that are in sheaves, and checks that each is there once and is not free in the slab
    /// too.
    pub(in crate::slab) fn check_in_sheaves(&self, cache: &Cache, pfn: Pfn) -> Result<u16, SlabViolation> {
        let base = self.map.slab_address(pfn);
        let mut seen = [0_u64; OBJECTS_MAX as usize / 64 + 1];
        let (mut count, mut is_sound) = (0, true);
        self.each_in_sheaves(cache, |object| {
            if object.slab(cache.layout.mask) != base {
                return;
            }
            let index = (object.get() - base.get()) / u64::from(cache.layout.size);
            let (word, bit) = (&mut seen[index as usize / 64], 1 << (index % 64));
            is_sound &= *word & bit == 0 && !self.is_free_in_slab(cache, pfn, object);
            *word |= bit;
            count += 1;
        });
        if is_sound { Ok(count) } else { Err(SlabViolation::Shared { slab: pfn }) }
    }

    /// Counts the sheaves of a cache, and checks that each contains only objects of the cache.
    pub(in crate::slab) fn check_sheaves(&self, cache: &Cache) -> Result<u64, SlabViolation> {
        let (mut found, mut is_sound) = (0, true);
        self.each_sheaf(cache, |sheaf| {
            found += 1;
            is_sound &= sheaf.len() <= sheaf.capacity();
            is_sound &= sheaf.objects().iter().all(|&object| self.is_object_of(cache, object));
        });
        if is_sound { Ok(found) } else { Err(SlabViolation::Sheaf { cache: cache.id }) }
    }

    /// Returns whether a number is that of a cache which sheaves are allocated from.
    pub fn is_sheaf_cache(&self, id: CacheId) -> bool {
        self.has_sheaves() && id >= self.first_of_sheaves()
    }

    fn is_object_of(&self, cache: &Cache, object: ObjectAddress) -> bool {
        self.map.kind_at::<P>(object.get()) == Some(cache.id) && cache.layout.is_object(object)
    }

    fn each_in_sheaves(&self, cache: &Cache, mut look: impl FnMut(ObjectAddress)) {
        self.each_sheaf(cache, |sheaf| sheaf.objects().iter().for_each(|&object| look(object)));
    }
}
