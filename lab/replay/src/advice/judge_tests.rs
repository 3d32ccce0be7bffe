//! What is a gain, what is chance, what is too dear, and which value is the best advice.

use freehold_trace::facts::{PcpFacts, ZoneFacts};

use super::*;
use crate::report::course::Course;
use crate::report::fidelity::{FidelityMeasure, FidelityRow};
use crate::report::metrics::Metrics;

use Metric::{AllocStalls, FailedAllocations, PagesScanned, ZoneLockAcquisitions};

/// A replay that counted this, and recorded as much where it is `Near`.
fn outcome(counts: &[(Metric, u64)], recorded: f64) -> ReplayOutcome {
    let rows = counts.iter().flat_map(|(metric, count)| {
        measures(*metric).map(|measure| FidelityRow::new(measure, recorded * *count as f64, *count as f64, None))
    });
    // What is held against nothing recorded is not told; zero against zero is.
    let silent = [AllocStalls, FailedAllocations, PagesScanned, ZoneLockAcquisitions, Metric::CompactStalls];
    let silent = silent.iter().filter(|metric| counts.iter().all(|(of, _)| of != *metric));
    let silent = silent.flat_map(|metric| measures(*metric));
    let fidelity = rows.chain(silent.map(|measure| FidelityRow::new(measure, 0.0, 0.0, None))).collect();
    let metrics = Metrics::new().with_count(AllocStalls, 0);
    let metrics = counts.iter().fold(metrics, |metrics, (metric, count)| metrics.with_count(*metric, *count));
    ReplayOutcome {
        policy: "A".to_owned(),
        metrics,
        nudged: Vec::new(),
        fidelity,
        unreplayed: Vec::new(),
        assumptions: Vec::new(),
        course: Course::default(),
    }
}

/// All fidelity measures of a metric.
fn measures(metric: Metric) -> impl Iterator<Item = FidelityMeasure> {
    metric.fidelity_sums().iter().copied().flatten().copied()
}

fn machine() -> Facts {
    let lists = vec![PcpFacts { high: 1524, batch: 63, ..PcpFacts::default() }; 2];
    let zone = ZoneFacts {
        name: "Normal".to_owned(),
        managed: 1 << 20,
        min: 2000,
        low: 3048,
        high: 4096,
        pcp: lists,
        ..ZoneFacts::default()
    };
    let mut facts = Facts { cpus: 2, page_size: 4096, zones_start: vec![zone], ..Facts::default() };
    facts.settings.insert("vm.min_free_kbytes".to_owned(), "8000".to_owned());
    facts
}

/// Candidates of that machine: it keeps twice, four times, half as much free.
fn candidate(number: usize) -> Candidate {
    super::super::candidates::list(&machine()).swap_remove(number)
}

/// A recording as it was set, and under a candidate.
#[derive(Clone)]
struct Both {
    now: ReplayOutcome,
    then: ReplayOutcome,
    nudged: Vec<ReplayOutcome>,
}

fn both_replays(counts: &[(Metric, u64, u64)]) -> Both {
    let now: Vec<_> = counts.iter().map(|&(metric, now, _)| (metric, now)).collect();
    let then: Vec<_> = counts.iter().map(|&(metric, _, then)| (metric, then)).collect();
    Both { now: outcome(&now, 1.0), then: outcome(&then, 1.0), nudged: Vec::new() }
}

fn judged(recordings: &[Both], of: usize) -> CandidateVerdict {
    let names = ["one", "two", "three"];
    let trials: Vec<Trial<'_>> = recordings
        .iter()
        .zip(names)
        .map(|(Both { now, then, nudged }, recording)| Trial { recording, now, then, nudged, requests: 10_000 })
        .collect();
    CandidateVerdict::new(&candidate(of), &trials, &machine(), 0.02)
}

fn found(counts: &[(Metric, u64, u64)]) -> Finding {
    judged(&[both_replays(counts)], 0).finding
}

#[test]
fn the_first_concern_that_changes_decides() {
    assert_eq!(found(&[(AllocStalls, 1000, 500)]), Finding::Gain { concern: 1, size: 0.5 });
    assert_eq!(found(&[(AllocStalls, 1000, 500), (PagesScanned, 1000, 2000)]), Finding::Gain { concern: 1, size: 0.5 });
    assert_eq!(found(&[(FailedAllocations, 0, 100), (AllocStalls, 1000, 500)]), Finding::Costs { concern: 0 });
    assert_eq!(found(&[(AllocStalls, 1000, 1010)]), Finding::Nothing);
}

fn words_of<'e>(effects: impl Iterator<Item = &'e Effect>) -> Vec<&'static str> {
    effects.map(|effect| effect.words).collect::<Vec<_>>()
}

#[test]
fn what_gets_worse_later_is_the_price() {
    let judged = judged(&[both_replays(&[(AllocStalls, 1000, 500), (ZoneLockAcquisitions, 1000, 2000)])], 0);
    assert_eq!(words_of(judged.gains()), ["direct reclaims"]);
    assert_eq!(words_of(judged.losses()), ["zone lock acquisitions"]);
}

#[test]
fn few_events_and_little_work_say_nothing() {
    assert_eq!(found(&[(AllocStalls, 5, 2)]), Finding::Nothing, "so many come and go by chance");
    assert_eq!(found(&[(ZoneLockAcquisitions, 90, 30)]), Finding::Nothing, "of 10,000 requests");
    assert_eq!(found(&[(ZoneLockAcquisitions, 9000, 3000)]), Finding::Gain { concern: 5, size: 2.0 / 3.0 });
}

fn judge_with_nudge(stalls: u64) -> Finding {
    let nudged = vec![outcome(&[(AllocStalls, stalls)], 1.0)];
    judged(&[Both { nudged, ..both_replays(&[(AllocStalls, 1000, 500)]) }], 0).finding
}

#[test]
fn a_change_that_a_nudge_makes_too_is_none() {
    assert_eq!(judge_with_nudge(900), Finding::Gain { concern: 1, size: 0.5 });
    assert_eq!(judge_with_nudge(1500), Finding::Nothing);
}

fn judge_without_fidelity(counts: &[(Metric, u64, u64)], of: Metric) -> Finding {
    let mut replays = both_replays(counts);
    for row in replays.now.fidelity.iter_mut().filter(|row| measures(of).any(|measure| measure == row.measure)) {
        *row = FidelityRow::new(row.measure, 10_000.0, 1.0, None);
    }
    judged(&[replays], 0).finding
}

#[test]
fn what_is_not_reproduced_gains_nothing_but_may_cost() {
    assert_eq!(judge_without_fidelity(&[(AllocStalls, 1000, 500)], AllocStalls), Finding::Nothing);
    let trade = [(FailedAllocations, 100, 900), (AllocStalls, 1000, 500)];
    assert_eq!(judge_without_fidelity(&trade, FailedAllocations), Finding::Costs { concern: 0 });
}

fn judge_stalls(pairs: &[(u64, u64)]) -> CandidateVerdict {
    let recordings: Vec<Both> = pairs.iter().map(|&(now, then)| both_replays(&[(AllocStalls, now, then)])).collect();
    judged(&recordings, 0)
}

#[test]
fn recordings_that_disagree_leave_it() {
    let agreed = judge_stalls(&[(1000, 500), (1000, 600), (1000, 400)]);
    assert!(matches!(agreed.finding, Finding::Gain { concern: 1, .. }), "{agreed:?}");
    assert_eq!(agreed.effects[1].interval, Some((-0.6, -0.4)));
    assert_eq!((agreed.effects[1].now, agreed.effects[1].then, agreed.effects[1].recordings), (3000.0, 1500.0, 3));
    assert_eq!(judge_stalls(&[(1000, 500), (1000, 1500)]).finding, Finding::Undecided);
    assert_eq!(judge_stalls(&[(1000, 1500), (1000, 1400)]).finding, Finding::Nothing);
}

#[test]
fn most_recordings_have_to_tell_it() {
    let near = both_replays(&[(AllocStalls, 1000, 500)]);
    let mut far = near.clone();
    let stalls = far.now.fidelity.iter_mut().filter(|row| row.measure == FidelityMeasure::AllocStalls);
    stalls.for_each(|row| *row = FidelityRow::new(FidelityMeasure::AllocStalls, 9000.0, 1000.0, None));
    assert!(matches!(judged(&[near.clone(), near.clone(), far.clone()], 0).finding, Finding::Gain { .. }));
    assert_eq!(judged(&[near, far], 0).finding, Finding::Undecided);
}

#[test]
fn work_is_not_worth_much_memory() {
    let locks = [both_replays(&[(ZoneLockAcquisitions, 9000, 3000)])];
    assert!(matches!(judged(&locks, 0).finding, Finding::Gain { .. }), "16 MiB of 4 GiB is little");
    let dear = judged(&locks, 1);
    assert_eq!(dear.finding, Finding::CostsMemory, "{:?}", dear.memory);
    assert!(dear.memory.kept_free_bytes > 30 << 20, "{:?}", dear.memory);
    let stalls = judged(&[both_replays(&[(AllocStalls, 9000, 3000)])], 1);
    assert!(matches!(stalls.finding, Finding::Gain { .. }), "requests that wait are");
}

fn verdict_with_stalls(then: u64) -> CandidateVerdict {
    judged(&[both_replays(&[(AllocStalls, 1000, then)])], 0)
}

#[test]
fn the_mildest_value_that_gains_enough_is_the_best() {
    let values =
        [verdict_with_stalls(990), verdict_with_stalls(300), verdict_with_stalls(200), verdict_with_stalls(100)];
    assert_eq!(best(&values.iter().collect::<Vec<_>>()), Some(1), "-70 % of -90 %");
    let (mild, strong) = (verdict_with_stalls(800), verdict_with_stalls(100));
    assert_eq!(best(&[&mild, &strong]), Some(1));
    let locks = judged(&[both_replays(&[(ZoneLockAcquisitions, 9000, 100)])], 0);
    assert_eq!(best(&[&locks, &mild]), Some(1), "a concern that comes first goes before size");
    assert_eq!(best(&[&verdict_with_stalls(1000), &verdict_with_stalls(1500)]), None);
}
