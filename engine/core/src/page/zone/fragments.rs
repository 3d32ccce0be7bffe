//! Fragments: lists of a CPU's owned pageblocks that may have free pages in the zone.

use crate::base::MigrateType;
use crate::base::blocklist::BlockList;

/// Pageblocks of one zone that one CPU owns and that may have free pages in the zone, by type. Protected by the zone
/// lock.
#[derive(Debug)]
pub struct Fragments([BlockList; MigrateType::PCP_COUNT]);

impl Fragments {
    /// Creates empty lists.
    pub(in crate::page) const fn new() -> Fragments {
        Fragments([const { BlockList::new() }; MigrateType::PCP_COUNT])
    }

    /// Returns the list of pageblocks of one type.
    pub fn list(&self, migratetype: MigrateType) -> &BlockList {
        &self.0[migratetype.index()]
    }
}
