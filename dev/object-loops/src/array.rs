//! Array of the addresses of allocated objects, in the order of allocation.
//!
//! The addresses are atomics, so that one thread may store them and another may load them. With relaxed ordering, both
//! compile to plain moves.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Objects;
use crate::clock::now;
use crate::rounds::{Size, Trouble};

/// Array of the addresses of objects.
pub(crate) struct ObjectArray(Box<[AtomicPtr<u8>]>);

impl ObjectArray {
    /// Creates an array with room for `count` objects.
    pub(crate) fn new(count: usize) -> ObjectArray {
        ObjectArray((0..count).map(|_| AtomicPtr::new(null_mut())).collect())
    }

    /// Allocates an object for every place, and returns the ticks that this took.
    ///
    /// # Errors
    /// Returns an error if an allocation fails. The objects that were allocated until then are freed.
    #[inline(never)]
    pub(crate) fn fill(&self, objects: &(impl Objects + ?Sized), size: Size) -> Result<u64, Trouble> {
        let bytes = size.bytes();
        let start = now();
        for (at, place) in self.0.iter().enumerate() {
            let object = objects.malloc(bytes);
            place.store(object, Ordering::Relaxed);
            if object.is_null() {
                // SAFETY: this loop filled the places before this one with objects of this allocator, which are not
                // freed elsewhere.
                unsafe { free_all(objects, &self.0[..at]) }
                return Err(Trouble::Exhausted { after: at, size });
            }
        }
        Ok(now() - start)
    }

    /// Frees every object in the order of allocation, and returns the ticks that this took.
    ///
    /// # Safety
    /// `fill` must have filled the array with objects of the same allocator, and the array must not have been cleared
    /// since.
    #[inline(never)]
    pub(crate) unsafe fn clear(&self, objects: &(impl Objects + ?Sized)) -> u64 {
        let start = now();
        // SAFETY: the caller promises that all places contain objects of `objects` that have not been freed.
        unsafe { free_all(objects, &self.0) }
        now() - start
    }
}

/// Frees the objects in these places.
///
/// # Safety
/// As for [`ObjectArray::clear`], for these places.
#[inline(always)]
unsafe fn free_all(objects: &(impl Objects + ?Sized), places: &[AtomicPtr<u8>]) {
    for place in places {
        // SAFETY: the caller promises that the place contains an object of this allocator that has not been freed, and
        // each place is visited once.
        unsafe { objects.free(place.load(Ordering::Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeAllocator;

    const SIZE: Size = Size::new(24).unwrap();

    #[test]
    fn filled_array_is_cleared_in_order() {
        let (fake, array) = (FakeAllocator::new(), ObjectArray::new(100));
        for _ in 0..3 {
            array.fill(&fake, SIZE).unwrap();
            assert_eq!(fake.live(), 100);
            // SAFETY: `fill` has just succeeded with the same allocator, and the array has not been cleared since.
            unsafe { array.clear(&fake) };
            assert_eq!(fake.close(), Ok(100));
        }
    }

    #[test]
    fn partial_fill_is_freed_on_exhaustion() {
        let (fake, array) = (FakeAllocator::with_most(60), ObjectArray::new(100));
        assert_eq!(array.fill(&fake, SIZE).unwrap_err(), Trouble::Exhausted { after: 60, size: SIZE });
        assert_eq!(fake.close(), Ok(60));
    }

    /// Tests a loop that frees the first object twice, and a loop that does not free the last object.
    #[test]
    fn faulty_loops_are_detected() {
        let (fake, array) = (FakeAllocator::new(), ObjectArray::new(10));
        array.fill(&fake, SIZE).unwrap();
        // SAFETY: `free` of the fake allocator only records the address and never accesses it, so a double free is
        // harmless.
        unsafe {
            free_all(&fake, &array.0[..1]);
            array.clear(&fake);
        }
        assert_eq!(fake.close(), Err("1 freed without an allocation".to_owned()));
        array.fill(&fake, SIZE).unwrap();
        // SAFETY: `free` of the fake allocator only records the address, and these places were filled above.
        unsafe { free_all(&fake, &array.0[..9]) };
        assert_eq!(fake.close(), Err("1 never freed".to_owned()));
    }
}
