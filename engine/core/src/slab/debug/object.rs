//! One object of a checked cache, and what lies around it.
//!
//! ```text
//!             left zone | object: what was asked for, kmalloc's zone | right zone | link, state | tracks | padding
//! in use      cc        | its user's              cc                 | cc         |             |        | 5a
//! free        bb        | 6b ... 6b a5                               | bb         |             |        | 5a
//! ```
//!
//! The zones are there for [`RED_ZONE`](super::CacheFlags::RED_ZONE), the bytes in a free object and the padding's for
//! [`POISON`](super::CacheFlags::POISON), the tracks for [`STORE_USER`](super::CacheFlags::STORE_USER). The link stands
//! outside of the object, so that a write into it while it is free hits poison. The state is a word that nobody writes
//! by chance: it says whether the object is free, so that a double free is noticed at once, and how many bytes were
//! asked for ([`state`](super::state)).
//!
//! linux: mm/slub.c:calculate_sizes; include/linux/poison.h

use core::ops::Range;

use super::super::address::ObjectAddress;
use super::super::cache::Cache;
use super::super::config::CacheFlags;
use super::super::layout::{Layout, TRACK_WORDS, WORD};

/// The object. Offsets are from where its left zone begins, or it does itself if there is none.
#[derive(Clone, Copy)]
pub(super) struct Object<'c> {
    layout: &'c Layout,
    flags: CacheFlags,
    address: ObjectAddress,
}

impl<'c> Object<'c> {
    /// # Safety
    /// It is an object of a slab of this checked cache, and the caller keeps that slab a slab meanwhile.
    pub(super) unsafe fn new(cache: &'c Cache, address: ObjectAddress) -> Object<'c> {
        debug_assert!(cache.layout.is_object(address));
        Object { layout: &cache.layout, flags: cache.flags, address }
    }

    /// Where the object begins.
    pub(super) fn address(&self) -> ObjectAddress {
        self.address
    }

    /// Whether the cache makes a check.
    pub(super) fn has(&self, flag: CacheFlags) -> bool {
        self.flags.contains(flag)
    }

    /// The words of one of its two tracks, if the cache keeps them.
    pub(super) fn track(&self, which: u32) -> Option<[u64; TRACK_WORDS]> {
        let at = self.track_at(which)?;
        Some(core::array::from_fn(|word| self.word(at + word as u32 * WORD)))
    }

    /// Writes a track, if the cache has any.
    pub(super) fn set_track(&self, which: u32, words: [u64; TRACK_WORDS]) {
        let Some(at) = self.track_at(which) else { return };
        words.into_iter().enumerate().for_each(|(word, value)| self.set_word(at + word as u32 * WORD, value));
    }

    /// Address that offsets are from.
    pub(super) fn start(&self) -> u64 {
        self.address.get() - u64::from(self.layout.first)
    }

    /// The left red zone: offsets of the bytes before the object.
    pub(super) fn left(&self) -> Range<u32> {
        0..self.layout.first
    }

    /// The object itself: offsets of its bytes, up to `object_size`.
    pub(super) fn object_part(&self) -> Range<u32> {
        self.layout.first..self.layout.first + self.layout.object_size
    }

    /// Offsets of the object's bytes past those that were asked for.
    pub(super) fn unasked(&self, asked: u32) -> Range<u32> {
        self.layout.first + asked..self.object_part().end
    }

    /// The red zone after it, or the bytes up to the next word.
    pub(super) fn right(&self) -> Range<u32> {
        self.object_part().end..self.layout.first + self.layout.link
    }

    /// Where the word lies that says what it is.
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

    /// What is left before the next object.
    pub(super) fn padding(&self) -> Range<u32> {
        self.tracks().end..self.layout.size
    }

    /// The bytes of a part of the object's room, by offsets.
    pub(super) fn bytes(&self, part: Range<u32>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.layout.size, "no byte of another object");
        // SAFETY: the object's bytes, as `new` demands. A user that writes there while we look makes the very mistake
        // that is looked for, and at worst one byte is seen as it was before.
        unsafe { core::slice::from_raw_parts((self.start() + u64::from(part.start)) as *const u8, part.len()) }
    }

    /// Fills a part; never what somebody asked for.
    pub(super) fn fill(&self, part: Range<u32>, value: u8) {
        assert!(part.start <= part.end && part.end <= self.layout.size, "no byte of another object");
        // SAFETY: the object's bytes; those of the object itself are filled while it is free only, or past what was
        // asked for.
        unsafe { ((self.start() + u64::from(part.start)) as *mut u8).write_bytes(value, part.len()) }
    }

    /// A word of debugging data after the object, by its offset.
    pub(super) fn word(&self, at: u32) -> u64 {
        let mut word = [0; WORD as usize];
        word.copy_from_slice(self.bytes(at..at + WORD));
        u64::from_le_bytes(word)
    }

    /// Writes a word after the object.
    pub(super) fn set_word(&self, at: u32, value: u64) {
        assert!(at + WORD <= self.layout.size, "no byte of another object");
        // SAFETY: a checked cache has its words after the object, aligned, within the object's size.
        unsafe { ((self.start() + u64::from(at)) as *mut u64).write(value.to_le()) }
    }
}
