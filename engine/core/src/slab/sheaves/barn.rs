//! Barn: whole sheaves of a node, which its CPUs exchange, full ones for empty ones.
//!
//! A barn has room for a fixed number of each kind. Further full sheaves are flushed to their slabs, and the memory of
//! further sheaves is freed. For large objects a barn keeps fewer full sheaves, since each object in them may keep a
//! slab.
//!
//! linux: mm/slub.c:node_barn

use super::sheaf::{OwnedSheaf, Want};
use crate::base::lock::{Rank, Ranked};
use crate::policy::slab::BARN_SHEAVES_MAX;

/// Sheaves of one cache that belong to no CPU.
#[derive(Debug)]
pub(in crate::slab) struct Barn {
    /// Sheaves with objects, most of which are full.
    full: Pile,
    empty: Pile,
}

impl Ranked for Barn {
    const RANK: Rank = Rank::SlabNode;
}

impl Barn {
    /// Creates a barn without sheaves.
    #[inline(never)]
    pub(in crate::slab) const fn new() -> Barn {
        Barn { full: Pile::new(), empty: Pile::new() }
    }

    /// Sets the maximum number of sheaves with objects of an empty barn.
    pub(in crate::slab) fn set_full_max(&mut self, full: usize) {
        debug_assert!(
            self.iter().next().is_none() && full <= BARN_SHEAVES_MAX,
            "the barn is not empty, or its maximum is too large"
        );
        self.full.max = full;
    }

    /// Puts a sheaf into the barn; returns it if the barn has enough sheaves of its kind. linux:
    /// mm/slub.c:barn_put_full_sheaf, barn_put_empty_sheaf
    pub(super) fn put(&mut self, sheaf: OwnedSheaf) -> Result<(), OwnedSheaf> {
        self.pile(&sheaf).put(sheaf)
    }

    /// Takes a sheaf that meets a want, if there is one. linux: mm/slub.c:barn_get_empty_sheaf,
    /// barn_get_full_or_empty_sheaf
    pub(super) fn get(&mut self, want: Want) -> Option<OwnedSheaf> {
        match want {
            Want::Objects => self.full.take(),
            Want::Room => self.empty.take(),
        }
    }

    /// Replaces a sheaf that does not meet a want by one that does. linux: mm/slub.c:barn_replace_empty_sheaf,
    /// barn_replace_full_sheaf
    ///
    /// # Errors
    /// If the barn has no such sheaf, or has no room for the other one. The error contains the sheaf that was passed.
    pub(super) fn replace(&mut self, want: Want, unfit: Option<OwnedSheaf>) -> Result<OwnedSheaf, Option<OwnedSheaf>> {
        let is_surplus = unfit.as_ref().is_some_and(|sheaf| self.pile(sheaf).is_full());
        if is_surplus {
            return Err(unfit);
        }
        let Some(fresh) = self.get(want) else { return Err(unfit) };
        let put = unfit.map_or(Ok(()), |sheaf| self.put(sheaf));
        debug_assert!(put.is_ok(), "the barn has no room for the returned sheaf");
        Ok(fresh)
    }

    fn pile(&mut self, sheaf: &OwnedSheaf) -> &mut Pile {
        if sheaf.is_empty() { &mut self.empty } else { &mut self.full }
    }

    /// Takes any sheaf, with or without objects, if there is one.
    pub(super) fn get_any(&mut self) -> Option<OwnedSheaf> {
        self.full.take().or_else(|| self.empty.take())
    }

    /// Returns whether the barn has no room for another sheaf with objects.
    pub(super) fn is_full(&self) -> bool {
        self.full.is_full()
    }

    /// Returns all sheaves of the barn, those with objects first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OwnedSheaf> {
        self.full.iter().chain(self.empty.iter())
    }
}

/// Stack of sheaves of one kind.
#[derive(Debug)]
struct Pile {
    len: usize,
    /// Maximum number of sheaves.
    max: usize,
    sheaves: [Option<OwnedSheaf>; BARN_SHEAVES_MAX],
}

impl Pile {
    const fn new() -> Pile {
        Pile { len: 0, max: BARN_SHEAVES_MAX, sheaves: [const { None }; BARN_SHEAVES_MAX] }
    }

    const fn is_full(&self) -> bool {
        self.len >= self.max
    }

    fn put(&mut self, sheaf: OwnedSheaf) -> Result<(), OwnedSheaf> {
        let Some(place) = self.sheaves[..self.max].get_mut(self.len) else { return Err(sheaf) };
        *place = Some(sheaf);
        self.len += 1;
        Ok(())
    }

    fn take(&mut self) -> Option<OwnedSheaf> {
        self.len = self.len.checked_sub(1)?;
        self.sheaves[self.len].take()
    }

    fn iter(&self) -> impl Iterator<Item = &OwnedSheaf> {
        self.sheaves.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheaf::UNWRITTEN;
    use super::*;
    use core::ptr::NonNull;

    #[test]
    fn barn_keeps_at_most_ten_full_and_ten_empty_sheaves() {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Memory {
            _words: [u64; 8],
        }
        let mut memory = [Memory { _words: [0; 8] }; 2 * BARN_SHEAVES_MAX + 2];
        let mut barn = Barn::new();
        let mut rejected = 0;
        for (at, memory) in memory.iter_mut().enumerate() {
            // SAFETY: the array is aligned to its 64 bytes, which have room for a head, two addresses and the ceiling.
            let mut sheaf = unsafe { OwnedSheaf::new(NonNull::from(memory).cast(), 2) };
            sheaf.put(&[UNWRITTEN][..at % 2]);
            rejected += usize::from(barn.put(sheaf).is_err());
        }
        assert_eq!((rejected, barn.iter().count(), barn.is_full()), (2, 2 * BARN_SHEAVES_MAX, true));
        for _ in 0..BARN_SHEAVES_MAX {
            assert!(barn.get(Want::Objects).is_some_and(|sheaf| sheaf.len() == 1));
        }
        assert!(barn.get(Want::Objects).is_none() && !barn.is_full());
        assert!(barn.get(Want::Room).is_some_and(|sheaf| sheaf.is_empty()));
        assert_eq!(core::iter::from_fn(|| barn.get_any()).count(), BARN_SHEAVES_MAX - 1);
    }
}
