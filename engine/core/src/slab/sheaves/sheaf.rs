//! Sheaf: an array of free objects with one holder.
//!
//! The first word of a CPU's slot holds the *main* sheaf, which sections on that CPU change. The second word holds the
//! *spare*, which is protected by the lock of the CPU's part of the cache. A sheaf in a barn is protected by the barn's
//! lock. Every other sheaf is an [`OwnedSheaf`]: a value that is moved and has exclusive access to the sheaf.

use core::ptr::NonNull;

use super::super::address::ObjectAddress;
use super::super::cpu::sheaf::{Sheaf, Top};

/// Sizes of the memory of sheaves, one for each capacity, in ascending order.
pub(super) const SIZES: [(u32, &str); 5] =
    [(64, "sheaf-64"), (128, "sheaf-128"), (256, "sheaf-256"), (512, "sheaf-512"), (1024, "sheaf-1k")];

/// Returns the index in [`SIZES`] of the memory of a sheaf.
pub(super) fn size_class(capacity: u64) -> u8 {
    let class = SIZES.iter().position(|&(size, _)| u64::from(size) >= Sheaf::bytes(capacity));
    class.expect("the largest size fits the largest sheaf") as u8
}

/// Initial value of arrays before objects are written to them.
pub(super) const UNWRITTEN: ObjectAddress = ObjectAddress::new(0);

/// Sheaf with exclusive access to it.
#[derive(Debug)]
#[must_use = "dropping the sheaf loses its objects"]
pub(in crate::slab) struct OwnedSheaf(NonNull<Sheaf>);

// SAFETY: the value has exclusive access to its sheaf, and objects may be used on any thread.
unsafe impl Send for OwnedSheaf {}

impl OwnedSheaf {
    /// Creates an empty sheaf.
    ///
    /// # Safety
    /// The memory belongs to the caller, has the number of bytes that [`Sheaf::bytes`] returns, and is aligned to that
    /// number.
    pub(super) unsafe fn new(memory: NonNull<u8>, capacity: u64) -> OwnedSheaf {
        let sheaf = memory.cast::<Sheaf>();
        // SAFETY: the memory belongs to the caller and is large enough for the head, `capacity` addresses and the
        // ceiling, as the caller promises. All places are written once, so that they can be read as initialized memory.
        unsafe {
            sheaf.write(Sheaf::empty(capacity));
            let places = memory.add(Sheaf::OBJECTS_OFFSET).cast::<ObjectAddress>();
            places.write_bytes(0, capacity as usize);
            places.add(capacity as usize).write(ObjectAddress::new(Sheaf::CEILING));
        }
        OwnedSheaf(sheaf)
    }

    /// Takes a sheaf out of a spare's word; returns `None` if there is no sheaf.
    ///
    /// # Safety
    /// The word is 0, or that of a sheaf which is in no word any more from now on.
    pub(super) unsafe fn from_word(word: u64) -> Option<OwnedSheaf> {
        NonNull::new(word as *mut Sheaf).map(OwnedSheaf)
    }

    /// Returns the word that a slot holds for a spare. The sheaf belongs to the slot from then on.
    pub(super) fn into_word(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Takes a sheaf with room for `capacity` objects out of a main sheaf's word.
    ///
    /// # Safety
    /// The sheaf was in a slot and is in no word any more from now on, and no section changes it.
    pub(super) unsafe fn from_top(top: Top, capacity: u64) -> OwnedSheaf {
        let place = NonNull::new(top.sheaf(capacity) as *mut Sheaf).expect("no sheaf has address 0");
        let mut held = OwnedSheaf(place);
        held.set_len(top.len(capacity) as usize);
        held
    }

    /// Returns the word that a slot holds for a main sheaf. The sheaf belongs to the slot from then on.
    pub(super) fn into_top(self) -> Top {
        Top::new(self.0.as_ptr().expose_provenance() as u64, self.len() as u64)
    }

    /// Returns the memory of the sheaf, which must be empty.
    pub(super) fn into_memory(self) -> NonNull<u8> {
        debug_assert!(self.is_empty(), "the sheaf still has objects");
        self.0.cast()
    }

    fn sheaf(&self) -> &Sheaf {
        // SAFETY: the sheaf's memory is allocated and initialized as long as this value exists, and this value has
        // exclusive access to it.
        unsafe { self.0.as_ref() }
    }

    fn set_len(&mut self, len: usize) {
        // SAFETY: the sheaf's memory is allocated and initialized as long as this value exists, which has exclusive
        // access to it and is borrowed mutably.
        unsafe { self.0.as_mut() }.len = len as u64;
    }

    /// Returns the number of objects in the sheaf.
    pub(crate) fn len(&self) -> usize {
        self.sheaf().len as usize
    }

    /// Returns the number of objects that the sheaf has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.sheaf().capacity as usize
    }

    /// Returns whether the sheaf has no objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the addresses of the sheaf's objects, first to last.
    pub(crate) fn objects(&self) -> &[ObjectAddress] {
        let places = self.places();
        // SAFETY: all places were written when the sheaf was created, `len` is at most their number, and this value has
        // exclusive access to them.
        unsafe { core::slice::from_raw_parts(places.as_ptr(), self.len()) }
    }

    fn places(&self) -> NonNull<ObjectAddress> {
        // SAFETY: the addresses follow the head in the same allocation.
        unsafe { self.0.cast::<u8>().add(Sheaf::OBJECTS_OFFSET).cast() }
    }

    /// Returns the places after the last object, which have room for more.
    fn room(&mut self) -> &mut [ObjectAddress] {
        // SAFETY: as in `objects`; the value is borrowed mutably, so no slice of `objects` exists meanwhile.
        unsafe { core::slice::from_raw_parts_mut(self.places().add(self.len()).as_ptr(), self.capacity() - self.len()) }
    }

    /// Lets `fill` write objects to the free places, starting with the first. `fill` returns the number of objects that
    /// it wrote.
    pub(crate) fn fill_by(&mut self, fill: impl FnOnce(&mut [ObjectAddress]) -> usize) {
        let filled = fill(self.room());
        debug_assert!(self.len() + filled <= self.capacity(), "the sheaf was filled beyond its capacity");
        self.set_len(self.len() + filled);
    }

    /// Lets `take` take all objects.
    pub(crate) fn empty_by(&mut self, take: impl FnOnce(&mut [ObjectAddress])) {
        let len = self.len();
        // The sheaf is empty before `take` is called, so that it does not contain the objects if `take` panics.
        self.set_len(0);
        // SAFETY: as in `objects`; the value is borrowed mutably, so no other slice of these places exists meanwhile.
        take(unsafe { core::slice::from_raw_parts_mut(self.places().as_ptr(), len) });
    }

    /// Puts as many of the objects into the sheaf as it has room for, and returns their number.
    pub(crate) fn put(&mut self, objects: &[ObjectAddress]) -> usize {
        let count = objects.len().min(self.room().len());
        self.room()[..count].copy_from_slice(&objects[..count]);
        self.set_len(self.len() + count);
        count
    }

    /// Takes objects from the end of the sheaf into `wanted`, as many as it has place for and the sheaf has. Returns
    /// their number.
    pub(crate) fn take(&mut self, wanted: &mut [ObjectAddress]) -> usize {
        let left = self.len().saturating_sub(wanted.len());
        let taken = &self.objects()[left..];
        let count = taken.len();
        wanted[..count].copy_from_slice(taken);
        self.set_len(left);
        count
    }
}

/// Property that a CPU's main sheaf lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// The sheaf must have an object to hand out.
    Objects,
    /// The sheaf must have room for a freed object.
    Room,
}

impl Want {
    /// Returns whether a sheaf with `len` objects, and room for `capacity`, meets the want.
    pub(super) fn is_met_by(self, len: u64, capacity: u64) -> bool {
        match self {
            Want::Objects => len > 0,
            Want::Room => len < capacity,
        }
    }

    /// Returns whether an owned sheaf meets the want.
    pub(super) fn is_met(self, sheaf: &OwnedSheaf) -> bool {
        self.is_met_by(sheaf.sheaf().len, sheaf.sheaf().capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::slab::sheaf_capacity;

    /// Memory of a sheaf with room for four objects.
    #[repr(align(64))]
    struct Memory {
        _words: [u64; 8],
    }

    /// The expected values are those of Linux, computed by Linux's rounding.
    #[test]
    fn sheaf_capacities_match_linux() {
        const LINUX_HEADER: u64 = 32;
        for (size, requested) in
            [(8, 60), (255, 60), (256, 26), (1023, 26), (1024, 12), (4095, 12), (4096, 4), (8192, 4)]
        {
            let memory = u64::next_power_of_two(LINUX_HEADER + requested * 8);
            let capacity = u64::from(sheaf_capacity(size, None));
            assert_eq!(capacity, (memory - LINUX_HEADER) / 8, "{size}");
            assert_eq!(u64::from(SIZES[usize::from(size_class(capacity))].0), memory, "{size}");
        }
    }

    /// The objects have 1 KiB each, so the number of KiB is the number of objects that fit.
    #[test]
    fn sheaf_capacity_is_the_largest_that_fits() {
        let capacities = [3, 4, 11, 12, 27, 28, 59, 60, 123, 124, 1000].map(|kib| sheaf_capacity(1024, Some(kib)));
        assert_eq!(capacities, [4, 4, 4, 12, 12, 28, 28, 60, 60, 124, 124]);
        assert_eq!((sheaf_capacity(8, Some(u32::MAX)), sheaf_capacity(u32::MAX, Some(0))), (124, 0));
        for capacity in capacities.map(u64::from) {
            let memory = SIZES[usize::from(size_class(capacity))].0;
            assert_eq!(
                u64::from(memory),
                (capacity + 4) * 8,
                "{capacity} objects and Linux's header do not fill a power of two"
            );
        }
    }

    #[test]
    fn sheaf_put_and_take_are_last_in_first_out() {
        let mut memory = Memory { _words: [0; 8] };
        let object = ObjectAddress::new;
        // SAFETY: the array is aligned to its 64 bytes, which have room for a head, four addresses and the ceiling.
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
    fn top_word_round_trips_and_marks_empty_and_full() {
        let mut memory = Memory { _words: [0; 8] };
        for len in 0..=4 {
            // SAFETY: the array is aligned to its 64 bytes, which have room for a head, four addresses and the ceiling.
            let mut sheaf = unsafe { OwnedSheaf::new(NonNull::from(&mut memory).cast(), 4) };
            sheaf.put(&[ObjectAddress::new(8); 4][..len]);
            let top = sheaf.into_top();
            // SAFETY: the place of the last object and the place above it are within the sheaf, including its marks.
            let (last, above) = unsafe { (top.place().read(), top.up().place().read()) };
            assert_eq!((last.get() == Sheaf::BOTTOM, above.get() == Sheaf::CEILING), (len == 0, len == 4));
            // SAFETY: `into_top` has just returned this word, so the sheaf is in no other word, and no section uses it.
            assert_eq!(unsafe { OwnedSheaf::from_top(top, 4) }.len(), len);
        }
    }
}
