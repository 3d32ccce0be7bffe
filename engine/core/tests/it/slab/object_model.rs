//! Simple model of the slab: the bytes that are in use, and their contents.

use std::collections::BTreeMap;
use std::ptr::NonNull;

/// An allocated object.
#[derive(Clone, Copy, Debug)]
struct LiveObject {
    size: usize,
    tag: u8,
}

/// Allocated objects, by address.
#[derive(Debug, Default)]
pub(super) struct ObjectModel {
    held: BTreeMap<usize, LiveObject>,
    taken: usize,
}

impl ObjectModel {
    /// Records an object of `size` bytes, which must not overlap any other, and fills it.
    pub(super) fn take(&mut self, object: NonNull<u8>, size: usize) {
        let start = object.addr().get();
        let before = self.held.range(..start + size).next_back();
        assert!(before.is_none_or(|(at, held)| at + held.size <= start), "{object:p} of {size} lies in {before:x?}");
        self.taken += 1;
        let tag = self.taken as u8 | 1;
        // SAFETY: the object was just allocated, has `size` bytes, and overlaps no other recorded object.
        unsafe { object.write_bytes(tag, size) };
        self.held.insert(start, LiveObject { size, tag });
    }

    /// Removes an object that is about to be freed, after checking that its bytes are unchanged.
    pub(super) fn give(&mut self, object: NonNull<u8>) {
        let held = self.held.remove(&object.addr().get()).expect("the model must know the owner of the object");
        // SAFETY: the object is still allocated, and `take` initialised its bytes.
        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), held.size) };
        assert!(bytes.iter().all(|&byte| byte == held.tag), "{object:p} was changed by another owner");
    }

    /// Returns the object that a number selects.
    pub(super) fn pick(&self, number: usize) -> Option<NonNull<u8>> {
        let at = number.checked_rem(self.held.len())?;
        self.held
            .keys()
            .nth(at)
            .map(|&address| NonNull::new(address as *mut u8).expect("the pointer must be an object in use"))
    }

    /// Returns the requested size of an object.
    pub(super) fn size(&self, object: NonNull<u8>) -> usize {
        self.held[&object.addr().get()].size
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the number of different results of `question` for all objects.
    pub(super) fn count_by<K: Ord>(&self, question: impl Fn(usize) -> K) -> usize {
        self.held.keys().map(|&address| question(address)).collect::<std::collections::BTreeSet<_>>().len()
    }
}
