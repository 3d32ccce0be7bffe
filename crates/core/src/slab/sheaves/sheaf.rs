//! One sheaf: an array of free objects, and its holder.
//!
//! A sheaf has one holder. In a CPU's first word it is its *main* sheaf, which sections on that CPU change; in the
//! second word the *spare*, which belongs to the holder of the lock of the CPU's part of the cache; in a barn it
//! belongs to the holder of the barn's lock. Everywhere else it is a [`Held`]: a value that is moved, and that nobody
//! else can reach.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::super::address::ObjectAddress;
use super::super::cpu::Sheaf;

/// Sizes of the memory that sheaves lie in, for each capacity, the smallest first.
pub(super) const SIZES: [(u32, &str); 5] =
    [(64, "sheaf-64"), (128, "sheaf-128"), (256, "sheaf-256"), (512, "sheaf-512"), (1024, "sheaf-1k")];

/// Which of [`SIZES`] a sheaf lies in.
pub(super) fn size_class(capacity: u64) -> u8 {
    let bytes = Sheaf::OBJECTS_OFFSET as u64 + capacity * size_of::<u64>() as u64;
    let class = SIZES.iter().position(|&(size, _)| u64::from(size) >= bytes);
    class.expect("no sheaf is larger than the largest size") as u8
}

/// What stands in an array before objects are written to it.
pub(super) const UNWRITTEN: ObjectAddress = ObjectAddress::new(0);

/// A sheaf that is the holder's alone.
#[derive(Debug)]
#[must_use = "its objects would be lost"]
pub(in crate::slab) struct Held(NonNull<Sheaf>);

// SAFETY: its holder is alone with it.
unsafe impl Send for Held {}

impl Held {
    /// Makes an empty sheaf.
    ///
    /// # Safety
    /// The memory is the caller's, aligned for a [`Sheaf`], and has room for one with `capacity` addresses.
    pub(super) unsafe fn new(memory: NonNull<u8>, capacity: u64) -> Held {
        let sheaf = memory.cast::<Sheaf>();
        // SAFETY: the caller's promise. The addresses are written once, so that all of them can be read.
        unsafe {
            sheaf.write(Sheaf::empty(capacity));
            memory.add(Sheaf::OBJECTS_OFFSET).cast::<ObjectAddress>().write_bytes(0, capacity as usize);
        }
        Held(sheaf)
    }

    /// Takes a sheaf out of a slot's word; nothing if there is none, or one without room, which stands for none.
    ///
    /// # Safety
    /// The word is 0 or that of a sheaf, which from now on is in no word any more, and which no section changes.
    pub(super) unsafe fn from_word(word: u64) -> Option<Held> {
        let held = Held(NonNull::new(word as *mut Sheaf)?);
        (held.capacity() > 0).then_some(held)
    }

    /// The word that a slot holds for it; the slot has it from then on.
    pub(super) fn into_word(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
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
        self.sheaf().len.store(len as u64, Relaxed);
    }

    /// Number of objects in the sheaf.
    pub fn len(&self) -> usize {
        self.sheaf().len.load(Relaxed) as usize
    }

    /// Number of objects that the sheaf has room for.
    pub fn capacity(&self) -> usize {
        self.sheaf().capacity as usize
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The addresses of its objects, first to last.
    pub fn objects(&self) -> &[ObjectAddress] {
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
    pub fn fill_by(&mut self, fill: impl FnOnce(&mut [ObjectAddress]) -> usize) {
        let filled = fill(self.room());
        debug_assert!(self.len() + filled <= self.capacity(), "there was no more room");
        self.set_len(self.len() + filled);
    }

    /// Has its objects taken, all of them.
    pub fn empty_by(&mut self, take: impl FnOnce(&mut [ObjectAddress])) {
        let len = self.len();
        // From now on they are not the sheaf's, even if `take` does not come back.
        self.set_len(0);
        // SAFETY: as in `objects`; the sheaf says that it has none, and is the holder's alone.
        take(unsafe { core::slice::from_raw_parts_mut(self.places().as_ptr(), len) });
    }

    /// Puts as many objects into it as there is room for, and says how many.
    pub fn put(&mut self, objects: &[ObjectAddress]) -> usize {
        let count = objects.len().min(self.room().len());
        self.room()[..count].copy_from_slice(&objects[..count]);
        self.set_len(self.len() + count);
        count
    }

    /// Takes as many objects out of it as are wanted and there, the last ones, and says how many.
    pub fn take(&mut self, wanted: &mut [ObjectAddress]) -> usize {
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
    /// Whether a sheaf would do. What is said of a main sheaf may be over at once.
    pub fn is_met_by(self, sheaf: &Sheaf) -> bool {
        match self {
            Want::Objects => sheaf.len.load(Relaxed) > 0,
            Want::Room => sheaf.len.load(Relaxed) < sheaf.capacity,
        }
    }

    /// Whether a sheaf in hand would do.
    pub fn is_met(self, sheaf: &Held) -> bool {
        self.is_met_by(sheaf.sheaf())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::slab::sheaf_capacity;

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
        assert_eq!((sheaf_capacity(8, Some(u32::MAX)), sheaf_capacity(u32::MAX, Some(0))), (124, 4));
        for capacity in capacities.map(u64::from) {
            let memory = SIZES[usize::from(size_class(capacity))].0;
            assert_eq!(u64::from(memory), (capacity + 4) * 8, "{capacity}, and Linux's header, fill a power of two");
        }
    }

    #[test]
    fn a_sheaf_is_a_stack_of_stretches() {
        let mut memory = [0_u128; 4];
        let object = ObjectAddress::new;
        // SAFETY: the array is aligned, and has room for a header and six addresses.
        let mut sheaf = unsafe { Held::new(NonNull::from(&mut memory).cast(), 4) };
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
    fn no_sheaf_and_one_without_room_are_none() {
        let none = Sheaf::empty(0);
        let word = core::ptr::from_ref(&none).expose_provenance() as u64;
        // SAFETY: 0, and a sheaf that nobody else has.
        assert!(unsafe { Held::from_word(0).is_none() && Held::from_word(word).is_none() });
        assert!(!Want::Room.is_met_by(&none) && !Want::Objects.is_met_by(&none));
    }
}
