//! Migratetypes: what a pageblock is for, so that pages that can move sit apart from those that cannot.
//!
//! linux: include/linux/mmzone.h:migratetype (with CMA and isolation configured)

use core::fmt;

/// What the pages of a pageblock are for. The numbers are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Pages that stay where they are.
    Unmovable = 0,
    /// Pages that can be migrated, such as those of tasks.
    Movable = 1,
    /// Pages that can be dropped, such as caches of the kernel.
    Reclaimable = 2,
    /// Held back for atomic requests above order 0.
    HighAtomic = 3,
    /// Areas for contiguous memory, lent to movable pages.
    Cma = 4,
    /// Taken out of allocation, while somebody empties the range.
    Isolate = 5,
}

impl MigrateType {
    /// Number of migratetypes, Isolate included.
    pub const COUNT: usize = 6;
    /// Types with per-CPU lists of their own. linux: MIGRATE_PCPTYPES
    pub const PCP_COUNT: usize = 3;
    /// Every migratetype, in order of number.
    pub const ALL: [MigrateType; MigrateType::COUNT] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
        MigrateType::HighAtomic,
        MigrateType::Cma,
        MigrateType::Isolate,
    ];

    /// The number as an index, below [`COUNT`](Self::COUNT).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The type with this number.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub const fn from_index(index: usize) -> MigrateType {
        // Spelled out, so that it compiles to a comparison and no load: every free comes by here.
        match index {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            2 => MigrateType::Reclaimable,
            3 => MigrateType::HighAtomic,
            4 => MigrateType::Cma,
            5 => MigrateType::Isolate,
            _ => panic!("a migratetype's number is below 6"),
        }
    }

    /// Whether free blocks of this type may merge with those of another such type. linux: migratetype_is_mergeable
    pub const fn is_mergeable(self) -> bool {
        (self as usize) < MigrateType::PCP_COUNT
    }

    /// The name that Linux prints in `/proc/pagetypeinfo`.
    pub const fn name(self) -> &'static str {
        ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"][self as usize]
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
