//! Layout of an object of a checked cache, including the bytes around it.
//!
//! ```text
//!             left zone | object: requested bytes, kmalloc's zone    | right zone | link, state | tracks | padding
//! in use      cc        | user data               cc                 | cc         |             |        | 5a
//! free        bb        | 6b ... 6b a5                               | bb         |             |        | 5a
//! ```
//!
//! The zones exist with [`RED_ZONE`](super::CacheFlags::RED_ZONE), the byte patterns of free objects and of the padding
//! with [`POISON`](super::CacheFlags::POISON), and the tracks with [`STORE_USER`](super::CacheFlags::STORE_USER). The
//! link is outside the object, so that a write into a free object overwrites poison, and not the link. The state is a
//! word that a stray write is unlikely to produce. It records whether the object is free, so that a double free is
//! detected at once, and the requested number of bytes ([`state`](super::state)).
//!
//! linux: mm/slub.c:calculate_sizes; include/linux/poison.h

use core::ops::Range;

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::config::CacheFlags;
use super::super::layout::{Layout, TRACK_WORDS, WORD};

/// Object of a checked cache. Offsets start at its left zone, or at the object itself if there is none.
#[derive(Clone, Copy)]
pub(super) struct Object<'c> {
    layout: &'c Layout,
    flags: CacheFlags,
    address: ObjectAddress,
}

impl<'c> Object<'c> {
    /// Creates the value for an object.
    ///
    /// # Safety
    /// It is an object of a slab of this checked cache, and the caller ensures that the slab remains one meanwhile.
    pub(super) unsafe fn new(cache: &'c Cache, address: ObjectAddress) -> Object<'c> {
        debug_assert!(cache.layout.is_object(address));
        Object { layout: &cache.layout, flags: cache.flags, address }
    }

    /// Returns the address of the object's first byte.
    pub(super) fn address(&self) -> ObjectAddress {
        self.address
    }

    /// Returns whether the cache makes a check.
    pub(super) fn has(&self, flag: CacheFlags) -> bool {
        self.flags.contains(flag)
    }

    /// Returns the words of one of the object's two tracks, if the cache has tracks.
    pub(super) fn track(&self, which: u32) -> Option<[u64; TRACK_WORDS]> {
        let at = self.track_at(which)?;
        Some(core::array::from_fn(|word| self.word(at + word as u32 * WORD)))
    }

    /// Writes a track, if the cache has tracks.
    pub(super) fn set_track(&self, which: u32, words: [u64; TRACK_WORDS]) {
        let Some(at) = self.track_at(which) else { return };
        words.into_iter().enumerate().for_each(|(word, value)| self.set_word(at + word as u32 * WORD, value));
    }

    /// Returns the address that offsets are relative to.
    pub(super) fn start(&self) -> u64 {
        self.address.get() - u64::from(self.layout.first)
    }

    /// Returns the left red zone: the offsets of the bytes before the object.
    pub(super) fn left(&self) -> Range<u32> {
        0..self.layout.first
    }

    /// Returns the offsets of the object's bytes, up to `object_size`.
    pub(super) fn object_part(&self) -> Range<u32> {
        self.layout.first..self.layout.first + self.layout.object_size
    }

    /// Returns the offsets of the object's bytes after the first `requested` bytes.
    pub(super) fn beyond_request(&self, requested: u32) -> Range<u32> {
        self.layout.first + requested..self.object_part().end
    }

    /// Returns the offsets of the right red zone or, without red zones, of the bytes up to the next word.
    pub(super) fn right(&self) -> Range<u32> {
        self.object_part().end..self.layout.first + self.layout.link
    }

    /// Returns the offset of the state word.
    pub(super) fn state_at(&self) -> u32 {
        self.right().end + WORD
    }

    fn tracks(&self) -> Range<u32> {
        let start = self.state_at() + WORD;
        let words = if self.has(CacheFlags::STORE_USER) { 2 * TRACK_WORDS as u32 } else { 0 };
        start..start + words * WORD
    }

    fn track_at(&self, which: u32) -> Option<u32> {
        let tracks = self.tracks();
        (!tracks.is_empty()).then_some(tracks.start + which * TRACK_WORDS as u32 * WORD)
    }

    /// Returns the offsets of the unused bytes before the next object.
    pub(super) fn padding(&self) -> Range<u32> {
        self.tracks().end..self.layout.size
    }

    /// Returns the bytes of a part of the object's space, given by offsets.
    pub(super) fn bytes(&self, part: Range<u32>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.layout.size, "the bytes are not within the object");
        // SAFETY: the bytes belong to the object's space, which exists as the caller of `new` promised, and the
        // assertion excludes other objects. A user that writes to them at the same time makes the kind of error that
        // the check looks for; at worst one byte is read as it was before.
        unsafe { core::slice::from_raw_parts((self.start() + u64::from(part.start)) as *const u8, part.len()) }
    }

    /// Fills a part of the object's space. Bytes that a user requested are never filled while the object is in use.
    pub(super) fn fill(&self, part: Range<u32>, value: u8) {
        assert!(part.start <= part.end && part.end <= self.layout.size, "the bytes are not within the object");
        // SAFETY: the bytes belong to the object's space, which exists as the caller of `new` promised, and the
        // assertion excludes other objects. The object itself is filled only while it is free or past the requested
        // bytes, so no user owns these bytes.
        unsafe { ((self.start() + u64::from(part.start)) as *mut u8).write_bytes(value, part.len()) }
    }

    /// Returns a word of debugging data after the object, given its offset.
    pub(super) fn word(&self, at: u32) -> u64 {
        let mut word = [0; WORD as usize];
        word.copy_from_slice(self.bytes(at..at + WORD));
        u64::from_le_bytes(word)
    }

    /// Writes a word of debugging data after the object.
    pub(super) fn set_word(&self, at: u32, value: u64) {
        assert!(at + WORD <= self.layout.size, "the bytes are not within the object");
        // SAFETY: the words of a checked cache are after the object, aligned to 8 bytes and within the object's size,
        // as the assertion checks. Only the allocator writes them, under the node's lock.
        unsafe { ((self.start() + u64::from(at)) as *mut u64).write(value.to_le()) }
    }
}
