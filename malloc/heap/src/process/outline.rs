//! Addresses of the malloc's tables, for readers outside of the process such as `freehold heap`.
//!
//! The outline is a few words in the data segment of the library or program that contains this malloc. It begins with
//! three words that occur nowhere else. A reader finds it by these words: without symbols, in stripped programs, and
//! after the file was deleted. All other words are zero until the process has a heap. From then on they hold the
//! addresses of its tables and the outline's own address, which is written last. By its own address, a reader rejects
//! an outline without a heap, and a copy of the file that is mapped for another purpose. A reader that may read the
//! process's memory can therefore inspect the heap at any time, even if the process is stopped, hangs, or is in an
//! allocation. The process takes no part in the inspection.
//!
//! # Design
//!
//! The malloc supplies these addresses and nothing else: no thread serves requests, no signal of the program is used,
//! and no file is opened.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use freehold::slab::Tables;

use super::options::Hardened;
use super::parts::Malloc;
use super::{AnyHeap, with_heap};

/// Words of an outline.
pub const WORDS: usize = 17;
/// First three words of an outline.
pub const MARK: [u64; 3] = [u64::from_le_bytes(*b"freehold"), 0x9c41_7e0d_52f3_b86a, 0x1bd7_62a9_e40c_f835];
/// Index of the outline's own address, which is the word that is written last.
const OWN_ADDRESS: usize = MARK.len();

/// The outline. It is not all zeros, so it is in the file's data segment.
static OUTLINE: [AtomicU64; WORDS] = {
    let mut words = [const { AtomicU64::new(0) }; WORDS];
    words[0] = AtomicU64::new(MARK[0]);
    words[1] = AtomicU64::new(MARK[1]);
    words[2] = AtomicU64::new(MARK[2]);
    words
};

/// Contents of an outline: addresses in the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// [`fingerprint`](freehold::slab::SlabAllocator::fingerprint) of the caches. A reader whose own caches have
    /// another fingerprint cannot decode the tables.
    pub fingerprint: u64,
    /// Whether the process is hardened: blocks are then held after they were freed.
    pub is_hardened: bool,
    /// Tables of the slab allocator.
    pub slab: Tables,
    /// Number of CPUs that have slots.
    pub cpus: u64,
    /// Address of the number of bytes up to which memory has come online, except for holes, a `usize`.
    pub online: u64,
    /// Address of a pointer to the holes before that: null, or [`HOLES_MAX`](crate::os::holes::HOLES_MAX) words for
    /// [`decode_hole`](crate::os::holes::decode_hole).
    pub online_holes: u64,
    /// Address of the first byte of the range of runs.
    pub runs: u64,
    /// Address of the table with an entry for each page of that range.
    pub run_table: u64,
    /// Address of the number of the page up to which pages have an entry, except for holes, 32 bits.
    pub run_pages: u64,
    /// Address of the holes before that page, as for `online_holes`.
    pub run_holes: u64,
}

impl Outline {
    fn new(malloc: &Malloc) -> Outline {
        let [run_table, run_pages, run_holes] = malloc.runs.table();
        Outline {
            fingerprint: with_heap!(&malloc.heap, heap => heap.slab().fingerprint()),
            is_hardened: malloc.options.hardened == Hardened::On,
            slab: with_heap!(&malloc.heap, heap => heap.slab().tables()),
            cpus: crate::os::cpus::cpu_count().into(),
            online: with_heap!(&malloc.heap, heap => heap.online_addresses()[0]),
            online_holes: with_heap!(&malloc.heap, heap => heap.online_addresses()[1]),
            runs: malloc.runs.range().start().as_ptr().addr() as u64,
            run_table,
            run_pages,
            run_holes,
        }
    }

    /// Decodes words that were read at an address; returns `None` if they are not the outline of a process that has a
    /// heap.
    pub fn from_words(address: u64, words: [u64; WORDS]) -> Option<Outline> {
        let [
            a,
            b,
            c,
            own,
            fingerprint,
            is_hardened,
            memory,
            kinds,
            slabs,
            slots,
            cpus,
            online,
            online_holes,
            runs,
            run_table,
            run_pages,
            run_holes,
        ] = words;
        ([a, b, c] == MARK && own == address).then_some(Outline {
            fingerprint,
            is_hardened: is_hardened != 0,
            slab: Tables { memory, kinds, slabs, slots },
            cpus,
            online,
            online_holes,
            runs,
            run_table,
            run_pages,
            run_holes,
        })
    }

    fn words(self, address: u64) -> [u64; WORDS] {
        let Outline { fingerprint, is_hardened, slab, cpus, .. } = self;
        let Outline { online, online_holes, runs, run_table, run_pages, run_holes, .. } = self;
        let Tables { memory, kinds, slabs, slots } = slab;
        let ([a, b, c], is_hardened) = (MARK, is_hardened.into());
        [
            a,
            b,
            c,
            address,
            fingerprint,
            is_hardened,
            memory,
            kinds,
            slabs,
            slots,
            cpus,
            online,
            online_holes,
            runs,
            run_table,
            run_pages,
            run_holes,
        ]
    }
}

/// Publishes the addresses of a malloc's tables, which do not move any more.
pub(super) fn publish(malloc: &'static Malloc) {
    let words = Outline::new(malloc).words(OUTLINE.as_ptr().addr() as u64);
    for (place, word) in OUTLINE.iter().zip(words).skip(OWN_ADDRESS + 1) {
        place.store(word, Relaxed);
    }
    OUTLINE[OWN_ADDRESS].store(words[OWN_ADDRESS], Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outline_words_round_trip_only_at_their_address() {
        let outline = Outline {
            fingerprint: 1,
            is_hardened: true,
            slab: Tables { memory: 2, kinds: 3, slabs: 4, slots: 5 },
            cpus: 6,
            online: 7,
            runs: 8,
            run_table: 9,
            run_pages: 10,
            online_holes: 11,
            run_holes: 12,
        };
        let words = outline.words(0x1000);
        assert_eq!(Outline::from_words(0x1000, words), Some(outline));
        assert_eq!(Outline::from_words(0x2000, words), None, "a copy");
        let mut other = words;
        other[2] += 1;
        assert_eq!(Outline::from_words(0x1000, other), None);
    }
}
