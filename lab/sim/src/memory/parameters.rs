//! A workload's parameters of memory: a table of its plan.

use serde::{Deserialize, Serialize};

/// Parameters of the memory of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Huge pages of tasks.
    pub thp: Thp,
    /// Pages per thousand read pages that are dirty when reclaim first scans them.
    pub dirty_permille: u32,
    /// Time to write back a page, in microseconds.
    pub writeback_us: u64,
    /// Blocks per thousand new blocks of tasks and files that are pinned. A huge page is one block.
    pub pinned_permille: u32,
    /// Duration of a pin, in milliseconds.
    pub pin_ms: u64,
    /// Objects on a page of reclaimable kernel objects. The default is for directory entries of 192 bytes.
    pub objects_per_page: u32,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            thp: Thp::default(),
            dirty_permille: 0,
            writeback_us: 10_000,
            pinned_permille: 0,
            pin_ms: 10,
            objects_per_page: 21,
        }
    }
}

/// Parameters of huge pages. The defaults are the kernel's, with huge pages enabled for all tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thp {
    /// Tasks that get huge pages. linux: /sys/kernel/mm/transparent_hugepage/enabled
    pub enabled: Advice,
    /// Effort of a fault for a huge page. linux: /sys/kernel/mm/transparent_hugepage/defrag
    pub defrag: Defrag,
    /// Percentage of mappings that requested huge pages with `madvise`.
    pub madvised_percent: u32,
    /// Pages that khugepaged scans before it sleeps, rounded down to whole ranges of 512 pages. 0 disables khugepaged.
    pub pages_to_scan: u32,
    /// Milliseconds that khugepaged sleeps after a round.
    pub scan_sleep_ms: u64,
    /// Milliseconds that khugepaged sleeps after a failed allocation.
    pub alloc_sleep_ms: u64,
    /// Maximum number of absent pages in a range that khugepaged collapses.
    pub max_ptes_none: u16,
}

impl Default for Thp {
    fn default() -> Thp {
        Thp {
            enabled: Advice::Always,
            defrag: Defrag::Madvise,
            madvised_percent: 0,
            pages_to_scan: 4096,
            scan_sleep_ms: 10_000,
            alloc_sleep_ms: 60_000,
            max_ptes_none: 511,
        }
    }
}

/// Tasks that get huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Advice {
    /// All tasks.
    Always,
    /// Tasks that requested them with `madvise`.
    Madvise,
    /// No task.
    Never,
}

/// Effort of a fault for a huge page. linux: mm/huge_memory.c:vma_thp_gfp_mask
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Defrag {
    /// Reclaims and compacts directly.
    #[serde(rename = "always")]
    Always,
    /// Wakes kswapd and kcompactd.
    #[serde(rename = "defer")]
    Defer,
    /// Reclaims and compacts directly if the task used `madvise`; otherwise wakes kswapd and kcompactd.
    #[serde(rename = "defer+madvise")]
    DeferMadvise,
    /// Reclaims and compacts directly if the task used `madvise`; otherwise only takes a free huge page.
    #[serde(rename = "madvise")]
    Madvise,
    /// Only takes a free huge page.
    #[serde(rename = "never")]
    Never,
}
