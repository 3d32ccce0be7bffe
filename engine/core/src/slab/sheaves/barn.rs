//! A node's barn: whole sheaves that its CPUs exchange, full ones for empty ones.
//!
//! It has room for so many of each kind; what is beyond that is flushed to its slabs, or its memory given back. Where
//! objects are large it takes fewer full ones, since each object in them may keep a slab.
//!
//! linux: mm/slub.c:node_barn

use super::sheaf::{OwnedSheaf, Want};
use crate::base::lock::{Rank, Ranked};
use crate::policy::slab::BARN_SHEAVES_MAX;

/// Sheaves of one cache that are no CPU's.
#[derive(Debug)]
pub(in crate::slab) struct Barn {
    /// With objects; few of them have room.
    full: Pile,
    empty: Pile,
}

impl Ranked for Barn {
    const RANK: Rank = Rank::SlabNode;
}

impl Barn {
    /// A barn without sheaves.
    pub(in crate::slab) const fn new() -> Barn {
        Barn { full: Pile::new(), empty: Pile::new() }
    }

    /// Sets how many sheaves with objects an empty barn keeps at most.
    pub(in crate::slab) fn set_full_max(&mut self, full: usize) {
        debug_assert!(self.iter().next().is_none() && full <= BARN_SHEAVES_MAX, "it is a new cache's");
        self.full.max = full;
    }

    /// Puts a sheaf into the barn; returns it if the barn has enough sheaves of its kind. linux:
    /// mm/slub.c:barn_put_full_sheaf, barn_put_empty_sheaf
    pub(super) fn put(&mut self, sheaf: OwnedSheaf) -> Result<(), OwnedSheaf> {
        self.pile(&sheaf).put(sheaf)
    }

    /// Takes a sheaf that meets a want, if there is one. linux: mm/slub.c:barn_get_empty_sheaf, barn_get_full_sheaf
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
    /// With that one, if there is no such sheaf, or enough of the other kind.
    pub(super) fn replace(&mut self, want: Want, unfit: Option<OwnedSheaf>) -> Result<OwnedSheaf, Option<OwnedSheaf>> {
        let is_surplus = unfit.as_ref().is_some_and(|sheaf| self.pile(sheaf).is_full());
        if is_surplus {
            return Err(unfit);
        }
        let Some(fresh) = self.get(want) else { return Err(unfit) };
        let put = unfit.map_or(Ok(()), |sheaf| self.put(sheaf));
        debug_assert!(put.is_ok(), "there was room for it");
        Ok(fresh)
    }

    fn pile(&mut self, sheaf: &OwnedSheaf) -> &mut Pile {
        if sheaf.is_empty() { &mut self.empty } else { &mut self.full }
    }

    /// Takes any sheaf, full or empty, if there is one.
    pub(super) fn get_any(&mut self) -> Option<OwnedSheaf> {
        self.full.take().or_else(|| self.empty.take())
    }

    /// Whether a sheaf with objects would be too many.
    pub(super) fn is_full(&self) -> bool {
        self.full.is_full()
    }

    /// Every sheaf of the barn, full ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OwnedSheaf> {
        self.full.iter().chain(self.empty.iter())
    }
}

/// Sheaves of a kind, the last one first.
#[derive(Debug)]
struct Pile {
    len: usize,
    /// Sheaves that it takes.
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
    fn a_barn_keeps_ten_of_each_kind_and_no_more() {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Memory {
            _words: [u64; 8],
        }
        let mut memory = [Memory { _words: [0; 8] }; 2 * BARN_SHEAVES_MAX + 2];
        let mut barn = Barn::new();
        let mut rejected = 0;
        for (at, memory) in memory.iter_mut().enumerate() {
            // SAFETY: aligned, with room for two addresses.
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
