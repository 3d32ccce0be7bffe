//! The naive slab: which bytes are in use, and what is in them.

use std::collections::BTreeMap;
use std::ptr::NonNull;

/// What somebody has.
#[derive(Clone, Copy, Debug)]
struct LiveObject {
    size: usize,
    tag: u8,
}

/// Objects in use, by address.
#[derive(Debug, Default)]
pub(super) struct ObjectModel {
    held: BTreeMap<usize, LiveObject>,
    taken: usize,
}

impl ObjectModel {
    /// Somebody got an object of so many bytes, none of which anybody has, and fills it.
    pub(super) fn take(&mut self, object: NonNull<u8>, size: usize) {
        let start = object.addr().get();
        let before = self.held.range(..start + size).next_back();
        assert!(before.is_none_or(|(at, held)| at + held.size <= start), "{object:p} of {size} lies in {before:x?}");
        self.taken += 1;
        let tag = self.taken as u8 | 1;
        // SAFETY: nobody else has a byte of it.
        unsafe { object.write_bytes(tag, size) };
        self.held.insert(start, LiveObject { size, tag });
    }

    /// An object is about to go back: the bytes, as far as asked for, are as they were left.
    pub(super) fn give(&mut self, object: NonNull<u8>) {
        let held = self.held.remove(&object.addr().get()).expect("somebody has it");
        // SAFETY: until now it was in use, and was filled when it was taken.
        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), held.size) };
        assert!(bytes.iter().all(|&byte| byte == held.tag), "{object:p} was written by somebody else");
    }

    /// Any object, by a number.
    pub(super) fn pick(&self, number: usize) -> Option<NonNull<u8>> {
        let at = number.checked_rem(self.held.len())?;
        self.held.keys().nth(at).map(|&address| NonNull::new(address as *mut u8).expect("it is an object"))
    }

    /// Bytes of an object that somebody asked for.
    pub(super) fn size(&self, object: NonNull<u8>) -> usize {
        self.held[&object.addr().get()].size
    }

    /// Objects in use.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Different results of a question about each object.
    pub(super) fn count_by<K: Ord>(&self, question: impl Fn(usize) -> K) -> usize {
        self.held.keys().map(|&address| question(address)).collect::<std::collections::BTreeSet<_>>().len()
    }
}
