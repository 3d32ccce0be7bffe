//! Slab caches: the contents of `/proc/slabinfo` at the start and the end, and the capacity of each cache's sheaves.
//!
//! The capacity does not change while a cache exists, and reading it takes one file per cache. It is therefore read
//! after the recording.

use std::fs;
use std::path::Path;

use freehold_trace::facts::CacheFacts;
use freehold_trace::procfs::caches::caches;

/// Folder with a folder for each cache. Merged caches are links to the cache into which they were merged.
const CACHES: &str = "/sys/kernel/slab";

/// Parses the text of `/proc/slabinfo`, and adds the capacity of the caches' sheaves.
pub(crate) fn with_sheaves(slabinfo: &str) -> Vec<CacheFacts> {
    let mut caches = caches(slabinfo);
    caches.iter_mut().for_each(|cache| cache.sheaf_capacity = sheaf_capacity(&cache.name));
    caches
}

/// Returns the number of objects that fit in a sheaf of this cache; `None` on kernels without sheaves.
fn sheaf_capacity(name: &str) -> Option<u32> {
    let text = fs::read_to_string(Path::new(CACHES).join(name).join("sheaf_capacity")).ok()?;
    text.trim().parse().ok()
}
