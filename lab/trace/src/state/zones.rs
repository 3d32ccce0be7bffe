//! Zones of a machine at one moment, and the types of their pageblocks.

use crate::facts::{TypeFacts, ZoneFacts};
use crate::procfs::{PageTypeInfo, ProcError, parse_pagetypeinfo, parse_zoneinfo};

/// Zones and their pageblock types at the start or at the end of a recording.
#[derive(Clone, Debug, Default)]
pub struct ZonesAt {
    /// The zones that have pages.
    pub zones: Vec<ZoneFacts>,
    /// Free blocks and pageblocks by type.
    pub types: PageTypeInfo,
}

impl ZonesAt {
    /// Parses `/proc/zoneinfo` and `/proc/pagetypeinfo`.
    ///
    /// # Errors
    /// If one of them cannot be parsed.
    pub fn parse(zoneinfo: &str, pagetypeinfo: &str) -> Result<ZonesAt, ProcError> {
        Ok(ZonesAt { zones: parse_zoneinfo(zoneinfo)?, types: parse_pagetypeinfo(pagetypeinfo)? })
    }

    /// Returns the highest order of a free block.
    pub fn order_max(&self) -> u8 {
        let orders = self.types.types.iter().map(|count| count.free.len()).max().unwrap_or(0);
        u8::try_from(orders.saturating_sub(1)).unwrap_or(0)
    }

    /// Returns the counts by type.
    pub fn counts(&self) -> &[TypeFacts] {
        &self.types.types
    }
}
