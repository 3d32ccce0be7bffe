//! Metadata of a pageblock, 32 bytes: its migratetype, its zone, the number of ranges that isolate it, its owner CPU,
//! whether that CPU opened it early, and compaction's skip hint.
//!
//! The migratetype is written under the zone lock and read without it. A free that reads an outdated type puts its page
//! on a per-CPU list of the old type; the drain reads the type again under the lock.
//!
//! The owner is also written under the zone lock and read without it. A free that reads an outdated owner puts its page
//! on the wrong CPU's list, from which the page eventually returns to the zone.
//!
//! The skip mark of compaction is only a hint.
//!
//! A pageblock is isolated while a call empties a range that overlaps it. Several ranges may overlap it at the same
//! time. The first isolation changes the type to Isolate and saves the previous type; the end of the last one restores
//! it.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::atomic::AtomicU16;
use super::{CpuId, MigrateType};

/// Zone number of a pageblock that belongs to no zone.
pub const NO_ZONE: u8 = u8::MAX;

/// Link value of a pageblock that is on no list. The value is odd, so it is not the first frame of a pageblock.
pub(super) const UNLISTED: u32 = u32::MAX - 2;

/// Metadata of one pageblock: 32 bytes of atomics.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Pageblock {
    migratetype: AtomicU8,
    zone: AtomicU8,
    /// Migratetype before isolation. Protected by the zone lock, like the fields below unless noted.
    kept: AtomicU8,
    /// Number of ranges that isolate the block, 0 to 255.
    isolations: AtomicU8,
    /// Whether compaction scanned the block recently; a hint without a lock.
    skipped: AtomicBool,
    /// Number of the owner CPU plus 1; 0 if the block has no owner.
    owner: AtomicU16,
    /// Whether the owner took the whole block while a smaller block would have been sufficient.
    opened_early: AtomicBool,
    /// Links of the owner's list of blocks with pages in the zone.
    pub(super) next: AtomicU32,
    pub(super) prev: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Pageblock>() == 32, "the metadata budget is 32 bytes per pageblock");

/// Fields of a pageblock that a test can overwrite with a number.
#[cfg(feature = "damage")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Number of the migratetype.
    MigrateType,
    /// Number of the zone, or [`NO_ZONE`].
    Zone,
    /// Number of the migratetype before isolation.
    Kept,
    /// Number of ranges that isolate the block.
    Isolations,
    /// Number of the owner CPU plus 1.
    Owner,
    /// Whether the owner opened the block early, as 0 or 1.
    OpenedEarly,
    /// Link to the next pageblock on a list.
    Next,
    /// Link to the previous pageblock on a list.
    Prev,
}

impl Pageblock {
    /// Creates the metadata of a block that has no zone and is Movable, as all blocks are at boot.
    pub(super) fn new() -> Pageblock {
        Pageblock {
            migratetype: AtomicU8::new(MigrateType::Movable as u8),
            zone: AtomicU8::new(NO_ZONE),
            kept: AtomicU8::new(MigrateType::Movable as u8),
            isolations: AtomicU8::new(0),
            skipped: AtomicBool::new(false),
            owner: AtomicU16::new(0),
            opened_early: AtomicBool::new(false),
            next: AtomicU32::new(UNLISTED),
            prev: AtomicU32::new(UNLISTED),
        }
    }

    /// Returns the current migratetype.
    #[inline]
    pub fn migratetype(&self) -> MigrateType {
        let number = self.migratetype.load(Relaxed);
        debug_assert!(
            usize::from(number) < MigrateType::COUNT,
            "pageblock: {number} is not the number of a migratetype"
        );
        MigrateType::from_index(usize::from(number))
    }

    /// Returns the current migratetype; `None` if the stored number is not valid.
    pub(crate) fn try_migratetype(&self) -> Option<MigrateType> {
        MigrateType::ALL.get(usize::from(self.migratetype.load(Relaxed))).copied()
    }

    /// Returns the type that was saved by the last isolation; `None` if the stored number is not valid.
    pub(crate) fn try_kept(&self) -> Option<MigrateType> {
        MigrateType::ALL.get(usize::from(self.kept.load(Relaxed))).copied()
    }

    /// Changes the migratetype. Called under the zone lock.
    pub(crate) fn set_migratetype(&self, migratetype: MigrateType) {
        debug_assert!(
            (migratetype == MigrateType::Isolate) == (self.isolations() > 0),
            "pageblock: isolated {} times, but its new type is {migratetype:?}",
            self.isolations()
        );
        // Release: a reader without the lock that sees Isolate may then read the saved type.
        self.migratetype.store(migratetype as u8, Release);
    }

    /// Returns the migratetype that the block has outside of isolation.
    pub fn lasting_migratetype(&self) -> MigrateType {
        match MigrateType::from_index(usize::from(self.migratetype.load(Acquire))) {
            MigrateType::Isolate => {
                let kept = self.kept.load(Relaxed);
                debug_assert!(
                    kept < MigrateType::Isolate as u8,
                    "pageblock: the saved type {kept} is not a type that requests have"
                );
                MigrateType::from_index(usize::from(kept))
            }
            own => own,
        }
    }

    /// Returns the number of ranges that isolate the block, 0 to 255.
    pub fn isolations(&self) -> u8 {
        self.isolations.load(Relaxed)
    }

    /// Counts one more range that isolates the block. The first one saves the current type. Called under the zone lock.
    pub(crate) fn add_isolation(&self) {
        let count = self.isolations();
        debug_assert!(count < u8::MAX, "pageblock: isolated {count} times, so the counter would overflow");
        debug_assert!(
            (count > 0) == (self.migratetype() == MigrateType::Isolate),
            "pageblock: isolated {count} times, but its type is {:?}",
            self.migratetype()
        );
        if count == 0 {
            self.kept.store(self.migratetype.load(Relaxed), Relaxed);
        }
        self.isolations.store(count + 1, Relaxed);
    }

    /// Counts one range less. Called under the zone lock.
    pub(crate) fn drop_isolation(&self) {
        let count = self.isolations();
        debug_assert!(count > 0, "pageblock: isolated 0 times, so no isolation can end");
        debug_assert!(
            self.migratetype() == MigrateType::Isolate,
            "pageblock: isolated {count} times, but its type is {:?}",
            self.migratetype()
        );
        self.isolations.store(count - 1, Relaxed);
    }

    /// Returns whether compaction skips the block. linux: get_pageblock_skip
    #[inline]
    pub fn is_skipped(&self) -> bool {
        self.skipped.load(Relaxed)
    }

    /// Makes compaction skip the block.
    pub(crate) fn set_skip(&self) {
        self.skipped.store(true, Relaxed);
    }

    /// Makes compaction scan the block again.
    pub(crate) fn clear_skip(&self) {
        self.skipped.store(false, Relaxed);
    }

    /// Returns the CPU that owns the block, to whose lists its freed pages return while memory is plentiful, or `None`
    /// if no CPU owns it.
    #[inline]
    pub fn owner(&self) -> Option<CpuId> {
        self.owner.load(Relaxed).checked_sub(1).map(CpuId)
    }

    /// Changes the owner. Called under the zone lock.
    pub(crate) fn set_owner(&self, owner: Option<CpuId>) {
        debug_assert!(
            owner.is_none() || self.owner().is_none(),
            "pageblock: owned by CPU {}, but the new owner is {owner:?}",
            self.owner.load(Relaxed) - 1
        );
        self.opened_early.store(false, Relaxed);
        self.owner.store(owner.map_or(0, |cpu| cpu.0 + 1), Relaxed);
    }

    /// Returns whether the owner took the whole block while a smaller block of its type would have been sufficient. No
    /// pageblock should be in this state.
    pub fn is_opened_early(&self) -> bool {
        self.opened_early.load(Relaxed)
    }

    /// Records that the owner opened the block early. Called under the zone lock.
    pub(crate) fn note_opened_early(&self) {
        debug_assert!(self.owner().is_some(), "pageblock: opened early, but without an owner");
        self.opened_early.store(true, Relaxed);
    }

    /// Returns whether the block is on its owner's list of blocks with pages in the zone. Called under the zone lock.
    pub fn is_listed(&self) -> bool {
        self.next.load(Relaxed) != UNLISTED
    }

    /// Returns the index of the block's zone, or [`NO_ZONE`].
    #[inline]
    pub fn zone(&self) -> u8 {
        self.zone.load(Relaxed)
    }

    /// Assigns the block to a zone when its first frame comes online, and to none when its last one goes offline.
    pub(crate) fn set_zone(&self, zone: u8) {
        debug_assert!(
            [zone, NO_ZONE].contains(&self.zone()) || zone == NO_ZONE,
            "pageblock: belongs to zone {}, but is assigned to zone {zone}",
            self.zone()
        );
        debug_assert!(
            zone != NO_ZONE || self.isolations() == 0,
            "pageblock: removed from its zone while it is isolated"
        );
        self.zone.store(zone, Relaxed);
    }

    /// Overwrites one field, without any check.
    #[cfg(feature = "damage")]
    pub(crate) fn plant(&self, field: Field, value: u32) {
        match field {
            Field::MigrateType => self.migratetype.store(value as u8, Relaxed),
            Field::Zone => self.zone.store(value as u8, Relaxed),
            Field::Kept => self.kept.store(value as u8, Relaxed),
            Field::Isolations => self.isolations.store(value as u8, Relaxed),
            Field::Owner => self.owner.store(value as u16, Relaxed),
            Field::OpenedEarly => self.opened_early.store(value != 0, Relaxed),
            Field::Next => self.next.store(value, Relaxed),
            Field::Prev => self.prev.store(value, Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_isolation_preserves_the_original_type() {
        let block = Pageblock::new();
        assert_eq!((block.migratetype(), block.lasting_migratetype()), (MigrateType::Movable, MigrateType::Movable));
        block.set_migratetype(MigrateType::Reclaimable);
        block.add_isolation();
        block.set_migratetype(MigrateType::Isolate);
        block.add_isolation();
        assert_eq!((block.isolations(), block.lasting_migratetype()), (2, MigrateType::Reclaimable));
        block.drop_isolation();
        assert_eq!((block.isolations(), block.migratetype()), (1, MigrateType::Isolate));
        block.drop_isolation();
        block.set_migratetype(block.lasting_migratetype());
        assert_eq!((block.isolations(), block.migratetype()), (0, MigrateType::Reclaimable));
        assert_eq!(block.try_kept(), Some(MigrateType::Reclaimable));
    }

    #[test]
    fn new_pageblock_has_no_owner_zone_or_flags() {
        let block = Pageblock::new();
        assert_eq!((block.zone(), block.owner(), block.isolations()), (NO_ZONE, None, 0));
        assert!(!block.is_skipped() && !block.is_listed());
        for cpu in [CpuId(0), CpuId(7)] {
            block.set_owner(Some(cpu));
            assert_eq!(block.owner(), Some(cpu));
            block.set_owner(None);
        }
        block.set_skip();
        assert!(block.is_skipped());
        block.clear_skip();
        assert!(!block.is_skipped());
    }
}
