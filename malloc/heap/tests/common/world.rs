//! Raw words: a few small slabs and the slots of one cache, without an allocator around them.

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
/// Slabs there are.
pub(crate) const SLABS: usize = 3;
/// Addresses that a sheaf has room for.
pub(crate) const CAPACITY: u64 = 4;

/// Bytes of an object.
const SIZE: u64 = 64;
/// The bits of all objects of a slab.
pub(crate) const ALL_BITS: Bits = Bits::full(OBJECTS as u32);

/// Bytes of a slab.
const BYTES: u64 = size_of::<Memory>() as u64;
/// The cache.
const CACHE: CacheId = CacheId::new(3);

/// Memory of a slab; its address says where it begins.
#[derive(Debug)]
#[repr(C, align(512))]
struct Memory([AtomicU64; 64]);

/// From an object to its slab, without a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'w> {
    /// The bits in which the addresses of a slab agree.
    pub mask: SlabMask,
    base: u64,
    slabs: &'w [Slab],
}

impl<'w> Map<'w> {
    /// The slab of an object.
    ///
    /// # Safety
    /// It is an object of the world that the map is of.
    #[inline(always)]
    pub(crate) unsafe fn slab_of(self, object: u64) -> &'w Slab {
        // SAFETY: the caller promises an object of this world, so its slab is one of these.
        unsafe { self.slabs.get_unchecked(((object & self.mask.get()).wrapping_sub(self.base) / BYTES) as usize) }
    }
}

/// A sheaf with its room.
#[derive(Debug)]
#[repr(C, align(64))]
struct RoomySheaf {
    sheaf: Sheaf,
    objects: [AtomicU64; CAPACITY as usize],
    ceiling: u64,
}

/// Slabs, their metadata, and each CPU's slot.
#[derive(Debug)]
pub(crate) struct World<L> {
    links: L,
    memory: Box<[Memory]>,
    slabs: Box<[Slab]>,
    /// A slab without objects.
    nowhere: Box<Slab>,
    slots: Box<[CpuSlots]>,
    sheaves: Box<[RoomySheaf]>,
    /// How full a sheaf is that no slot has.
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
    /// Nothing is free, nothing is owned; for CPUs below `cpus`.
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

    /// How links are written.
    pub(crate) fn links(&self) -> L {
        self.links
    }

    /// The slots.
    pub(crate) fn slots(&self) -> Slots<'_> {
        // SAFETY: the words of each CPU; the tests put lists of free objects into them.
        unsafe { Slots::new(&self.slots, CACHE) }
    }

    /// A CPU's slot.
    pub(crate) fn slot(&self, cpu: CpuId) -> Slot<'_> {
        self.slots[cpu.index()].slot(CACHE)
    }

    /// Where a slab begins.
    pub(crate) fn base(&self, slab: usize) -> SlabAddress {
        SlabAddress::new((&raw const self.memory[slab]).addr() as u64)
    }

    /// Where an object is.
    pub(crate) fn object(&self, slab: usize, index: u16) -> u64 {
        self.base(slab).get() + SIZE * u64::from(index)
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = u64> {
        (0..SLABS).flat_map(move |slab| (0..OBJECTS).map(move |index| self.object(slab, index)))
    }

    /// A slab's metadata.
    pub(crate) fn slab(&self, slab: usize) -> &Slab {
        &self.slabs[slab]
    }

    /// A slab's own list.
    pub(crate) fn local(&self, slab: usize) -> &AtomicU64 {
        self.word(slab, Slab::LOCAL_OFFSET)
    }

    /// The word that says which CPU owns a slab.
    pub(crate) fn owner(&self, slab: usize) -> &AtomicU64 {
        self.word(slab, Slab::OWNER_OFFSET)
    }

    fn word(&self, slab: usize, offset: usize) -> &AtomicU64 {
        let slab = &raw const self.slabs[slab];
        // SAFETY: the offsets are those of atomic words of the slab.
        unsafe { &*slab.byte_add(offset).cast() }
    }

    /// What a slot names where free objects are bits: a slab's metadata.
    pub(crate) fn slab_word(&self, slab: usize) -> u64 {
        (&raw const self.slabs[slab]).expose_provenance() as u64
    }

    /// What it names when it names none.
    pub(crate) fn nowhere(&self) -> u64 {
        (&raw const *self.nowhere).expose_provenance() as u64
    }

    /// The slab that a slot names.
    pub(crate) fn slab_by_word(&self, word: u64) -> Option<usize> {
        (0..SLABS).find(|&slab| self.slab_word(slab) == word)
    }

    /// An object's bit.
    pub(crate) fn bit_of(&self, object: u64) -> Bits {
        Bits::single(((object & !World::<L>::mask()) / SIZE) as u32)
    }

    /// All slabs.
    pub(crate) fn map(&self) -> Map<'_> {
        Map { mask: SlabMask::for_size(BYTES), base: self.base(0).get(), slabs: &self.slabs }
    }

    /// Writes a slab's own list; the caller holds the slab.
    pub(crate) fn set_local(&self, slab: usize, local: Local) {
        self.local(slab).store(local.raw(), Relaxed);
    }

    /// Writes a slab's owner; the caller holds the slab.
    pub(crate) fn set_owner(&self, slab: usize, owner: Owner) {
        self.owner(slab).store(owner.raw(), Relaxed);
    }

    /// The bits in which the addresses of a slab agree.
    pub(crate) fn mask() -> u64 {
        SlabMask::for_size(BYTES).get()
    }

    /// An object on its way back.
    pub(crate) fn freed(&self, object: u64) -> FreedObject<'_> {
        debug_assert!(self.objects().any(|any| any == object));
        let map = self.map();
        // SAFETY: the tests free what they allocated, of this world.
        unsafe { FreedObject::new(ObjectAddress::new(object), map.slab_of(object), map.mask) }
    }

    /// Links the objects of a slab with these numbers.
    pub(crate) fn chain(&self, slab: usize, objects: impl IntoIterator<Item = u16>) -> Chain {
        let objects = objects.into_iter().map(|index| ObjectAddress::new(self.object(slab, index)));
        // SAFETY: the tests name free objects.
        unsafe { Chain::build(self.base(slab), objects, self.links) }
    }

    /// The objects of a list, from first to last, and the mark it ends in.
    ///
    /// # Errors
    /// What is wrong with it: it has no end, or leads elsewhere, or to another slab.
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
            // SAFETY: an object of this world.
            at = unsafe { freehold::slab::freelist::get_freepointer(ObjectAddress::new(at), self.links) };
        }
        match list.iter().find(|&&object| end_mark(SlabAddress::new(object & World::<L>::mask())) != at) {
            Some(object) => Err(format!("{object:#x} is on a list that ends in {at:#x}")),
            None => Ok((list, at)),
        }
    }

    /// Makes each CPU's sheaf its main one; all are empty.
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

    /// What a slot says that has no sheaf.
    pub(crate) fn no_sheaf(&self) -> u64 {
        self.no_sheaf.top().raw()
    }

    /// The sheaf that a slot has: one for each CPU, and one more.
    pub(crate) fn sheaf_by_word(&self, word: u64) -> Option<usize> {
        (0..self.sheaves.len()).find(|&index| Top::from_raw(word).sheaf(CAPACITY) == self.sheaf_address(index))
    }

    /// Whether some CPU has a sheaf.
    pub(crate) fn is_in_a_slot(&self, index: usize) -> bool {
        self.slot_with(index).is_some()
    }

    fn slot_with(&self, index: usize) -> Option<Slot<'_>> {
        let mut slots = (0..self.slots.len()).map(|cpu| self.slot(CpuId(cpu as u16)));
        slots.find(|slot| self.sheaf_by_word(slot.main.load(Relaxed)) == Some(index))
    }

    /// The word of a sheaf: its slot's, or what was put aside.
    pub(crate) fn word_of_sheaf(&self, index: usize) -> u64 {
        self.slot_with(index).map_or_else(|| self.tops[index].load(Relaxed), |slot| slot.main.load(Relaxed))
    }

    /// A sheaf has left its slot, in which it was said to be so full.
    pub(crate) fn put_aside(&self, word: u64) {
        if let Some(index) = self.sheaf_by_word(word) {
            self.tops[index].store(word, Relaxed);
        }
    }

    /// What is in a sheaf.
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
