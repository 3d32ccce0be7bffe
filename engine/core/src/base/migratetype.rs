//! Migratetypes: the uses of pageblocks, which keep movable pages apart from immovable ones.

use core::fmt;

/// Type of a pageblock and its pages. The numbers are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Pages that cannot be moved.
    Unmovable = 0,
    /// Pages that can be migrated, such as those of user processes.
    Movable = 1,
    /// Pages that can be reclaimed but not moved, such as kernel caches.
    Reclaimable = 2,
    /// Reserve for atomic requests above order 0.
    HighAtomic = 3,
    /// CMA areas for contiguous memory, lent to movable pages.
    Cma = 4,
    /// Excluded from allocation while a range in the block is being emptied.
    Isolate = 5,
}

impl MigrateType {
    /// Number of migratetypes, including Isolate.
    pub const COUNT: usize = 6;
    /// Number of types that have their own per-CPU lists. linux: MIGRATE_PCPTYPES
    pub const PCP_COUNT: usize = 3;
    /// All migratetypes, in numerical order.
    pub const ALL: [MigrateType; MigrateType::COUNT] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
        MigrateType::HighAtomic,
        MigrateType::Cma,
        MigrateType::Isolate,
    ];

    /// Returns the number as an index below [`COUNT`](Self::COUNT).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the type with this number.
    ///
    /// # Panics
    /// If the number is not below [`COUNT`](Self::COUNT).
    #[inline]
    pub const fn from_index(index: usize) -> MigrateType {
        // A `match` compiles to a comparison, while an array would need a load. Every free executes this function.
        match index {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            2 => MigrateType::Reclaimable,
            3 => MigrateType::HighAtomic,
            4 => MigrateType::Cma,
            5 => MigrateType::Isolate,
            _ => panic!("the index of a migratetype must be below 6"),
        }
    }

    /// Returns whether free blocks of this type may merge with free blocks of another mergeable type.
    /// linux: migratetype_is_mergeable
    pub const fn is_mergeable(self) -> bool {
        (self as usize) < MigrateType::PCP_COUNT
    }

    /// Returns the name that Linux prints in `/proc/pagetypeinfo`.
    pub const fn name(self) -> &'static str {
        ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"][self as usize]
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
