//! Fake allocator without memory. It records allocations and frees, to check that a loop frees every object that it
//! allocates exactly once.

use std::collections::BTreeSet;
use std::ptr::without_provenance_mut;
use std::sync::Mutex;

use crate::Objects;

/// Fake allocator with its records. Its objects are addresses that must not be dereferenced.
pub(crate) struct FakeAllocator {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    most: usize,
    next: usize,
    live: BTreeSet<usize>,
    freed: usize,
    strangers: usize,
    sizes: BTreeSet<usize>,
    threads: i32,
    threads_seen: i32,
}

impl FakeAllocator {
    /// Creates an allocator that never runs out of objects.
    pub(crate) fn new() -> FakeAllocator {
        FakeAllocator::with_most(usize::MAX)
    }

    /// Creates an allocator with at most `most` live objects.
    pub(crate) fn with_most(most: usize) -> FakeAllocator {
        FakeAllocator { books: Mutex::new(Books { most, ..Books::default() }) }
    }

    /// Returns the number of objects that have not been freed.
    pub(crate) fn live(&self) -> usize {
        self.books.lock().unwrap().live.len()
    }

    /// Returns the requested sizes, and the number of threads that used the allocator.
    pub(crate) fn seen(&self) -> (Vec<usize>, i32) {
        let books = self.books.lock().unwrap();
        (books.sizes.iter().copied().collect(), books.threads_seen)
    }

    /// Returns the number of objects that were allocated and freed since the last call, or a description of what is
    /// wrong. Resets the records.
    pub(crate) fn close(&self) -> Result<usize, String> {
        let mut books = self.books.lock().unwrap();
        let Books { live, freed, strangers, threads, .. } = std::mem::take(&mut *books);
        books.most = usize::MAX;
        match (strangers, live.len(), threads) {
            (0, 0, 0) => Ok(freed),
            (0, 0, threads) => Err(format!("{threads} threads did not leave")),
            (0, live, _) => Err(format!("{live} never freed")),
            (strangers, ..) => Err(format!("{strangers} freed without an allocation")),
        }
    }
}

impl Objects for FakeAllocator {
    fn malloc(&self, size: usize) -> *mut u8 {
        let mut books = self.books.lock().unwrap();
        if books.live.len() == books.most {
            return std::ptr::null_mut();
        }
        books.next += 1;
        let object = books.next;
        books.live.insert(object);
        books.sizes.insert(size);
        without_provenance_mut(object)
    }

    unsafe fn free(&self, object: *mut u8) {
        let mut books = self.books.lock().unwrap();
        match books.live.remove(&object.addr()) {
            true => books.freed += 1,
            false => books.strangers += 1,
        }
    }

    fn enter_thread(&self) {
        let mut books = self.books.lock().unwrap();
        books.threads += 1;
        books.threads_seen += 1;
    }

    fn leave_thread(&self) {
        self.books.lock().unwrap().threads -= 1;
    }
}
