//! State of an object, and the check that its bytes match the state.
//!
//! linux: mm/slub.c:init_object, check_object

use core::ops::Range;

use super::super::address::ObjectAddress;
use super::super::config::CacheFlags;
use super::super::layout::WORD;
use super::super::mix::mix;
use super::object::Object;
use crate::platform::report::{Damage, SlabBug};

/// Byte of red zones while the object is in use. linux: SLUB_RED_ACTIVE
const ZONE_IN_USE: u8 = 0xcc;
/// Byte of red zones while the object is free. linux: SLUB_RED_INACTIVE
const ZONE_FREE: u8 = 0xbb;
/// Value of all bytes of a free object except the last. linux: POISON_FREE
const POISON: u8 = 0x6b;
/// Value of the last byte of a free object. linux: POISON_END
const POISON_END: u8 = 0xa5;
/// Value of the bytes between an object and the next. linux: POISON_INUSE
const PADDING: u8 = 0x5a;
/// State of an object according to its state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The object is free, and on its slab's list.
    Free = 1,
    /// The object was allocated and not freed.
    InUse = 2,
    /// The object was found damaged and taken out of use.
    Gone = 3,
}

impl State {
    fn stamp(self, object: ObjectAddress) -> u64 {
        mix(object.get().rotate_left(8) ^ self as u64) & !u64::from(u32::MAX)
    }

    fn zone(self) -> u8 {
        if self == State::InUse { ZONE_IN_USE } else { ZONE_FREE }
    }
}

/// Defect of an object, and the bytes that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub bug: SlabBug<'static>,
    pub damage: Option<Damage>,
}

impl Fault {
    /// Creates a fault without damaged bytes.
    pub(super) fn new(bug: SlabBug<'static>) -> Fault {
        Fault { bug, damage: None }
    }
}

impl Object<'_> {
    /// Returns the object's state and the requested bytes, if its state word is valid.
    pub(super) fn state(&self) -> Option<(State, u32)> {
        let word = self.word(self.state_at());
        let requested = word as u32;
        let state = [State::Free, State::InUse, State::Gone]
            .into_iter()
            .find(|state| state.stamp(self.address()) == word - u64::from(requested))?;
        (requested <= self.object_part().len() as u32).then_some((state, requested))
    }

    /// Returns whether the object's state word is that of an object in use or taken out of use.
    pub(super) fn is_used(&self) -> bool {
        matches!(self.state(), Some((State::InUse | State::Gone, _)))
    }

    /// Returns whether the object's state word is that of a free object.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state(), Some((State::Free, _)))
    }

    /// Writes all debugging bytes of an object, when its slab is made, when it is freed, and when it is repaired.
    pub(super) fn prepare(&self, state: State, requested: u32) {
        if self.has(CacheFlags::POISON) {
            if state != State::InUse {
                self.fill(self.object_part(), POISON);
                self.fill(self.object_part().end - 1..self.object_part().end, POISON_END);
            }
            self.fill(self.padding(), PADDING);
            self.fill(self.right(), PADDING);
        }
        self.become_state(state, requested);
    }

    /// Writes the bytes that change when the object is allocated or freed, except for the poison of a free object.
    /// linux: mm/slub.c:init_object
    pub(super) fn become_state(&self, state: State, requested: u32) {
        if self.has(CacheFlags::RED_ZONE) {
            self.fill(self.left(), state.zone());
            self.fill(self.right(), state.zone());
            if state == State::InUse {
                self.fill(self.beyond_request(requested), state.zone());
            }
        }
        self.set_word(self.state_at(), state.stamp(self.address()) | u64::from(requested));
    }

    /// Checks that all bytes which the cache's flags provide, and the state word, have the values that belong to this
    /// state. linux: mm/slub.c:check_object
    ///
    /// # Errors
    /// The first fault that is found.
    pub(super) fn inspect(&self, state: State, requested: u32) -> Result<(), Fault> {
        let (zones, poison) = (self.has(CacheFlags::RED_ZONE), self.has(CacheFlags::POISON));
        if zones {
            self.expect(self.left(), state.zone(), SlabBug::LeftRedzone)?;
        }
        if poison && state == State::Free {
            let object = self.object_part();
            self.expect(object.start..object.end - 1, POISON, SlabBug::Poison)?;
            self.expect(object.end - 1..object.end, POISON_END, SlabBug::Poison)?;
        }
        if zones && state == State::InUse {
            self.expect(self.beyond_request(requested), state.zone(), SlabBug::KmallocRedzone)?;
        }
        match (zones, poison) {
            (true, _) => self.expect(self.right(), state.zone(), SlabBug::RightRedzone)?,
            (false, true) => self.expect(self.right(), PADDING, SlabBug::Padding)?,
            (false, false) => {}
        }
        let stamp = (state.stamp(self.address()) >> 32) as u32;
        for (at, byte) in (self.state_at() + WORD / 2..).zip(stamp.to_le_bytes()) {
            self.expect(at..at + 1, byte, SlabBug::State)?;
        }
        if poison { self.expect(self.padding(), PADDING, SlabBug::Padding) } else { Ok(()) }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper bits are set in addresses of a kernel and clear in addresses of a program.
    #[test]
    fn stamps_differ_by_state_and_object() {
        for object in [0x7f12_3456_8008, 0xffff_8881_2345_8008] {
            let stamps = [State::Free, State::InUse, State::Gone].map(|state| state.stamp(ObjectAddress::new(object)));
            assert!(stamps[0] != stamps[1] && stamps[1] != stamps[2] && stamps[0] != stamps[2], "{object:#x}");
            assert_ne!(stamps[0], State::Free.stamp(ObjectAddress::new(object + 8)), "{object:#x}");
            assert!(stamps.iter().all(|stamp| *stamp as u32 == 0), "the lower half is the requested size");
        }
    }
}
