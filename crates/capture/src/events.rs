//! Which kernel events are recorded, and how this kernel lays them out.
//!
//! `mm_page_free_batched` is left out on purpose: it repeats `mm_page_free` without the order and would make
//! up a third of the volume. An event that this kernel lacks, or that lacks a field here, is a note in the recording and
//! not a failure; only without the allocation and the free is there nothing to record.

use std::collections::BTreeMap;

use freehold_trace::decode::{self, Decoder};
use freehold_trace::format::{EventFormat, FormatError};
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
    /// What is wanted but not there, in sentences.
    pub notes: Vec<String>,
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
    let mut formats = Formats::new(PageLayout::parse(&instance.read("events/header_page")?)?);
    if !missing.is_empty() {
        formats.notes.push(format!("this kernel has no event {}", missing.join(", ")));
    }
    for event in offered {
        let text = instance.read(&format!("events/{event}/format"))?;
        if formats.admit(event, &text)? == Use::Recorded {
            instance.write(&format!("events/{event}/enable"), "1")?;
        }
    }
    Ok(formats)
}

/// Whether an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Recorded,
    /// It lacks what it would be recorded for, and a note says so.
    PassedOver,
}

impl Formats {
    fn new(page: PageLayout) -> Formats {
        Formats { page, events: Vec::new(), notes: Vec::new() }
    }

    /// Takes an event whose format is `text`, if it says what it is recorded for.
    ///
    /// # Errors
    /// When a required event does not.
    fn admit(&mut self, event: &'static str, text: &str) -> Result<Use, CaptureError> {
        let rows = Decoder::new(GfpMap::new(&BTreeMap::new()), Vec::new());
        let mut trial = RingDecoder::new(self.page, rows);
        let format = EventFormat::parse(text).and_then(|format| trial.add(event, &format).map(|()| format));
        match format {
            Ok(format) => {
                let lacking = decode::lacking(&format).map(|field| {
                    format!("this kernel's event {event} has no field `{field}`, so its column keeps its empty value")
                });
                self.notes.extend(lacking);
                self.events.push((event, format));
                Ok(Use::Recorded)
            }
            Err(error) if REQUIRED.contains(&event) => Err(error.into()),
            Err(FormatError::MissingField { field, .. }) => {
                self.notes.push(format!("{event} was not recorded: it has no field `{field}` on this kernel"));
                Ok(Use::PassedOver)
            }
            Err(_) => {
                self.notes.push(format!("{event} was not recorded: its format on this kernel is not understood"));
                Ok(Use::PassedOver)
            }
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../trace/tests/fixtures/linux-6.18/header_page");
    const ALLOC: &str = include_str!("../../trace/tests/fixtures/linux-6.18/mm_page_alloc.format");
    const EXTFRAG: &str = include_str!("../../trace/tests/fixtures/linux-6.18/mm_page_alloc_extfrag.format");

    fn formats() -> Formats {
        Formats::new(PageLayout::parse(PAGE).unwrap())
    }

    fn without(text: &str, field: &str) -> String {
        text.lines().filter(|line| !line.contains(field)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_event_without_an_essential_field_is_a_note() {
        let mut formats = formats();
        let admitted = formats.admit(WANTED[2], &without(EXTFRAG, "fallback_order;")).unwrap();
        assert_eq!((admitted, formats.events.len()), (Use::PassedOver, 0));
        assert_eq!(
            formats.notes,
            ["kmem/mm_page_alloc_extfrag was not recorded: it has no field `fallback_order` on this kernel"]
        );
        assert_eq!(formats.admit(WANTED[3], "nonsense").unwrap(), Use::PassedOver);
        assert!(formats.notes[1].contains("is not understood"));
    }

    #[test]
    fn an_event_without_another_field_is_recorded() {
        let mut formats = formats();
        let admitted = formats.admit(REQUIRED[0], &without(ALLOC, "int migratetype;")).unwrap();
        assert_eq!((admitted, formats.events.len(), formats.notes.len()), (Use::Recorded, 1, 1));
        assert!(formats.notes[0].contains("no field `migratetype`"));
        assert_eq!(formats.admit(REQUIRED[0], ALLOC).unwrap(), Use::Recorded);
        assert_eq!(formats.notes.len(), 1);
    }

    #[test]
    fn without_the_frames_of_allocations_there_is_nothing_to_record() {
        assert!(formats().admit(REQUIRED[0], &without(ALLOC, "long pfn;")).is_err());
    }
}
