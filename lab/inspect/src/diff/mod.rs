//! Difference of two recordings of real machines.
//!
//! Two machines never do the same work for the same time, so totals are not comparable. Each counter is therefore shown
//! in three forms: its total, its rate per second of the recording, and its number for each 1000 allocations. Reports
//! show the change of the number for each 1000 allocations, which is independent of the length of the recording and of
//! the speed of the machine. Shares, times and indices need no such normalisation and are in a separate table.

mod report;

use std::collections::BTreeMap;

use freehold_stats::verdict::relative_change;
use serde::Serialize;

use crate::Inspection;
use crate::course::Moment;

/// Difference of two recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Recordings, in the order given.
    pub recordings: [RecordingSummary; 2],
    /// Settings and facts that differ.
    pub settings: Vec<SettingRow>,
    /// Counters of both recordings.
    pub counters: Vec<CounterRow>,
    /// Measures of both recordings.
    pub measures: Vec<MeasureRow>,
    /// Courses of both recordings, from their samples.
    pub courses: [Vec<Moment>; 2],
    /// `true` if the report for people lists all rows.
    #[serde(skip)]
    pub is_whole: bool,
}

/// Summary of one recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordingSummary {
    /// File name.
    pub file: String,
    /// Kernel release as `uname -r` prints it.
    pub kernel_release: String,
    /// Number of CPUs.
    pub cpus: u16,
    /// Pages managed by the page allocator.
    pub managed_pages: u64,
    /// Length in seconds.
    pub duration_seconds: f64,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Events that were lost.
    pub lost: u64,
}

/// A setting that differs; `None` if a machine does not have the setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingRow {
    /// Name of the setting.
    pub name: String,
    /// Value in the first recording.
    pub first: Option<String>,
    /// Value in the second recording.
    pub second: Option<String>,
}

/// A counter in three forms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Counter {
    /// Total over the whole recording. May be negative, because some values of `/proc/vmstat` decrease.
    pub total: i64,
    /// Number per second; `None` for a recording without length.
    pub per_second: Option<f64>,
    /// Number for each 1000 allocations; `None` without allocations.
    pub per_1000_allocations: Option<f64>,
}

/// A counter in both recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterRow {
    /// Chapter of the counter: `events`, `orders`, `failures`, ...
    pub chapter: &'static str,
    /// Name of the counter.
    pub name: String,
    /// Counter in the first recording.
    pub first: Counter,
    /// Counter in the second recording.
    pub second: Counter,
    /// Relative change of the number per second; `None` if a recording lacks the number, or only the first number is
    /// zero.
    pub change_per_second: Option<f64>,
    /// Relative change of the number for each 1000 allocations; `None` if a recording lacks the number, or only the
    /// first number is zero.
    pub change_per_1000_allocations: Option<f64>,
}

/// A number that needs no normalisation, in both recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureRow {
    /// Name of the measure.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Value in the first recording.
    pub first: Option<f64>,
    /// Value in the second recording.
    pub second: Option<f64>,
    /// Relative change; `None` if a recording lacks the value, or only the first value is zero.
    pub change: Option<f64>,
}

/// Compares two inspections.
pub fn differ(first: &Inspection, second: &Inspection) -> Difference {
    Difference {
        recordings: [summarize(first), summarize(second)],
        settings: setting_rows(&first.settings, &second.settings),
        counters: counter_rows(first, second),
        measures: measure_rows(first, second),
        courses: [first.course.clone(), second.course.clone()],
        is_whole: false,
    }
}

fn summarize(inspection: &Inspection) -> RecordingSummary {
    RecordingSummary {
        file: inspection.file.clone(),
        kernel_release: inspection.machine.kernel_release.clone(),
        cpus: inspection.machine.cpus,
        managed_pages: inspection.zones.iter().map(|zone| zone.managed).sum(),
        duration_seconds: inspection.machine.duration_seconds,
        allocations: inspection.pairing.allocations,
        lost: inspection.machine.lost,
    }
}

fn setting_rows(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) -> Vec<SettingRow> {
    let mut names: Vec<_> = first.keys().chain(second.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| SettingRow {
            name: name.clone(),
            first: first.get(name).cloned(),
            second: second.get(name).cloned(),
        })
        .filter(|row| row.first != row.second)
        .collect()
}

/// Key of a counter: its chapter, its rank in the chapter, and its name.
pub(crate) type Key = (usize, usize, String);

/// Counters of one recording.
pub(crate) type Counts = BTreeMap<Key, i64>;

/// Returns the chapter of a counter.
pub(crate) fn chapter(key: &Key) -> &'static str {
    CHAPTERS[key.0]
}

/// Returns whether a counter is one of `/proc/vmstat`.
pub(crate) fn is_of_vmstat(key: &Key) -> bool {
    key.0 == VMSTAT
}

/// Index of the chapter of `/proc/vmstat`.
const VMSTAT: usize = 7;

/// Chapters of the counters, in the order of the table.
const CHAPTERS: [&str; 8] =
    ["events", "orders", "failures", "zone lock", "fallbacks", "reclaim", "compaction", "vmstat"];

fn counter_rows(first: &Inspection, second: &Inspection) -> Vec<CounterRow> {
    let (counts_first, counts_second) = (counts(first), counts(second));
    let mut keys: Vec<_> = counts_first.keys().chain(counts_second.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut rows = Vec::new();
    for key in keys {
        let a = counter(first, counts_first.get(key).copied().unwrap_or(0));
        let b = counter(second, counts_second.get(key).copied().unwrap_or(0));
        if a.total == 0 && b.total == 0 {
            continue;
        }
        rows.push(CounterRow {
            chapter: CHAPTERS[key.0],
            name: key.2.clone(),
            first: a,
            second: b,
            change_per_second: change(a.per_second, b.per_second),
            change_per_1000_allocations: change(a.per_1000_allocations, b.per_1000_allocations),
        });
    }
    rows
}

fn counter(inspection: &Inspection, total: i64) -> Counter {
    let (seconds, allocations) = (inspection.machine.duration_seconds, inspection.pairing.allocations);
    Counter {
        total,
        per_second: (seconds > 0.0).then(|| total as f64 / seconds),
        per_1000_allocations: (allocations > 0).then(|| total as f64 * 1000.0 / allocations as f64),
    }
}

fn change(first: Option<f64>, second: Option<f64>) -> Option<f64> {
    relative_change(first?, second?)
}

/// Returns all counters of one recording.
pub(crate) fn counts(inspection: &Inspection) -> Counts {
    let mut counts = Counts::new();
    for kind in inspection.kinds.iter().filter(|kind| kind.per_second.is_some()) {
        add(&mut counts, (0, 0, kind.kind.clone()), kind.events);
    }
    for order in &inspection.orders {
        let rank = usize::from(order.order);
        add(&mut counts, (1, rank, format!("allocations of order {}", order.order)), order.allocations);
        add(&mut counts, (2, rank, format!("failed requests of order {}", order.order)), order.failed);
    }
    for entry in &inspection.zone_lock.by_purpose {
        add(&mut counts, (3, 0, format!("holds for {}", entry.purpose)), entry.sections);
    }
    for entry in &inspection.fallbacks {
        add(&mut counts, (4, 0, format!("claims of {} for {}", entry.gave, entry.wanted)), entry.claims);
        add(&mut counts, (4, 1, format!("steals from {} for {}", entry.gave, entry.wanted)), entry.steals);
    }
    add_reclaim(inspection, &mut counts);
    for entry in &inspection.vmstat {
        counts.insert((VMSTAT, 0, entry.name.clone()), entry.delta);
    }
    counts
}

fn add(counts: &mut Counts, key: Key, count: u64) {
    counts.insert(key, i64::try_from(count).unwrap_or(i64::MAX));
}

fn add_reclaim(inspection: &Inspection, counts: &mut Counts) {
    let (reclaim, compaction) = (&inspection.reclaim, &inspection.compaction);
    for (rank, (name, count)) in [
        ("passes of kswapd", reclaim.kswapd_wakes),
        ("direct reclaims", reclaim.direct_reclaims),
        ("pages reclaimed directly", reclaim.direct_reclaimed_pages),
        ("inactive pages scanned", reclaim.inactive_scanned_pages),
        ("inactive pages reclaimed", reclaim.inactive_reclaimed_pages),
        ("active pages deactivated", reclaim.deactivated_pages),
    ]
    .into_iter()
    .enumerate()
    {
        add(counts, (5, rank, name.to_owned()), count);
    }
    add(counts, (6, 0, "compactions of a zone".to_owned()), compaction.runs);
    add(counts, (6, 1, "pages moved".to_owned()), compaction.migrated_pages);
    add(counts, (6, 2, "pages not moved".to_owned()), compaction.failed_pages);
    for (result, runs) in &compaction.results {
        add(counts, (6, 3, format!("compactions ended with {result}")), *runs);
    }
}

fn measure_rows(first: &Inspection, second: &Inspection) -> Vec<MeasureRow> {
    let (a, b) = (measures(first), measures(second));
    let mut names: Vec<_> = a.iter().chain(&b).map(|(name, unit, _)| (name, *unit)).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|(name, _)| seen.insert(*name));
    names
        .into_iter()
        .map(|(name, unit)| {
            let (first, second) = (measure_value(&a, name), measure_value(&b, name));
            MeasureRow { name: name.clone(), unit, first, second, change: change(first, second) }
        })
        .collect()
}

/// Returns the value of the measure called `name`.
fn measure_value(measures: &[Measure], name: &str) -> Option<f64> {
    measures.iter().find(|measure| measure.0 == name).and_then(|measure| measure.2)
}

/// Name, unit and value.
type Measure = (String, &'static str, Option<f64>);

/// Returns all measures of one recording.
fn measures(inspection: &Inspection) -> Vec<Measure> {
    let mut measures: Vec<Measure> = vec![
        (
            "share of frees on another CPU".to_owned(),
            "share",
            (inspection.pairing.paired > 0).then_some(inspection.pairing.freed_on_another_cpu_share),
        ),
        (
            "zone-lock holds per 1000 allocations and frees".to_owned(),
            "holds",
            inspection.zone_lock.sections_per_1000_operations,
        ),
    ];
    for entry in &inspection.zone_lock.by_purpose {
        measures.push((format!("pages a hold for {}", entry.purpose), "pages", entry.pages_per_section));
    }
    for entry in &inspection.fragmentation {
        let name = format!("unusable free index of order 9, {}", entry.moment);
        measures.push((name, "share", entry.unusable_free_index_order9));
    }
    for entry in &inspection.lifetimes {
        let median = (entry.freed > 0).then_some(entry.median_ns as f64);
        measures.push((format!("median life at order {}", entry.order), "ns", median));
        let name = format!("alive at the end, order {}", entry.order);
        measures.push((name, "share", Some(entry.live_share)));
    }
    measures
}
