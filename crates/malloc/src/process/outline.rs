//! Where the malloc's tables lie: for readers outside of the process, such as `freehold heap`.
//!
//! The words have a name that a debugger finds, [`freehold_outline`](OUTLINE). They are zeros until the process has a
//! heap, and say then at which addresses its tables are. Whoever may read the process's memory learns from them what
//! the heap is like at any time, be the process stopped, stuck or within an allocation: nothing is asked of it. What
//! the tables mean is known to the same version of this crate, and of the engine.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use freehold::slab::Tables;

use super::options::Hardened;
use super::start::Malloc;
use super::{AnyHeap, with_heap};

/// Words of an outline.
pub const WORDS: usize = 12;
/// The first word of one that is there.
const MAGIC: u64 = u64::from_le_bytes(*b"freehold");

/// Its words, under the name that readers look for.
// SAFETY: no other library has a reason to use the name.
#[unsafe(export_name = "freehold_outline")]
pub static OUTLINE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// What the words say: addresses in the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The version of this crate that the process has, as a number that others most likely do not have.
    pub version: u64,
    /// Whether misuse is looked for: then blocks are held after they were freed, and count as in use.
    pub is_hardened: bool,
    /// The slab's tables.
    pub slab: Tables,
    /// CPUs that have words.
    pub cpus: u64,
    /// The number of bytes of the range that came online, a `usize`.
    pub online: u64,
    /// Where the range of runs begins.
    pub runs: u64,
    /// What is known of each of its pages, and the number of pages of which something is, 32 bits.
    pub run_table: [u64; 2],
}

impl Outline {
    /// The version of this crate as an outline says it: of its number, and of the sizes of what the tables hold.
    pub const VERSION: u64 = version();

    fn of(malloc: &Malloc) -> Outline {
        Outline {
            version: Outline::VERSION,
            is_hardened: malloc.options.hardened == Hardened::On,
            slab: with_heap!(&malloc.heap, heap => heap.slab().tables()),
            cpus: crate::os::cpus::cpu_count().into(),
            online: with_heap!(&malloc.heap, heap => heap.online_address()),
            runs: malloc.runs.range().start().as_ptr().addr() as u64,
            run_table: malloc.runs.table(),
        }
    }

    /// What words say; `None` if there is no heap yet.
    pub fn from_words(words: [u64; WORDS]) -> Option<Outline> {
        let [MAGIC, version, is_hardened, memory, kinds, slabs, slots, cpus, online, runs, edges, edge_count] = words
        else {
            return None;
        };
        Some(Outline {
            version,
            is_hardened: is_hardened != 0,
            slab: Tables { memory, kinds, slabs, slots },
            cpus,
            online,
            runs,
            run_table: [edges, edge_count],
        })
    }

    fn words(self) -> [u64; WORDS] {
        let Outline { version, is_hardened, slab, cpus, online, runs, run_table: [edges, edge_count] } = self;
        let Tables { memory, kinds, slabs, slots } = slab;
        let is_hardened = is_hardened.into();
        [MAGIC, version, is_hardened, memory, kinds, slabs, slots, cpus, online, runs, edges, edge_count]
    }
}

/// Says where the tables of a malloc are, which stay there.
pub(super) fn publish(malloc: &'static Malloc) {
    let words = Outline::of(malloc).words();
    for (place, word) in OUTLINE.iter().zip(words).skip(1) {
        place.store(word, Relaxed);
    }
    OUTLINE[0].store(words[0], Release);
}

/// FNV-1a of the version's text, and of sizes that tables depend on.
const fn version() -> u64 {
    let text = env!("CARGO_PKG_VERSION").as_bytes();
    let sizes = [size_of::<freehold::slab::slab::Slab>(), freehold::slab::cpu::STRIDE, crate::runs::EDGE];
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < text.len() + sizes.len() {
        let next = if at < text.len() { text[at] as u64 } else { sizes[at - text.len()] as u64 };
        hash = (hash ^ next).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_they_were_made_of_and_zeros_nothing() {
        let outline = Outline {
            version: 1,
            is_hardened: true,
            slab: Tables { memory: 2, kinds: 3, slabs: 4, slots: 5 },
            cpus: 6,
            online: 7,
            runs: 8,
            run_table: [9, 10],
        };
        assert_eq!(Outline::from_words(outline.words()), Some(outline));
        assert_eq!(Outline::from_words([0; WORDS]), None);
    }
}
