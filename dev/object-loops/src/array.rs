//! Where objects wait between their allocation and their free: an array of addresses, in order of allocation.
//!
//! The addresses are atomics, so that one thread may put and another take; both are plain moves.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Objects;
use crate::clock::now;
use crate::rounds::{Size, Trouble};

/// An array of addresses.
pub(crate) struct ObjectArray(Box<[AtomicPtr<u8>]>);

impl ObjectArray {
    /// An array with room for `count` objects.
    pub(crate) fn new(count: usize) -> ObjectArray {
        ObjectArray((0..count).map(|_| AtomicPtr::new(null_mut())).collect())
    }

    /// Allocates an object for every place; the ticks that it took. If there are not enough objects, those that there
    /// were are freed.
    ///
    /// # Errors
    /// When an allocation fails.
    #[inline(never)]
    pub(crate) fn fill(&self, objects: &(impl Objects + ?Sized), size: Size) -> Result<u64, Trouble> {
        let bytes = size.bytes();
        let start = now();
        for (at, place) in self.0.iter().enumerate() {
            let object = objects.malloc(bytes);
            place.store(object, Ordering::Relaxed);
            if object.is_null() {
                // SAFETY: the places before this one were filled in this loop, and nobody else knows.
                unsafe { free_all(objects, &self.0[..at]) }
                return Err(Trouble::Exhausted { after: at, size });
            }
        }
        Ok(now() - start)
    }

    /// Frees every object, in the order of allocation; the ticks that it took.
    ///
    /// # Safety
    /// `fill` has filled the array with objects of the same allocator, and nobody has cleared it since.
    #[inline(never)]
    pub(crate) unsafe fn clear(&self, objects: &(impl Objects + ?Sized)) -> u64 {
        let start = now();
        // SAFETY: as the caller promises.
        unsafe { free_all(objects, &self.0) }
        now() - start
    }
}

/// Frees what lies in these places.
///
/// # Safety
/// As for [`ObjectArray::clear`], of these places.
#[inline(always)]
unsafe fn free_all(objects: &(impl Objects + ?Sized), places: &[AtomicPtr<u8>]) {
    for place in places {
        // SAFETY: as the caller promises.
        unsafe { objects.free(place.load(Ordering::Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeAllocator;

    const SIZE: Size = Size::new(24).unwrap();

    #[test]
    fn all_that_is_filled_is_cleared_in_order() {
        let (fake, array) = (FakeAllocator::new(), ObjectArray::new(100));
        for _ in 0..3 {
            array.fill(&fake, SIZE).unwrap();
            assert_eq!(fake.live(), 100);
            // SAFETY: it was filled in the line before.
            unsafe { array.clear(&fake) };
            assert_eq!(fake.close(), Ok(100));
        }
    }

    #[test]
    fn what_was_had_before_the_end_of_memory_goes_back() {
        let (fake, array) = (FakeAllocator::with_most(60), ObjectArray::new(100));
        assert_eq!(array.fill(&fake, SIZE).unwrap_err(), Trouble::Exhausted { after: 60, size: SIZE });
        assert_eq!(fake.close(), Ok(60));
    }

    /// A loop that frees the first object twice, and one that forgets the last.
    #[test]
    fn a_loop_that_does_wrong_is_noticed() {
        let (fake, array) = (FakeAllocator::new(), ObjectArray::new(10));
        array.fill(&fake, SIZE).unwrap();
        // SAFETY: the fake takes note of what is freed twice, and does nothing else.
        unsafe {
            free_all(&fake, &array.0[..1]);
            array.clear(&fake);
        }
        assert_eq!(fake.close(), Err("1 freed that nobody had".to_owned()));
        array.fill(&fake, SIZE).unwrap();
        // SAFETY: the fake only counts.
        unsafe { free_all(&fake, &array.0[..9]) };
        assert_eq!(fake.close(), Err("1 never freed".to_owned()));
    }
}
