//! Lists of the pageblocks that a CPU owns in part, which the zone's lock protects.

use crate::base::MigrateType;
use crate::base::blocklist::BlockList;

/// Pageblocks that one CPU owns in part, by type; under the zone lock.
#[derive(Debug)]
pub struct Fragments([BlockList; MigrateType::PCP_COUNT]);

impl Fragments {
    /// No pageblocks.
    pub(in crate::page) const fn new() -> Fragments {
        Fragments([const { BlockList::new() }; MigrateType::PCP_COUNT])
    }

    /// Returns the list of pageblocks of one type.
    pub fn list(&self, migratetype: MigrateType) -> &BlockList {
        &self.0[migratetype.index()]
    }
}
