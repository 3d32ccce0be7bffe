//! Facts about the recorded machine, kept as one JSON object in the file's key-value metadata.
//!
//! They are what a replay needs to build the same zones, and what a reader needs to judge the numbers:
//! the kernel, its settings, the zones with their watermarks and per-CPU lists at the start and the end,
//! `/proc/vmstat`, pressure and zone counters every second, and how many events were lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Key of the file metadata under which the facts stand.
pub const METADATA_KEY: &str = "freehold.facts";

/// The version of the schema that this crate writes.
pub const FORMAT_VERSION: u32 = 2;

/// The oldest version that this crate reads: it has fewer kinds of events, and fewer facts.
pub const FORMAT_VERSION_MIN: u32 = 1;

/// What a recording says of the machine, besides its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Version of the schema, [`FORMAT_VERSION`].
    pub format: u32,
    /// Program that wrote the recording, with its version.
    pub writer: String,
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    /// The processor's name, as `uname -m` prints it.
    pub machine: String,
    /// Bytes in a page, a power of two.
    pub page_size: u32,
    /// Order of a pageblock, 9 on x86-64.
    pub pageblock_order: u8,
    /// Number of CPUs that could run tasks.
    pub cpus: u16,
    /// The recorded command's program name without its folder, if there was a command.
    pub command: Option<String>,
    /// Nanoseconds from the start of the recording to its end; 0 if it is a snapshot.
    pub duration: u64,
    /// Rows of each kind, by the kind's code.
    pub rows: BTreeMap<u8, u64>,
    /// Events the kernel dropped because a ring was full.
    pub lost: u64,
    /// `Name -> bit value` of the recorded kernel's own GFP flags, from its format files.
    pub gfp_names: BTreeMap<String, u64>,
    /// Task table; index 0 is "no task".
    pub tasks: Vec<Task>,
    /// Ranges of `System RAM` from `/proc/iomem`, as pfn ranges `[start, end)`.
    pub ram: Vec<(u64, u64)>,
    /// Settings by their path below `/proc/sys` or `/sys` (`vm.min_free_kbytes`,
    /// `transparent_hugepage.defrag`, ...).
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
    /// Slab caches at the start; none where the kernel does not show them.
    pub caches_start: Vec<CacheFacts>,
    /// Slab caches at the end.
    pub caches_end: Vec<CacheFacts>,
    /// Heaps of the command, and of what it started, whose malloc is Freehold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heaps: Vec<HeapFacts>,
    /// What made a flight recorder keep this recording; `None` of any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight: Option<FlightFacts>,
    /// Who allocated; `None` where nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stacks: Option<StackFacts>,
    /// What the recorder wants a reader to know, in sentences.
    pub notes: Vec<String>,
    /// What nobody recorded and the writer took for granted, in sentences: a replay is the less true for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<String>,
}

impl Facts {
    /// Whether this is a snapshot: the state of one moment, and no event.
    pub fn is_snapshot(&self) -> bool {
        self.duration == 0
    }

    /// The name of the task with this number in rows; empty if there is none.
    pub fn task_name(&self, task: u32) -> &str {
        self.tasks.get(task as usize).map_or("", |task| task.name.as_str())
    }
}

/// What made a flight recorder keep a recording, and how its start state was rebuilt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightFacts {
    /// What happened, in order of time; the first of them made it keep the recording.
    pub triggers: Vec<TriggerFacts>,
    /// Nanoseconds before the end that it was to keep.
    pub asked: u64,
    /// Frames whose first event told what they were at the start.
    pub told: u64,
    /// Blocks that somebody took without an event.
    pub taken_silently: u64,
    /// Blocks that somebody gave back without an event.
    pub returned_silently: u64,
    /// Frames that are not at the end what their last event made them.
    pub ended_otherwise: u64,
    /// Pages that compaction moved, no event says where to.
    pub moved: u64,
}

/// Something that a flight recorder waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TriggerFacts {
    /// `allocstall`, `failure`, `thp-failure`, `psi`, or `asked`.
    pub what: String,
    /// Nanoseconds since the recording started when it was noticed.
    pub time: u64,
}

/// The kernel's stacks of a sample of the allocations; [`crate::stacks`] says what a sample is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackFacts {
    /// One frame in so many is sampled: a power of two.
    pub period: u64,
    /// Names of functions, each once.
    pub symbols: Vec<String>,
    /// What was sampled, the most pages first.
    pub stacks: Vec<StackCount>,
}

/// Samples that have the stack, the task and the order in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackCount {
    /// Places in [`StackFacts::symbols`], the function that was called last first; empty where a stack was not kept.
    pub frames: Vec<u32>,
    /// Place in [`Facts::tasks`].
    pub task: u32,
    /// Order of the blocks.
    pub order: u8,
    /// How many samples.
    pub samples: u64,
}

/// A task that fired at least one event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Thread id in the recorded machine.
    pub pid: u32,
    /// Its name, or `other` where the name was not to be kept.
    pub name: String,
}

/// One zone as `/proc/zoneinfo` shows it. All sizes in pages.
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
    /// Free pages as the zone's counter says.
    pub free: u64,
    /// Watermarks with boost excluded, and the boost.
    pub min: u64,
    /// Low watermark in pages, without boost.
    pub low: u64,
    /// High watermark in pages, without boost.
    pub high: u64,
    /// Boost of the watermarks, in pages.
    pub boost: u64,
    /// Lowmem reserve against requests whose highest zone has this index.
    pub protection: Vec<u64>,
    /// `nr_reserved_highatomic`, where the kernel shows it; otherwise `None`.
    pub reserved_highatomic: Option<u64>,
    /// Free pages of CMA areas: `nr_free_cma`.
    pub free_cma: u64,
    /// Per-CPU lists, one entry a CPU.
    pub pcp: Vec<PcpFacts>,
}

/// A per-CPU list as `/proc/zoneinfo` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PcpFacts {
    /// Number of the CPU that the list belongs to.
    pub cpu: u16,
    /// Pages on the CPU's lists for the zone.
    pub count: u32,
    /// Limit of the lists in pages: `high`.
    pub high: u32,
    /// Pages that a refill or drain moves: `batch`.
    pub batch: u32,
    /// Lower bound of the limit, where shown.
    pub high_min: u32,
    /// Upper bound of the limit, where shown.
    pub high_max: u32,
}

/// `/proc/vmstat`, `/proc/buddyinfo`, `/proc/pressure` and `/proc/zoneinfo` at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Values in the order of [`Facts::vmstat_names`].
    pub vmstat: Vec<u64>,
    /// Free blocks by order, one list a zone in the order of [`Facts::zones_start`].
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
    /// Free blocks by order (the kernel stops counting a list at 100 000).
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
    /// Objects that its slabs have room for.
    pub objects: u64,
    /// Bytes that an object takes.
    pub object_size: u32,
    /// Objects in a slab.
    pub objects_per_slab: u32,
    /// Pages in a slab.
    pub pages_per_slab: u32,
    /// Slabs.
    pub slabs: u64,
    /// Objects that a sheaf has room for, from `/sys/kernel/slab`; `None` on kernels without sheaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sheaf_capacity: Option<u32>,
}

/// A process whose malloc is Freehold, as its heap was seen from outside while it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapFacts {
    /// Number of the process in the recorded machine.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Numbers of its threads that were seen.
    pub threads: Vec<u32>,
    /// What it had, in the order of time.
    pub moments: Vec<HeapMoment>,
}

/// A heap at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapMoment {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// What the process had in memory in all.
    pub resident: u64,
    /// Objects of the program that were in memory.
    pub objects: u64,
    /// Objects that CPUs had at hand, and the rest of slabs, in memory.
    pub idle: u64,
    /// Runs of pages of the program that were in memory.
    pub runs: u64,
    /// Free pages and runs in memory.
    pub free: u64,
    /// Free pages and runs that were not: given back, or never written to.
    pub given_back: u64,
}
