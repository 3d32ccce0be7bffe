//! Tests of gains, doubts, losses, prices, and the levels of advice.

use freehold_trace::facts::{PcpFacts, Sample, ZoneFacts};

use super::super::evidence::Doubt;
use super::*;
use crate::report::course::{Course, Moment};
use crate::report::fidelity::{FidelityMeasure, FidelityRow, VmstatCounter};
use crate::report::metrics::{Metric, Metrics};
use crate::report::outcome::ReplayOutcome;

use Metric::{AllocStalls, FailedAllocations, HugePagesServed, PagesScanned, ZoneLockAcquisitions};

/// Returns a replay with these counts. The recorded counts are `recorded` times as large.
fn outcome(counts: &[(Metric, u64)], recorded: f64) -> ReplayOutcome {
    let all = [AllocStalls, FailedAllocations, PagesScanned, ZoneLockAcquisitions, Metric::CompactStalls];
    let silent = all.into_iter().filter(|metric| counts.iter().all(|(of, _)| of != metric)).map(|metric| (metric, 0));
    let rows = counts.iter().copied().chain(silent).flat_map(|(metric, count)| {
        measures(metric).map(move |measure| FidelityRow::new(measure, recorded * count as f64, count as f64, None))
    });
    let metrics = Metrics::new().with_count(AllocStalls, 0);
    ReplayOutcome {
        policy: "A".to_owned(),
        metrics: counts.iter().fold(metrics, |metrics, (metric, count)| metrics.with_count(*metric, *count)),
        nudged: Vec::new(),
        fidelity: rows.collect(),
        unreplayed: Vec::new(),
        assumptions: Vec::new(),
        course: Course::default(),
    }
}

/// Returns all fidelity measures of a metric.
fn measures(metric: Metric) -> impl Iterator<Item = FidelityMeasure> {
    metric.fidelity_sums().iter().copied().flatten().copied()
}

/// Returns a machine whose counters rose by 1000 each, from `since`.
fn machine(since: u64) -> Facts {
    let pcp = vec![PcpFacts { high: 1524, batch: 63, ..PcpFacts::default() }; 2];
    let zone = ZoneFacts {
        name: "Normal".to_owned(),
        managed: 1 << 20,
        min: 2000,
        low: 3048,
        high: 4096,
        pcp,
        ..ZoneFacts::default()
    };
    let names = ["allocstall_normal", "compact_stall", "pgscan_kswapd", "thp_fault_fallback"];
    let sample = |value: u64| Sample { vmstat: vec![value; names.len()], ..Sample::default() };
    let mut facts = Facts { cpus: 2, page_size: 4096, zones_start: vec![zone], ..Facts::default() };
    facts.vmstat_names = names.map(str::to_owned).to_vec();
    facts.samples = vec![sample(since), sample(since + 1000)];
    facts.settings.insert("vm.min_free_kbytes".to_owned(), "8000".to_owned());
    facts
}

/// A recording replayed as it was set and under a candidate.
#[derive(Clone)]
struct Both {
    machine: Facts,
    now: ReplayOutcome,
    then: ReplayOutcome,
    nudged: Vec<ReplayOutcome>,
}

fn both(counts: &[(Metric, u64, u64)]) -> Both {
    let [now, then] = [0, 1].map(|side| {
        let side: Vec<(Metric, u64)> = counts.iter().map(|&(metric, now, then)| (metric, [now, then][side])).collect();
        outcome(&side, 1.0)
    });
    Both { machine: machine(0), now, then, nudged: Vec::new() }
}

/// Judges the candidate `number` of that machine. The first candidates keep two times, four times and half as much
/// memory free.
fn judge(recordings: &[Both], number: usize, track: &TrackRecord) -> CandidateVerdict {
    let candidate = super::super::candidates::list(&machine(0)).swap_remove(number);
    let trials: Vec<Trial<'_>> = recordings
        .iter()
        .map(|Both { machine, now, then, nudged }| Trial {
            recording: "x",
            machine,
            requests: 10_000,
            now,
            then,
            nudged,
        })
        .collect();
    CandidateVerdict::new(&candidate, &trials, &machine(0), 0.02, track)
}

fn found(counts: &[(Metric, u64, u64)]) -> Finding {
    judge(&[both(counts)], 0, &TrackRecord::default()).finding
}

fn doubted(both: Both) -> Doubt {
    match judge(&[both], 0, &TrackRecord::default()).finding {
        Finding::Doubtful { doubt } => doubt,
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_changed_concern_decides() {
    assert_eq!(found(&[(AllocStalls, 1000, 500)]), Finding::Gain { concern: 1, size: 0.5 });
    assert_eq!(found(&[(AllocStalls, 1000, 500), (PagesScanned, 1000, 2000)]), Finding::Gain { concern: 1, size: 0.5 });
    assert_eq!(found(&[(FailedAllocations, 0, 100), (AllocStalls, 1000, 500)]), Finding::Costs { concern: 0 });
    assert_eq!(found(&[(AllocStalls, 1000, 1010)]), Finding::Nothing);
}

#[test]
fn single_recording_is_at_most_worth_testing() {
    let verdict = judge(&[both(&[(AllocStalls, 1000, 500)])], 0, &all_right());
    assert_eq!(verdict.level, Level::WorthTesting);
}

/// Returns a track record in which all predictions of direct reclaims were right.
fn all_right() -> TrackRecord {
    let mut track = TrackRecord::default();
    let right = super::super::track::Directions { decided: 4, right: 4 };
    let metrics = track.concerns.entry("vm.min_free_kbytes".to_owned()).or_default();
    metrics.insert(AllocStalls.name().to_owned(), right);
    track
}

#[test]
fn recommendation_needs_distinct_times_and_a_track_record() {
    let at = |since: u64| Both { machine: machine(since), ..both(&[(AllocStalls, 1000, 500)]) };
    let different = [at(0), at(1), at(2)];
    assert_eq!(judge(&different, 0, &all_right()).level, Level::Recommended);
    assert_eq!(
        judge(&different, 0, &TrackRecord::default()).level,
        Level::WorthTesting,
        "nothing was predicted before"
    );
    let mut wrong_once = all_right();
    wrong_once.concerns.values_mut().flat_map(|metrics| metrics.values_mut()).for_each(|one| one.right = 3);
    assert_eq!(judge(&different, 0, &wrong_once).level, Level::WorthTesting);
    assert_eq!(judge(&[at(0), at(0), at(2)], 0, &all_right()).level, Level::WorthTesting, "a copy is no recording");
}

/// A loss that the replay does not reproduce prevents a recommendation and is shown.
#[test]
fn unjudged_losses_prevent_a_recommendation() {
    let mut recordings = [0, 1, 2].map(|since| {
        let counts = [(AllocStalls, 1000, 500), (PagesScanned, 1000, 3500)];
        Both { machine: machine(since), ..both(&counts) }
    });
    for both in &mut recordings {
        miss(both, PagesScanned);
    }
    let verdict = judge(&recordings, 0, &all_right());
    assert_eq!(verdict.level, Level::WorthTesting);
    let losses: Vec<(&str, Verdict)> = verdict.losses().map(|loss| (loss.words, loss.verdict)).collect();
    assert_eq!(losses, [("pages scanned", Verdict::NotJudged)]);
}

/// Makes the replay miss a metric.
fn miss(both: &mut Both, metric: Metric) {
    for row in both.now.fidelity.iter_mut().filter(|row| measures(metric).any(|measure| measure == row.measure)) {
        *row = FidelityRow::new(row.measure, 10_000.0, 1.0, None);
    }
}

#[test]
fn few_events_are_doubtful() {
    assert_eq!(doubted(both(&[(AllocStalls, 15, 2)])), Doubt::TooFewEvents);
    assert_eq!(doubted(both(&[(ZoneLockAcquisitions, 90, 30)])), Doubt::TooFewEvents, "of 10,000 requests");
    assert_eq!(found(&[(ZoneLockAcquisitions, 9000, 3000)]), Finding::Gain { concern: 5, size: 2.0 / 3.0 });
}

#[test]
fn changes_within_watermark_nudges_are_doubtful() {
    let nudged = |stalls: u64| Both {
        nudged: vec![outcome(&[(AllocStalls, stalls)], 1.0)],
        ..both(&[(AllocStalls, 1000, 500)])
    };
    assert!(matches!(judge(&[nudged(900)], 0, &TrackRecord::default()).finding, Finding::Gain { concern: 1, .. }));
    assert_eq!(doubted(nudged(1500)), Doubt::SensitiveToWatermarks);
}

/// Sets the recorded number of huge pages that were served.
fn record_huge_pages(both: &mut Both, recorded: f64, replayed: f64) {
    let row = both.now.fidelity.iter_mut().find(|row| row.measure == FidelityMeasure::HugePagesServed).unwrap();
    *row = FidelityRow::new(row.measure, recorded, replayed, None);
}

/// A gain of 6.8 % that only compensates the replay's own error of -6.8 % is no gain.
#[test]
fn gain_must_exceed_the_replay_error() {
    let found = |recorded: f64| {
        let mut both = both(&[(HugePagesServed, 10_000, 10_680)]);
        record_huge_pages(&mut both, recorded, 10_000.0);
        judge(&[both], 0, &TrackRecord::default()).finding
    };
    assert_eq!(found(10_735.0), Finding::Doubtful { doubt: Doubt::WithinReplayError });
    assert!(matches!(found(10_100.0), Finding::Gain { concern: 3, .. }));
}

/// Without a recording that shows the gain above the replay's error, the value is never recommended.
#[test]
fn gain_within_the_replay_error_is_worth_testing_if_three_recordings_agree() {
    let level = |times: &[u64]| {
        let recordings: Vec<Both> = times
            .iter()
            .map(|&time| {
                let mut both = both(&[(HugePagesServed, 10_000, 10_680)]);
                record_huge_pages(&mut both, 10_735.0, 10_000.0);
                Both { machine: machine(time), ..both }
            })
            .collect();
        judge(&recordings, 0, &TrackRecord::default()).level
    };
    assert_eq!(level(&[0, 1, 2]), Level::WorthTesting);
    assert_eq!(level(&[0, 1]), Level::Leave);
    assert_eq!(level(&[0, 0, 0]), Level::Leave);
}

#[test]
fn gain_must_not_exceed_the_recorded_room() {
    let found = |then: u64| judge(&[both(&[(HugePagesServed, 1000, then)])], 0, &TrackRecord::default()).finding;
    assert_eq!(found(2500), Finding::Doubtful { doubt: Doubt::NoRoom }, "1000 faults were denied a huge page");
    assert!(matches!(found(1900), Finding::Gain { concern: 3, .. }));
}

/// A reduction of work is no gain if the replay does not reproduce it; fewer requests may be.
#[test]
fn work_reduction_requires_reproduced_work() {
    let off_by_a_fifth = |metric: Metric, now: u64, then: u64| {
        let mut both = both(&[(metric, now, then)]);
        for row in &mut both.now.fidelity {
            *row = FidelityRow::new(row.measure, row.replayed * 1.25, row.replayed, None);
        }
        both
    };
    assert_eq!(doubted(off_by_a_fifth(ZoneLockAcquisitions, 9000, 3000)), Doubt::WithinReplayError);
    let stalls = off_by_a_fifth(AllocStalls, 1000, 500);
    assert!(matches!(judge(&[stalls], 0, &TrackRecord::default()).finding, Finding::Gain { concern: 1, .. }));
}

/// One pass of kswapd that is postponed past the end of a recording is no gain.
#[test]
fn scan_gain_requires_several_kswapd_passes() {
    let passes = |now: f64, then: f64| {
        let mut both = both(&[(PagesScanned, 9000, 3000)]);
        for (outcome, passes) in [(&mut both.now, now), (&mut both.then, then)] {
            let pageoutrun = FidelityMeasure::Vmstat(VmstatCounter::Pageoutrun);
            outcome.fidelity.push(FidelityRow::new(pageoutrun, passes, passes, None));
        }
        both
    };
    assert_eq!(doubted(passes(2.0, 1.0)), Doubt::FewPasses);
    assert!(matches!(judge(&[passes(9.0, 4.0)], 0, &TrackRecord::default()).finding, Finding::Gain { concern: 4, .. }));
}

#[test]
fn gain_must_appear_before_the_end_of_the_recording() {
    let course = |early: u64, end: u64| {
        let moments = [(0, 0), (70, early), (100, end)];
        let moments = moments.map(|(time, allocstall)| Moment { time, allocstall, ..Moment::default() });
        Course { moments: moments.to_vec(), ..Course::default() }
    };
    let mut both = both(&[(AllocStalls, 1000, 500)]);
    (both.now.course, both.then.course) = (course(450, 1000), course(450, 500));
    assert_eq!(doubted(both.clone()), Doubt::EndOfRecording);
    both.then.course = course(225, 500);
    assert!(matches!(judge(&[both], 0, &TrackRecord::default()).finding, Finding::Gain { .. }));
}

#[test]
fn unreproduced_loss_still_counts_as_a_cost() {
    let mut trade = both(&[(FailedAllocations, 100, 900), (AllocStalls, 1000, 500)]);
    miss(&mut trade, FailedAllocations);
    assert_eq!(judge(&[trade], 0, &TrackRecord::default()).finding, Finding::Costs { concern: 0 });
}

#[test]
fn gain_requires_a_majority_and_no_loss() {
    let of = |pairs: &[(u64, u64)]| {
        let recordings: Vec<Both> = pairs.iter().map(|&(now, then)| both(&[(AllocStalls, now, then)])).collect();
        judge(&recordings, 0, &TrackRecord::default())
    };
    let agreed = of(&[(1000, 500), (1000, 600), (1000, 400)]);
    assert!(matches!(agreed.finding, Finding::Gain { concern: 1, .. }), "{agreed:?}");
    assert_eq!(agreed.effects[1].interval, Some((-0.6, -0.4)));
    assert_eq!((agreed.effects[1].now, agreed.effects[1].then, agreed.effects[1].recordings), (3000.0, 1500.0, 3));
    assert_eq!(of(&[(1000, 500), (1000, 1500)]).finding, Finding::Disagreement);
    assert_eq!(of(&[(1000, 500), (1000, 1000)]).finding, Finding::Disagreement, "half of them is not most");
    assert_eq!(of(&[(1000, 1500), (1000, 1400)]).finding, Finding::Nothing);
}

#[test]
fn gain_does_not_justify_much_memory() {
    let locks = [both(&[(ZoneLockAcquisitions, 9000, 3000)])];
    let track = TrackRecord::default();
    assert!(matches!(judge(&locks, 0, &track).finding, Finding::Gain { .. }), "16 MiB of 4 GiB is little");
    let dear = judge(&locks, 1, &track);
    assert_eq!(dear.finding, Finding::CostsMemory, "{:?}", dear.memory);
    assert!(dear.memory.kept_free_bytes > 30 << 20, "{:?}", dear.memory);
}

#[test]
fn mildest_sufficient_value_is_best() {
    let gaining = |then: u64| judge(&[both(&[(AllocStalls, 1000, then)])], 0, &TrackRecord::default());
    let values = [gaining(990), gaining(300), gaining(200), gaining(100)];
    assert_eq!(best(&values.iter().collect::<Vec<_>>()), Some(1), "-70 % of -90 %");
    let (mild, strong) = (gaining(800), gaining(100));
    assert_eq!(best(&[&mild, &strong]), Some(1));
    let locks = judge(&[both(&[(ZoneLockAcquisitions, 9000, 100)])], 0, &TrackRecord::default());
    assert_eq!(best(&[&locks, &mild]), Some(1), "a concern that comes first goes before size");
    assert_eq!(best(&[&gaining(1000), &gaining(1500)]), None);
}
