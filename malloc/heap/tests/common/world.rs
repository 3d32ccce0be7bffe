//! A world of raw words: a few small slabs and the slots of one cache, without an allocator.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::slab::CacheId;
use freehold::slab::address::{ObjectAddress, SlabAddress, SlabMask};
use freehold::slab::bits::Bits;
use freehold::slab::cpu::sheaf::{NoSheaf, Sheaf, Top};
use freehold::slab::cpu::{CpuSlots, FreedObject, Slot, Slots};
use freehold::slab::freelist::{Chain, FixedLinks};
use freehold::slab::slab::{Owner, Slab};
use freehold::slab::word::{Local, end_mark, is_mark};

/// Objects of a slab.
pub(crate) const OBJECTS: u16 = 6;
/// Number of slabs.
pub(crate) const SLABS: usize = 3;
/// Objects for which a sheaf has room.
pub(crate) const CAPACITY: u64 = 4;

/// Bytes of an object.
const SIZE: u64 = 64;
/// Bits of all objects of a slab.
pub(crate) const ALL_BITS: Bits = Bits::full(OBJECTS as u32);

/// Bytes of a slab.
const BYTES: u64 = size_of::<Memory>() as u64;
/// The cache of the world.
const CACHE: CacheId = CacheId::new(3);

/// Memory of a slab. It is aligned to its size, so masking an object's address gives the start of the slab.
#[derive(Debug)]
#[repr(C, align(512))]
struct Memory([AtomicU64; 64]);

/// Lookup of an object's slab without a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'w> {
    /// Bits in which all addresses of a slab agree.
    pub mask: SlabMask,
    base: u64,
    slabs: &'w [Slab],
}

impl<'w> Map<'w> {
    /// Returns the slab of an object.
    ///
    /// # Safety
    /// The object belongs to the world of the map.
    #[inline(always)]
    pub(crate) unsafe fn slab_of(self, object: u64) -> &'w Slab {
        // SAFETY: the caller promises that the object belongs to this world, so the index is below the number of slabs.
        unsafe { self.slabs.get_unchecked(((object & self.mask.get()).wrapping_sub(self.base) / BYTES) as usize) }
    }
}

/// A sheaf with the memory for its objects.
#[derive(Debug)]
#[repr(C, align(64))]
struct RoomySheaf {
    sheaf: Sheaf,
    objects: [AtomicU64; CAPACITY as usize],
    ceiling: u64,
}

/// Slabs with their metadata, and the slot of each CPU.
#[derive(Debug)]
pub(crate) struct World<L> {
    links: L,
    memory: Box<[Memory]>,
    slabs: Box<[Slab]>,
    /// Metadata of a slab without objects.
    nowhere: Box<Slab>,
    slots: Box<[CpuSlots]>,
    sheaves: Box<[RoomySheaf]>,
    /// Top of each sheaf that is in no slot.
    tops: Box<[AtomicU64]>,
    no_sheaf: Box<NoSheaf>,
}

impl RoomySheaf {
    fn new() -> RoomySheaf {
        RoomySheaf {
            sheaf: Sheaf::empty(CAPACITY),
            objects: [const { AtomicU64::new(0) }; CAPACITY as usize],
            ceiling: Sheaf::CEILING,
        }
    }
}

impl<L: FixedLinks> World<L> {
    /// Creates a world for CPUs below `cpus`, in which no object is free and no slab has an owner.
    pub(crate) fn new(cpus: u16, links: L) -> World<L> {
        let world = World {
            links,
            memory: (0..SLABS).map(|_| Memory([const { AtomicU64::new(0) }; 64])).collect(),
            slabs: (0..SLABS).map(|_| Slab::unused()).collect(),
            nowhere: Box::new(Slab::unused()),
            slots: (0..cpus).map(|_| CpuSlots::empty()).collect(),
            sheaves: (0..=cpus).map(|_| RoomySheaf::new()).collect(),
            tops: (0..=cpus).map(|_| AtomicU64::new(0)).collect(),
            no_sheaf: Box::default(),
        };
        for slab in 0..SLABS {
            world.set_local(slab, Local::new(end_mark(world.base(slab)), OBJECTS));
        }
        world
    }

    /// Returns the format of the links.
    pub(crate) fn links(&self) -> L {
        self.links
    }

    /// Returns the slots of the world's cache.
    pub(crate) fn slots(&self) -> Slots<'_> {
        // SAFETY: there are slots for each CPU of the world, and the tests store only lists of free objects, or their
        // equivalents, in them.
        unsafe { Slots::new(&self.slots, CACHE) }
    }

    /// Returns the slot of a CPU.
    pub(crate) fn slot(&self, cpu: CpuId) -> Slot<'_> {
        self.slots[cpu.index()].slot(CACHE)
    }

    /// Returns the address of a slab.
    pub(crate) fn base(&self, slab: usize) -> SlabAddress {
        SlabAddress::new((&raw const self.memory[slab]).addr() as u64)
    }

    /// Returns the address of an object.
    pub(crate) fn object(&self, slab: usize, index: u16) -> u64 {
        self.base(slab).get() + SIZE * u64::from(index)
    }

    /// Returns the addresses of all objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = u64> {
        (0..SLABS).flat_map(move |slab| (0..OBJECTS).map(move |index| self.object(slab, index)))
    }

    /// Returns the metadata of a slab.
    pub(crate) fn slab(&self, slab: usize) -> &Slab {
        &self.slabs[slab]
    }

    /// Returns the word with a slab's own list.
    pub(crate) fn local(&self, slab: usize) -> &AtomicU64 {
        self.word(slab, Slab::LOCAL_OFFSET)
    }

    /// Returns the word with a slab's owner.
    pub(crate) fn owner(&self, slab: usize) -> &AtomicU64 {
        self.word(slab, Slab::OWNER_OFFSET)
    }

    fn word(&self, slab: usize, offset: usize) -> &AtomicU64 {
        let slab = &raw const self.slabs[slab];
        // SAFETY: callers pass the offset of an atomic word of the slab.
        unsafe { &*slab.byte_add(offset).cast() }
    }

    /// Returns the value of a slot under `bitmap`: the address of a slab's metadata.
    pub(crate) fn slab_word(&self, slab: usize) -> u64 {
        (&raw const self.slabs[slab]).expose_provenance() as u64
    }

    /// Returns the value of a slot under `bitmap` without a slab.
    pub(crate) fn nowhere(&self) -> u64 {
        (&raw const *self.nowhere).expose_provenance() as u64
    }

    /// Returns the slab to which a slot's value refers, if any.
    pub(crate) fn slab_by_word(&self, word: u64) -> Option<usize> {
        (0..SLABS).find(|&slab| self.slab_word(slab) == word)
    }

    /// Returns the bit of an object.
    pub(crate) fn bit_of(&self, object: u64) -> Bits {
        Bits::single(((object & !World::<L>::mask()) / SIZE) as u32)
    }

    /// Returns the lookup for all slabs.
    pub(crate) fn map(&self) -> Map<'_> {
        Map { mask: SlabMask::for_size(BYTES), base: self.base(0).get(), slabs: &self.slabs }
    }

    /// Writes a slab's own list. The caller holds the slab.
    pub(crate) fn set_local(&self, slab: usize, local: Local) {
        self.local(slab).store(local.raw(), Relaxed);
    }

    /// Writes a slab's owner. The caller holds the slab.
    pub(crate) fn set_owner(&self, slab: usize, owner: Owner) {
        self.owner(slab).store(owner.raw(), Relaxed);
    }

    /// Returns the bits in which all addresses of a slab agree.
    pub(crate) fn mask() -> u64 {
        SlabMask::for_size(BYTES).get()
    }

    /// Returns an object as one that is being freed.
    pub(crate) fn freed(&self, object: u64) -> FreedObject<'_> {
        debug_assert!(self.objects().any(|any| any == object));
        let map = self.map();
        // SAFETY: the tests pass objects of this world that they have allocated, and do not use them afterwards.
        unsafe { FreedObject::new(ObjectAddress::new(object), map.slab_of(object), map.mask) }
    }

    /// Links objects of a slab, given by their indexes, to a list.
    pub(crate) fn chain(&self, slab: usize, objects: impl IntoIterator<Item = u16>) -> Chain {
        let objects = objects.into_iter().map(|index| ObjectAddress::new(self.object(slab, index)));
        // SAFETY: the tests pass free objects of this slab.
        unsafe { Chain::build(self.base(slab), objects, self.links) }
    }

    /// Returns the objects of a list in order, and the list's end mark.
    ///
    /// # Errors
    /// If the list has no end, leads to an address that is not an object, or contains objects of another slab.
    pub(crate) fn list(&self, head: u64) -> Result<(Vec<u64>, u64), String> {
        let (mut list, mut at) = (Vec::new(), head);
        while !is_mark(at) {
            if list.len() == usize::from(OBJECTS) {
                return Err(format!("a list does not end: {list:x?}"));
            }
            if !self.objects().any(|object| object == at) {
                return Err(format!("a list leads to {at:#x}, which is no object, from {list:x?}"));
            }
            list.push(at);
            // SAFETY: the address was just found to be an object of this world.
            at = unsafe { freehold::slab::freelist::get_freepointer(ObjectAddress::new(at), self.links) };
        }
        match list.iter().find(|&&object| end_mark(SlabAddress::new(object & World::<L>::mask())) != at) {
            Some(object) => Err(format!("{object:#x} is on a list that ends in {at:#x}")),
            None => Ok((list, at)),
        }
    }

    /// Makes each CPU's sheaf its main sheaf. All sheaves are empty.
    pub(crate) fn use_sheaves(&self) {
        for index in 0..self.sheaves.len() {
            let top = Top::new(self.sheaf_address(index), 0).raw();
            self.tops[index].store(top, Relaxed);
            if index + 1 < self.sheaves.len() {
                self.slot(CpuId(index as u16)).main.store(top, Relaxed);
            }
        }
    }

    fn sheaf_address(&self, index: usize) -> u64 {
        (&raw const self.sheaves[index]).expose_provenance() as u64
    }

    /// Returns the value of a slot without a sheaf.
    pub(crate) fn no_sheaf(&self) -> u64 {
        self.no_sheaf.top().raw()
    }

    /// Returns the sheaf to which a slot's value refers. There is one sheaf for each CPU, and a spare one.
    pub(crate) fn sheaf_by_word(&self, word: u64) -> Option<usize> {
        (0..self.sheaves.len()).find(|&index| Top::from_raw(word).sheaf(CAPACITY) == self.sheaf_address(index))
    }

    /// Returns whether a CPU has the sheaf in its slot.
    pub(crate) fn is_in_a_slot(&self, index: usize) -> bool {
        self.slot_with(index).is_some()
    }

    fn slot_with(&self, index: usize) -> Option<Slot<'_>> {
        let mut slots = (0..self.slots.len()).map(|cpu| self.slot(CpuId(cpu as u16)));
        slots.find(|slot| self.sheaf_by_word(slot.main.load(Relaxed)) == Some(index))
    }

    /// Returns the top of a sheaf: the value of its slot, or the top that was put aside.
    pub(crate) fn word_of_sheaf(&self, index: usize) -> u64 {
        self.slot_with(index).map_or_else(|| self.tops[index].load(Relaxed), |slot| slot.main.load(Relaxed))
    }

    /// Records the top of a sheaf that has left its slot.
    pub(crate) fn put_aside(&self, word: u64) {
        if let Some(index) = self.sheaf_by_word(word) {
            self.tops[index].store(word, Relaxed);
        }
    }

    /// Returns the objects of a sheaf.
    pub(crate) fn sheaf(&self, index: usize) -> Vec<u64> {
        let len = Top::from_raw(self.word_of_sheaf(index)).len(CAPACITY) as usize;
        self.sheaves[index].objects[..len].iter().map(|object| object.load(Relaxed)).collect()
    }

    /// Puts objects into an empty sheaf.
    pub(crate) fn fill_sheaf(&self, index: usize, objects: &[u64]) {
        for (place, object) in self.sheaves[index].objects.iter().zip(objects) {
            place.store(*object, Relaxed);
        }
        let word = Top::new(self.sheaf_address(index), objects.len() as u64).raw();
        self.slot_with(index).map_or(&self.tops[index], |slot| slot.main).store(word, Relaxed);
    }
}
