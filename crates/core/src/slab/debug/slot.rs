//! One object of a checked cache, and what lies around it.
//!
//! ```text
//!             left zone | object: what was asked for, kmalloc's zone | right zone | link, state | tracks | padding
//! in use      cc        | its user's              cc                 | cc         |             |        | 5a
//! free        bb        | 6b ... 6b a5                               | bb         |             |        | 5a
//! ```
//!
//! The zones are there for [`RED_ZONE`](super::CacheFlags::RED_ZONE), the bytes in a free object and the padding's for
//! [`POISON`](super::CacheFlags::POISON), the tracks for [`STORE_USER`](super::CacheFlags::STORE_USER). The link stands outside of the
//! object, so that whoever writes into it while it is free hits poison. The state is a word that nobody writes by chance: it says
//! whether the object is free, so that a double free is noticed at once, and how many bytes were asked for.
//!
//! linux: mm/slub.c:calculate_sizes, init_object, check_object; include/linux/poison.h

use core::ops::Range;

use super::super::cache::{Cache, CacheConfig, CacheFlags};
use super::super::layout::{Layout, WORD};
use super::super::node::mixed;
use super::track::TRACK_WORDS;
use crate::platform::report::{Damage, SECTION_MAX, Section, SlabBug};

/// linux: SLUB_RED_ACTIVE
const ZONE_IN_USE: u8 = 0xcc;
/// linux: SLUB_RED_INACTIVE
const ZONE_FREE: u8 = 0xbb;
/// linux: POISON_FREE
const POISON: u8 = 0x6b;
/// linux: POISON_END
const POISON_END: u8 = 0xa5;
/// linux: POISON_INUSE
const PADDING: u8 = 0x5a;
/// Bytes of a zone or of padding that a report shows.
const SHOWN: u32 = 16;
const ROW: u32 = 16;

/// What an object of a checked cache takes.
pub struct Spread {
    /// Bytes before it.
    pub first: u32,
    /// Bytes from it to its link.
    pub link: u32,
    /// Bytes from one object to the next.
    pub size: u32,
}

impl Spread {
    /// For objects of a cache; nothing if that overflows. A right zone has a word at least.
    pub fn new(config: &CacheConfig<'_>, align: u32) -> Option<Spread> {
        let has = |flag| config.flags.contains(flag);
        let (first, zone) = if has(CacheFlags::RED_ZONE) { (align, WORD) } else { (0, 0) };
        let tracks = if has(CacheFlags::STORE_USER) { 2 * TRACK_WORDS as u32 * WORD } else { 0 };
        let link = config.size.checked_add(zone)?.checked_next_multiple_of(WORD)?;
        let bytes = first.checked_add(link)?.checked_add(2 * WORD + tracks)?;
        Some(Spread { first, link, size: bytes.checked_next_multiple_of(align)? })
    }
}

/// What an object is, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On its slab's list.
    Free = 1,
    /// Somebody's.
    InUse = 2,
    /// Taken out of use, because it was found damaged.
    Gone = 3,
}

impl State {
    fn stamp(self, object: u64) -> u64 {
        mixed(object.rotate_left(8) ^ self as u64) & !u64::from(u32::MAX)
    }

    fn zone(self) -> u8 {
        if self == State::InUse { ZONE_IN_USE } else { ZONE_FREE }
    }
}

/// What is wrong with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub bug: SlabBug<'static>,
    pub damage: Option<Damage>,
}

impl Fault {
    /// Without bytes to show.
    pub fn of(bug: SlabBug<'static>) -> Fault {
        Fault { bug, damage: None }
    }
}

/// The object. Offsets are from where its left zone begins, or it does itself if there is none.
#[derive(Clone, Copy)]
pub struct Slot<'c> {
    layout: &'c Layout,
    flags: CacheFlags,
    object: u64,
}

impl<'c> Slot<'c> {
    /// # Safety
    /// It is an object of a slab of this checked cache, and the caller keeps that slab a slab meanwhile.
    pub unsafe fn new(cache: &'c Cache, object: u64) -> Slot<'c> {
        debug_assert!(cache.layout.is_object(object));
        Slot { layout: &cache.layout, flags: cache.flags, object }
    }

    /// Its address.
    pub fn object(&self) -> u64 {
        self.object
    }

    /// Its state and the bytes that were asked for, if its word says something sensible.
    pub fn state(&self) -> Option<(State, u32)> {
        let word = self.word(self.state_at());
        let asked = word as u32;
        let state = [State::Free, State::InUse, State::Gone]
            .into_iter()
            .find(|state| state.stamp(self.object) == word - u64::from(asked))?;
        (asked <= self.layout.object_size).then_some((state, asked))
    }

    /// Everything about a new object, or one that is to be as new.
    pub fn prepare(&self, state: State, asked: u32) {
        if self.flags.contains(CacheFlags::POISON) {
            if state != State::InUse {
                self.fill(self.object_part(), POISON);
                self.fill(self.object_part().end - 1..self.object_part().end, POISON_END);
            }
            self.fill(self.padding(), PADDING);
            self.fill(self.right(), PADDING);
        }
        self.become_state(state, asked);
    }

    /// What changes when it is allocated or freed, but for the poison of a free one. linux: mm/slub.c:init_object
    pub fn become_state(&self, state: State, asked: u32) {
        if self.flags.contains(CacheFlags::RED_ZONE) {
            self.fill(self.left(), state.zone());
            self.fill(self.right(), state.zone());
            if state == State::InUse {
                self.fill(self.unasked(asked), state.zone());
            }
        }
        self.set_word(self.state_at(), state.stamp(self.object) | u64::from(asked));
    }

    /// Whether every byte is what it should be in this state. linux: mm/slub.c:check_object
    ///
    /// # Errors
    /// The first that is not.
    pub fn inspect(&self, state: State, asked: u32) -> Result<(), Fault> {
        let (zones, poison) = (self.flags.contains(CacheFlags::RED_ZONE), self.flags.contains(CacheFlags::POISON));
        if zones {
            self.expect(self.left(), state.zone(), SlabBug::LeftRedzone)?;
        }
        if poison && state == State::Free {
            let object = self.object_part();
            self.expect(object.start..object.end - 1, POISON, SlabBug::Poison)?;
            self.expect(object.end - 1..object.end, POISON_END, SlabBug::Poison)?;
        }
        if zones && state == State::InUse {
            self.expect(self.unasked(asked), state.zone(), SlabBug::KmallocRedzone)?;
        }
        match (zones, poison) {
            (true, _) => self.expect(self.right(), state.zone(), SlabBug::RightRedzone)?,
            (false, true) => self.expect(self.right(), PADDING, SlabBug::Padding)?,
            (false, false) => {}
        }
        let stamp = (state.stamp(self.object) >> 32) as u32;
        for (at, byte) in (self.state_at() + WORD / 2..).zip(stamp.to_le_bytes()) {
            self.expect(at..at + 1, byte, SlabBug::State)?;
        }
        if poison { self.expect(self.padding(), PADDING, SlabBug::Padding) } else { Ok(()) }
    }

    /// Up to [`SECTION_MAX`] bytes of each part, those around the damage if it is there. linux: mm/slub.c:print_trailer
    pub fn sections(&self, damage: Option<Damage>) -> [Section; 4] {
        let hit = damage.map(|damage| (damage.start - self.start()) as u32);
        let left = self.left();
        let parts = [
            ("Redzone", left.end.saturating_sub(SHOWN).max(left.start)..left.end),
            ("Object", self.object_part()),
            ("Redzone", self.right()),
            ("Padding", self.padding()),
        ];
        parts.map(|(name, part)| self.section(name, part, hit))
    }

    fn section(&self, name: &'static str, part: Range<u32>, hit: Option<u32>) -> Section {
        let row = hit.filter(|hit| part.contains(hit)).map_or(0, |hit| (hit - part.start) / ROW);
        let start = part.start + row.saturating_sub(1) * ROW;
        let most = if name == "Object" { SECTION_MAX as u32 } else { SHOWN };
        let len = (part.end - start).min(most) as usize;
        let mut bytes = [0; SECTION_MAX];
        bytes[..len].copy_from_slice(self.bytes(start..start + len as u32));
        Section { name, start: self.start() + u64::from(start), len, bytes }
    }

    /// A track's words.
    pub fn track(&self, which: u32) -> Option<[u64; TRACK_WORDS]> {
        let at = self.track_at(which)?;
        Some(core::array::from_fn(|word| self.word(at + word as u32 * WORD)))
    }

    /// Writes a track, if the cache has any.
    pub fn set_track(&self, which: u32, words: [u64; TRACK_WORDS]) {
        let Some(at) = self.track_at(which) else { return };
        words.into_iter().enumerate().for_each(|(word, value)| self.set_word(at + word as u32 * WORD, value));
    }

    fn start(&self) -> u64 {
        self.object - u64::from(self.layout.first)
    }

    fn left(&self) -> Range<u32> {
        0..self.layout.first
    }

    fn object_part(&self) -> Range<u32> {
        self.layout.first..self.layout.first + self.layout.object_size
    }

    fn unasked(&self, asked: u32) -> Range<u32> {
        self.layout.first + asked..self.object_part().end
    }

    fn right(&self) -> Range<u32> {
        self.object_part().end..self.layout.first + self.layout.link
    }

    fn state_at(&self) -> u32 {
        self.right().end + WORD
    }

    fn tracks(&self) -> Range<u32> {
        let start = self.state_at() + WORD;
        let words = if self.flags.contains(CacheFlags::STORE_USER) { 2 * TRACK_WORDS as u32 } else { 0 };
        start..start + words * WORD
    }

    fn track_at(&self, which: u32) -> Option<u32> {
        let tracks = self.tracks();
        (!tracks.is_empty()).then_some(tracks.start + which * TRACK_WORDS as u32 * WORD)
    }

    fn padding(&self) -> Range<u32> {
        self.tracks().end..self.layout.size
    }

    fn expect(&self, part: Range<u32>, value: u8, bug: SlabBug<'static>) -> Result<(), Fault> {
        let bytes = self.bytes(part.clone());
        let Some(first) = bytes.iter().position(|byte| *byte != value) else { return Ok(()) };
        let last = bytes.iter().rposition(|byte| *byte != value).unwrap_or(first);
        let start = self.start() + u64::from(part.start);
        let damage =
            Damage { start: start + first as u64, end: start + last as u64 + 1, expected: value, found: bytes[first] };
        Err(Fault { bug, damage: Some(damage) })
    }

    fn bytes(&self, part: Range<u32>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.layout.size, "no byte of another object");
        // SAFETY: the slot's bytes, as `new` demands. Who writes there while we look makes the very mistake that is looked
        // for, and at worst one byte is seen as it was before.
        unsafe { core::slice::from_raw_parts((self.start() + u64::from(part.start)) as *const u8, part.len()) }
    }

    fn fill(&self, part: Range<u32>, value: u8) {
        assert!(part.start <= part.end && part.end <= self.layout.size, "no byte of another object");
        // SAFETY: the slot's bytes; those of the object itself are filled while it is free only, or behind what was asked for.
        unsafe { ((self.start() + u64::from(part.start)) as *mut u8).write_bytes(value, part.len()) }
    }

    fn word(&self, at: u32) -> u64 {
        let mut word = [0; WORD as usize];
        word.copy_from_slice(self.bytes(at..at + WORD));
        u64::from_le_bytes(word)
    }

    fn set_word(&self, at: u32, value: u64) {
        assert!(at + WORD <= self.layout.size, "no byte of another object");
        // SAFETY: words lie behind the object, aligned.
        unsafe { ((self.start() + u64::from(at)) as *mut u64).write(value.to_le()) }
    }
}
