//! The recorded kernel's decisions about compaction, by request.
//!
//! A request's decisions are the events of its task from the first reclaim or compaction to the event of the
//! allocation. The events inside direct reclaim are part of reclaim: also there the kernel checks whether zones are
//! suitable. A zone that already has a block of the order has no event of its own; the end of its deferral is reported
//! all the same. A zone that lacks room outside of CMA areas has no event at all.
//!
//! linux: mm/compaction.c:try_to_compact_pages, compaction_suitable, compact_zone, compaction_defer_reset

use freehold::base::{Gfp, Order, ZoneKind};
use freehold::platform::CompactEffort;
use freehold::platform::probe::ZoneOutcome;
use freehold_trace::event::NO_PFN;
use freehold_trace::facts::Facts;
use freehold_trace::mechanism::ReclaimClass;
use freehold_trace::{Kind, Row};
use rustc_hash::FxHashMap;

use crate::report::compaction::CompactionStep;

/// Node and kind of a zone.
type ZoneId = (u8, ZoneKind);

/// Steps of each request that reclaimed or compacted, by the row of its allocation.
pub(crate) type RecordedSteps = FxHashMap<u64, Vec<CompactionStep>>;

/// Work of a request at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    None,
    /// Direct reclaim that has scanned this number of pages on inactive lists.
    Reclaim {
        scanned: u64,
    },
    Compact(CompactEffort),
    /// A run of compaction in a zone.
    Run(CompactEffort, ZoneId),
}

/// A request whose allocation is still to come.
#[derive(Debug, Default)]
struct Open {
    order: u8,
    phase: Phase,
    steps: Vec<CompactionStep>,
}

/// Collector of the decisions.
#[derive(Debug)]
pub(crate) struct Decisions {
    /// First frame of each zone, and the zone.
    zones: Vec<(i64, ZoneId)>,
    open: FxHashMap<u32, Open>,
    closed: RecordedSteps,
    has_events: bool,
}

impl Decisions {
    /// Creates the collector, at the start of a recording.
    pub(crate) fn new(facts: &Facts) -> Decisions {
        let zones = facts.zones_start.iter().filter_map(|zone| {
            let id = (u8::try_from(zone.node).ok()?, ZoneKind::from_name(&zone.name)?);
            Some((zone.start_pfn.cast_signed(), id))
        });
        Decisions {
            zones: zones.collect(),
            open: FxHashMap::default(),
            closed: RecordedSteps::default(),
            has_events: false,
        }
    }

    /// Handles the event at row `at`.
    #[inline]
    pub(crate) fn observe(&mut self, at: u64, row: &Row) {
        match row.kind {
            Kind::TryToCompact | Kind::DirectReclaimBegin => self.begin(row),
            Kind::Alloc if !self.open.is_empty() => self.allocate(at, row),
            Kind::CompactionDeferred | Kind::CompactionSuitable | Kind::CompactionFinished => {
                self.has_events = true;
                self.continue_request(row);
            }
            Kind::CompactionBegin
            | Kind::CompactionEnd
            | Kind::CompactionDeferReset
            | Kind::LruShrinkInactive
            | Kind::DirectReclaimEnd => self.continue_request(row),
            _ => {}
        }
    }

    /// Returns the steps of all requests; `None` if the recording has no events of these decisions.
    pub(crate) fn finish(self) -> Option<RecordedSteps> {
        self.has_events.then_some(self.closed)
    }

    /// Starts reclaim or compaction for a request, which may be the first work of the request.
    fn begin(&mut self, row: &Row) {
        let open = self.open.entry(row.task).or_default();
        if open.order != row.order {
            *open = Open { order: row.order, ..Open::default() };
        }
        open.phase = Phase::Reclaim { scanned: 0 };
        if row.kind == Kind::TryToCompact {
            let Some(effort) = effort(row.args[0]) else { return };
            open.phase = Phase::Compact(effort);
            open.steps.push(CompactionStep::Compact { effort });
        }
    }

    fn continue_request(&mut self, row: &Row) {
        let Some(open) = self.open.get_mut(&row.task) else { return };
        match (row.kind, open.phase) {
            (Kind::LruShrinkInactive, Phase::Reclaim { scanned }) => {
                let pages = u64::try_from(row.args[0]).unwrap_or(0);
                open.phase = Phase::Reclaim { scanned: scanned.saturating_add(pages) };
            }
            (Kind::DirectReclaimEnd, Phase::Reclaim { scanned }) => open.end_reclaim(scanned, row.args[0]),
            (Kind::CompactionBegin, Phase::Compact(effort)) => {
                let zone = self.zones.iter().find(|(start, _)| *start == row.args[0]);
                open.phase = zone.map_or(Phase::None, |&(_, zone)| Phase::Run(effort, zone));
            }
            (Kind::CompactionEnd, Phase::Run(effort, zone)) => {
                open.phase = Phase::Compact(effort);
                open.decide(zone, effort, result(row.migratetype.into()));
            }
            (Kind::CompactionDeferred, Phase::Compact(effort)) => {
                open.decide_for(row, effort, Some(ZoneOutcome::Deferred));
            }
            (Kind::CompactionSuitable, Phase::Compact(effort)) => open.decide_for(row, effort, result(row.args[2])),
            (Kind::CompactionDeferReset, Phase::Compact(effort)) => open.reset(row, effort),
            _ => {}
        }
    }

    /// Ends the request of an allocation. An allocation in the middle of reclaim or of a run of compaction, or one that
    /// may not reclaim, such as that of an interrupt, does not end the task's request.
    fn allocate(&mut self, at: u64, row: &Row) {
        let is_inside = self.open.get(&row.task).is_none_or(Open::is_working);
        if is_inside || !Gfp::from_bits_retain(row.gfp).contains(Gfp::DIRECT_RECLAIM) {
            return;
        }
        let Some(mut open) = self.open.remove(&row.task).filter(|open| open.order == row.order) else { return };
        let compacts = open.steps.iter().any(|step| matches!(step, CompactionStep::Compact { .. }));
        if compacts || row.order > Order::COSTLY.get() {
            open.steps.push(CompactionStep::end(row.pfn != NO_PFN));
            self.closed.insert(at, open.steps);
        }
    }
}

impl Open {
    fn is_working(&self) -> bool {
        matches!(self.phase, Phase::Reclaim { .. } | Phase::Run(..))
    }

    fn decide(&mut self, (node, zone): ZoneId, effort: CompactEffort, outcome: Option<ZoneOutcome>) {
        self.steps.extend(outcome.map(|outcome| CompactionStep::Zone { node, zone, effort, outcome }));
    }

    /// Adds a decision about the zone that an event names.
    fn decide_for(&mut self, row: &Row, effort: CompactEffort, outcome: Option<ZoneOutcome>) {
        if let Some(zone) = zone_of(row) {
            self.decide(zone, effort, outcome);
        }
    }

    /// Handles the end of a zone's deferral. If this compaction has not decided about the zone, the zone has a block.
    /// Otherwise a run was successful, or the request got a block.
    fn reset(&mut self, row: &Row, effort: CompactEffort) {
        let current = self.steps.iter().rev().take_while(|step| !matches!(step, CompactionStep::Compact { .. }));
        let is_decided = current.into_iter().any(|step| match *step {
            CompactionStep::Zone { node, zone, .. } => zone_of(row) == Some((node, zone)),
            _ => false,
        });
        if !is_decided {
            self.decide_for(row, effort, Some(ZoneOutcome::HasBlock));
        }
    }

    /// Ends direct reclaim. The kernel returns one page if it left all zones to compaction.
    /// linux: mm/vmscan.c:do_try_to_free_pages
    fn end_reclaim(&mut self, scanned: u64, reclaimed: i64) {
        let is_mark = self.order > Order::COSTLY.get() && scanned == 0 && reclaimed == 1;
        let reclaimed = if is_mark { 0 } else { u64::try_from(reclaimed).unwrap_or(0) };
        self.phase = Phase::None;
        self.steps.push(CompactionStep::of_reclaim(ReclaimClass::classify(self.order, scanned, reclaimed)));
    }
}

/// Returns the zone that an event of a deferral or of a check names.
fn zone_of(row: &Row) -> Option<ZoneId> {
    let kind = ZoneKind::ALL.get(usize::try_from(row.args[1]).ok()?)?;
    Some((u8::try_from(row.args[0]).ok()?, *kind))
}

/// Returns the effort with this number. linux: include/linux/compaction.h:compact_priority
fn effort(priority: i64) -> Option<CompactEffort> {
    let efforts = [CompactEffort::SyncFull, CompactEffort::SyncLight, CompactEffort::Async];
    efforts.get(usize::try_from(priority).ok()?).copied()
}

/// Returns the outcome with this number; `None` if the zone is still compacted.
/// linux: include/linux/compaction.h:compact_result
fn result(number: i64) -> Option<ZoneOutcome> {
    match number {
        0 => Some(ZoneOutcome::NotFragmented),
        1 => Some(ZoneOutcome::NoRoom),
        5 => Some(ZoneOutcome::Complete),
        6 => Some(ZoneOutcome::Partial),
        7 => Some(ZoneOutcome::Stopped),
        8 => Some(ZoneOutcome::Made),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use CompactEffort::{Async, SyncLight};
    use CompactionStep::{Compact, Reclaim, ReclaimReady, Refused, Served, Zone};
    use freehold_trace::facts::ZoneFacts;

    use super::*;

    const FIRST: u32 = 0x3d_24ca;
    const NORMAL: i64 = 2;
    const DMA32: i64 = 1;

    /// An event of task 1 about an order-9 request.
    fn event(kind: Kind, args: [i64; 3]) -> Row {
        Row { task: 1, order: 9, args, ..Row::new(kind) }
    }

    fn alloc(gfp: u32, pfn: u64) -> Row {
        Row { gfp, pfn, ..event(Kind::Alloc, [0; 3]) }
    }

    fn compact(priority: i64) -> Row {
        event(Kind::TryToCompact, [priority, 0, 0])
    }

    fn checked(zone: i64, result: i64) -> Row {
        event(Kind::CompactionSuitable, [0, zone, result])
    }

    fn run(result: i8) -> [Row; 3] {
        [
            checked(NORMAL, 4),
            event(Kind::CompactionBegin, [1 << 20, 0, 0]),
            Row { migratetype: result, ..event(Kind::CompactionEnd, [1 << 20, 0, 0]) },
        ]
    }

    fn zone(effort: CompactEffort, outcome: ZoneOutcome) -> CompactionStep {
        Zone { node: 0, zone: ZoneKind::Normal, effort, outcome }
    }

    /// Returns the steps of the requests, in the order of their rows; `None` without events of decisions.
    fn steps_of(rows: &[Row]) -> Option<Vec<Vec<CompactionStep>>> {
        let named = [("DMA32", 4096), ("Normal", 1 << 20)];
        let zones =
            named.map(|(name, start_pfn)| ZoneFacts { name: name.to_owned(), start_pfn, ..ZoneFacts::default() });
        let mut decisions = Decisions::new(&Facts { zones_start: zones.to_vec(), ..Facts::default() });
        (0..).zip(rows).for_each(|(at, row)| decisions.observe(at, row));
        let mut requests: Vec<_> = decisions.finish()?.into_iter().collect();
        requests.sort_by_key(|(row, _)| *row);
        Some(requests.into_iter().map(|(_, steps)| steps).collect())
    }

    /// Returns the only decision about a zone in a compaction with async effort of which these are the events.
    fn decision(rows: &[Row]) -> CompactionStep {
        let steps = steps_of(&[&[compact(2)], rows, &[checked(DMA32, 1), alloc(FIRST, NO_PFN)]].concat()).unwrap();
        assert_eq!((steps.len(), steps[0].len()), (1, 4), "{steps:?}");
        assert_eq!((steps[0][0], steps[0][3]), (Compact { effort: Async }, Refused));
        assert!(matches!(steps[0][2], Zone { zone: ZoneKind::Dma32, outcome: ZoneOutcome::NoRoom, .. }));
        steps[0][1]
    }

    #[test]
    fn each_kind_of_decision_is_read() {
        let deferred = event(Kind::CompactionDeferred, [0, NORMAL, 6]);
        let reset = event(Kind::CompactionDeferReset, [0, NORMAL, 0]);
        for (rows, outcome) in [
            (&[deferred][..], ZoneOutcome::Deferred),
            (&[checked(NORMAL, 1)], ZoneOutcome::NoRoom),
            (&[checked(NORMAL, 0)], ZoneOutcome::NotFragmented),
            (&[reset], ZoneOutcome::HasBlock),
            (&[&run(8)[..], &[reset, reset]].concat(), ZoneOutcome::Made),
            (&run(5), ZoneOutcome::Complete),
            (&run(6), ZoneOutcome::Partial),
            (&run(7), ZoneOutcome::Stopped),
        ] {
            assert_eq!(decision(rows), zone(Async, outcome));
        }
    }

    #[test]
    fn request_that_retries_has_all_its_steps() {
        let begin = event(Kind::DirectReclaimBegin, [0; 3]);
        let end = |pages| event(Kind::DirectReclaimEnd, [pages, 0, 0]);
        let scan = Row { order: 0, ..event(Kind::LruShrinkInactive, [64, 32, 0]) };
        let slab = Row { order: 0, ..alloc(0xcc0, 77) };
        let interrupt = Row { order: 0, ..alloc(0x820, 78) };
        let [suitable, begins, ends] = run(5);
        let rows = [
            &[compact(2), suitable, begins, slab, ends, interrupt, begin, checked(NORMAL, 4), end(1), compact(1)][..],
            &run(5),
            &[event(Kind::CompactionDefer, [0, NORMAL, 1]), begin, scan, slab, end(32), alloc(FIRST, 512)],
        ];
        let expected = [
            Compact { effort: Async },
            zone(Async, ZoneOutcome::Complete),
            ReclaimReady,
            Compact { effort: SyncLight },
            zone(SyncLight, ZoneOutcome::Complete),
            Reclaim,
            Served,
        ];
        assert_eq!(steps_of(&rows.concat()).unwrap(), [expected]);
    }

    #[test]
    fn only_costly_requests_and_compacting_ones_have_steps() {
        let small = |kind| Row { order: 2, ..event(kind, [2, 0, 0]) };
        let small_alloc = Row { order: 2, ..alloc(0xcc0, 4) };
        let reclaim = [small(Kind::DirectReclaimBegin), small(Kind::DirectReclaimEnd), small_alloc];
        let compaction = [small(Kind::TryToCompact), checked(NORMAL, 1), small_alloc];
        let other_task = Row { task: 2, ..event(Kind::CompactionDeferred, [0, NORMAL, 6]) };
        let rows = [&[other_task][..], &reclaim, &compaction, &[alloc(FIRST, 512)]].concat();
        assert_eq!(steps_of(&rows).unwrap(), [[Compact { effort: Async }, zone(Async, ZoneOutcome::NoRoom), Served]]);
        assert_eq!(steps_of(&[&reclaim[..], &[compact(2), alloc(FIRST, NO_PFN)]].concat()), None);
    }
}
