//! The slab caches: what `/proc/slabinfo` shows at both ends, and the room that each cache's sheaves have.
//!
//! That room does not change while a cache lives, and asking for it takes a file of each cache. So it is asked for when
//! nothing is recorded any more.

use std::fs;
use std::path::Path;

use freehold_trace::facts::CacheFacts;
use freehold_trace::procfs::caches::caches;

/// A folder for each cache; merged ones are links to what they were merged into.
const CACHES: &str = "/sys/kernel/slab";

/// The caches in the text of `/proc/slabinfo`, with what is known of their sheaves.
pub(crate) fn with_sheaves(slabinfo: &str) -> Vec<CacheFacts> {
    let mut caches = caches(slabinfo);
    caches.iter_mut().for_each(|cache| cache.sheaf_capacity = sheaf_capacity(&cache.name));
    caches
}

/// Objects that a sheaf of this cache has room for; `None` on kernels without sheaves.
fn sheaf_capacity(name: &str) -> Option<u32> {
    let text = fs::read_to_string(Path::new(CACHES).join(name).join("sheaf_capacity")).ok()?;
    text.trim().parse().ok()
}
