//! Where the malloc's tables lie: for readers outside of the process, such as `freehold heap`.
//!
//! The outline is a few words among the data of the library or program that has this malloc. They begin with three that
//! nothing else begins with, so a reader finds them without names of symbols, in stripped programs too, and once the
//! file is gone. They name their own address: a copy of the file that is mapped for another reason does not. The others
//! are zeros until the process has a heap, and say then at which addresses its tables are. Whoever may read the
//! process's memory learns from them what the heap is like at any time, be the process stopped, stuck or within an
//! allocation: nothing is asked of it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use freehold::slab::Tables;

use super::options::Hardened;
use super::start::Malloc;
use super::{AnyHeap, with_heap};

/// Words of an outline.
pub const WORDS: usize = 15;
/// What an outline begins with.
pub const MARK: [u64; 3] = [u64::from_le_bytes(*b"freehold"), 0x9c41_7e0d_52f3_b86a, 0x1bd7_62a9_e40c_f835];
/// The word that says where the outline lies: the last one that is written.
const OWN_ADDRESS: usize = MARK.len();

/// Not zeros, so that it lies among the data of the file.
static OUTLINE: [AtomicU64; WORDS] = {
    let mut words = [const { AtomicU64::new(0) }; WORDS];
    words[0] = AtomicU64::new(MARK[0]);
    words[1] = AtomicU64::new(MARK[1]);
    words[2] = AtomicU64::new(MARK[2]);
    words
};

/// What the words say: addresses in the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// What the caches are like ([`fingerprint`](freehold::slab::SlabAllocator::fingerprint)): a reader whose own are
    /// others cannot tell what the tables mean.
    pub fingerprint: u64,
    /// Whether misuse is looked for: then blocks are held after they were freed.
    pub is_hardened: bool,
    /// The slab's tables.
    pub slab: Tables,
    /// CPUs that have words.
    pub cpus: u64,
    /// The number of bytes of the range that came online, a `usize`.
    pub online: u64,
    /// Where the range of runs begins.
    pub runs: u64,
    /// What is known of each of its pages.
    pub run_table: u64,
    /// The number of pages of which something is known, 32 bits.
    pub run_pages: u64,
}

impl Outline {
    fn new(malloc: &Malloc) -> Outline {
        let [run_table, run_pages] = malloc.runs.table();
        Outline {
            fingerprint: with_heap!(&malloc.heap, heap => heap.slab().fingerprint()),
            is_hardened: malloc.options.hardened == Hardened::On,
            slab: with_heap!(&malloc.heap, heap => heap.slab().tables()),
            cpus: crate::os::cpus::cpu_count().into(),
            online: with_heap!(&malloc.heap, heap => heap.online_address()),
            runs: malloc.runs.range().start().as_ptr().addr() as u64,
            run_table,
            run_pages,
        }
    }

    /// What words say that lie at an address; `None` if they are no outline of a process that has a heap.
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
            runs,
            run_table,
            run_pages,
        ] = words;
        ([a, b, c] == MARK && own == address).then_some(Outline {
            fingerprint,
            is_hardened: is_hardened != 0,
            slab: Tables { memory, kinds, slabs, slots },
            cpus,
            online,
            runs,
            run_table,
            run_pages,
        })
    }

    fn words(self, address: u64) -> [u64; WORDS] {
        let Outline { fingerprint, is_hardened, slab, cpus, online, runs, run_table, run_pages } = self;
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
            runs,
            run_table,
            run_pages,
        ]
    }
}

/// Says where the tables of a malloc are, which stay there.
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
    fn words_say_what_they_were_made_of_where_they_lie_and_nowhere_else() {
        let outline = Outline {
            fingerprint: 1,
            is_hardened: true,
            slab: Tables { memory: 2, kinds: 3, slabs: 4, slots: 5 },
            cpus: 6,
            online: 7,
            runs: 8,
            run_table: 9,
            run_pages: 10,
        };
        let words = outline.words(0x1000);
        assert_eq!(Outline::from_words(0x1000, words), Some(outline));
        assert_eq!(Outline::from_words(0x2000, words), None, "a copy");
        let mut other = words;
        other[2] += 1;
        assert_eq!(Outline::from_words(0x1000, other), None);
    }
}
