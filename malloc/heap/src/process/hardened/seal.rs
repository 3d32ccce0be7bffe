//! What stands behind the last byte of each block.
//!
//! ```text
//! in use   | bytes asked for | padding | who allocated | tag |
//! held     | pattern                 | who freed | who allocated | tag |
//! ```
//!
//! The tag is a hash of the address, of what became of the block, of its sites and of how many bytes are padding, which
//! it says too. Nobody can make one who does not know the secret. Padding is a byte of the tag, so whoever writes one
//! byte beyond the end is noticed.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::Site;

/// Bytes of a seal.
pub(super) const SEAL: usize = 2 * WORD;
const WORD: usize = size_of::<u64>();
/// What free memory is overwritten with: no address, as long as eight of it are. linux: POISON_FREE
pub(super) const PATTERN: u8 = 0x6b;
const PATTERN_WORD: u64 = u64::from_ne_bytes([PATTERN; WORD]);
/// Bits of a tag that are the bytes of padding.
const PADDING_BITS: u32 = 16;
/// Bits that are set in a hash: from the golden ratio and the root of three.
const MIX: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];

/// What nobody can guess. Written once, before there is a block.
static SECRET: AtomicU64 = AtomicU64::new(0);

/// Sets what nobody can guess.
pub(super) fn set_secret(secret: u64) {
    SECRET.store(secret | 1, Relaxed);
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is in use.
    Live,
    /// It was given back, and not used again yet.
    Held,
    /// Its seal is none: it was overwritten, or never a block's.
    Broken,
}

/// States as the hash has them.
const LIVE: u64 = 1;
const HELD: u64 = 2;

/// A block with its seal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    start: NonNull<u8>,
    bytes: usize,
}

impl Slot {
    /// The memory of a block; it is mapped.
    pub(super) fn new(start: NonNull<u8>, bytes: usize) -> Slot {
        Slot { start, bytes }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Seals it for use: so many bytes of it were asked for.
    #[inline]
    pub(super) fn seal(&self, size: usize, site: Site) {
        let padding = self.bytes - SEAL - size;
        assert!(padding < 1 << PADDING_BITS, "a block is not much larger than what was asked for");
        let tag = self.tag(LIVE, site.0 as u64, padding as u64);
        self.set(1, site.0 as u64);
        self.set(0, tag);
        // SAFETY: these bytes are the block's, behind those that were asked for.
        unsafe { fill(self.start.add(size), pad(tag), padding) };
    }

    /// Overwrites it, and seals it as free.
    #[inline]
    pub(super) fn hold(&self, site: Site) {
        let (allocated, freed) = (self.word(1), site.0 as u64);
        let padding = self.word(0) & ((1 << PADDING_BITS) - 1);
        // SAFETY: it is nobody's any more, and so many bytes long.
        unsafe { fill(self.start, PATTERN, self.pattern_bytes()) };
        self.set(2, freed);
        self.set(0, self.tag(HELD, held_sites(allocated, freed), padding));
    }

    /// No block begins here any more.
    pub(super) fn release(&self) {
        self.set(0, !self.word(0));
    }

    /// Bytes with the seal.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What its seal says.
    pub(super) fn state(&self) -> State {
        if self.is_live() {
            State::Live
        } else if self.is_held() {
            State::Held
        } else {
            State::Broken
        }
    }

    /// Whether it is in use.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        let [tag, allocated] = [0, 1].map(|word| self.word(word));
        let padding = tag & ((1 << PADDING_BITS) - 1);
        tag == self.tag(LIVE, allocated, padding) && padding as usize <= self.most()
    }

    /// Whether it was given back, and not used again yet.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        let [tag, allocated, freed] = [0, 1, 2].map(|word| self.word(word));
        let padding = tag & ((1 << PADDING_BITS) - 1);
        tag == self.tag(HELD, held_sites(allocated, freed), padding) && padding as usize <= self.most()
    }

    /// Bytes that could be asked for.
    pub(super) fn most(&self) -> usize {
        self.bytes - SEAL
    }

    /// Bytes that were asked for, of a block whose seal is whole.
    pub(super) fn asked(&self) -> usize {
        self.bytes - SEAL - (self.word(0) & ((1 << PADDING_BITS) - 1)) as usize
    }

    /// Who allocated it.
    pub(super) fn allocated(&self) -> Site {
        Site(self.word(1) as usize)
    }

    /// Who gave it back, of one that was.
    pub(super) fn freed(&self) -> Site {
        Site(self.word(2) as usize)
    }

    /// Whether nobody wrote to the padding of a block in use.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        let (mut at, end, pad) = (self.asked(), self.most(), pad(self.word(0)));
        let wanted = u64::from_ne_bytes([pad; WORD]);
        let mut touched = 0;
        while at + WORD <= end {
            // SAFETY: so many bytes are the block's.
            touched |= wanted ^ unsafe { self.start.add(at).cast::<u64>().read_unaligned() };
            at += WORD;
        }
        touched == 0 && (at..end).all(|at| self.byte(at) == pad)
    }

    /// Whether nobody wrote to a free block.
    #[inline]
    pub(super) fn is_untouched(&self) -> bool {
        (0..self.pattern_bytes() / WORD).fold(0, |touched, at| {
            // SAFETY: the block has that many words, and begins at a multiple of a word.
            touched | unsafe { self.start.cast::<u64>().add(at).read() } ^ PATTERN_WORD
        }) == 0
    }

    /// Where somebody did.
    pub(super) fn first_touched(&self) -> Option<usize> {
        (0..self.pattern_bytes()).find(|&at| self.byte(at) != PATTERN)
    }

    /// Whether a request of so many bytes, with a seal, fills it well.
    pub(super) fn is_about(&self, gross: usize) -> bool {
        let most = (self.bytes / 4 + SEAL).min((1 << PADDING_BITS) - 1);
        gross <= self.bytes && self.bytes - gross <= most
    }

    fn pattern_bytes(&self) -> usize {
        self.bytes - SEAL - WORD
    }

    #[inline]
    fn tag(&self, state: u64, sites: u64, padding: u64) -> u64 {
        let secret = SECRET.load(Relaxed);
        let place = self.start.as_ptr().addr() as u64 ^ secret;
        let claims = sites.rotate_left(PADDING_BITS) ^ padding ^ state.wrapping_mul(MIX[0]);
        let product =
            u128::from(place.wrapping_mul(MIX[1]) | 1) * u128::from(claims.wrapping_add(secret.rotate_left(32)));
        let hash = product as u64 ^ (product >> 64) as u64;
        hash << PADDING_BITS | padding
    }

    /// The word so many words before the last one.
    fn word(&self, before: usize) -> u64 {
        // SAFETY: a block has three words at least, which nobody else uses; it ends at a multiple of a word.
        unsafe { self.start.add(self.bytes).cast::<u64>().sub(before + 1).read() }
    }

    fn set(&self, before: usize, word: u64) {
        // SAFETY: a block has three words at least, which nobody else uses; it ends at a multiple of a word.
        unsafe { self.start.add(self.bytes).cast::<u64>().sub(before + 1).write(word) };
    }

    fn byte(&self, at: usize) -> u8 {
        // SAFETY: the caller stays within the block.
        unsafe { self.start.add(at).read() }
    }
}

/// Bytes up to which a block is filled word by word: below, calling somebody who can do it better takes longer.
const FEW: usize = 256;

/// Writes a byte so many times.
///
/// # Safety
/// The memory is the caller's.
#[inline]
unsafe fn fill(start: NonNull<u8>, byte: u8, count: usize) {
    if count > FEW {
        // SAFETY: the caller promises it.
        return unsafe { start.write_bytes(byte, count) };
    }
    let word = u64::from_ne_bytes([byte; WORD]);
    let mut at = 0;
    while at + WORD <= count {
        // SAFETY: the caller promises it. Volatile, or a compiler would see what it is, and call after all.
        unsafe { start.add(at).cast::<[u8; WORD]>().write_volatile(word.to_ne_bytes()) };
        at += WORD;
    }
    for at in at..count {
        // SAFETY: the caller promises it.
        unsafe { start.add(at).write_volatile(byte) };
    }
}

/// The byte that padding is: not zero, which texts end in.
fn pad(tag: u64) -> u8 {
    (tag >> 56) as u8 | 1
}

fn held_sites(allocated: u64, freed: u64) -> u64 {
    allocated ^ freed.rotate_left(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Memory([u8; 128]);

    fn with_slot(test: impl FnOnce(Slot, &dyn Fn(usize, u8))) {
        set_secret(0x1234_5678_9abc_def0);
        let mut memory = Memory([0; 128]);
        let start = NonNull::from(&mut memory.0).cast::<u8>();
        // SAFETY: the memory has so many bytes, and is this test's.
        test(Slot::new(start, 128), &|at, byte| unsafe { start.add(at).write_volatile(byte) });
    }

    #[test]
    fn a_seal_says_what_became_of_a_block() {
        with_slot(|slot, _| {
            assert_eq!(slot.state(), State::Broken);
            slot.seal(100, Site(0x7000));
            assert_eq!((slot.state(), slot.asked(), slot.allocated()), (State::Live, 100, Site(0x7000)));
            assert!(slot.is_whole());
            slot.hold(Site(0x8000));
            assert_eq!((slot.state(), slot.asked()), (State::Held, 100));
            assert_eq!((slot.allocated(), slot.freed()), (Site(0x7000), Site(0x8000)));
            assert!(slot.is_untouched());
            slot.release();
            assert_eq!(slot.state(), State::Broken);
        });
    }

    #[test]
    fn each_byte_beyond_the_end_is_noticed() {
        for at in 100..128 {
            with_slot(|slot, write| {
                slot.seal(100, Site(0x7000));
                write(at, slot.byte(at) ^ 0x10);
                assert!(slot.state() == State::Broken || !slot.is_whole(), "{at}");
            });
        }
    }

    #[test]
    fn each_byte_written_to_a_free_block_is_noticed() {
        for at in 0..128 {
            with_slot(|slot, write| {
                slot.seal(100, Site(0x7000));
                slot.hold(Site(0x8000));
                write(at, slot.byte(at) ^ 1);
                assert!(slot.state() == State::Broken || slot.first_touched() == Some(at), "{at}");
            });
        }
    }

    #[test]
    fn a_block_is_as_large_as_its_memory_or_smaller() {
        with_slot(|slot, _| {
            for size in [0, 8, 100, 112] {
                slot.seal(size, Site::UNKNOWN);
                assert_eq!((slot.state(), slot.asked(), slot.is_whole()), (State::Live, size, true));
            }
            assert!(slot.is_about(128) && slot.is_about(100) && !slot.is_about(129) && !slot.is_about(60));
        });
    }
}
