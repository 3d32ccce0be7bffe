//! What a viewer shows of the events between two moments: numbers that are added up, so that a long recording makes no
//! longer a file than a short one.

use freehold_trace::event::{Kind, NO_PFN, Row};
use serde::Serialize;

/// Orders that viewers see apart: single pages, what per-CPU lists hold, what they do not, and huge pages.
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

/// What happened since the last moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Pages that were handed out, and given back.
    pub allocated: ByOrder,
    pub freed: ByOrder,
    /// Times that blocks went between the free lists and those of CPUs.
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

/// Pages that nobody has: those that were free at the start, less what was handed out since, and what came back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreePages(i64);

impl FreePages {
    pub(super) fn observe(&mut self, row: &Row) {
        let pages = 1_i64 << row.order.min(40);
        match row.kind {
            Kind::StartFree => self.0 += pages,
            // On a CPU's list.
            Kind::StartUnknown if row.args[1] == 1 => self.0 += pages,
            Kind::Alloc if row.pfn != NO_PFN => self.0 -= pages,
            Kind::Free => self.0 += pages,
            _ => {}
        }
    }

    /// Never negative, though events may be missing.
    pub(super) fn pages(self) -> u64 {
        self.0.max(0).cast_unsigned()
    }
}

/// Where a task's time begins or ends to be spent on something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin(&'static str),
    End(&'static str),
}

/// The edge that a row is, if it is one.
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

/// What a row is that is shown by itself, if it is.
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
