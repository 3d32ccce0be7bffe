//! What a workload says about its memory: a table of its plan.

use serde::{Deserialize, Serialize};

/// What the memory of a run is like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Huge pages of tasks.
    pub thp: Thp,
    /// Of a thousand pages that are read, so many are dirty by the time reclaim first comes to them.
    pub dirty_permille: u32,
    /// How long writing a page takes, in microseconds.
    pub writeback_us: u64,
    /// Of a thousand pages of tasks and files, so many are pinned when they come.
    pub pinned_permille: u32,
    /// How long a pin lasts, in milliseconds.
    pub pin_ms: u64,
    /// Objects on a page of reclaimable kernel objects. The default is that of directory entries: 192 bytes each.
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

/// How huge pages come about. The defaults are the kernel's, with huge pages for everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thp {
    /// Who gets them. linux: /sys/kernel/mm/transparent_hugepage/enabled
    pub enabled: Advice,
    /// How hard a fault tries. linux: /sys/kernel/mm/transparent_hugepage/defrag
    pub defrag: Defrag,
    /// Of a hundred mappings, so many have asked for them.
    pub madvised_percent: u32,
    /// Pages that khugepaged looks at before it sleeps; 0 if there is none.
    pub pages_to_scan: u32,
    /// How long it sleeps then, in milliseconds.
    pub scan_sleep_ms: u64,
    /// How long it sleeps when it found no memory.
    pub alloc_sleep_ms: u64,
    /// Pages that may be missing from a range that it makes huge.
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

/// Who gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Advice {
    /// Everybody.
    Always,
    /// Who asks.
    Madvise,
    /// Nobody.
    Never,
}

/// How hard a fault tries to get a huge page. linux: mm/huge_memory.c:vma_thp_gfp_mask
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Defrag {
    /// Reclaims and compacts for it.
    #[serde(rename = "always")]
    Always,
    /// Wakes those who do.
    #[serde(rename = "defer")]
    Defer,
    /// Reclaims and compacts for who asked, and wakes those who do for others.
    #[serde(rename = "defer+madvise")]
    DeferMadvise,
    /// Reclaims and compacts for who asked, and does nothing for others.
    #[serde(rename = "madvise")]
    Madvise,
    /// Takes what is there.
    #[serde(rename = "never")]
    Never,
}
