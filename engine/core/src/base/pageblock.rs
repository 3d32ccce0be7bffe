//! Metadata of a pageblock: its migratetype, its zone, how many ranges isolate it, which CPU owns it, whether that CPU
//! opened it early, and a hint. 32 bytes.
//!
//! The type is written under the zone lock and read without it: a free that reads a stale type
//! puts its page on a list of the old type, and the drain reads the type again under the lock.
//!
//! The owner, too, is written under the zone lock and read without it: a free that reads a stale owner puts its page
//! on a list where it does not belong, and which gives it to the zone some day.
//!
//! Whether compaction passes the block over is a hint.
//!
//! A pageblock is isolated while somebody wants a range of its frames. Several may want different ones at a time: the
//! first makes it Isolate and keeps what it was before, the last gives that back.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::atomic::AtomicU16;
use super::{CpuId, MigrateType};

/// Zone number of a pageblock that belongs to no zone.
pub const NO_ZONE: u8 = u8::MAX;

/// Links of a pageblock that is on no list. No pageblock starts there: the number is odd.
pub(super) const UNLISTED: u32 = u32::MAX - 2;

/// Metadata of one pageblock, 32 bytes, shared as atomics.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Pageblock {
    migratetype: AtomicU8,
    zone: AtomicU8,
    /// The type before isolation; protected by the zone lock, as is what follows.
    kept: AtomicU8,
    /// How many ranges isolate the block, 0 to 255.
    isolations: AtomicU8,
    /// Compaction scanned it lately; a hint, under no lock.
    skipped: AtomicBool,
    /// One more than the number of the CPU that owns the block; 0 if none does.
    owner: AtomicU16,
    /// Its owner took it whole while something smaller would have done.
    opened_early: AtomicBool,
    /// Neighbours on the owner's list of blocks with pages in the zone.
    pub(super) next: AtomicU32,
    pub(super) prev: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Pageblock>() == 32, "metadata budget: 32 bytes a pageblock");

/// What of a pageblock may be planted, as the number that it is.
#[cfg(feature = "damage")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Number of the block's migratetype.
    MigrateType,
    /// Number of the block's zone, or the one for none.
    Zone,
    /// Number of the type that it had before isolation.
    Kept,
    /// How many ranges isolate the block.
    Isolations,
    /// One more than the number of its owner.
    Owner,
    /// Whether its owner opened it early, as 0 or 1.
    OpenedEarly,
    /// Link to the pageblock after it on a list.
    Next,
    /// Link to the pageblock before it on a list.
    Prev,
}

impl Pageblock {
    /// A block of no zone, Movable as all blocks are at boot.
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

    /// The migratetype that the block has at present.
    #[inline]
    pub fn migratetype(&self) -> MigrateType {
        let number = self.migratetype.load(Relaxed);
        debug_assert!(usize::from(number) < MigrateType::COUNT, "pageblock: its type is {number}, which is none");
        MigrateType::from_index(usize::from(number))
    }

    /// The same; `None` if the number is no migratetype's.
    pub(crate) fn try_migratetype(&self) -> Option<MigrateType> {
        MigrateType::ALL.get(usize::from(self.migratetype.load(Relaxed))).copied()
    }

    /// What the block was before it was isolated last, if that is a type.
    pub(crate) fn try_kept(&self) -> Option<MigrateType> {
        MigrateType::ALL.get(usize::from(self.kept.load(Relaxed))).copied()
    }

    /// Changes what the block is for. Under the zone lock.
    pub(crate) fn set_migratetype(&self, migratetype: MigrateType) {
        debug_assert!(
            (migratetype == MigrateType::Isolate) == (self.isolations() > 0),
            "pageblock: isolated {} times, and to be {migratetype:?}",
            self.isolations()
        );
        // A reader that sees Isolate without the lock may read what the block was before.
        self.migratetype.store(migratetype as u8, Release);
    }

    /// What the block is for when nobody isolates it.
    pub fn lasting_migratetype(&self) -> MigrateType {
        match MigrateType::from_index(usize::from(self.migratetype.load(Acquire))) {
            MigrateType::Isolate => {
                let kept = self.kept.load(Relaxed);
                debug_assert!(
                    kept < MigrateType::Isolate as u8,
                    "pageblock: what it kept is {kept}, no type to go back to"
                );
                MigrateType::from_index(usize::from(kept))
            }
            own => own,
        }
    }

    /// How many ranges isolate the block, 0 to 255.
    pub fn isolations(&self) -> u8 {
        self.isolations.load(Relaxed)
    }

    /// Counts one more range that isolates the block, and keeps its type if it is the first. Under the zone lock.
    pub(crate) fn add_isolation(&self) {
        let count = self.isolations();
        debug_assert!(count < u8::MAX, "pageblock: isolated {count} times, one more asked for");
        debug_assert!(
            (count > 0) == (self.migratetype() == MigrateType::Isolate),
            "pageblock: isolated {count} times, and {:?}",
            self.migratetype()
        );
        if count == 0 {
            self.kept.store(self.migratetype.load(Relaxed), Relaxed);
        }
        self.isolations.store(count + 1, Relaxed);
    }

    /// Counts one less. Under the zone lock.
    pub(crate) fn drop_isolation(&self) {
        let count = self.isolations();
        debug_assert!(count > 0, "pageblock: isolated 0 times, one less asked for");
        debug_assert!(
            self.migratetype() == MigrateType::Isolate,
            "pageblock: isolated {count} times, and {:?}",
            self.migratetype()
        );
        self.isolations.store(count - 1, Relaxed);
    }

    /// Whether compaction passes the block over. linux: get_pageblock_skip
    #[inline]
    pub fn is_skipped(&self) -> bool {
        self.skipped.load(Relaxed)
    }

    /// From now on compaction passes the block over.
    pub(crate) fn set_skip(&self) {
        self.skipped.store(true, Relaxed);
    }

    /// From now on compaction looks at the block again.
    pub(crate) fn clear_skip(&self) {
        self.skipped.store(false, Relaxed);
    }

    /// The CPU to which frees of the block's pages go home.
    #[inline]
    pub fn owner(&self) -> Option<CpuId> {
        self.owner.load(Relaxed).checked_sub(1).map(CpuId)
    }

    /// Changes it. Under the zone lock.
    pub(crate) fn set_owner(&self, owner: Option<CpuId>) {
        debug_assert!(
            owner.is_none() || self.owner().is_none(),
            "pageblock: CPU {} owns it, and {owner:?} is to",
            self.owner.load(Relaxed) - 1
        );
        self.opened_early.store(false, Relaxed);
        self.owner.store(owner.map_or(0, |cpu| cpu.0 + 1), Relaxed);
    }

    /// Whether its owner took it whole while something smaller of its type would have done. No pageblock should be so.
    pub fn is_opened_early(&self) -> bool {
        self.opened_early.load(Relaxed)
    }

    /// Notes that its owner did so. Under the zone lock.
    pub(crate) fn note_opened_early(&self) {
        debug_assert!(self.owner().is_some(), "pageblock: nobody owns it, and it was opened early");
        self.opened_early.store(true, Relaxed);
    }

    /// Whether the block is on its owner's list of blocks with pages in the zone. Under the zone lock.
    pub fn is_listed(&self) -> bool {
        self.next.load(Relaxed) != UNLISTED
    }

    /// Index of the zone the block belongs to, or [`NO_ZONE`].
    #[inline]
    pub fn zone(&self) -> u8 {
        self.zone.load(Relaxed)
    }

    /// Gives the block to a zone when its first frame comes online, or to none when its last one goes offline.
    pub(crate) fn set_zone(&self, zone: u8) {
        debug_assert!(
            [zone, NO_ZONE].contains(&self.zone()) || zone == NO_ZONE,
            "pageblock: it is zone {}'s, given to zone {zone}",
            self.zone()
        );
        debug_assert!(zone != NO_ZONE || self.isolations() == 0, "pageblock: isolated by somebody, and given up");
        self.zone.store(zone, Relaxed);
    }

    /// Writes one field of the block's metadata, without any check.
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
    fn the_last_who_isolates_a_pageblock_finds_the_type_that_the_first_one_found() {
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
    fn a_pageblock_begins_as_nobodys() {
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
