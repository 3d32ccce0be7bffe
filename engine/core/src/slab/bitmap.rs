//! Slabs whose free objects are bits of a word. Used for larger objects, whose memory is then not touched while they
//! are free.
//!
//! A linked list touches the first cache line of each object on it: one load when the object is allocated, and one
//! store when it is freed. If objects are large, these lines are all that a loop over them touches, and the lines are
//! far apart. A slab of at most 63 objects can record in one word which of them are free. That word is the slab's
//! `local`. Under [`SlabPolicy::Bitmap`](crate::policy::slab::SlabPolicy::Bitmap), a CPU's slot only names the slab. So
//! the CPU frees in the same way into the slab that it allocates from and into the other slabs that it owns. No objects
//! move between slot and slab, and a double free finds its bit set.
//!
//! Remote frees are bits of `remote`, whose highest bit records that the slab is queued. The protocol around these
//! words is that of lists (`refill`, `takeover`); this module has the parts that differ.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::address::ObjectAddress;
use super::bits::Bits;
use super::cache::Cache;
use super::cpu::{CpuLocal, Exchange, ExchangeOutcome, FreedObject};
use super::free::RemoteFree;
use super::id::CacheId;
use super::partial::{CpuPartial, List};
use super::refill::{RefillTarget, SlabOutcome};
use super::slab::{Owner, Queue, Slab};
use super::{ObjectFreeError, SlabAllocator};
use crate::base::fault::{Fault, ordered};
use crate::base::{CpuId, Pfn};
use crate::platform::Platform;

pub use super::layout::BITMAP_OBJECTS_MAX;

const QUEUED: u64 = 1 << 63;

impl Slab {
    /// Returns the free objects except for remote frees. The value is meaningful to the holder of the slab, and to
    /// sections on the owner's CPU.
    pub fn bits(&self) -> Bits {
        Bits::from_raw(self.local.load(Acquire))
    }

    /// Returns the objects that were freed remotely.
    pub fn remote_bits(&self) -> Bits {
        Bits::from_raw(self.remote.load(Acquire) & !QUEUED)
    }

    /// Returns all free objects, including remote frees, as two loads find them. Other CPUs may change them at once.
    pub(super) fn free_bits(&self) -> Bits {
        self.bits().with(self.remote_bits())
    }

    /// Turns a page into a slab with these free objects. The slab is marked as queued, but is on no list.
    pub(super) fn init_bits(&self, bits: Bits) {
        self.local.store(bits.raw(), Relaxed);
        self.begin_remote(QUEUED);
        self.owner.store(Owner::Node.raw(), Relaxed);
    }

    /// Frees objects from any CPU, by one atomic step. Returns the set of remote frees afterwards, and whether the
    /// caller must queue the slab now.
    pub(super) fn push_remote_bits(&self, bits: Bits) -> (Bits, Queue) {
        let before = self.remote.fetch_or(bits.raw() | QUEUED, ordered(Fault::PushUnreleased, AcqRel));
        let queue = if before & QUEUED != 0 { Queue::IsQueued } else { Queue::Push };
        (Bits::from_raw(before & !QUEUED).with(bits), queue)
    }

    /// Writes the free objects of a slab that the caller holds and that has no owner. If the slab has no free object
    /// and no remote frees, the caller's hold is given up, the slab is not queued any more, and the result is `true`.
    /// Otherwise the caller still holds the slab.
    fn unqueue_with(&self, bits: Bits) -> bool {
        self.local.store(bits.raw(), Relaxed);
        bits.is_empty() && self.remote.compare_exchange(QUEUED, 0, AcqRel, Relaxed).is_ok()
    }

    fn take_remote_bits(&self) -> Bits {
        Bits::from_raw(self.remote.fetch_and(QUEUED, ordered(Fault::TakeUnacquired, AcqRel)) & !QUEUED)
    }

    fn take_remote_bits_unqueued(&self) -> Bits {
        Bits::from_raw(self.remote.swap(0, ordered(Fault::TakeUnacquired, AcqRel)) & !QUEUED)
    }
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Adds the remote frees of the slab that this CPU has just used up to the slab's free objects. The slab stays the
    /// one that this CPU allocates from. Returns [`Exhausted`](SlabOutcome::Exhausted) if the slab has no free object.
    /// If the caller was moved to another CPU, the objects become remote frees again.
    pub(super) fn use_current_bits(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let slab = self.map.slab(pfn);
        let remote = slab.take_remote_bits();
        match self.add_bits(at.cpu, slab, remote) {
            Ok(Bits::NONE) => SlabOutcome::Exhausted,
            Ok(_) => SlabOutcome::Again,
            Err(_moved) => {
                self.return_bits(at, pfn, remote, list);
                SlabOutcome::Again
            }
        }
    }

    /// Makes a slab of this CPU, which was taken off the CPU's list, the one that the CPU allocates from. Returns
    /// [`Exhausted`](SlabOutcome::Exhausted) if the slab has no free object; the slab is not queued then. If the caller
    /// was moved to another CPU, or the CPU allocates from another slab by now, the slab is queued again.
    pub(super) fn use_own_bits(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let slab = self.map.slab(pfn);
        // The queued bit is cleared before the own bits are read: a free in between queues the slab again.
        let remote = slab.take_remote_bits_unqueued();
        match self.add_bits(at.cpu, slab, remote) {
            Ok(Bits::NONE) => SlabOutcome::Exhausted,
            Ok(_) => {
                self.allocate_from(at, pfn, list);
                SlabOutcome::Again
            }
            Err(_moved) => {
                self.return_bits(at, pfn, remote, list);
                SlabOutcome::Again
            }
        }
    }

    /// Puts objects that the caller has taken back into their slab as remote frees, and puts the slab on the list of
    /// the target CPU, which owns it, unless the slab is queued. May run on any CPU.
    fn return_bits(&self, at: RefillTarget<'_>, pfn: Pfn, bits: Bits, list: &mut List<CpuPartial>) {
        if self.map.slab(pfn).push_remote_bits(bits).1 == Queue::Push {
            self.put_cpu_partial(at.cache.id, pfn, list);
        }
    }

    /// Makes a slab the one that the target CPU allocates from, if the caller still runs on that CPU, and the slot's
    /// former slab is unchanged and still used up. Otherwise puts the slab on the CPU's list, unless the slab is
    /// queued.
    fn allocate_from(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) {
        let RefillTarget { cpu, cache, seen, .. } = at;
        let slab = self.map.slab(pfn);
        let slot = self.slot(cpu, cache.id);
        let before = self.map.slab_by_word(seen);
        let exchange = Exchange::new(slot.main, seen, self.map.word_of(slab)).with_witness(&before.local, 0);
        if self.local.replace_if(cpu, exchange) != ExchangeOutcome::Done && slab.queue() == Queue::Push {
            list.push(self.map, pfn);
        }
    }

    /// Adds free objects to those of a slab of this CPU, and returns the free objects afterwards.
    ///
    /// # Errors
    /// If the caller does not run on that CPU any more.
    fn add_bits(&self, cpu: CpuId, slab: &Slab, bits: Bits) -> Result<Bits, ExchangeOutcome> {
        loop {
            let local = slab.bits();
            let all = local.with(bits);
            match self.local.replace_if(cpu, Exchange::new(&slab.local, local.raw(), all.raw())) {
                ExchangeOutcome::Done => return Ok(all),
                ExchangeOutcome::Changed => {}
                ExchangeOutcome::Moved => return Err(ExchangeOutcome::Moved),
            }
        }
    }

    /// Returns the bit of an object in its slab's word.
    pub(super) fn bit_of(&self, id: CacheId, object: ObjectAddress) -> Bits {
        Bits::single(self.hot(id).index_of(object))
    }

    /// Returns the word of a slab's free objects before and after a free, whether this is the slab's first free object,
    /// and whether all objects are free afterwards.
    pub(super) fn with_bit(&self, cache: &Cache, freed: FreedObject<'_>) -> (u64, u64, bool, bool) {
        let before = freed.slab().bits();
        let after = before.with(self.bit_of(cache.id, freed.object()));
        (before.raw(), after.raw(), before.is_empty(), after == cache.layout.all_bits())
    }

    /// Frees objects from any CPU, by one atomic step, and queues, retires or counts the slab if necessary.
    pub(super) fn free_remote_bits(&self, cache: &Cache, (pfn, slab): (Pfn, &Slab), bits: Bits) {
        let (after, queue) = slab.push_remote_bits(bits);
        let is_free = after.with(slab.bits()) == cache.layout.all_bits();
        self.after_remote_free(cache, (pfn, slab), RemoteFree { queue, is_first: after == bits, is_free });
    }

    /// Takes free objects from a slab that the caller holds and that has no owner, until `room` is full or the slab has
    /// no free object left. Fills `room` from its end to its front, lowest address first. Returns the number of
    /// objects, and whether the hold was given up: the slab has no free object then and is not queued any more.
    /// Otherwise the caller still holds the slab.
    pub(super) fn alloc_from_bits(&self, cache: &Cache, pfn: Pfn, room: &mut [ObjectAddress]) -> (usize, bool) {
        let (slab, base) = (self.map.slab(pfn), self.map.address(pfn));
        let mut bits = slab.bits();
        if bits.len() < room.len() as u32 && !slab.remote_bits().is_empty() {
            bits = bits.with(slab.take_remote_bits());
        }
        let size = u64::from(cache.layout.size);
        let mut left = room.len();
        while left > 0
            && let Some(run) = bits.first_run(left)
        {
            let places = &mut room[left - run.len()..left];
            let mut object = base + u64::from(run.start) * size;
            for place in places.iter_mut().rev() {
                *place = ObjectAddress::new(object);
                object += size;
            }
            bits = bits.without(Bits::run(&run));
            left -= run.len();
        }
        (room.len() - left, slab.unqueue_with(bits))
    }

    /// Returns the set of several objects of a slab, or `None` if one of them is already free or occurs twice. Costs a
    /// multiplication per run of adjacent objects, and a comparison per object.
    #[inline(never)]
    pub(super) fn bits_in_use(&self, id: CacheId, slab: &Slab, objects: &[ObjectAddress]) -> Option<Bits> {
        let (hot, before) = (self.hot(id), slab.free_bits());
        let (mut free, mut rest) = (before, objects);
        while let [first, ..] = rest {
            let (run, others) = rest.split_at(hot.run_of(rest));
            let place = hot.index_of(*first);
            let bits = Bits::run(&(place..place + run.len() as u32));
            if free.has_any(bits) {
                return None;
            }
            (free, rest) = (free.with(bits), others);
        }
        Some(free.without(before))
    }

    /// Frees several objects of a slab from any CPU. An object that is already free, or that occurs a second time, is
    /// reported and not freed.
    pub(super) fn free_all_bits(&self, cache: &Cache, pfn: Pfn, objects: &[ObjectAddress]) {
        let slab = self.map.slab(pfn);
        // Reporting is kept out of the loop over the other objects, which has to be short.
        let in_use = self.bits_in_use(cache.id, slab, objects);
        let bits = in_use.unwrap_or_else(|| self.report_free_already(cache.id, slab.free_bits(), objects));
        if !bits.is_empty() {
            self.free_remote_bits(cache, (pfn, slab), bits);
        }
    }

    /// Reports those objects that are in the slab's set of free objects `before`, and the repetitions of objects that
    /// occur more than once. Returns the set of the objects that are not in `before`.
    #[cold]
    #[inline(never)]
    fn report_free_already(&self, id: CacheId, before: Bits, objects: &[ObjectAddress]) -> Bits {
        let free = objects.iter().fold(before, |free, &object| {
            let bit = self.bit_of(id, object);
            if free.has_any(bit) {
                self.report_refused(ObjectFreeError::DoubleFree { address: object.get() });
            }
            free.with(bit)
        });
        free.without(before)
    }

    /// Gives back a queued slab that the caller holds and that has no owner. If the slab has free objects, it is put on
    /// its node's list, or discarded if the node has enough wholly free slabs. If all its objects are in use, only the
    /// hold is given up.
    pub(super) fn deactivate_bitmap_slab(&self, cache: &Cache, pfn: Pfn) {
        let slab = self.map.slab(pfn);
        if !slab.unqueue_with(slab.bits().with(slab.take_remote_bits())) {
            self.put_on_node(cache, pfn);
        }
    }

    /// Returns the number of free objects that are with a slab, not in a CPU's slot or a sheaf. Exact only while
    /// neither sections nor other CPUs change them.
    pub(super) fn free_objects(&self, cache: &Cache, pfn: Pfn) -> u16 {
        let slab = self.map.slab(pfn);
        if cache.has_bits {
            return slab.free_bits().len() as u16;
        }
        // A walk that takes no lock may read words of a slab that belongs to another cache by now.
        (cache.layout.objects + slab.remote().len()).saturating_sub(slab.local().used())
    }
}
