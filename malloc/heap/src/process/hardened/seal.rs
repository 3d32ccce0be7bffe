//! Seals: metadata behind the last byte of each block.
//!
//! ```text
//! in use   | requested bytes | padding | allocation site | tag |
//! held     | pattern       | free site | allocation site | tag |
//! ```
//!
//! The tag contains the number of padding bytes and a hash of the address, the state, the sites and that number. The
//! hash depends on a secret, so a program cannot forge a tag by accident or without knowledge of the secret. The
//! padding bytes repeat the highest byte of the tag, so a write of a single byte beyond the end, or before the next
//! block, is detected unless it writes that byte.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::Site;

/// Bytes of a seal.
pub(super) const SEAL: usize = 2 * WORD;
/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();
/// Byte with which free memory is overwritten. Eight of them are not a valid address. linux: POISON_FREE
pub(super) const PATTERN: u8 = 0x6b;
const PATTERN_WORD: u64 = u64::from_ne_bytes([PATTERN; WORD]);
/// Position of the byte of a tag that padding repeats.
const PAD_SHIFT: u32 = u64::BITS - u8::BITS;
/// Bits of a tag that hold the number of padding bytes.
const PADDING_BITS: u32 = 16;
/// Multipliers of the hash: bits of the golden ratio and of the square root of three.
const MIX: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];

/// Secret of the process's tags. Written once, before the first block is allocated.
static SECRET: AtomicU64 = AtomicU64::new(0);

/// Sets the secret.
pub(super) fn set_secret(secret: u64) {
    SECRET.store(secret | 1, Relaxed);
}

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The block is in use.
    Live,
    /// The block was freed, and was not reused yet.
    Held,
    /// The seal is invalid: it was overwritten, or there was never a block.
    Broken,
}

/// Numbers of the states in the hash.
const LIVE: u64 = 1;
const HELD: u64 = 2;

/// The memory of a block with its seal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    start: NonNull<u8>,
    bytes: usize,
}

impl Slot {
    /// Describes the memory of a block, which must be mapped.
    pub(super) fn new(start: NonNull<u8>, bytes: usize) -> Slot {
        Slot { start, bytes }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Writes the seal of a block in use, of which `size` bytes were requested.
    #[inline]
    pub(super) fn seal(&self, size: usize, site: Site) {
        let padding = self.bytes - SEAL - size;
        assert!(padding < 1 << PADDING_BITS, "the padding is too large for the seal");
        let tag = self.tag_for(LIVE, site.0 as u64, padding as u64);
        self.set(1, site.0 as u64);
        self.set(0, tag);
        // SAFETY: the padding is inside the block, between the requested bytes and the seal, so the program does not
        // use it.
        unsafe { fill(self.start.add(size), pad(tag), padding) };
    }

    /// Overwrites a freed block, and writes the seal of a held block.
    #[inline]
    pub(super) fn hold(&self, site: Site) {
        let (allocated, freed) = (self.word(1), site.0 as u64);
        let padding = padding_of(self.tag()) as u64;
        // SAFETY: the program freed the block, and the pattern ends before the words of the seal.
        unsafe { fill(self.start, PATTERN, self.pattern_bytes()) };
        self.set(2, freed);
        self.set(0, self.tag_for(HELD, held_sites(allocated, freed), padding));
    }

    /// Invalidates the seal: from now on no block starts here.
    pub(super) fn release(&self) {
        self.set(0, !self.word(0));
    }

    /// Returns the bytes of the block, including the seal.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the state that the seal records.
    pub(super) fn state(&self) -> State {
        if self.is_live() {
            State::Live
        } else if self.is_held() {
            State::Held
        } else {
            State::Broken
        }
    }

    /// Returns whether the block is in use.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.valid_tag(State::Live, padding_of(self.tag())) == Some(self.tag())
    }

    /// Returns whether the block was freed and not reused yet.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.valid_tag(State::Held, padding_of(self.tag())) == Some(self.tag())
    }

    /// Returns the largest size that could be requested of this memory.
    pub(super) fn most(&self) -> usize {
        self.bytes - SEAL
    }

    /// Returns the tag as it is, also if it is invalid.
    pub(super) fn tag(&self) -> u64 {
        self.word(0)
    }

    /// Returns the tag that would be valid with the sites as they are; `None` if the block has no room for the padding.
    #[inline]
    pub(super) fn valid_tag(&self, state: State, padding: usize) -> Option<u64> {
        match state {
            State::Live => self.tag_of_live(self.allocated(), padding),
            State::Held => self.tag_with_room(HELD, held_sites(self.word(1), self.word(2)), padding),
            State::Broken => None,
        }
    }

    /// Returns the tag of a block in use; `None` if the block has no room for the padding.
    #[inline]
    pub(super) fn tag_of_live(&self, site: Site, padding: usize) -> Option<u64> {
        self.tag_with_room(LIVE, site.0 as u64, padding)
    }

    #[inline]
    fn tag_with_room(&self, state: u64, sites: u64, padding: usize) -> Option<u64> {
        let has_room = padding <= self.most() && padding < 1 << PADDING_BITS;
        has_room.then(|| self.tag_for(state, sites, padding as u64))
    }

    /// Returns the requested bytes of a block with a valid seal.
    pub(super) fn requested(&self) -> usize {
        self.bytes - SEAL - padding_of(self.tag())
    }

    /// Returns the call site of the allocation.
    pub(super) fn allocated(&self) -> Site {
        Site(self.word(1) as usize)
    }

    /// Returns the call site of the free of a held block.
    pub(super) fn freed(&self) -> Site {
        Site(self.word(2) as usize)
    }

    /// Returns whether the padding of a block in use is unchanged.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        let (mut at, end, pad) = (self.requested(), self.most(), pad(self.word(0)));
        let wanted = u64::from_ne_bytes([pad; WORD]);
        let mut touched = 0;
        while at + WORD <= end {
            // SAFETY: `at + WORD` is at most the end of the padding, so the bytes are inside the block.
            touched |= wanted ^ unsafe { self.start.add(at).cast::<u64>().read_unaligned() };
            at += WORD;
        }
        touched == 0 && (at..end).all(|at| self.byte(at) == pad)
    }

    /// Returns whether the pattern of a held block is unchanged.
    #[inline]
    pub(super) fn is_untouched(&self) -> bool {
        (0..self.pattern_bytes() / WORD).fold(0, |touched, at| {
            // SAFETY: the index is below the number of words of the pattern, which is inside the block, and the block
            // is aligned to a word.
            touched | unsafe { self.start.cast::<u64>().add(at).read() } ^ PATTERN_WORD
        }) == 0
    }

    /// Returns the offset of the first byte of a held block that was changed, or `None` if the pattern is whole.
    pub(super) fn first_touched(&self) -> Option<usize> {
        (0..self.pattern_bytes()).find(|&at| self.byte(at) != PATTERN)
    }

    /// Returns whether a request of `gross` bytes, including the seal, fits this memory without much waste.
    pub(super) fn is_about(&self, gross: usize) -> bool {
        let most = (self.bytes / 4 + SEAL).min((1 << PADDING_BITS) - 1);
        gross <= self.bytes && self.bytes - gross <= most
    }

    fn pattern_bytes(&self) -> usize {
        self.bytes - SEAL - WORD
    }

    #[inline]
    fn tag_for(&self, state: u64, sites: u64, padding: u64) -> u64 {
        let secret = SECRET.load(Relaxed);
        let place = self.start.as_ptr().addr() as u64 ^ secret;
        let claims = sites.rotate_left(PADDING_BITS) ^ padding ^ state.wrapping_mul(MIX[0]);
        let product =
            u128::from(place.wrapping_mul(MIX[1]) | 1) * u128::from(claims.wrapping_add(secret.rotate_left(32)));
        let hash = product as u64 ^ (product >> 64) as u64;
        let tag = hash << PADDING_BITS | padding;
        tag & (u64::MAX >> u8::BITS) | u64::from(never_text((tag >> PAD_SHIFT) as u8)) << PAD_SHIFT
    }

    /// Returns the word that has `before` other words between it and the end of the block.
    fn word(&self, before: usize) -> u64 {
        // SAFETY: a block has at least three words, which belong to the seal while this value is used; it ends at a
        // multiple of a word, and `before` is at most 2.
        unsafe { self.start.add(self.bytes).cast::<u64>().sub(before + 1).read() }
    }

    fn set(&self, before: usize, word: u64) {
        // SAFETY: a block has at least three words, which belong to the seal while this value is used; it ends at a
        // multiple of a word, and `before` is at most 2.
        unsafe { self.start.add(self.bytes).cast::<u64>().sub(before + 1).write(word) };
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        // SAFETY: callers pass an offset inside the block, which is mapped.
        unsafe { self.start.add(at).read() }
    }
}

/// Most bytes of a block that is filled word by word. For these a call of the faster `memset` takes longer.
const FEW: usize = 256;

/// Writes `count` copies of a byte.
///
/// # Safety
/// The memory belongs to the caller, and is valid for `count` bytes.
#[inline]
unsafe fn fill(start: NonNull<u8>, byte: u8, count: usize) {
    if count > FEW {
        // SAFETY: the caller promises that `count` bytes belong to it.
        return unsafe { start.write_bytes(byte, count) };
    }
    let word = u64::from_ne_bytes([byte; WORD]);
    let mut at = 0;
    while at + WORD <= count {
        // SAFETY: `at + WORD` is at most `count`, and the caller promises that `count` bytes belong to it. The write is
        // volatile, because a compiler would otherwise replace the loop by a call of `memset`.
        unsafe { start.add(at).cast::<[u8; WORD]>().write_volatile(word.to_ne_bytes()) };
        at += WORD;
    }
    for at in at..count {
        // SAFETY: `at` is below `count`, and the caller promises that `count` bytes belong to it.
        unsafe { start.add(at).write_volatile(byte) };
    }
}

/// Returns the byte of which padding consists: the highest byte of the tag. So a write of one usual byte is detected on
/// either side of a block ([`never_text`]).
pub(super) fn pad(tag: u64) -> u8 {
    (tag >> PAD_SHIFT) as u8
}

/// Maps a byte to one of 127 values. The result is never ASCII and never `0xff`, because most overruns write text, the
/// zero at the end of a string, a small number or -1.
fn never_text(byte: u8) -> u8 {
    0x80 + ((u16::from(byte) * 127) >> 8) as u8
}

/// Returns the number of padding bytes that a tag contains.
pub(super) fn padding_of(tag: u64) -> usize {
    (tag & ((1 << PADDING_BITS) - 1)) as usize
}

fn held_sites(allocated: u64, freed: u64) -> u64 {
    allocated ^ freed.rotate_left(20)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[repr(align(16))]
    struct Memory([u8; 128]);

    pub(in super::super) fn with_slot(test: impl FnOnce(Slot, &dyn Fn(usize, u8))) {
        set_secret(0x1234_5678_9abc_def0);
        let mut memory = Memory([0; 128]);
        let start = NonNull::from(&mut memory.0).cast::<u8>();
        // SAFETY: the tests pass offsets below 128, and only this test has the memory.
        test(Slot::new(start, 128), &|at, byte| unsafe { start.add(at).write_volatile(byte) });
    }

    #[test]
    fn seal_records_the_block_state_and_sites() {
        with_slot(|slot, _| {
            assert_eq!(slot.state(), State::Broken);
            slot.seal(100, Site(0x7000));
            assert_eq!((slot.state(), slot.requested(), slot.allocated()), (State::Live, 100, Site(0x7000)));
            assert!(slot.is_whole());
            slot.hold(Site(0x8000));
            assert_eq!((slot.state(), slot.requested()), (State::Held, 100));
            assert_eq!((slot.allocated(), slot.freed()), (Site(0x7000), Site(0x8000)));
            assert!(slot.is_untouched());
            slot.release();
            assert_eq!(slot.state(), State::Broken);
        });
    }

    #[test]
    fn overrun_of_any_byte_breaks_the_seal() {
        for at in 100..128 {
            with_slot(|slot, write| {
                slot.seal(100, Site(0x7000));
                write(at, slot.byte(at) ^ 0x10);
                assert!(slot.state() == State::Broken || !slot.is_whole(), "{at}");
            });
        }
    }

    #[test]
    fn padding_never_equals_what_overruns_usually_write() {
        for byte in 0..=u8::MAX {
            assert!((0x80..0xff).contains(&never_text(byte)), "{byte}");
        }
    }

    #[test]
    fn write_to_any_byte_of_a_held_block_is_detected() {
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
    fn sealed_size_is_at_most_the_block_size() {
        with_slot(|slot, _| {
            for size in [0, 8, 100, 112] {
                slot.seal(size, Site::UNKNOWN);
                assert_eq!((slot.state(), slot.requested(), slot.is_whole()), (State::Live, size, true));
            }
            assert!(slot.is_about(128) && slot.is_about(100) && !slot.is_about(129) && !slot.is_about(60));
        });
    }
}
