//! Which kernel events are recorded, and how this kernel lays them out.
//!
//! `mm_page_free_batched` is left out on purpose: it repeats `mm_page_free` without the order and would make
//! up a third of the volume. An event that this kernel lacks is a note in the recording, not a failure;
//! only without the allocation and the free is there nothing to record.

use std::collections::BTreeMap;

use freehold_trace::decode::Decoder;
use freehold_trace::format::EventFormat;
use freehold_trace::gfp::{self, GfpMap};
use freehold_trace::ring::PageLayout;

use super::decode::RingDecoder;
use super::error::CaptureError;
use super::tracefs::Instance;

/// Events without which a recording means nothing.
const REQUIRED: [&str; 2] = ["kmem/mm_page_alloc", "kmem/mm_page_free"];

/// Events that are recorded where the kernel has them.
const WANTED: [&str; 17] = [
    "kmem/mm_page_alloc_zone_locked",
    "kmem/mm_page_pcpu_drain",
    "kmem/mm_page_alloc_extfrag",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "compaction/mm_compaction_migratepages",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_kswapd_sleep",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_lru_shrink_inactive",
    "vmscan/mm_vmscan_lru_shrink_active",
    "huge_memory/mm_collapse_huge_page",
    "migrate/mm_migrate_pages",
    "vmalloc/alloc_vmap_area",
    TASK_BORN,
    TASK_RENAMED,
];

/// A task is born: its id, its name, and (as the event's own task) its parent.
pub const TASK_BORN: &str = "task/task_newtask";
/// A task takes a name, by `exec` or by itself.
pub const TASK_RENAMED: &str = "task/task_rename";

/// The kernel's own descriptions of what it writes into the ring.
#[derive(Debug)]
pub struct Formats {
    /// The layout of a page of the ring.
    pub page: PageLayout,
    /// `SYSTEM/NAME` and the format of each event that was switched on.
    pub events: Vec<(&'static str, EventFormat)>,
    /// Events that are wanted but not there.
    pub missing: Vec<&'static str>,
}

/// Switches on every event we want that the kernel has, and reads how it is laid out. Nothing is recorded
/// before [`Instance::start`].
///
/// # Errors
/// When a required event is missing, or the instance cannot be used.
pub fn enable(instance: &Instance) -> Result<Formats, CaptureError> {
    if let Some(missing) = REQUIRED.into_iter().find(|event| !instance.offers(event)) {
        return Err(CaptureError::MissingEvent(missing));
    }
    let (offered, missing): (Vec<_>, Vec<_>) =
        REQUIRED.into_iter().chain(WANTED).partition(|event| instance.offers(event));
    let mut events = Vec::new();
    for event in offered {
        instance.write(&format!("events/{event}/enable"), "1")?;
        let format = instance.read(&format!("events/{event}/format"))?;
        events.push((event, EventFormat::parse(&format)?));
    }
    let page = PageLayout::parse(&instance.read("events/header_page")?)?;
    Ok(Formats { page, events, missing })
}

impl Formats {
    /// Names and values of this kernel's GFP flags.
    pub fn gfp_names(&self) -> BTreeMap<String, u64> {
        let alloc = self.events.iter().find(|(event, _)| *event == REQUIRED[0]);
        alloc.map_or_else(BTreeMap::new, |(_, format)| gfp::parse_names(format.print_format()))
    }

    /// A decoder for these formats. `migratetypes` gives the recording's number for each of the kernel's.
    ///
    /// # Errors
    /// When an event lacks a field that is needed.
    pub fn decoder(&self, migratetypes: &[i8]) -> Result<RingDecoder, CaptureError> {
        let rows = Decoder::new(GfpMap::new(&self.gfp_names()), migratetypes.to_vec());
        let mut decoder = RingDecoder::new(self.page, rows);
        for (event, format) in &self.events {
            decoder.add(event, format)?;
        }
        Ok(decoder)
    }
}
