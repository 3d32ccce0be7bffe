//! Facts about the recorded machine, stored as one JSON object in the file's key-value metadata.
//!
//! A replay needs them to build the same zones, and a reader to judge the numbers. They describe the kernel and its
//! settings, and the zones with their watermarks and per-CPU lists at the start and the end. Samples at the start,
//! every second and at the end hold the counters of `/proc/vmstat`, pressure and the zones. The number of lost events
//! shows whether the rows are complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Key of the facts in the file metadata.
pub const METADATA_KEY: &str = "freehold.facts";

/// Version of the schema that this crate writes.
pub const FORMAT_VERSION: u32 = 2;

/// Oldest version that this crate reads. It has fewer kinds of events, and fewer facts.
pub const FORMAT_VERSION_MIN: u32 = 1;

/// Information about the machine in a recording, besides its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Version of the schema, [`FORMAT_VERSION`].
    pub format: u32,
    /// Program that wrote the recording, with its version.
    pub writer: String,
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    /// Name of the processor architecture, as `uname -m` prints it.
    pub machine: String,
    /// Bytes in a page, a power of two.
    pub page_size: u32,
    /// Order of a pageblock, 9 on x86-64.
    pub pageblock_order: u8,
    /// Number of CPUs that could run tasks.
    pub cpus: u16,
    /// Program name of the recorded command without its folder, if there was a command.
    pub command: Option<String>,
    /// Nanoseconds from the start of the recording to its end; 0 for a snapshot.
    pub duration: u64,
    /// Rows of each kind, by the kind's code.
    pub rows: BTreeMap<u8, u64>,
    /// Events that the kernel dropped because a ring was full.
    pub lost: u64,
    /// Values of the recorded kernel's own GFP flags by name, from its format files.
    pub gfp_names: BTreeMap<String, u64>,
    /// Task table. Index 0 is "no task".
    pub tasks: Vec<Task>,
    /// Ranges of `System RAM` from `/proc/iomem`, as pfn ranges `[start, end)`.
    pub ram: Vec<(u64, u64)>,
    /// Settings by their path below `/proc/sys` or `/sys` (`vm.min_free_kbytes`, `transparent_hugepage.defrag`, ...).
    pub settings: BTreeMap<String, String>,
    /// Zones when the recording started.
    pub zones_start: Vec<ZoneFacts>,
    /// Zones when the recording ended.
    pub zones_end: Vec<ZoneFacts>,
    /// Names of the counters in [`Sample::vmstat`], in order.
    pub vmstat_names: Vec<String>,
    /// Names of the totals in [`Sample::pressure`], in order: `memory.some`, `memory.full`, `cpu.some`, and so on.
    pub pressure_names: Vec<String>,
    /// Names of the counters in [`Sample::zones`], in order.
    pub zone_counter_names: Vec<String>,
    /// Counters of the kernel at the start, every second, and at the end.
    pub samples: Vec<Sample>,
    /// `/proc/pagetypeinfo` at the start.
    pub pagetypeinfo_start: Vec<TypeFacts>,
    /// `/proc/pagetypeinfo` at the end.
    pub pagetypeinfo_end: Vec<TypeFacts>,
    /// Slab caches at the start; empty if the kernel does not show them.
    pub caches_start: Vec<CacheFacts>,
    /// Slab caches at the end.
    pub caches_end: Vec<CacheFacts>,
    /// Heaps of the command and its child processes that use Freehold as malloc.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heaps: Vec<HeapFacts>,
    /// Trigger of a flight recorder; `None` for any other recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight: Option<FlightFacts>,
    /// Sampled stacks of allocations; `None` if they were not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stacks: Option<StackFacts>,
    /// Remarks of the recorder for the reader, in sentences.
    pub notes: Vec<String>,
    /// Assumptions of the writer about facts that were not recorded, in sentences. Each makes a replay less reliable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<String>,
}

impl Facts {
    /// Returns whether this is a snapshot: the state at one time, without events.
    pub fn is_snapshot(&self) -> bool {
        self.duration == 0
    }

    /// Returns the name of the task with this number in rows; empty if there is none.
    pub fn task_name(&self, task: u32) -> &str {
        self.tasks.get(task as usize).map_or("", |task| task.name.as_str())
    }

    /// Returns the increase of counters of `/proc/vmstat` from the first sample to `sample`, summed over the counters
    /// whose names `is_counted` selects; `None` if the recording lacks them all.
    pub fn vmstat_increase(&self, sample: &Sample, is_counted: impl Fn(&str) -> bool) -> Option<u64> {
        let first = self.samples.first()?;
        let selected = self.vmstat_names.iter().enumerate().filter(|(_, name)| is_counted(name));
        let ends = selected.filter_map(|(at, _)| first.vmstat.get(at).zip(sample.vmstat.get(at)));
        ends.map(|(start, end)| end.saturating_sub(*start)).reduce(u64::saturating_add)
    }
}

/// Triggers of a flight recorder, and statistics of the rebuilt start state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightFacts {
    /// Triggers in order of time. The first one started the writing of this recording.
    pub triggers: Vec<TriggerFacts>,
    /// Length of the recording that was requested, in nanoseconds before the end.
    pub asked: u64,
    /// Frames whose first event showed their state at the start.
    pub told: u64,
    /// Blocks that were allocated without an event.
    pub taken_silently: u64,
    /// Blocks that were freed without an event.
    pub returned_silently: u64,
    /// Frames whose state at the end differs from the one after their last event.
    pub ended_otherwise: u64,
    /// Pages that compaction moved to a place that no event shows.
    pub moved: u64,
}

/// A condition that a flight recorder watches for, when it became true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TriggerFacts {
    /// Name: `allocstall`, `failure`, `thp-failure`, `psi`, or `asked`.
    pub what: String,
    /// Nanoseconds from the start of the recording to the detection of the condition.
    pub time: u64,
}

/// Kernel stacks of a sample of the allocations; see [`crate::stacks`] for the sampling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackFacts {
    /// Sampling period: one frame in this many is sampled. A power of two.
    pub period: u64,
    /// Names of functions, each once.
    pub symbols: Vec<String>,
    /// Sampled stacks, those with the most pages first.
    pub stacks: Vec<StackCount>,
}

/// Samples with the same stack, task and order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackCount {
    /// Indices into [`StackFacts::symbols`], the innermost function first; empty if the stack was not kept.
    pub frames: Vec<u32>,
    /// Index into [`Facts::tasks`].
    pub task: u32,
    /// Order of the blocks.
    pub order: u8,
    /// Number of samples.
    pub samples: u64,
}

/// A task with at least one event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Thread id on the recorded machine.
    pub pid: u32,
    /// Name of the task, or `other` if names were not to be kept.
    pub name: String,
}

/// One zone as `/proc/zoneinfo` shows it. All sizes are in pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneFacts {
    /// Number of the NUMA node.
    pub node: u16,
    /// `DMA`, `DMA32`, `Normal`, `Movable`, `Device`.
    pub name: String,
    /// First page frame number of the span.
    pub start_pfn: u64,
    /// Pages spanned, holes included.
    pub spanned: u64,
    /// Pages of the zone that exist.
    pub present: u64,
    /// Pages that the allocator manages.
    pub managed: u64,
    /// Free pages by the zone's counter.
    pub free: u64,
    /// Min watermark in pages, without boost.
    pub min: u64,
    /// Low watermark in pages, without boost.
    pub low: u64,
    /// High watermark in pages, without boost.
    pub high: u64,
    /// Boost of the watermarks, in pages.
    pub boost: u64,
    /// Lowmem reserve in pages, by the index of the highest zone that a request may use.
    pub protection: Vec<u64>,
    /// `nr_reserved_highatomic`; `None` if the kernel does not show it.
    pub reserved_highatomic: Option<u64>,
    /// Free pages of CMA areas: `nr_free_cma`.
    pub free_cma: u64,
    /// Per-CPU lists, one entry per CPU.
    pub pcp: Vec<PcpFacts>,
}

/// A per-CPU list as `/proc/zoneinfo` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PcpFacts {
    /// Number of the CPU.
    pub cpu: u16,
    /// Pages on the CPU's lists for the zone.
    pub count: u32,
    /// Limit of the lists in pages: `high`.
    pub high: u32,
    /// Pages that a refill or a drain moves: `batch`.
    pub batch: u32,
    /// Lower bound of `high`, in pages; 0 if the kernel does not show it.
    pub high_min: u32,
    /// Upper bound of `high`, in pages; 0 if the kernel does not show it.
    pub high_max: u32,
}

/// `/proc/vmstat`, `/proc/buddyinfo`, `/proc/pressure` and `/proc/zoneinfo` at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Values in the order of [`Facts::vmstat_names`].
    pub vmstat: Vec<u64>,
    /// Free blocks by order, one list per zone in the order of [`Facts::zones_start`].
    pub buddyinfo: Vec<Vec<u64>>,
    /// Microseconds that tasks stalled since the machine started, in the order of [`Facts::pressure_names`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pressure: Vec<u64>,
    /// Counters of each zone of [`Facts::zones_start`], in the order of [`Facts::zone_counter_names`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Vec<u64>>,
}

/// One migratetype of one zone in `/proc/pagetypeinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeFacts {
    /// Number of the NUMA node.
    pub node: u16,
    /// Name of the zone, such as `Normal`.
    pub zone: String,
    /// Migratetype in the numbering of [`crate::event::migratetype`].
    pub migratetype: i8,
    /// Free blocks by order. The kernel stops counting a list at 100 000.
    pub free: Vec<u64>,
    /// Number of pageblocks of this type.
    pub pageblocks: u64,
}

/// A slab cache as `/proc/slabinfo` shows it. Objects that a CPU or a sheaf holds for later count as active.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheFacts {
    /// Name of the cache, such as `dentry`.
    pub name: String,
    /// Objects that are in use, or held for later.
    pub active: u64,
    /// Objects that fit in the cache's slabs.
    pub objects: u64,
    /// Size of an object in bytes.
    pub object_size: u32,
    /// Objects in a slab.
    pub objects_per_slab: u32,
    /// Pages in a slab.
    pub pages_per_slab: u32,
    /// Number of slabs.
    pub slabs: u64,
    /// Objects that fit in a sheaf, from `/sys/kernel/slab`; `None` on kernels without sheaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sheaf_capacity: Option<u32>,
}

/// A process that uses Freehold as malloc, with its heap as seen from outside while the process ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapFacts {
    /// Process id on the recorded machine.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Ids of its threads that were seen.
    pub threads: Vec<u32>,
    /// Contents of the heap, in order of time.
    pub moments: Vec<HeapMoment>,
}

/// Contents of a heap at one time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapMoment {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Resident memory of the whole process.
    pub resident: u64,
    /// Resident objects of the program.
    pub objects: u64,
    /// Resident objects that CPUs hold for later, and unused parts of resident slabs.
    pub idle: u64,
    /// Resident page runs of the program.
    pub runs: u64,
    /// Resident free pages and runs.
    pub free: u64,
    /// Free pages and runs that are not resident: purged, or never written.
    pub given_back: u64,
}
