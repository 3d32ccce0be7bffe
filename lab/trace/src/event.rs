//! Rows of a recording: an event of the kernel, or a part of its state at the start or the end.
//!
//! A row is flat: eleven columns of integers that any Parquet reader can read. The meaning of the three `args` depends
//! on the [`Kind`] and is documented for each kind below and in `FORMAT.md`. Codes are part of the file format: they
//! are never reused or renumbered.

/// Kind of a row. The numeric code is the value in the `kind` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `kmem:mm_page_alloc`. `pfn` (or [`NO_PFN`] when the allocation failed), `order`, `gfp`,
    /// `migratetype` as requested.
    Alloc = 1,
    /// `kmem:mm_page_free`. `pfn`, `order`.
    Free = 2,
    /// `kmem:mm_page_alloc_zone_locked`: a block left the free lists. `pfn`, `order`, `migratetype`; `args[0]` = 1 if
    /// the order fits the per-CPU lists.
    ZoneLocked = 3,
    /// `kmem:mm_page_pcpu_drain`: a block moved from a per-CPU list to the zone. `pfn`, `order`, `migratetype`.
    PcpuDrain = 4,
    /// `kmem:mm_page_alloc_extfrag`: a fallback. `pfn`, requested `order`, requested `migratetype`; `args` = [fallback
    /// order, fallback migratetype, 1 if the pageblock changed its type].
    ExtFrag = 5,
    /// `compaction:mm_compaction_begin`. `pfn` = migrate scanner; `args` = [zone start pfn,
    /// free scanner pfn, zone end pfn]; `order` = 1 if synchronous.
    CompactionBegin = 6,
    /// `compaction:mm_compaction_end`. As begin, and `migratetype` = the kernel's result code.
    CompactionEnd = 7,
    /// `compaction:mm_compaction_migratepages`. `args` = [migrated, failed, 0].
    CompactionMigrate = 8,
    /// `vmscan:mm_vmscan_kswapd_wake`. `order`; `args` = [node, highest zone index, 0].
    KswapdWake = 9,
    /// `vmscan:mm_vmscan_kswapd_sleep`. `args` = [node, 0, 0].
    KswapdSleep = 10,
    /// `vmscan:mm_vmscan_direct_reclaim_begin`. `order`, `gfp`.
    DirectReclaimBegin = 11,
    /// `vmscan:mm_vmscan_direct_reclaim_end`. `args` = [pages reclaimed, 0, 0].
    DirectReclaimEnd = 12,
    /// `vmscan:mm_vmscan_lru_shrink_inactive`. `args` = [scanned, reclaimed, node].
    LruShrinkInactive = 13,
    /// `vmscan:mm_vmscan_lru_shrink_active`. `args` = [taken, deactivated, node].
    LruShrinkActive = 14,
    /// `huge_memory:mm_collapse_huge_page`. `args` = [1 if isolated, status, 0].
    CollapseHugePage = 15,
    /// `vmalloc:alloc_vmap_area`. `args` = [size in bytes, 1 if failed, 0].
    AllocVmapArea = 16,
    /// `migrate:mm_migrate_pages`. `args` = [pages succeeded, pages failed, reason].
    MigratePages = 17,

    /// `vmscan:mm_vmscan_wakeup_kswapd`: a request wakes kswapd. `order`, `gfp`; `args` = [node, highest zone index,
    /// 0].
    WakeupKswapd = 18,
    /// `vmscan:mm_vmscan_throttled`: a task slept because reclaim made no progress. `args` = [node, us slept, reasons].
    Throttled = 19,
    /// `vmscan:mm_vmscan_balance_pgdat_begin`: kswapd starts to reclaim. `order`; `args` = [node, highest zone index,
    /// 0].
    BalancePgdatBegin = 20,
    /// `vmscan:mm_vmscan_balance_pgdat_end`. `order`; `args` = [node, highest zone index, pages reclaimed].
    BalancePgdatEnd = 21,
    /// `compaction:mm_compaction_try_to_compact_pages`: a request compacts. `order`, `gfp`; `args` = [priority, 0, 0].
    TryToCompact = 22,
    /// `compaction:mm_compaction_wakeup_kcompactd`. `order`; `args` = [node, highest zone index, 0].
    WakeupKcompactd = 23,
    /// `compaction:mm_compaction_kcompactd_wake`. `order`; `args` = [node, highest zone index, 0].
    KcompactdWake = 24,
    /// `compaction:mm_compaction_kcompactd_sleep`. `args` = [node, 0, 0].
    KcompactdSleep = 25,
    /// `compaction:mm_compaction_defer_compaction`: compaction of a zone is deferred. `order`; `args` = [node, zone
    /// index, binary logarithm of the number of requests to skip].
    CompactionDefer = 26,
    /// `compaction:mm_compaction_defer_reset`: the deferral ends. Columns as in [`Kind::CompactionDefer`].
    CompactionDeferReset = 27,
    /// `compaction:mm_compaction_deferred`: compaction was skipped for a request. Columns as in
    /// [`Kind::CompactionDefer`].
    CompactionDeferred = 28,
    /// `compaction:mm_compaction_suitable`. `order`; `args` = [node, zone index, result].
    CompactionSuitable = 29,
    /// `compaction:mm_compaction_finished`. `order`; `args` = [node, zone index, result].
    CompactionFinished = 30,
    /// `compaction:mm_compaction_isolate_migratepages`. `pfn` = first frame scanned; `args` = [frame after the last,
    /// scanned, taken].
    IsolateMigratePages = 31,
    /// `compaction:mm_compaction_isolate_freepages`. Columns as in [`Kind::IsolateMigratePages`].
    IsolateFreePages = 32,
    /// `compaction:mm_compaction_fast_isolate_freepages`. Columns as in [`Kind::IsolateMigratePages`].
    FastIsolateFreePages = 33,
    /// `vmscan:mm_vmscan_lru_isolate`. `order`; `args` = [scanned, taken, LRU list].
    LruIsolate = 34,
    /// `vmscan:mm_shrink_slab_end`. `args` = [objects to scan, objects freed, node].
    ShrinkSlab = 35,
    /// `vmscan:mm_vmscan_write_folio`: reclaim writes a folio. `pfn` of its first page; `args` = [flags, 0, 0].
    WriteFolio = 36,
    /// `vmscan:mm_vmscan_reclaim_pages`: reclaim of pages that user space named. `args` = [scanned, reclaimed, node].
    ReclaimPages = 37,
    /// `vmscan:mm_vmscan_memcg_reclaim_begin`. `order`, `gfp`.
    MemcgReclaimBegin = 38,
    /// `vmscan:mm_vmscan_memcg_reclaim_end`. `args` = [pages reclaimed, 0, 0].
    MemcgReclaimEnd = 39,
    /// `vmscan:mm_vmscan_node_reclaim_begin`. `order`, `gfp`; `args` = [node, 0, 0].
    NodeReclaimBegin = 40,
    /// `vmscan:mm_vmscan_node_reclaim_end`. `args` = [pages reclaimed, 0, 0].
    NodeReclaimEnd = 41,
    /// `writeback:balance_dirty_pages`: a writer is slowed down. `args` = [dirty pages, limit, ms of this pause].
    BalanceDirtyPages = 42,
    /// `writeback:writeback_pages_written`. `args` = [pages, 0, 0].
    WritebackPagesWritten = 43,
    /// `writeback:writeback_start`. `args` = [pages to write, reason, 1 if in the background].
    WritebackStart = 44,
    /// `writeback:writeback_written`. `args` = [pages left to write, reason, 1 if in the background].
    WritebackWritten = 45,
    /// `migrate:mm_migrate_pages_start`. `args` = [mode, reason, 0].
    MigratePagesStart = 46,
    /// `kmem:mm_alloc_contig_migrate_range_info`: a range was emptied. `pfn` of its first page, `migratetype`; `args` =
    /// [frame after the last, migrated, reclaimed].
    ContigMigrateRange = 47,
    /// `sched:sched_switch`: `task` leaves the CPU. `args` = [next task, state of `task`, priority of the next task].
    SchedSwitch = 48,
    /// `sched:sched_waking`: `task` wakes another. `args` = [woken task, its target CPU, its priority].
    SchedWaking = 49,

    /// A free block when the recording started. `pfn`, `order`, `migratetype` of its pageblock if known.
    StartFree = 64,
    /// `args[0]` consecutive allocated blocks of `order` from `pfn` on, all of the class `args[1]` (see [`class`]).
    StartAllocated = 65,
    /// `args[0]` pages from `pfn` on without information in the kernel's page flags. `args[1]` classifies them: 0 =
    /// unknown (on a per-CPU list, in a ring buffer, or allocated without flags); 1 = a later event found the block on
    /// a per-CPU list: one block of `order`, on the list of `cpu` and `migratetype`; 2 = memory that the allocator did
    /// not manage yet.
    StartUnknown = 66,
    /// A run of pageblocks. `pfn` of its first page, `migratetype`; `args[0]` = source of the type: 1 = an event named
    /// it, 2 = guessed from the contents. `args[1]` = number of consecutive pageblocks that are alike.
    StartPageblock = 67,

    /// Like [`Kind::StartFree`], when the recording ended.
    EndFree = 96,
    /// Like [`Kind::StartAllocated`], when the recording ended.
    EndAllocated = 97,
    /// Like [`Kind::StartUnknown`], when the recording ended. No later event is known.
    EndUnknown = 98,
}

impl Kind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Kind; 56] = [
        Kind::Alloc,
        Kind::Free,
        Kind::ZoneLocked,
        Kind::PcpuDrain,
        Kind::ExtFrag,
        Kind::CompactionBegin,
        Kind::CompactionEnd,
        Kind::CompactionMigrate,
        Kind::KswapdWake,
        Kind::KswapdSleep,
        Kind::DirectReclaimBegin,
        Kind::DirectReclaimEnd,
        Kind::LruShrinkInactive,
        Kind::LruShrinkActive,
        Kind::CollapseHugePage,
        Kind::AllocVmapArea,
        Kind::MigratePages,
        Kind::WakeupKswapd,
        Kind::Throttled,
        Kind::BalancePgdatBegin,
        Kind::BalancePgdatEnd,
        Kind::TryToCompact,
        Kind::WakeupKcompactd,
        Kind::KcompactdWake,
        Kind::KcompactdSleep,
        Kind::CompactionDefer,
        Kind::CompactionDeferReset,
        Kind::CompactionDeferred,
        Kind::CompactionSuitable,
        Kind::CompactionFinished,
        Kind::IsolateMigratePages,
        Kind::IsolateFreePages,
        Kind::FastIsolateFreePages,
        Kind::LruIsolate,
        Kind::ShrinkSlab,
        Kind::WriteFolio,
        Kind::ReclaimPages,
        Kind::MemcgReclaimBegin,
        Kind::MemcgReclaimEnd,
        Kind::NodeReclaimBegin,
        Kind::NodeReclaimEnd,
        Kind::BalanceDirtyPages,
        Kind::WritebackPagesWritten,
        Kind::WritebackStart,
        Kind::WritebackWritten,
        Kind::MigratePagesStart,
        Kind::ContigMigrateRange,
        Kind::SchedSwitch,
        Kind::SchedWaking,
        Kind::StartFree,
        Kind::StartAllocated,
        Kind::StartUnknown,
        Kind::StartPageblock,
        Kind::EndFree,
        Kind::EndAllocated,
        Kind::EndUnknown,
    ];

    /// Returns the kind with this code, if there is one. Cost: one table look-up.
    pub fn from_code(code: i32) -> Option<Kind> {
        let index = usize::try_from(code).ok()?;
        BY_CODE.get(index).copied().flatten()
    }

    /// Returns whether rows of this kind only inform about the kernel's activity. A replay does not play such rows, and
    /// they do not affect it.
    pub fn is_observation(self) -> bool {
        self.section() == Section::Events && self as u8 >= Kind::WakeupKswapd as u8
    }

    /// Returns whether `args[0]` is an index into the task table, like `task`.
    pub fn names_task(self) -> bool {
        matches!(self, Kind::SchedSwitch | Kind::SchedWaking)
    }

    /// Returns whether `pfn` is the start of a range whose end is another column, or the position of a scanner, and
    /// therefore not a block of `order`.
    pub fn names_place(self) -> bool {
        matches!(
            self,
            Kind::CompactionBegin
                | Kind::CompactionEnd
                | Kind::ContigMigrateRange
                | Kind::FastIsolateFreePages
                | Kind::IsolateFreePages
                | Kind::IsolateMigratePages
        )
    }

    /// Returns the part of the file in which rows of this kind are.
    pub fn section(self) -> Section {
        match self as u8 {
            0..64 => Section::Events,
            64..96 => Section::Start,
            _ => Section::End,
        }
    }
}

/// Kinds by their code. No code is above 127.
const BY_CODE: [Option<Kind>; 128] = {
    let mut table = [None; 128];
    let mut next = 0;
    while next < Kind::ALL.len() {
        table[Kind::ALL[next] as usize] = Some(Kind::ALL[next]);
        next += 1;
    }
    table
};

/// The three parts of a recording, in their order in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// State of memory when the recording started: codes 64 to 95.
    Start,
    /// Events, in order of time: codes 1 to 63.
    Events,
    /// State of memory when the recording ended: codes 96 to 127.
    End,
}

/// `pfn` of a row that names no page: a failed allocation, or an event about no page.
pub const NO_PFN: u64 = u64::MAX;

/// `migratetype` of a row that names none.
pub const NO_MIGRATETYPE: i8 = -1;

/// Numbers of the `migratetype` column. They are those of Linux 6.12 with CMA and isolation configured. The recorder
/// translates the numbers of kernels that have others.
pub mod migratetype {
    /// Pages that can neither be moved nor reclaimed.
    pub const UNMOVABLE: i8 = 0;
    /// Pages that can be migrated.
    pub const MOVABLE: i8 = 1;
    /// Pages that can be reclaimed under pressure.
    pub const RECLAIMABLE: i8 = 2;
    /// Reserve for atomic requests above order 0.
    pub const HIGHATOMIC: i8 = 3;
    /// Contiguous memory areas, lent to movable pages.
    pub const CMA: i8 = 4;
    /// Isolated: excluded from allocation while a range is emptied.
    pub const ISOLATE: i8 = 5;
}

/// Classes of an allocated block in the state rows: a set of bits from the kernel's page flags.
pub mod class {
    /// Anonymous memory of a task.
    pub const ANON: i64 = 1;
    /// On an LRU list, and therefore movable.
    pub const LRU: i64 = 2;
    /// A slab of kernel objects.
    pub const SLAB: i64 = 4;
    /// A page table of a task.
    pub const PAGE_TABLE: i64 = 8;
    /// Reserved: never managed by the allocator.
    pub const RESERVED: i64 = 16;
    /// A page of hugetlbfs.
    pub const HUGETLB: i64 = 32;
    /// Poisoned by a memory error, and out of use.
    pub const HWPOISON: i64 = 64;
    /// Part of a transparent huge page.
    pub const THP: i64 = 128;
    /// Unevictable, or locked into memory.
    pub const UNEVICTABLE: i64 = 256;
    /// Mapped, file-backed or shared memory.
    pub const FILE: i64 = 512;
    /// Logically offline, or taken by a balloon.
    pub const OFFLINE: i64 = 1024;
    /// On an active LRU list.
    pub const ACTIVE: i64 = 2048;
    /// On an LRU list, and referenced since reclaim last scanned it.
    pub const REFERENCED: i64 = 4096;
    /// On an LRU list, and modified since it was last written.
    pub const DIRTY: i64 = 8192;
    /// On an LRU list, and being written.
    pub const WRITEBACK: i64 = 16384;
    /// On an LRU list, and mapped by a task.
    pub const MAPPED: i64 = 32768;
    /// On an LRU list, and mapped more than once. Only snapshots have this bit.
    pub const SHARED: i64 = 65536;
}

/// One row of a recording: an event, or a part of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Nanoseconds since the recording started, by the kernel's monotonic clock. State rows have the time that they
    /// describe: 0 at the start, and the recording's duration at the end.
    pub time: u64,
    /// CPU on which the event fired; 0 for state rows, unless their kind has a CPU.
    pub cpu: u16,
    /// Index into [`crate::facts::Facts::tasks`]; 0 (no task) for state rows.
    pub task: u32,
    /// Kind of the row, which gives the columns their meaning.
    pub kind: Kind,
    /// Page frame number, or [`NO_PFN`].
    pub pfn: u64,
    /// Order of the block: its size is 2^order pages.
    pub order: u8,
    /// GFP bits in the numbering of `FORMAT.md` (that of Linux 6.12), translated by name from the recorded kernel's own
    /// numbering.
    pub gfp: u32,
    /// Migratetype, or [`NO_MIGRATETYPE`].
    pub migratetype: i8,
    /// Three values whose meaning depends on the kind.
    pub args: [i64; 3],
}

impl Row {
    /// Creates a row of `kind` whose other columns are empty.
    pub fn new(kind: Kind) -> Row {
        Row { time: 0, cpu: 0, task: 0, kind, pfn: NO_PFN, order: 0, gfp: 0, migratetype: NO_MIGRATETYPE, args: [0; 3] }
    }
}
