//! Inspection of a recording, in one pass over its rows.
//!
//! Each row goes to up to ten observers. The [`census`] counts rows, [`pairing`] joins frees with allocations and
//! measures lifetimes, [`memory`] adds up page states, [`sections`] estimates holds of the zone lock, [`pressure`]
//! counts fallbacks, reclaim and compaction, [`failures`] counts failed allocations, [`work`] attributes reclaim and
//! compaction to tasks, [`mechanisms`] divides direct reclaims and failures by their causes, [`kswapd_state`] finds the
//! state of kswapd at direct reclaims, and [`map`] fills pageblocks if a map was requested. The [`machine`], the
//! [`course`] and the [`stacks`] are derived from the facts of the recording alone, and [`heaps`] from the facts and the
//! census. Memory use grows with the number of frames that the recording names (16 bytes each), not with its length.

mod census;
mod course;
mod cpu_time;
pub mod diff;
mod failures;
mod frames;
mod free_memory;
mod heaps;
mod kswapd_state;
mod lifetimes;
mod machine;
mod map;
mod mechanisms;
mod memory;
mod oddity;
mod pairing;
mod pressure;
mod report;
pub mod runs;
mod screen;
mod sections;
mod shortage;
mod stacks;
mod start;
mod work;

use std::collections::BTreeMap;
use std::path::Path;

pub use failures::FailureRow;
pub use free_memory::FreeMemory;
pub use kswapd_state::KswapdAtReclaim;
pub use map::Look;
pub use mechanisms::MechanismRow;
pub use work::{TaskCount, WorkKind, WorkRow};

use census::{Census, GfpRow, KindRow, MigratetypeRow, OrderRow, TaskRow};
use failures::Failures;
use freehold_report::progress::Progress;
use freehold_report::report::map::MemoryMap;
use freehold_trace::event::{NO_PFN, Section};
use freehold_trace::mechanism::Mechanisms;
use freehold_trace::recording::{OpenError, Recording};
use freehold_trace::{Facts, Kind, Row};
use heaps::HeapRow;
use kswapd_state::KswapdStates;
use lifetimes::LifetimeRow;
use machine::{FragmentationRow, MachineReport, StallRow, VmstatRow, ZoneRow};
use map::Mapping;
use memory::{Memory, MemoryRow};
use pairing::{Pairing, PairingReport};
use pressure::{CompactionReport, FallbackRow, Pressure, ReclaimReport};
use sections::{SectionReport, Sections};
use serde::Serialize;
use stacks::StackRow;
use work::Work;

/// Results of `freehold inspect`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspection {
    /// File name as it was given.
    pub file: String,
    /// Part of the result that a terminal shows.
    #[serde(skip)]
    pub extent: Extent,
    /// Summary of the machine and the recording.
    pub machine: MachineReport,
    /// Failed allocations, the most frequent first.
    pub failures: Vec<FailureRow>,
    /// Work to get free memory, by kind; empty for a snapshot.
    pub work: Vec<WorkRow>,
    /// Free memory at the end; absent if the recording has no samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_memory: Option<FreeMemory>,
    /// Zones that contain memory.
    pub zones: Vec<ZoneRow>,
    /// Pages by state at the start and the end.
    pub memory: Vec<MemoryRow>,
    /// Uses of allocated memory, as far as page flags show them.
    pub uses: Vec<MemoryRow>,
    /// Settings of the machine.
    pub settings: BTreeMap<String, String>,
    /// Rows by kind.
    pub kinds: Vec<KindRow>,
    /// Requests and frees by order.
    pub orders: Vec<OrderRow>,
    /// Requests by GFP class.
    pub gfp_classes: Vec<GfpRow>,
    /// Requests by whole GFP mask.
    pub gfp_masks: Vec<GfpRow>,
    /// Requests and zone traffic by migratetype.
    pub migratetypes: Vec<MigratetypeRow>,
    /// Lifetimes by order.
    pub lifetimes: Vec<LifetimeRow>,
    /// Pairing of frees with allocations.
    pub pairing: PairingReport,
    /// Estimated holds of the zone lock.
    pub zone_lock: SectionReport,
    /// Fallbacks between migratetypes.
    pub fallbacks: Vec<FallbackRow>,
    /// Reclaim.
    pub reclaim: ReclaimReport,
    /// Direct reclaims and failed requests by mechanism; empty for a snapshot.
    pub mechanisms: Vec<MechanismRow>,
    /// Direct reclaims by the state of kswapd when they began; empty without switches of tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kswapd_at_reclaim: Vec<KswapdAtReclaim>,
    /// Compaction.
    pub compaction: CompactionReport,
    /// Fragmentation over time.
    pub fragmentation: Vec<FragmentationRow>,
    /// Stall times of tasks by resource; empty if the kernel did not report them.
    pub stalls: Vec<StallRow>,
    /// Counters of `/proc/vmstat` that changed.
    pub vmstat: Vec<VmstatRow>,
    /// Names of all counters in the kernel's `/proc/vmstat`.
    #[serde(skip)]
    pub vmstat_names: Vec<String>,
    /// Heaps of the recorded command and its children that use Freehold's malloc.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heaps: Vec<HeapRow>,
    /// Sampled allocations by stack; empty if no stacks were sampled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackRow>,
    /// Busiest tasks.
    pub tasks: Vec<TaskRow>,
    /// Course of the recording, from its samples.
    pub course: Vec<course::Moment>,
    /// Memory map, pageblock by pageblock, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<MemoryMap>,
}

/// Part of the result that a terminal shows. Other formats always have everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The first screen.
    FirstScreen,
    /// All tables.
    #[default]
    Everything,
}

/// Reads the recording or snapshot at `path` once. `look` requests a map of its memory.
///
/// # Errors
/// If the file is not a readable recording or snapshot, or its kernel is unknown. A partly readable file gives no
/// results.
pub fn inspect(path: &Path, look: Option<Look>) -> Result<Inspection, OpenError> {
    let recording = Recording::open_any(path)?;
    let (name, reader) = (recording.facts(None).file, recording.reader);
    let progress = Progress::new(format!("reading {name}"), reader.row_count());
    let mut inspector = Inspector::new(reader.facts(), look);
    for batch in reader.batches() {
        let batch = batch?;
        batch.rows().for_each(|row| inspector.observe(&row));
        progress.advance(batch.len() as u64);
    }
    Ok(inspector.finish(name, reader.facts()))
}

/// Observers of the rows.
#[derive(Debug)]
struct Inspector {
    census: Census,
    memory: Memory,
    pairing: Pairing,
    sections: Sections,
    pressure: Pressure,
    failures: Failures,
    work: Work,
    mechanisms: Mechanisms,
    kswapd_states: KswapdStates,
    mapping: Option<Mapping>,
}

impl Inspector {
    fn new(facts: &Facts, look: Option<Look>) -> Inspector {
        Inspector {
            census: Census::new(),
            memory: Memory::default(),
            pairing: Pairing::new(),
            sections: Sections::new(machine::zone_ranges(facts)),
            pressure: Pressure::default(),
            failures: Failures::default(),
            work: Work::default(),
            mechanisms: Mechanisms::default(),
            kswapd_states: KswapdStates::new(facts),
            mapping: look.map(|look| Mapping::new(facts, look)),
        }
    }

    #[inline]
    fn observe(&mut self, row: &Row) {
        self.census.observe(row);
        self.memory.observe(row);
        if let Some(mapping) = &mut self.mapping {
            mapping.observe(row);
        }
        match row.kind {
            Kind::Alloc => {
                self.sections.operation(row);
                self.failures.observe(row);
                self.mechanisms.observe(row);
                if row.pfn != NO_PFN {
                    self.pairing.allocated(row);
                }
            }
            Kind::Free => {
                self.sections.operation(row);
                self.pairing.freed(row, self.pressure.phase(row.task));
            }
            Kind::ZoneLocked => {
                self.sections.moved(row);
                self.pairing.left_zone(row);
            }
            Kind::PcpuDrain => {
                self.sections.moved(row);
                self.pairing.drained(row);
            }
            kind if kind.section() == Section::Start => self.pairing.observe_start(row),
            _ => {
                self.pressure.observe(row);
                self.work.observe(row);
                self.mechanisms.observe(row);
                self.kswapd_states.observe(row);
            }
        }
    }

    fn finish(self, file: String, facts: &Facts) -> Inspection {
        let (pairing, lifetimes) = self.pairing.report();
        let map = self.mapping.map(|mapping| mapping.finish(&file, facts));
        Inspection {
            file,
            extent: Extent::default(),
            machine: machine::machine(facts),
            failures: self.failures.rows(facts),
            work: self.work.rows(facts),
            free_memory: free_memory::at_end(facts),
            zones: machine::zones(facts),
            memory: self.memory.rows(),
            uses: self.memory.uses(),
            settings: machine::settings(facts),
            kinds: self.census.kinds(machine::seconds(facts.duration)),
            orders: self.census.orders(),
            gfp_classes: self.census.gfp_classes(),
            gfp_masks: self.census.gfp_masks(),
            migratetypes: self.census.migratetypes(),
            lifetimes,
            pairing,
            zone_lock: self.sections.report(),
            fallbacks: self.pressure.fallbacks(),
            reclaim: ReclaimReport {
                allocstall: machine::allocstall(facts),
                oom_kills: machine::oom_kills(facts),
                ..self.pressure.reclaim(&self.work)
            },
            mechanisms: match facts.is_snapshot() {
                true => Vec::new(),
                false => mechanisms::rows(&self.mechanisms.counts(), machine::allocstall(facts)),
            },
            kswapd_at_reclaim: self.kswapd_states.finish(),
            compaction: self.pressure.compaction(),
            fragmentation: machine::fragmentation(facts),
            stalls: machine::stalls(facts),
            vmstat: machine::vmstat(facts),
            vmstat_names: facts.vmstat_names.clone(),
            heaps: heaps::rows(facts, &self.census),
            stacks: stacks::rows(facts),
            tasks: self.census.tasks(facts),
            course: course::moments(facts),
            map,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// SplitMix64, a generator that gives the same numbers for the same seed on every platform.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % bound
        }
    }

    fn inspected(rows: impl IntoIterator<Item = Row>) -> Inspection {
        let facts = Facts::default();
        let mut inspector = Inspector::new(&facts, None);
        rows.into_iter().for_each(|row| inspector.observe(&row));
        inspector.finish("test".to_owned(), &facts)
    }

    /// Compares the pairing with a simple table of live blocks.
    #[test]
    fn pairing_matches_a_table_of_live_blocks() {
        let mut numbers = Numbers(1);
        let mut live: HashMap<u64, Row> = HashMap::new();
        let (mut rows, mut cross_cpu, mut frees) = (Vec::new(), 0, 0);
        for time in 0..50_000 {
            let slot = numbers.below(4000);
            let order = (slot % 4) as u8;
            let place = Row { time, cpu: numbers.below(4) as u16, pfn: slot * 8, order, ..Row::new(Kind::Free) };
            match live.remove(&slot) {
                Some(allocation) => {
                    frees += 1;
                    cross_cpu += u64::from(allocation.cpu != place.cpu);
                    rows.push(place);
                }
                None => {
                    let allocation = Row { kind: Kind::Alloc, ..place };
                    live.insert(slot, allocation);
                    rows.push(allocation);
                }
            }
        }
        let found = inspected(rows);
        assert_eq!((found.pairing.paired, found.pairing.frees), (frees, frees));
        assert_eq!(found.pairing.freed_on_another_cpu, cross_cpu);
        assert_eq!(found.lifetimes.iter().map(|row| row.live_at_end).sum::<u64>(), live.len() as u64);
        assert!(found.pairing.unmatched.iter().all(|odd| odd.events == 0), "{:?}", found.pairing.unmatched);
    }

    /// Counts rows that no kernel would write, without a panic.
    #[test]
    fn random_rows_are_counted_without_panics() {
        let mut numbers = Numbers(2);
        let rows: Vec<_> = (0..100_000)
            .map(|time| Row {
                time,
                cpu: numbers.below(3) as u16,
                task: numbers.below(3) as u32,
                kind: Kind::ALL[numbers.below(Kind::ALL.len() as u64) as usize],
                pfn: [numbers.below(64), numbers.below(1 << 52), NO_PFN][numbers.below(3) as usize],
                order: [numbers.below(6), numbers.below(64)][numbers.below(2) as usize] as u8,
                gfp: numbers.below(1 << 32) as u32,
                migratetype: numbers.below(256) as u8 as i8,
                args: [(); 3].map(|()| [0, 1, 7, i64::MAX, i64::MIN, -1][numbers.below(6) as usize]),
            })
            .collect();
        let [frees, drains] =
            [Kind::Free, Kind::PcpuDrain].map(|kind| rows.iter().filter(|row| row.kind == kind).count() as u64);
        let found = inspected(rows);
        assert_eq!(found.pairing.frees, frees);
        assert_eq!(found.zone_lock.by_purpose[1].blocks, drains);
        assert!(found.pairing.paired <= frees);
    }
}
