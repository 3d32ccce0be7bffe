//! One sheaf: an array of free objects, and its holder.
//!
//! A sheaf has one holder. In a CPU's first word it is its *main* sheaf, which sections on that CPU change; in the
//! second word the *spare*, which belongs to the holder of the lock of the CPU's part of the cache; in a barn it
//! belongs to the holder of the barn's lock. Everywhere else it is an [`OwnedSheaf`]: a value that is moved, with
//! exclusive access to the sheaf.

use core::ptr::NonNull;

use super::super::address::ObjectAddress;
use super::super::cpu::sheaf::{Sheaf, Top};

/// Sizes of the memory that sheaves lie in, for each capacity, the smallest first.
pub(super) const SIZES: [(u32, &str); 5] =
    [(64, "sheaf-64"), (128, "sheaf-128"), (256, "sheaf-256"), (512, "sheaf-512"), (1024, "sheaf-1k")];

/// Which of [`SIZES`] a sheaf lies in.
pub(super) fn size_class(capacity: u64) -> u8 {
    let class = SIZES.iter().position(|&(size, _)| u64::from(size) >= Sheaf::bytes(capacity));
    class.expect("no sheaf is larger than the largest size") as u8
}

/// What stands in an array before objects are written to it.
pub(super) const UNWRITTEN: ObjectAddress = ObjectAddress::new(0);

/// A sheaf, with exclusive access to it.
#[derive(Debug)]
#[must_use = "its objects would be lost"]
pub(in crate::slab) struct OwnedSheaf(NonNull<Sheaf>);

// SAFETY: its holder is alone with it.
unsafe impl Send for OwnedSheaf {}

impl OwnedSheaf {
    /// Makes an empty sheaf.
    ///
    /// # Safety
    /// The memory is the caller's, as much as [`Sheaf::bytes`] says, and aligned to that.
    pub(super) unsafe fn new(memory: NonNull<u8>, capacity: u64) -> OwnedSheaf {
        let sheaf = memory.cast::<Sheaf>();
        // SAFETY: the caller's promise. The addresses are written once, so that all of them can be read.
        unsafe {
            sheaf.write(Sheaf::empty(capacity));
            let places = memory.add(Sheaf::OBJECTS_OFFSET).cast::<ObjectAddress>();
            places.write_bytes(0, capacity as usize);
            places.add(capacity as usize).write(ObjectAddress::new(Sheaf::CEILING));
        }
        OwnedSheaf(sheaf)
    }

    /// Takes a sheaf out of the word of a spare; nothing if there is none.
    ///
    /// # Safety
    /// The word is 0 or that of a sheaf, which from now on is in no word any more.
    pub(super) unsafe fn from_word(word: u64) -> Option<OwnedSheaf> {
        NonNull::new(word as *mut Sheaf).map(OwnedSheaf)
    }

    /// The word that a slot holds for a spare; the slot has it from then on.
    pub(super) fn into_word(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Takes a sheaf with room for so many objects out of the word of a main one.
    ///
    /// # Safety
    /// It was in a slot, from now on is in no word any more, and no section changes it.
    pub(super) unsafe fn from_top(top: Top, capacity: u64) -> OwnedSheaf {
        let place = NonNull::new(top.sheaf(capacity) as *mut Sheaf).expect("no sheaf is at address 0");
        let mut held = OwnedSheaf(place);
        held.set_len(top.len(capacity) as usize);
        held
    }

    /// The word that a slot holds for a main one; the slot has it from then on.
    pub(super) fn into_top(self) -> Top {
        Top::new(self.0.as_ptr().expose_provenance() as u64, self.len() as u64)
    }

    /// The memory it lies in, without what was in it.
    pub(super) fn into_memory(self) -> NonNull<u8> {
        debug_assert!(self.is_empty(), "its objects would be lost");
        self.0.cast()
    }

    fn sheaf(&self) -> &Sheaf {
        // SAFETY: a sheaf's memory is there as long as the value.
        unsafe { self.0.as_ref() }
    }

    fn set_len(&mut self, len: usize) {
        // SAFETY: a sheaf's memory is there as long as the value, and the holder is alone with it.
        unsafe { self.0.as_mut() }.len = len as u64;
    }

    /// Number of objects in the sheaf.
    pub(crate) fn len(&self) -> usize {
        self.sheaf().len as usize
    }

    /// Number of objects that the sheaf has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.sheaf().capacity as usize
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The addresses of its objects, first to last.
    pub(crate) fn objects(&self) -> &[ObjectAddress] {
        let places = self.places();
        // SAFETY: all places were written when the sheaf was made, and nobody else has it.
        unsafe { core::slice::from_raw_parts(places.as_ptr(), self.len()) }
    }

    fn places(&self) -> NonNull<ObjectAddress> {
        // SAFETY: the addresses follow the header.
        unsafe { self.0.cast::<u8>().add(Sheaf::OBJECTS_OFFSET).cast() }
    }

    /// The places after its last object: room for more.
    fn room(&mut self) -> &mut [ObjectAddress] {
        // SAFETY: as in `objects`; the two do not overlap.
        unsafe { core::slice::from_raw_parts_mut(self.places().add(self.len()).as_ptr(), self.capacity() - self.len()) }
    }

    /// Has its room filled from the front by `fill`, which returns how many objects it wrote.
    pub(crate) fn fill_by(&mut self, fill: impl FnOnce(&mut [ObjectAddress]) -> usize) {
        let filled = fill(self.room());
        debug_assert!(self.len() + filled <= self.capacity(), "there was no more room");
        self.set_len(self.len() + filled);
    }

    /// Has its objects taken, all of them.
    pub(crate) fn empty_by(&mut self, take: impl FnOnce(&mut [ObjectAddress])) {
        let len = self.len();
        // From now on they are not the sheaf's, even if `take` does not come back.
        self.set_len(0);
        // SAFETY: as in `objects`; the sheaf says that it has none, and is the holder's alone.
        take(unsafe { core::slice::from_raw_parts_mut(self.places().as_ptr(), len) });
    }

    /// Puts as many objects into it as there is room for, and says how many.
    pub(crate) fn put(&mut self, objects: &[ObjectAddress]) -> usize {
        let count = objects.len().min(self.room().len());
        self.room()[..count].copy_from_slice(&objects[..count]);
        self.set_len(self.len() + count);
        count
    }

    /// Takes as many objects out of it as are wanted and there, the last ones, and says how many.
    pub(crate) fn take(&mut self, wanted: &mut [ObjectAddress]) -> usize {
        let left = self.len().saturating_sub(wanted.len());
        let taken = &self.objects()[left..];
        let count = taken.len();
        wanted[..count].copy_from_slice(taken);
        self.set_len(left);
        count
    }
}

/// What a CPU's main sheaf lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A sheaf with an object to hand out.
    Objects,
    /// A sheaf with room for a freed object.
    Room,
}

impl Want {
    /// Whether a sheaf would do that has so many objects, and room for so many.
    pub(super) fn is_met_by(self, len: u64, capacity: u64) -> bool {
        match self {
            Want::Objects => len > 0,
            Want::Room => len < capacity,
        }
    }

    /// Whether a sheaf in hand would do.
    pub(super) fn is_met(self, sheaf: &OwnedSheaf) -> bool {
        self.is_met_by(sheaf.sheaf().len, sheaf.sheaf().capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::slab::sheaf_capacity;

    /// Of a sheaf of four.
    #[repr(align(64))]
    struct Memory {
        _words: [u64; 8],
    }

    /// The figures of Linux, which come out of its rounding too.
    #[test]
    fn capacities_fill_their_memory_as_in_linux() {
        const LINUX_HEADER: u64 = 32;
        for (size, asked) in [(8, 60), (255, 60), (256, 26), (1023, 26), (1024, 12), (4095, 12), (4096, 4), (8192, 4)] {
            let memory = u64::next_power_of_two(LINUX_HEADER + asked * 8);
            let capacity = u64::from(sheaf_capacity(size, None));
            assert_eq!(capacity, (memory - LINUX_HEADER) / 8, "{size}");
            assert_eq!(u64::from(SIZES[usize::from(size_class(capacity))].0), memory, "{size}");
        }
    }

    /// Of 1 KiB each, so that as many fit as there are KiB.
    #[test]
    fn a_sheaf_of_so_many_bytes_is_the_largest_that_they_hold() {
        let capacities = [3, 4, 11, 12, 27, 28, 59, 60, 123, 124, 1000].map(|kib| sheaf_capacity(1024, Some(kib)));
        assert_eq!(capacities, [4, 4, 4, 12, 12, 28, 28, 60, 60, 124, 124]);
        assert_eq!((sheaf_capacity(8, Some(u32::MAX)), sheaf_capacity(u32::MAX, Some(0))), (124, 0));
        for capacity in capacities.map(u64::from) {
            let memory = SIZES[usize::from(size_class(capacity))].0;
            assert_eq!(u64::from(memory), (capacity + 4) * 8, "{capacity}, and Linux's header, fill a power of two");
        }
    }

    #[test]
    fn a_sheaf_is_a_stack_of_stretches() {
        let mut memory = Memory { _words: [0; 8] };
        let object = ObjectAddress::new;
        // SAFETY: the array is aligned, and has room for a head and four addresses.
        let mut sheaf = unsafe { OwnedSheaf::new(NonNull::from(&mut memory).cast(), 4) };
        assert!(Want::Room.is_met(&sheaf) && !Want::Objects.is_met(&sheaf));
        assert_eq!(sheaf.put(&[8, 16, 24].map(object)), 3);
        sheaf.fill_by(|room| {
            assert_eq!(room.len(), 1);
            room[0] = object(32);
            1
        });
        assert!(!Want::Room.is_met(&sheaf));
        assert_eq!(sheaf.put(&[object(40)]), 0);
        let mut taken = [UNWRITTEN; 3];
        assert_eq!(sheaf.take(&mut taken), 3);
        assert_eq!((taken, sheaf.objects()), ([16, 24, 32].map(object), [object(8)].as_slice()));
        assert_eq!(sheaf.take(&mut taken), 1);
        assert!(sheaf.is_empty());
    }

    #[test]
    fn a_main_sheaf_is_known_by_the_place_of_its_last_object() {
        let mut memory = Memory { _words: [0; 8] };
        for len in 0..=4 {
            // SAFETY: it is aligned, and large enough for four.
            let mut sheaf = unsafe { OwnedSheaf::new(NonNull::from(&mut memory).cast(), 4) };
            sheaf.put(&[ObjectAddress::new(8); 4][..len]);
            let top = sheaf.into_top();
            // SAFETY: all places from the mark below to the mark above are the sheaf's.
            let (last, above) = unsafe { (top.place().read(), top.up().place().read()) };
            assert_eq!((last.get() == Sheaf::BOTTOM, above.get() == Sheaf::CEILING), (len == 0, len == 4));
            // SAFETY: it has just become a word.
            assert_eq!(unsafe { OwnedSheaf::from_top(top, 4) }.len(), len);
        }
    }
}
