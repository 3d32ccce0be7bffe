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
    /// Free objects. Means something to the holder of the slab, and to its owner.
    pub fn bits(&self) -> Bits {
        Bits::from_raw(self.local.load(Acquire))
    }

    /// What was freed from elsewhere.
    pub fn remote_bits(&self) -> Bits {
        Bits::from_raw(self.remote.load(Acquire) & !QUEUED)
    }

    /// All free objects, as far as a look tells.
    pub(super) fn free_bits(&self) -> Bits {
        self.bits().with(self.remote_bits())
    }

    /// Makes a slab of it, with these objects free, queued by name.
    pub(super) fn init_bits(&self, bits: Bits) {
        self.local.store(bits.raw(), Relaxed);
        self.begin_remote(QUEUED);
        self.owner.store(Owner::Node.raw(), Relaxed);
    }

    /// Frees objects from wherever one is: one atomic step. Says what was freed so by now, and whether the caller must
    /// queue the slab now.
    pub(super) fn push_remote_bits(&self, bits: Bits) -> (Bits, Queue) {
        let before = self.remote.fetch_or(bits.raw() | QUEUED, ordered(Fault::PushUnreleased, AcqRel));
        let queue = if before & QUEUED != 0 { Queue::IsQueued } else { Queue::Push };
        (Bits::from_raw(before & !QUEUED).with(bits), queue)
    }

    /// Writes what is free in it, and lets go of it if that is nothing and nothing was freed from elsewhere. The caller
    /// holds it, and nobody owns it.
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
    /// What was freed into the slab that has just been used up, without letting go of it.
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

    /// A slab of this CPU that was taken off its list.
    pub(super) fn use_own_bits(&self, at: RefillTarget<'_>, pfn: Pfn, list: &mut List<CpuPartial>) -> SlabOutcome {
        let slab = self.map.slab(pfn);
        // First it is not queued any more, then it is looked at: a free that comes between queues it again.
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

    /// Gives objects in hand back to a slab of this CPU, and queues it again, whatever CPU we are on.
    fn return_bits(&self, at: RefillTarget<'_>, pfn: Pfn, bits: Bits, list: &mut List<CpuPartial>) {
        if self.map.slab(pfn).push_remote_bits(bits).1 == Queue::Push {
            self.put_cpu_partial(at.cache.id, pfn, list);
        }
    }

    /// Makes a slab the one that this CPU allocates from, if the one there was is still used up.
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

    /// Adds free objects to those of a slab of this CPU; says which there are then.
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

    /// The bit that stands for an object in its slab's word.
    pub(super) fn bit_of(&self, id: CacheId, object: ObjectAddress) -> Bits {
        Bits::single(self.hot(id).index_of(object))
    }

    /// The word of a slab's free objects before and after a free, and whether it is the first one, or the last.
    pub(super) fn with_bit(&self, cache: &Cache, freed: FreedObject<'_>) -> (u64, u64, bool, bool) {
        let before = freed.slab().bits();
        let after = before.with(self.bit_of(cache.id, freed.object()));
        (before.raw(), after.raw(), before.is_empty(), after == cache.layout.all_bits())
    }

    /// A free from wherever one is: one atomic step.
    pub(super) fn free_remote_bits(&self, cache: &Cache, slab: &Slab, bits: Bits) {
        let (after, queue) = slab.push_remote_bits(bits);
        let is_free = after.with(slab.bits()) == cache.layout.all_bits();
        self.after_remote_free(cache, slab, RemoteFree { queue, is_first: after == bits, is_free });
    }

    /// Takes free objects out of a slab that the caller holds and that nobody owns, as many as there are and there is
    /// room for, the first ones to the end of the room. Says how many, and whether it let go of the slab, which has no
    /// others.
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

    /// Several objects of a slab, unless one of them is free already. Costs a multiplication a run, and a comparison an
    /// object.
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

    /// Frees several objects of a slab from wherever one is. One that is free already is reported, and left as it is.
    pub(super) fn free_all_bits(&self, cache: &Cache, slab: &Slab, objects: &[ObjectAddress]) {
        // To report one is no part of the loop over the others, which has to be short.
        let in_use = self.bits_in_use(cache.id, slab, objects);
        let bits = in_use.unwrap_or_else(|| self.report_free_already(cache.id, slab.free_bits(), objects));
        if !bits.is_empty() {
            self.free_remote_bits(cache, slab, bits);
        }
    }

    /// Reports those of a slab's objects that are among its free ones, or among those before them; says which are
    /// neither.
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

    /// Finds the place of a slab that the caller holds, that nobody owns, and that is queued.
    pub(super) fn deactivate_bitmap_slab(&self, cache: &Cache, pfn: Pfn) {
        let slab = self.map.slab(pfn);
        if !slab.unqueue_with(slab.bits().with(slab.take_remote_bits())) {
            self.put_on_node(cache, pfn);
        }
    }

    /// Objects of a slab that are free, while neither sections nor anybody else change that.
    pub(super) fn free_objects(&self, cache: &Cache, pfn: Pfn) -> u16 {
        let slab = self.map.slab(pfn);
        if cache.has_bits {
            return slab.free_bits().len() as u16;
        }
        // A walk that only looks may meet words of another cache's slab.
        (cache.layout.objects + slab.remote().len()).saturating_sub(slab.local().used())
    }
}
