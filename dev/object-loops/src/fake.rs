//! An allocator that keeps books and owns no memory, to find out whether a loop frees what it allocates, all of it, and
//! once.

use std::collections::BTreeSet;
use std::ptr::without_provenance_mut;
use std::sync::Mutex;

use crate::Objects;

/// The books. Objects are addresses that nobody may follow.
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
    /// Without an end of memory.
    pub(crate) fn new() -> FakeAllocator {
        FakeAllocator::with_most(usize::MAX)
    }

    /// No more than so many objects at a time.
    pub(crate) fn with_most(most: usize) -> FakeAllocator {
        FakeAllocator { books: Mutex::new(Books { most, ..Books::default() }) }
    }

    /// Objects that somebody has.
    pub(crate) fn live(&self) -> usize {
        self.books.lock().unwrap().live.len()
    }

    /// The sizes that were asked for, and how many threads came.
    pub(crate) fn seen(&self) -> (Vec<usize>, i32) {
        let books = self.books.lock().unwrap();
        (books.sizes.iter().copied().collect(), books.threads_seen)
    }

    /// How many objects were allocated and freed since the last time, or what is wrong.
    pub(crate) fn close(&self) -> Result<usize, String> {
        let mut books = self.books.lock().unwrap();
        let Books { live, freed, strangers, threads, .. } = std::mem::take(&mut *books);
        books.most = usize::MAX;
        match (strangers, live.len(), threads) {
            (0, 0, 0) => Ok(freed),
            (0, 0, threads) => Err(format!("{threads} threads never left")),
            (0, live, _) => Err(format!("{live} never freed")),
            (strangers, ..) => Err(format!("{strangers} freed that nobody had")),
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
