//! Kernel events that are recorded, and their formats on this kernel.
//!
//! `mm_page_free_batched` is left out, since it repeats `mm_page_free` without the order and would make up a third of
//! the volume. An event that this kernel lacks, or that lacks a required field, causes a note in the recording and no
//! failure. Only the events of allocations and frees are required. Events that are too expensive for every recording
//! are in an [`EventSet`], and recorded on request.

use std::collections::BTreeMap;

use freehold_trace::decode::{self, Decoder};
use freehold_trace::format::{EventFormat, FormatError};
use freehold_trace::gfp::{self, GfpMap};
use freehold_trace::ring::PageLayout;

use crate::decode::{RingDecoder, STACK, TASK_BORN, TASK_RENAMED};
use crate::error::CaptureError;
use crate::stacks;
use crate::tracefs::Instance;

/// Events that every recording needs.
const REQUIRED: [&str; 2] = ["kmem/mm_page_alloc", "kmem/mm_page_free"];

/// Events that are recorded if the kernel has them. Those of reclaim and compaction fire at most once for a batch of
/// pages.
const WANTED: [&str; 29] = [
    "kmem/mm_page_alloc_zone_locked",
    "kmem/mm_page_pcpu_drain",
    "kmem/mm_page_alloc_extfrag",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "compaction/mm_compaction_migratepages",
    "compaction/mm_compaction_try_to_compact_pages",
    "compaction/mm_compaction_wakeup_kcompactd",
    "compaction/mm_compaction_kcompactd_wake",
    "compaction/mm_compaction_kcompactd_sleep",
    "compaction/mm_compaction_defer_compaction",
    "compaction/mm_compaction_defer_reset",
    "vmscan/mm_vmscan_wakeup_kswapd",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_kswapd_sleep",
    "vmscan/mm_vmscan_balance_pgdat_begin",
    "vmscan/mm_vmscan_balance_pgdat_end",
    "vmscan/mm_vmscan_throttled",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_memcg_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_end",
    "vmscan/mm_vmscan_lru_shrink_inactive",
    "vmscan/mm_vmscan_lru_shrink_active",
    "huge_memory/mm_collapse_huge_page",
    "migrate/mm_migrate_pages",
    "vmalloc/alloc_vmap_area",
    TASK_BORN,
    TASK_RENAMED,
];

/// Further events that are recorded on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSet {
    /// Pages that reclaim isolates and writes, objects that shrinkers free, and reclaim of a node or of chosen pages.
    Reclaim,
    /// Pages that compaction scans and isolates, and its decisions.
    Compaction,
    /// Writeback, and writers that are throttled.
    Writeback,
    /// Starts of migrations, and ranges that are emptied.
    Migration,
    /// Every switch and wakeup of a task. These are very many events.
    Sched,
}

impl EventSet {
    /// All sets.
    pub const ALL: [EventSet; 5] =
        [EventSet::Reclaim, EventSet::Compaction, EventSet::Writeback, EventSet::Migration, EventSet::Sched];

    /// Returns the name with which a user requests the set.
    pub fn name(self) -> &'static str {
        match self {
            EventSet::Reclaim => "reclaim",
            EventSet::Compaction => "compaction",
            EventSet::Writeback => "writeback",
            EventSet::Migration => "migration",
            EventSet::Sched => "sched",
        }
    }

    fn events(self) -> &'static [&'static str] {
        match self {
            EventSet::Reclaim => &[
                "vmscan/mm_vmscan_lru_isolate",
                "vmscan/mm_shrink_slab_end",
                "vmscan/mm_vmscan_write_folio",
                "vmscan/mm_vmscan_reclaim_pages",
                "vmscan/mm_vmscan_node_reclaim_begin",
                "vmscan/mm_vmscan_node_reclaim_end",
            ],
            EventSet::Compaction => &[
                "compaction/mm_compaction_isolate_migratepages",
                "compaction/mm_compaction_isolate_freepages",
                "compaction/mm_compaction_fast_isolate_freepages",
                "compaction/mm_compaction_suitable",
                "compaction/mm_compaction_finished",
                "compaction/mm_compaction_deferred",
            ],
            EventSet::Writeback => &[
                "writeback/balance_dirty_pages",
                "writeback/writeback_pages_written",
                "writeback/writeback_start",
                "writeback/writeback_written",
            ],
            EventSet::Migration => &["migrate/mm_migrate_pages_start", "kmem/mm_alloc_contig_migrate_range_info"],
            EventSet::Sched => &["sched/sched_switch", "sched/sched_waking"],
        }
    }
}

/// The kernel's own descriptions of its events.
#[derive(Debug)]
pub(crate) struct Formats {
    /// Layout of a page of the ring.
    pub page: PageLayout,
    /// `SYSTEM/NAME` and the format of each enabled event.
    pub events: Vec<(&'static str, EventFormat)>,
    /// Sampling period and format of the kernel's stacks, if they are recorded.
    pub stacks: Option<(u64, EventFormat)>,
    /// Notes about missing events and fields, in sentences.
    pub notes: Vec<String>,
}

/// Enables every wanted event that the kernel has, including those of `sets`, and stacks of one allocated frame in
/// `stacks`. Reads their formats. Nothing is recorded before [`Instance::start`].
///
/// # Errors
/// If a required event is missing, the instance cannot be used, or stacks are requested and cannot be recorded or
/// named.
pub(crate) fn enable(instance: &Instance, sets: &[EventSet], stacks: Option<u64>) -> Result<Formats, CaptureError> {
    if let Some(missing) = REQUIRED.into_iter().find(|event| !instance.offers(event)) {
        return Err(CaptureError::MissingEvent(missing));
    }
    let (offered, missing): (Vec<_>, Vec<_>) = wanted_events(sets).partition(|event| instance.offers(event));
    let mut formats = Formats::new(PageLayout::parse(&instance.read("events/header_page")?)?);
    if !missing.is_empty() {
        formats.notes.push(format!("events that this kernel does not have: {}", missing.join(", ")));
    }
    if let Some(period) = stacks {
        stacks::expect_symbols()?;
        let format = take_stacks(instance, period).map_err(|error| CaptureError::NoStacks(Box::new(error)))?;
        formats.stacks = Some((period, format));
    }
    for event in offered {
        let text = instance.read(&format!("events/{event}/format"))?;
        if formats.admit(event, &text)? == Use::Recorded {
            instance.write(&format!("events/{event}/enable"), "1")?;
        }
    }
    Ok(formats)
}

/// Makes the kernel record the stack of one allocated frame in `period`.
fn take_stacks(instance: &Instance, period: u64) -> Result<EventFormat, CaptureError> {
    instance.write(&format!("events/{}/trigger", REQUIRED[0]), &stacks::trigger(period))?;
    Ok(EventFormat::parse(&instance.read(&format!("events/{STACK}/format"))?)?)
}

/// Returns the wanted events, each once.
fn wanted_events(sets: &[EventSet]) -> impl Iterator<Item = &'static str> {
    let asked = EventSet::ALL.into_iter().filter(|set| sets.contains(set)).flat_map(|set| set.events().iter().copied());
    REQUIRED.into_iter().chain(WANTED).chain(asked)
}

/// Whether an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Recorded,
    /// The event lacks a required field, or its format cannot be parsed. It is not recorded, and a note reports this.
    PassedOver,
}

impl Formats {
    fn new(page: PageLayout) -> Formats {
        Formats { page, events: Vec::new(), stacks: None, notes: Vec::new() }
    }

    /// Adds an event with this format, if it has the required fields.
    ///
    /// # Errors
    /// If it has not, and the event is required.
    fn admit(&mut self, event: &'static str, text: &str) -> Result<Use, CaptureError> {
        let rows = Decoder::new(GfpMap::new(&BTreeMap::new()), Vec::new());
        let mut trial = RingDecoder::new(self.page, rows);
        let format = EventFormat::parse(text).and_then(|format| trial.add(event, &format).map(|()| format));
        match format {
            Ok(format) => {
                let lacking = decode::lacking(&format).map(|field| {
                    format!(
                        "the event {event} has no field `{field}` on this kernel, so the column has its empty value"
                    )
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
                self.notes.push(format!("{event} was not recorded: its format on this kernel cannot be parsed"));
                Ok(Use::PassedOver)
            }
        }
    }

    /// Returns names and values of this kernel's GFP flags.
    pub(crate) fn gfp_names(&self) -> BTreeMap<String, u64> {
        let alloc = self.events.iter().find(|(event, _)| *event == REQUIRED[0]);
        alloc.map_or_else(BTreeMap::new, |(_, format)| gfp::parse_names(format.print_format()))
    }

    /// Returns a decoder for these formats. `migratetypes` gives the recording's number of each of the kernel's
    /// migratetypes.
    ///
    /// # Errors
    /// If an event lacks a required field.
    pub(crate) fn decoder(&self, migratetypes: &[i8]) -> Result<RingDecoder, CaptureError> {
        let rows = Decoder::new(GfpMap::new(&self.gfp_names()), migratetypes.to_vec());
        let mut decoder = RingDecoder::new(self.page, rows);
        for (event, format) in &self.events {
            decoder.add(event, format)?;
        }
        if let Some((_, format)) = &self.stacks {
            decoder.add(STACK, format)?;
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
    fn event_without_an_essential_field_becomes_a_note() {
        let mut formats = formats();
        let admitted = formats.admit(WANTED[2], &without(EXTFRAG, "fallback_order;")).unwrap();
        assert_eq!((admitted, formats.events.len()), (Use::PassedOver, 0));
        assert_eq!(
            formats.notes,
            ["kmem/mm_page_alloc_extfrag was not recorded: it has no field `fallback_order` on this kernel"]
        );
        assert_eq!(formats.admit(WANTED[3], "nonsense").unwrap(), Use::PassedOver);
        assert!(formats.notes[1].contains("cannot be parsed"));
    }

    #[test]
    fn event_without_an_optional_field_is_recorded() {
        let mut formats = formats();
        let admitted = formats.admit(REQUIRED[0], &without(ALLOC, "int migratetype;")).unwrap();
        assert_eq!((admitted, formats.events.len(), formats.notes.len()), (Use::Recorded, 1, 1));
        assert!(formats.notes[0].contains("no field `migratetype`"));
        assert_eq!(formats.admit(REQUIRED[0], ALLOC).unwrap(), Use::Recorded);
        assert_eq!(formats.notes.len(), 1);
    }

    #[test]
    fn event_sets_add_events_once() {
        assert_eq!(wanted_events(&[]).count(), 31);
        assert_eq!(wanted_events(&[EventSet::Sched, EventSet::Sched]).count(), 33);
        let mut all: Vec<_> = wanted_events(&EventSet::ALL).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn running_kernels_events_have_the_required_fields() {
        let mut formats = formats();
        for event in wanted_events(&EventSet::ALL) {
            let Ok(text) = std::fs::read_to_string(format!("/sys/kernel/tracing/events/{event}/format")) else {
                continue;
            };
            assert_eq!(formats.admit(event, &text).unwrap(), Use::Recorded, "{event}");
        }
        assert_eq!(formats.notes, Vec::<String>::new());
    }

    #[test]
    fn allocation_event_without_pfn_is_an_error() {
        assert!(formats().admit(REQUIRED[0], &without(ALLOC, "long pfn;")).is_err());
    }
}
