//! Slabs whose free objects are bits of a word, for larger objects: a free object is never touched.
//!
//! A list costs the first line of each object it holds: one load when the object is taken, one store when it comes
//! back. Where objects are large these lines are all that a loop over them touches, and each is far away. A slab of at
//! most 63 objects can say in one word which of them are free, and that word is the slab's `local`: a CPU's slot just
//! names the slab. So the slab that a CPU allocates from and the others that it owns are freed into in the same way,
//! nothing moves between slot and slab, and a double free finds its bit set.
//!
//! What others free are bits of `remote`, whose highest bit says that the slab is queued. The protocol around the words
//! is that of lists (`refill`, `takeover`); here is what differs.

use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::address::ObjectAddress;
use super::cache::Cache;
use super::cpu::{CpuLocal, Exchange, Freed, Replaced};
use super::free::Remotely;
use super::id::CacheId;
use super::partial::{List, OfCpu};
use super::refill::{Place, Used};
use super::slab::{Owner, Queue, Slab};
use super::{ObjectFreeError, SlabAllocator};
use crate::base::fault::{Fault, ordered};
use crate::base::{CpuId, Pfn};
use crate::platform::Platform;

pub use super::layout::BITMAP_OBJECTS_MAX;

const QUEUED: u64 = 1 << 63;

impl Slab {
    /// Free objects. Means something to the holder of the slab, and to its owner.
    pub fn bits(&self) -> u64 {
        self.local.load(Acquire)
    }

    /// What was freed from elsewhere.
    pub fn remote_bits(&self) -> u64 {
        self.remote.load(Acquire) & !QUEUED
    }

    /// Makes a slab of it, with these objects free, queued by name.
    pub(super) fn init_bits(&self, bits: u64) {
        self.local.store(bits, Relaxed);
        self.begin_remote(QUEUED);
        self.owner.store(Owner::Nobody.raw(), Relaxed);
    }

    /// Frees objects from wherever one is: one atomic step. Says what the word became, and whether the caller must
    /// queue the slab now.
    pub(super) fn push_remote_bits(&self, bits: u64) -> (u64, Queue) {
        let before = self.remote.fetch_or(bits | QUEUED, ordered(Fault::PushUnreleased, AcqRel));
        let queue = if before & QUEUED != 0 { Queue::IsQueued } else { Queue::Push };
        ((before | bits) & !QUEUED, queue)
    }

    fn take_remote_bits(&self) -> u64 {
        self.remote.fetch_and(QUEUED, ordered(Fault::TakeUnacquired, AcqRel)) & !QUEUED
    }

    fn take_remote_bits_unqueued(&self) -> u64 {
        self.remote.swap(0, ordered(Fault::TakeUnacquired, AcqRel)) & !QUEUED
    }
}

/// A word with the bits of all objects of a slab, at most 63, set.
pub(super) const fn all_bits(objects: u16) -> u64 {
    u64::MAX >> (64 - objects)
}

/// The first bits that are set one after the other, `most` at most; nothing if none is set. Objects that were allocated
/// together are freed together: runs are long, and a run's addresses cost next to nothing.
fn first_run(bits: u64, most: usize) -> Option<Range<u32>> {
    let first = bits.trailing_zeros();
    let len = bits.checked_shr(first)?.trailing_ones();
    Some(first..first + len.min(most as u32))
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// What was freed into the slab that has just been used up, without letting go of it.
    pub(super) fn use_current_bits(&self, at: Place<'_>, pfn: Pfn, list: &mut List<OfCpu>) -> Used {
        let slab = self.map.slab(pfn);
        let remote = slab.take_remote_bits();
        match self.add_bits(at.cpu, slab, remote) {
            Ok(0) => Used::Exhausted,
            Ok(_) => Used::Again,
            Err(_moved) => {
                self.put_back_bits(at, pfn, remote, list);
                Used::Again
            }
        }
    }

    /// A slab of this CPU that was taken off its list.
    pub(super) fn use_own_bits(&self, at: Place<'_>, pfn: Pfn, list: &mut List<OfCpu>) -> Used {
        let slab = self.map.slab(pfn);
        // First it is not queued any more, then it is looked at: a free that comes between queues it again.
        let remote = slab.take_remote_bits_unqueued();
        match self.add_bits(at.cpu, slab, remote) {
            Ok(0) => Used::Exhausted,
            Ok(_) => {
                self.allocate_from(at, pfn, list);
                Used::Again
            }
            Err(_moved) => {
                self.put_back_bits(at, pfn, remote, list);
                Used::Again
            }
        }
    }

    /// Gives objects in hand back to a slab of this CPU, and queues it again, whatever CPU we are on.
    fn put_back_bits(&self, at: Place<'_>, pfn: Pfn, bits: u64, list: &mut List<OfCpu>) {
        if self.map.slab(pfn).push_remote_bits(bits).1 == Queue::Push {
            self.keep(at.cache.id, pfn, list);
        }
    }

    /// Makes a slab the one that this CPU allocates from, if the one there was is still used up.
    fn allocate_from(&self, at: Place<'_>, pfn: Pfn, list: &mut List<OfCpu>) {
        let Place { cpu, cache, seen, .. } = at;
        let slab = self.map.slab(pfn);
        let slot = self.slot(cpu, cache.id);
        let before = self.map.slab_by_word(seen);
        let exchange = Exchange::new(&slot.main, seen, self.map.word_of(slab)).with_witness(&before.local, 0);
        if self.local.replace_if(cpu, exchange) != Replaced::Done && slab.queue() == Queue::Push {
            list.push(self.map, pfn);
        }
    }

    /// Adds free objects to those of a slab of this CPU; says which there are then.
    ///
    /// # Errors
    /// If the caller does not run on that CPU any more.
    fn add_bits(&self, cpu: CpuId, slab: &Slab, bits: u64) -> Result<u64, Replaced> {
        loop {
            let local = slab.bits();
            match self.local.replace_if(cpu, Exchange::new(&slab.local, local, local | bits)) {
                Replaced::Done => return Ok(local | bits),
                Replaced::Changed => {}
                Replaced::Moved => return Err(Replaced::Moved),
            }
        }
    }

    /// The bit that stands for an object in its slab's word.
    pub(super) fn bit_of(&self, id: CacheId, object: ObjectAddress) -> u64 {
        1 << self.hot(id).index_of(object)
    }

    /// A slab's free objects before and after a free, and whether it is the first one, or the last.
    pub(super) fn with_bit(&self, cache: &Cache, freed: Freed<'_>) -> (u64, u64, bool, bool) {
        let before = freed.slab().bits();
        let after = before | self.bit_of(cache.id, freed.object());
        (before, after, before == 0, after == all_bits(cache.layout.objects))
    }

    /// A free from wherever one is: one atomic step.
    pub(super) fn free_remote_bits(&self, cache: &Cache, slab: &Slab, bits: u64) {
        let (after, queue) = slab.push_remote_bits(bits);
        let is_free = after | slab.bits() == all_bits(cache.layout.objects);
        self.freed_remotely(cache, slab, Remotely { queue, is_first: after == bits, is_free });
    }

    /// Takes free objects out of a slab that the caller holds and that nobody owns, as many as there are and there is
    /// room for, and lets go of it.
    pub(super) fn take_from_bits(&self, cache: &Cache, pfn: Pfn, room: &mut [ObjectAddress]) -> usize {
        let (slab, base) = (self.map.slab(pfn), self.map.address(pfn));
        let mut bits = slab.bits();
        if bits.count_ones() < room.len() as u32 && slab.remote_bits() != 0 {
            bits |= slab.take_remote_bits();
        }
        let mut taken = 0;
        while taken < room.len()
            && let Some(run) = first_run(bits, room.len() - taken)
        {
            let places = &mut room[taken..taken + run.len()];
            let objects = run.clone().map(|at| ObjectAddress::new(base + u64::from(at) * u64::from(cache.layout.size)));
            places.iter_mut().zip(objects).for_each(|(place, object)| *place = object);
            bits &= !(all_bits(run.len() as u16) << run.start);
            taken += run.len();
        }
        self.settle_bits_with(cache, pfn, bits);
        taken
    }

    /// Frees several objects of a slab from wherever one is. One that is free already is reported, and left as it is.
    pub(super) fn free_all_bits(&self, cache: &Cache, slab: &Slab, objects: &[ObjectAddress]) {
        let (hot, before) = (*self.hot(cache.id), slab.bits() | slab.remote_bits());
        let mut free = before;
        for &object in objects {
            let bit = 1 << hot.index_of(object);
            if free & bit != 0 {
                self.report_refused(ObjectFreeError::DoubleFree { address: object.get() });
            }
            free |= bit;
        }
        if free != before {
            self.free_remote_bits(cache, slab, free & !before);
        }
    }

    /// Finds the place of a slab that the caller holds, that nobody owns, and that is queued.
    pub(super) fn settle_bits(&self, cache: &Cache, pfn: Pfn) {
        let slab = self.map.slab(pfn);
        self.settle_bits_with(cache, pfn, slab.bits() | slab.take_remote_bits());
    }

    /// The same for a slab of whose own free objects the caller has left these.
    fn settle_bits_with(&self, cache: &Cache, pfn: Pfn, bits: u64) {
        let slab = self.map.slab(pfn);
        slab.local.store(bits, Relaxed);
        let is_let_go = bits == 0 && slab.remote.compare_exchange(QUEUED, 0, AcqRel, Relaxed).is_ok();
        if !is_let_go {
            self.settle_on_node(cache, pfn);
        }
    }

    /// Objects of a slab that are free, while neither sections nor anybody else change that.
    pub(super) fn free_objects(&self, cache: &Cache, pfn: Pfn) -> u16 {
        let slab = self.map.slab(pfn);
        if cache.has_bits {
            return (slab.bits() | slab.remote_bits()).count_ones() as u16;
        }
        // A walk that only looks may meet words of another cache's slab.
        (cache.layout.objects + slab.remote().len()).saturating_sub(slab.local().used())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_is_set_in_order() {
        let runs = |mut bits: u64, most| {
            core::iter::from_fn(move || {
                let run = first_run(bits, most)?;
                bits &= !(all_bits(run.len() as u16) << run.start);
                Some(run)
            })
        };
        let bits = 0b1110_0110_0000_0001 | 1 << 63;
        assert!(runs(bits, 64).eq([0..1, 9..11, 13..16, 63..64]));
        assert!(runs(bits, 2).eq([0..1, 9..11, 13..15, 15..16, 63..64]));
        assert!(runs(u64::MAX, 64).eq(core::iter::once(0..64)) && runs(0, 64).next().is_none());
    }
}
