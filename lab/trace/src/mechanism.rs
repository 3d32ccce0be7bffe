//! Mechanisms behind the sums of direct reclaim and of failed requests, by the events of a recording.
//!
//! A direct reclaim is an *episode*: the events between its begin and its end, in one task. The begin event has the
//! order, the end event the number of pages that the kernel counts as freed. Scanned pages are those of the events of
//! the inactive lists in between. The kernel's counter of all requests (`pgscan_direct`) can be
//! larger or smaller than the sum of these events.
//!
//! A request belongs to a [`RequestClass`] by its flags and its order.

use std::collections::HashMap;

use crate::event::{Kind, NO_PFN, Row};
use crate::state::COSTLY_ORDER;

/// Order of a huge page on x86-64.
const HUGE: u8 = 9;

/// Flags in a recording, as in [`GFP_BITS`](crate::GFP_BITS).
const DIRECT_RECLAIM: u32 = 1 << 10;
const NORETRY: u32 = 1 << 16;
const THISNODE: u32 = 1 << 21;
/// Flags of every fault for a huge page. linux: GFP_TRANSHUGE_LIGHT
const FAULT: u32 = 0x1c_20ca;

/// Kind of a direct reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimClass {
    /// Above order 3, and nothing was scanned: every zone was ready for compaction. linux: mm/vmscan.c:compaction_ready
    CostlyReady,
    /// Above order 3, with reclaim.
    Costly,
    /// Orders 0 to 3.
    Small,
}

/// Kind of a request, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// The request may not reclaim.
    NoReclaim,
    /// First request of a fault for a huge page: one node, without retries.
    /// linux: mm/mempolicy.c:alloc_pages_mpol_noprof
    HugeFirst,
    /// Second request of a fault for a huge page, or its only one if the kernel or the memory policy makes only one.
    HugeSecond,
    /// Another request that may reclaim.
    Other,
}

/// Direct reclaims of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpisodeSum {
    /// Number of direct reclaims.
    pub episodes: u64,
    /// Pages that they scanned on inactive lists.
    pub scanned: u64,
    /// Pages that they freed.
    pub reclaimed: u64,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSum {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that failed.
    pub failures: u64,
}

/// Direct reclaims and requests by mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MechanismCounts {
    reclaims: [EpisodeSum; ReclaimClass::ALL.len()],
    requests: [RequestSum; RequestClass::ALL.len()],
    /// Reclaims of control groups.
    pub control_groups: EpisodeSum,
}

/// An episode without its end so far.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    order: u8,
    scanned: u64,
}

/// Collector of a recording's events.
#[derive(Clone, Debug, Default)]
pub struct Mechanisms {
    counts: MechanismCounts,
    direct: HashMap<u32, Open>,
    control_groups: HashMap<u32, Open>,
}

impl ReclaimClass {
    /// All kinds, in the order of reports.
    pub const ALL: [ReclaimClass; 3] = [ReclaimClass::CostlyReady, ReclaimClass::Costly, ReclaimClass::Small];

    /// Classifies a direct reclaim for `order` that scanned and freed this number of pages.
    pub fn classify(order: u8, scanned: u64, reclaimed: u64) -> ReclaimClass {
        match (order > COSTLY_ORDER, scanned.saturating_add(reclaimed)) {
            (true, 0) => ReclaimClass::CostlyReady,
            (true, _) => ReclaimClass::Costly,
            (false, _) => ReclaimClass::Small,
        }
    }

    /// Returns the title for people.
    pub fn title(self) -> &'static str {
        match self {
            ReclaimClass::CostlyReady => "direct reclaim above order 3, nothing scanned",
            ReclaimClass::Costly => "direct reclaim above order 3",
            ReclaimClass::Small => "direct reclaim, orders 0 to 3",
        }
    }
}

impl RequestClass {
    /// All kinds, in the order of reports.
    pub const ALL: [RequestClass; 4] =
        [RequestClass::NoReclaim, RequestClass::HugeFirst, RequestClass::HugeSecond, RequestClass::Other];

    /// Classifies a request.
    pub fn classify(gfp: u32, order: u8) -> RequestClass {
        let is_fault = order == HUGE && gfp & FAULT == FAULT;
        match gfp & (THISNODE | NORETRY) {
            _ if gfp & DIRECT_RECLAIM == 0 => RequestClass::NoReclaim,
            flags if is_fault && flags == THISNODE | NORETRY => RequestClass::HugeFirst,
            flags if is_fault && flags & THISNODE == 0 => RequestClass::HugeSecond,
            _ => RequestClass::Other,
        }
    }

    /// Returns the title for people.
    pub fn title(self) -> &'static str {
        match self {
            RequestClass::NoReclaim => "requests that may not reclaim",
            RequestClass::HugeFirst => "first request of a huge-page fault",
            RequestClass::HugeSecond => "second request of a huge-page fault",
            RequestClass::Other => "other requests",
        }
    }
}

impl EpisodeSum {
    fn add(&mut self, scanned: u64, reclaimed: u64) {
        self.episodes += 1;
        self.scanned = self.scanned.saturating_add(scanned);
        self.reclaimed = self.reclaimed.saturating_add(reclaimed);
    }
}

impl MechanismCounts {
    /// Returns the direct reclaims of one kind.
    pub fn reclaims(&self, class: ReclaimClass) -> EpisodeSum {
        self.reclaims[class as usize]
    }

    /// Returns the requests of one kind.
    pub fn requests(&self, class: RequestClass) -> RequestSum {
        self.requests[class as usize]
    }

    /// Adds a request, and whether it failed.
    pub fn add_request(&mut self, class: RequestClass, is_served: bool) {
        let sum = &mut self.requests[class as usize];
        sum.requests += 1;
        sum.failures += u64::from(!is_served);
    }

    /// Returns whether any direct reclaim has its events.
    pub fn has_reclaims(&self) -> bool {
        self.reclaims.iter().any(|sum| sum.episodes > 0)
    }
}

impl Mechanisms {
    /// Adds an event. Other kinds of events are ignored.
    #[inline]
    pub fn observe(&mut self, row: &Row) {
        match row.kind {
            Kind::Alloc => self.counts.add_request(RequestClass::classify(row.gfp, row.order), row.pfn != NO_PFN),
            Kind::DirectReclaimBegin | Kind::MemcgReclaimBegin => self.begin(row),
            Kind::LruShrinkInactive => self.scan(row),
            Kind::DirectReclaimEnd => self.end_direct(row),
            Kind::MemcgReclaimEnd => {
                let scanned = self.control_groups.remove(&row.task).map_or(0, |open| open.scanned);
                self.counts.control_groups.add(scanned, pages(row, 0));
            }
            _ => {}
        }
    }

    /// Returns the counts of all episodes that have ended.
    pub fn counts(&self) -> MechanismCounts {
        self.counts
    }

    fn begin(&mut self, row: &Row) {
        let open = if row.kind == Kind::DirectReclaimBegin { &mut self.direct } else { &mut self.control_groups };
        open.insert(row.task, Open { order: row.order, scanned: 0 });
    }

    fn scan(&mut self, row: &Row) {
        for open in [&mut self.direct, &mut self.control_groups] {
            if let Some(open) = open.get_mut(&row.task) {
                open.scanned = open.scanned.saturating_add(pages(row, 0));
            }
        }
    }

    /// Ends a direct reclaim. The kernel returns one page if it left all zones to compaction; an episode that began
    /// before the recording is left out. linux: mm/vmscan.c:do_try_to_free_pages
    fn end_direct(&mut self, row: &Row) {
        let Some(Open { order, scanned }) = self.direct.remove(&row.task) else { return };
        let reclaimed = pages(row, 0);
        let reclaimed = if order > COSTLY_ORDER && scanned == 0 && reclaimed == 1 { 0 } else { reclaimed };
        self.counts.reclaims[ReclaimClass::classify(order, scanned, reclaimed) as usize].add(scanned, reclaimed);
    }
}

/// Returns an argument of an event that counts pages.
fn pages(row: &Row, index: usize) -> u64 {
    u64::try_from(row.args[index]).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, task: u32, order: u8, pages: i64) -> Row {
        Row { task, order, args: [pages, 0, 0], ..Row::new(kind) }
    }

    #[test]
    fn episodes_are_classified_by_order_and_work() {
        let mut mechanisms = Mechanisms::default();
        for row in [
            event(Kind::DirectReclaimEnd, 4, 0, 32),
            event(Kind::DirectReclaimBegin, 1, 9, 0),
            event(Kind::DirectReclaimBegin, 2, 9, 0),
            event(Kind::DirectReclaimBegin, 3, 3, 0),
            event(Kind::LruShrinkInactive, 2, 0, 64),
            event(Kind::LruShrinkInactive, 5, 0, 1000),
            event(Kind::DirectReclaimEnd, 1, 0, 1),
            event(Kind::DirectReclaimEnd, 2, 0, 33),
            event(Kind::DirectReclaimEnd, 3, 0, 1),
            event(Kind::MemcgReclaimBegin, 5, 0, 0),
            event(Kind::LruShrinkInactive, 5, 0, 7),
            event(Kind::MemcgReclaimEnd, 5, 0, 2),
        ] {
            mechanisms.observe(&row);
        }
        let counts = mechanisms.counts();
        let sum = |episodes, scanned, reclaimed| EpisodeSum { episodes, scanned, reclaimed };
        let expected = [sum(1, 0, 0), sum(1, 64, 33), sum(1, 0, 1)];
        assert_eq!(ReclaimClass::ALL.map(|class| counts.reclaims(class)), expected);
        assert_eq!(counts.control_groups, sum(1, 7, 2));
        assert!(counts.has_reclaims() && !MechanismCounts::default().has_reclaims());
    }

    #[test]
    fn requests_are_classified_by_their_flags() {
        for (gfp, order, class) in [
            (0x3d_24ca, 9, RequestClass::HugeFirst),
            (0x1c_24ca, 9, RequestClass::HugeSecond),
            (0x1d_24ca, 9, RequestClass::HugeSecond),
            (0x3c_24ca, 9, RequestClass::Other),
            (0x15_2c4a, 9, RequestClass::Other),
            (0x3d_24ca, 4, RequestClass::Other),
            (0x1c_28ca, 9, RequestClass::NoReclaim),
            (0x820, 0, RequestClass::NoReclaim),
            (0xcc0, 0, RequestClass::Other),
        ] {
            assert_eq!(RequestClass::classify(gfp, order), class, "{gfp:#x} {order}");
        }
    }

    #[test]
    fn failed_requests_are_counted_beside_all_requests() {
        let mut mechanisms = Mechanisms::default();
        for pfn in [NO_PFN, 512, NO_PFN] {
            mechanisms.observe(&Row { pfn, gfp: 0x3d_24ca, ..event(Kind::Alloc, 1, 9, 0) });
        }
        let first = mechanisms.counts().requests(RequestClass::HugeFirst);
        assert_eq!(first, RequestSum { requests: 3, failures: 2 });
    }
}
