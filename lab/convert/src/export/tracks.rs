//! Values of the viewer's tracks between two times. Events are added up, so that the file of a long recording is no
//! larger than that of a short one.

use freehold_trace::event::{Kind, NO_PFN, Row};
use serde::Serialize;

/// Pages by groups of orders: single pages, orders on per-CPU lists, other orders, and huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ByOrder {
    #[serde(rename = "order 0")]
    single: u64,
    #[serde(rename = "order 1 to 3")]
    small: u64,
    #[serde(rename = "order 4 to 8")]
    large: u64,
    #[serde(rename = "order 9 and above")]
    huge: u64,
}

impl ByOrder {
    fn add(&mut self, order: u8) {
        let place = match order {
            0 => &mut self.single,
            1..=3 => &mut self.small,
            4..=8 => &mut self.large,
            _ => &mut self.huge,
        };
        *place += 1 << order;
    }
}

/// Counts in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Pages that were allocated (first field) and freed (second field).
    pub allocated: ByOrder,
    pub freed: ByOrder,
    /// Blocks that left a free list (first field), or returned to one from a per-CPU list (second field).
    pub refilled: u64,
    pub drained: u64,
}

impl Window {
    pub(super) fn observe(&mut self, row: &Row) {
        match row.kind {
            Kind::Alloc if row.pfn != NO_PFN => self.allocated.add(row.order),
            Kind::Free => self.freed.add(row.order),
            Kind::ZoneLocked => self.refilled += 1,
            Kind::PcpuDrain => self.drained += 1,
            _ => {}
        }
    }
}

/// Number of free pages: those free at the start, minus allocations and plus frees since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreePages(i64);

impl FreePages {
    pub(super) fn observe(&mut self, row: &Row) {
        let pages = 1_i64 << row.order.min(40);
        match row.kind {
            Kind::StartFree => self.0 += pages,
            // On a per-CPU list.
            Kind::StartUnknown if row.args[1] == 1 => self.0 += pages,
            Kind::Alloc if row.pfn != NO_PFN => self.0 -= pages,
            Kind::Free => self.0 += pages,
            _ => {}
        }
    }

    /// Returns the number of free pages. It is never negative, even if events are missing.
    pub(super) fn pages(self) -> u64 {
        self.0.max(0).cast_unsigned()
    }
}

/// Begin or end of a span of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin(&'static str),
    End(&'static str),
}

/// Returns the begin or end that a row of this kind marks; `None` for other kinds.
pub(super) fn edge(kind: Kind) -> Option<Edge> {
    const RECLAIM: &str = "direct reclaim";
    const COMPACTION: &str = "compaction";
    const KSWAPD: &str = "kswapd awake";
    const BALANCE: &str = "kswapd balances a node";
    const MEMCG: &str = "reclaim for a control group";
    const NODE: &str = "reclaim of a node";
    Some(match kind {
        Kind::DirectReclaimBegin => Edge::Begin(RECLAIM),
        Kind::DirectReclaimEnd => Edge::End(RECLAIM),
        Kind::CompactionBegin => Edge::Begin(COMPACTION),
        Kind::CompactionEnd => Edge::End(COMPACTION),
        Kind::KswapdWake => Edge::Begin(KSWAPD),
        Kind::KswapdSleep => Edge::End(KSWAPD),
        Kind::BalancePgdatBegin => Edge::Begin(BALANCE),
        Kind::BalancePgdatEnd => Edge::End(BALANCE),
        Kind::MemcgReclaimBegin => Edge::Begin(MEMCG),
        Kind::MemcgReclaimEnd => Edge::End(MEMCG),
        Kind::NodeReclaimBegin => Edge::Begin(NODE),
        Kind::NodeReclaimEnd => Edge::End(NODE),
        _ => return None,
    })
}

/// Returns the name of a row that is shown as an instant; `None` for other rows.
pub(super) fn instant(row: &Row) -> Option<&'static str> {
    match row.kind {
        Kind::Alloc if row.pfn == NO_PFN => Some("allocation failed"),
        Kind::ExtFrag if row.args[2] == 1 => Some("fallback: pageblock claimed"),
        Kind::ExtFrag => Some("fallback: pages stolen"),
        Kind::Throttled => Some("throttled"),
        Kind::CompactionDefer => Some("compaction deferred"),
        Kind::CollapseHugePage => Some("huge page collapsed"),
        _ => None,
    }
}
