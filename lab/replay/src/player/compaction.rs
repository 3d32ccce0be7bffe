//! Comparison of the decisions about compaction: for each request, those of the recorded kernel and of the engine.
//!
//! Requests above order 3 are compared, and all others that compact on either side. The first request of each kind of
//! difference is kept with all its steps.

use freehold::base::{Order, ZoneKind};
use freehold::platform::Event;
use freehold::platform::probe::ZoneOutcome;
use freehold_trace::facts::Facts;
use freehold_trace::mechanism::ReclaimClass;
use rustc_hash::FxHashSet;

use super::super::Engine;
use super::super::survey::{RecordedSteps, Work};
use super::Player;
use super::waiting::Claim;
use crate::report::compaction::{CompactionDecisions, CompactionStep, ComparedRequest, FirstDifference};

/// Comparison of all requests so far.
#[derive(Debug)]
pub(crate) struct ComparisonLog<'e> {
    recorded: &'e RecordedSteps,
    /// Node and kind of each zone of the engine.
    zones: Vec<(u8, ZoneKind)>,
    requests: u64,
    at_once: u64,
    same: u64,
    differences: Vec<(FirstDifference, u32, ComparedRequest)>,
    /// Rows of requests whose tasks make a second request that the recording does not have.
    asked_again: FxHashSet<u64>,
}

impl<'e> ComparisonLog<'e> {
    /// Creates a log without requests.
    pub(crate) fn new(engine: &Engine<'_>, recorded: &'e RecordedSteps) -> ComparisonLog<'e> {
        ComparisonLog {
            recorded,
            zones: engine.zones().iter().map(|zone| (zone.node().0, zone.kind())).collect(),
            requests: 0,
            at_once: 0,
            same: 0,
            differences: Vec::new(),
            asked_again: FxHashSet::default(),
        }
    }

    /// Compares the decisions about a request, of which the engine reported these events. A second request that only
    /// the replay makes is left out.
    fn compare(&mut self, claim: &Claim, events: &[Event], is_served: bool) {
        if self.asked_again.remove(&claim.row) {
            return;
        }
        if !is_served && claim.second.is_some() {
            self.asked_again.insert(claim.row);
        }
        let recorded = self.recorded.get(&claim.row).map(Vec::as_slice);
        let compacts = events.iter().any(|event| matches!(event, Event::TryToCompact { .. }));
        if claim.order <= Order::COSTLY && recorded.is_none() && !compacts {
            return;
        }
        self.requests += 1;
        let recorded = match recorded {
            Some(steps) => steps.to_vec(),
            None => vec![CompactionStep::end(claim.recorded.is_some())],
        };
        let mut replayed = self.steps(events);
        replayed.push(CompactionStep::end(is_served));
        drop_silent_skips(&recorded, &mut replayed);
        match first_difference(&recorded, &replayed) {
            Some(at) => self.note(claim, recorded, replayed, at),
            None if recorded.len() == 1 => self.at_once += 1,
            None => self.same += 1,
        }
    }

    /// Counts a request whose steps differ at the index `at`, and keeps it if it is the first of its kind.
    fn note(&mut self, claim: &Claim, recorded: Vec<CompactionStep>, replayed: Vec<CompactionStep>, at: usize) {
        let pair = FirstDifference { recorded: recorded[at], replayed: replayed[at], requests: 1 };
        let known = self.differences.iter_mut().map(|(difference, ..)| difference);
        let mut same = known.filter(|known| known.recorded == pair.recorded && known.replayed == pair.replayed);
        if let Some(known) = same.next() {
            known.requests += 1;
            return;
        }
        let (order, time, task) = (claim.order.get(), claim.time, String::new());
        let example = ComparedRequest { time, task, order, recorded, replayed, first_difference: at };
        self.differences.push((pair, claim.task, example));
    }

    /// Returns the steps of a request in the engine, without those that have no event in a kernel.
    fn steps(&self, events: &[Event]) -> Vec<CompactionStep> {
        let mut steps = Vec::new();
        let mut current = None;
        for &event in events {
            match event {
                Event::TryToCompact { effort, .. } => {
                    current = Some(effort);
                    steps.push(CompactionStep::Compact { effort });
                }
                Event::CompactZone { zone, outcome, .. } if outcome != ZoneOutcome::NoOwnRoom => {
                    let Some(effort) = current else { continue };
                    let (node, zone) = self.zones[usize::from(zone)];
                    steps.push(CompactionStep::Zone { node, zone, effort, outcome });
                }
                Event::DirectReclaimEnd { order, pages, scanned } => {
                    steps.push(CompactionStep::of_reclaim(ReclaimClass::classify(order.get(), scanned, pages)));
                }
                _ => {}
            }
        }
        steps
    }

    /// Returns the comparison, with the tasks' names. The most frequent differences come first.
    fn finish(&self, facts: &Facts) -> CompactionDecisions {
        let mut found = self.differences.clone();
        found.sort_by_key(|(pair, ..)| std::cmp::Reverse(pair.requests));
        CompactionDecisions {
            requests: self.requests,
            at_once: self.at_once,
            same: self.same,
            differences: found.iter().map(|(pair, ..)| *pair).collect(),
            examples: found
                .into_iter()
                .map(|(_, task, example)| ComparedRequest { task: facts.task_name(task).to_owned(), ..example })
                .collect(),
        }
    }
}

/// Removes skipped zones that the engine reports and the kernel does not. A kernel emits no event when it skips a zone
/// that has too few free pages outside of CMA areas. Requests that the kernel served keep their difference.
/// linux: mm/compaction.c:compaction_suit_allocation_order
fn drop_silent_skips(recorded: &[CompactionStep], replayed: &mut Vec<CompactionStep>) {
    while let Some(at) = first_difference(recorded, replayed)
        && recorded[at] != CompactionStep::Served
        && is_silent_skip(replayed[at], recorded[at])
    {
        replayed.remove(at);
    }
}

/// Returns whether the engine skips a zone for lack of free pages, while the kernel's step is not about that zone.
fn is_silent_skip(replayed: CompactionStep, recorded: CompactionStep) -> bool {
    match (replayed, recorded) {
        (
            CompactionStep::Zone { node, zone, outcome: ZoneOutcome::NoRoom, .. },
            CompactionStep::Zone { node: other_node, zone: other_zone, .. },
        ) => (node, zone) != (other_node, other_zone),
        (CompactionStep::Zone { outcome: ZoneOutcome::NoRoom, .. }, _) => true,
        _ => false,
    }
}

/// Returns the index of the first step that differs. Both lists end with the end of the request, so neither list is the
/// beginning of the other.
fn first_difference(recorded: &[CompactionStep], replayed: &[CompactionStep]) -> Option<usize> {
    recorded.iter().zip(replayed).position(|(recorded, replayed)| recorded != replayed)
}

impl Player<'_, '_> {
    /// Compares the decisions about a request of a task's own work, once the engine has answered.
    pub(super) fn compare_compaction(&mut self, claim: &Claim, is_served: bool) {
        // Taken in any case, so that the journal does not keep the events of requests that are not compared.
        let events = self.engine.platform().journal().take(claim.row);
        if let Some(log) = self.comparison.as_mut().filter(|_| claim.work == Work::Own && claim.order > Order::ZERO) {
            log.compare(claim, &events, is_served);
        }
    }

    /// Returns the comparison of all requests; `None` if the recording has no events of these decisions, or if reclaim
    /// and compaction are played as recorded.
    pub(super) fn compaction_decisions(&self, facts: &Facts) -> Option<CompactionDecisions> {
        self.comparison.as_ref().map(|log| log.finish(facts))
    }
}

#[cfg(test)]
mod tests {
    use CompactionStep::{Compact, Refused, Served, Zone};
    use freehold::base::{CpuId, Gfp};
    use freehold::platform::CompactEffort::Async;
    use freehold::platform::probe::Compactor;
    use freehold_trace::facts::Task;

    use super::*;

    const BEGIN: Event = Event::TryToCompact { order: Order::MAX, effort: Async };

    fn claim_at(row: u64, order: u8, recorded: Option<usize>) -> Claim {
        Claim {
            task: 1,
            gfp: Gfp::KERNEL,
            order: Order::new(order),
            cpu: CpuId(0),
            row,
            time: row * 10,
            recorded,
            second: None,
            work: Work::Own,
            is_queued: false,
        }
    }

    fn decided(outcome: ZoneOutcome) -> Event {
        Event::CompactZone { zone: 1, by: Compactor::Direct, outcome }
    }

    fn step(outcome: ZoneOutcome) -> CompactionStep {
        Zone { node: 0, zone: ZoneKind::Normal, effort: Async, outcome }
    }

    /// Passes a log to `act` whose recorded kernel deferred the request at row 7, and returns the comparison.
    fn compare(act: impl FnOnce(&mut ComparisonLog<'_>)) -> CompactionDecisions {
        let deferred = vec![Compact { effort: Async }, step(ZoneOutcome::Deferred), Refused];
        let recorded: RecordedSteps = [(7, deferred)].into_iter().collect();
        let mut log = ComparisonLog {
            recorded: &recorded,
            zones: vec![(0, ZoneKind::Dma32), (0, ZoneKind::Normal)],
            requests: 0,
            at_once: 0,
            same: 0,
            differences: Vec::new(),
            asked_again: FxHashSet::default(),
        };
        act(&mut log);
        let tasks = ["", "dd"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        log.finish(&Facts { tasks, ..Facts::default() })
    }

    #[test]
    fn planted_difference_is_the_first() {
        let events = [BEGIN, decided(ZoneOutcome::NoOwnRoom), decided(ZoneOutcome::Complete), BEGIN];
        let found = compare(|log| log.compare(&claim_at(7, 9, None), &events, true));
        assert_eq!((found.requests, found.same), (1, 0));
        let (recorded, replayed) = (step(ZoneOutcome::Deferred), step(ZoneOutcome::Complete));
        assert_eq!(found.differences, [FirstDifference { recorded, replayed, requests: 1 }]);
        let example = &found.examples[0];
        assert_eq!((example.first_difference, example.task.as_str(), example.time), (1, "dd", 70));
        assert_eq!(example.replayed, [Compact { effort: Async }, replayed, Compact { effort: Async }, Served]);
    }

    #[test]
    fn skip_of_a_zone_that_has_no_event_in_the_kernel_is_no_difference() {
        let [other, same] =
            [0, 1].map(|zone| Event::CompactZone { zone, by: Compactor::Direct, outcome: ZoneOutcome::NoRoom });
        let found = compare(|log| {
            log.compare(&claim_at(7, 9, None), &[BEGIN, other, decided(ZoneOutcome::Deferred)], false);
            log.compare(&claim_at(7, 9, None), &[BEGIN, same], false);
        });
        assert_eq!((found.requests, found.same), (2, 1), "the kernel has an event of zone 1");
    }

    #[test]
    fn same_decisions_are_counted_and_frequent_differences_come_first() {
        let found = compare(|log| {
            log.compare(&claim_at(7, 9, None), &[BEGIN, decided(ZoneOutcome::Deferred)], false);
            log.compare(&claim_at(8, 9, Some(512)), &[], true);
            log.compare(&claim_at(9, 2, Some(4)), &[], true);
            log.compare(&claim_at(10, 2, Some(4)), &[BEGIN, decided(ZoneOutcome::Made)], true);
            log.compare(&claim_at(11, 9, Some(512)), &[], false);
            log.compare(&claim_at(12, 4, Some(512)), &[], false);
        });
        assert_eq!(
            (found.requests, found.at_once, found.same),
            (5, 1, 1),
            "the small request that compacts nowhere is left out"
        );
        let pairs: Vec<_> =
            found.differences.iter().map(|pair| (pair.recorded, pair.replayed, pair.requests)).collect();
        let effort = Async;
        assert_eq!(pairs, [(Served, Refused, 2), (Served, Compact { effort }, 1)]);
        assert_eq!(found.examples[0].time, 110, "the first request of its kind");
    }

    #[test]
    fn second_request_of_the_replay_alone_is_left_out() {
        let found = compare(|log| {
            let first = Claim { second: Some(Gfp::KERNEL), ..claim_at(7, 9, None) };
            log.compare(&first, &[BEGIN, decided(ZoneOutcome::Deferred)], false);
            log.compare(&Claim { second: None, ..first }, &[BEGIN, decided(ZoneOutcome::Made)], true);
        });
        assert_eq!((found.requests, found.same), (1, 1));
    }
}
