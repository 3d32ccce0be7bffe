//! The recorded machine, from the facts of the recording without its rows.

use std::collections::BTreeMap;

use freehold_trace::Facts;
use freehold_trace::facts::Sample;
use serde::Serialize;

/// Order of a huge page on the tested machines. Fragmentation is reported at this order.
pub(crate) const HUGE_ORDER: usize = 9;

/// Summary of the machine and the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineReport {
    /// Kernel release as `uname -r` prints it.
    pub kernel_release: String,
    /// Machine type as `uname -m` prints it.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: u16,
    /// Bytes of a page.
    pub page_size: u32,
    /// Order of a pageblock.
    pub pageblock_order: u8,
    /// Recorded command, if there was one.
    pub command: Option<String>,
    /// Program that wrote the recording.
    pub writer: String,
    /// Length of the recording in seconds.
    pub duration_seconds: f64,
    /// Events that the kernel dropped because a ring buffer was full.
    pub lost: u64,
    /// Notes of the recorder for the reader.
    pub notes: Vec<String>,
    /// Assumptions of an importer about facts that were not recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<String>,
}

/// A zone; sizes are in pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneRow {
    /// NUMA node.
    pub node: u16,
    /// Linux's name of the zone.
    pub name: String,
    /// First frame.
    pub start_pfn: u64,
    /// Pages managed by the page allocator.
    pub managed: u64,
    /// Min watermark without boost.
    pub min: u64,
    /// Low watermark.
    pub low: u64,
    /// High watermark.
    pub high: u64,
    /// Watermark boost at the start.
    pub boost: u64,
    /// Free pages at the start.
    pub free_start: u64,
    /// Free pages at the end.
    pub free_end: Option<u64>,
    /// Batch size of the per-CPU lists: pages that a list moves at once.
    pub pcp_batch: Option<u32>,
    /// Pages on all per-CPU lists at the start.
    pub pcp_pages_start: u64,
}

/// Free memory and its fragmentation at one moment, over all zones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FragmentationRow {
    /// Moment: `start`, `worst` or `end`.
    pub moment: &'static str,
    /// Seconds since the start.
    pub seconds: f64,
    /// Free pages.
    pub free_pages: u64,
    /// Free blocks by order.
    pub free_blocks: Vec<u64>,
    /// Share of the free pages that is in blocks too small for a huge page.
    pub unusable_free_index_order9: Option<f64>,
}

/// A counter of `/proc/vmstat` that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmstatRow {
    /// Name of the counter.
    pub name: String,
    /// Value at the start.
    pub start: u64,
    /// Value at the end.
    pub end: u64,
    /// `end - start`.
    pub delta: i64,
}

/// Stall time of tasks for one resource, from the kernel's pressure stall information (PSI).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallRow {
    /// Resource and kind: `memory.some` is the time in which any task waited for memory, `memory.full` that in which
    /// all non-idle tasks waited for it, and so on.
    pub name: String,
    /// Stall time during the recording, in microseconds.
    pub us: u64,
    /// Share of the time between the first and the last sample.
    pub share: f64,
}

/// Returns the summary of the machine.
pub(crate) fn machine(facts: &Facts) -> MachineReport {
    MachineReport {
        kernel_release: facts.kernel_release.clone(),
        machine: facts.machine.clone(),
        cpus: facts.cpus,
        page_size: facts.page_size,
        pageblock_order: facts.pageblock_order,
        command: facts.command.clone(),
        writer: facts.writer.clone(),
        duration_seconds: seconds(facts.duration),
        lost: facts.lost,
        notes: facts.notes.clone(),
        guesses: facts.guesses.clone(),
    }
}

/// Returns the zones that contain memory.
pub(crate) fn zones(facts: &Facts) -> Vec<ZoneRow> {
    let rows = facts.zones_start.iter().filter(|zone| zone.managed > 0).map(|zone| {
        let end = facts.zones_end.iter().find(|end| end.node == zone.node && end.name == zone.name);
        ZoneRow {
            node: zone.node,
            name: zone.name.clone(),
            start_pfn: zone.start_pfn,
            managed: zone.managed,
            min: zone.min,
            low: zone.low,
            high: zone.high,
            boost: zone.boost,
            free_start: zone.free,
            free_end: end.map(|end| end.free),
            pcp_batch: zone.pcp.first().map(|pcp| pcp.batch),
            pcp_pages_start: zone.pcp.iter().map(|pcp| u64::from(pcp.count)).sum(),
        }
    });
    rows.collect()
}

/// Returns the zones as ranges of frames `[start, end)`.
pub(crate) fn zone_ranges(facts: &Facts) -> Vec<(u64, u64)> {
    facts.zones_start.iter().map(|zone| (zone.start_pfn, zone.start_pfn.saturating_add(zone.spanned))).collect()
}

/// Counters that sysfs lists among the settings of transparent huge pages.
const COUNTERS: [&str; 2] = ["khugepaged.full_scans", "khugepaged.pages_collapsed"];

/// Returns the settings of the machine. A choice among words, such as `always [madvise] never`, is reduced to the
/// chosen word.
pub(crate) fn settings(facts: &Facts) -> BTreeMap<String, String> {
    facts
        .settings
        .iter()
        .filter(|(name, _)| !COUNTERS.iter().any(|counter| name.ends_with(counter)))
        .map(|(name, value)| (name.clone(), chosen(value).to_owned()))
        .collect()
}

/// Returns the word in brackets, or the whole value if there are no brackets.
fn chosen(value: &str) -> &str {
    let bracketed = value.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(value.trim(), |(word, _)| word)
}

/// Returns the fragmentation at the start, at its worst, and at the end, from the samples of `/proc/buddyinfo`.
pub(crate) fn fragmentation(facts: &Facts) -> Vec<FragmentationRow> {
    let (Some(first), Some(last)) = (facts.samples.first(), facts.samples.last()) else {
        return Vec::new();
    };
    let indices = facts.samples.iter().map(|sample| (sample, unusable_free_index(&free_blocks(sample)).unwrap_or(0.0)));
    let worst = indices.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(last, |(sample, _)| sample);
    let moments = [("start", first), ("worst", worst), ("end", last)];
    // A snapshot has only one moment.
    let count = if facts.is_snapshot() { 1 } else { moments.len() };
    moments.into_iter().take(count).map(|(moment, sample)| fragmentation_row(moment, sample)).collect()
}

/// Returns the counters of `/proc/vmstat` that differ between the first and the last sample.
pub(crate) fn vmstat(facts: &Facts) -> Vec<VmstatRow> {
    let (Some(first), Some(last)) = (facts.samples.first(), facts.samples.last()) else {
        return Vec::new();
    };
    let values = first.vmstat.iter().zip(&last.vmstat);
    facts
        .vmstat_names
        .iter()
        .zip(values)
        .filter(|(_, (start, end))| start != end)
        .map(|(name, (&start, &end))| VmstatRow {
            name: name.clone(),
            start,
            end,
            delta: end.wrapping_sub(start) as i64,
        })
        .collect()
}

/// Returns the number of processes that the OOM killer ended during the recording, for the machine or a control group;
/// `None` if the kernel does not count them.
pub(crate) fn oom_kills(facts: &Facts) -> Option<u64> {
    facts.vmstat_increase(facts.samples.last()?, |name| name == "oom_kill")
}

/// Returns the number of direct reclaims during the recording by the kernel's counters, one for each kind of zone;
/// `None` without counters.
pub(crate) fn allocstall(facts: &Facts) -> Option<u64> {
    facts.vmstat_increase(facts.samples.last()?, |name| name.starts_with("allocstall_"))
}

/// Returns the stall times by resource; empty if the kernel did not report them.
pub(crate) fn stalls(facts: &Facts) -> Vec<StallRow> {
    let (Some(first), Some(last)) = (facts.samples.first(), facts.samples.last()) else {
        return Vec::new();
    };
    if facts.is_snapshot() {
        return Vec::new();
    }
    let ns = last.time.saturating_sub(first.time);
    let totals = first.pressure.iter().zip(&last.pressure);
    let rows = facts.pressure_names.iter().zip(totals).map(|(name, (start, end))| {
        let us = end.saturating_sub(*start);
        let share = if ns == 0 { 0.0 } else { us as f64 * 1e3 / ns as f64 };
        StallRow { name: name.clone(), us, share }
    });
    rows.collect()
}

/// Converts nanoseconds to seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn fragmentation_row(moment: &'static str, sample: &Sample) -> FragmentationRow {
    let free_blocks = free_blocks(sample);
    FragmentationRow {
        moment,
        seconds: seconds(sample.time),
        free_pages: pages(&free_blocks, 0),
        unusable_free_index_order9: unusable_free_index(&free_blocks),
        free_blocks,
    }
}

/// Returns the free blocks by order, summed over all zones.
pub(crate) fn free_blocks(sample: &Sample) -> Vec<u64> {
    let orders = sample.buddyinfo.iter().map(Vec::len).max().unwrap_or(0);
    (0..orders).map(|order| sample.buddyinfo.iter().filter_map(|zone| zone.get(order)).sum()).collect()
}

/// Returns the pages in free blocks of `order` and above.
pub(crate) fn pages(free_blocks: &[u64], order: usize) -> u64 {
    let sizes = free_blocks.iter().enumerate().skip(order);
    let pages = sizes.map(|(block_order, &blocks)| blocks.saturating_mul(1u64 << block_order.min(63)));
    pages.fold(0, u64::saturating_add)
}

/// Returns the unusable free index for a huge page as a share; `None` without free pages. linux:
/// mm/vmstat.c:unusable_free_index
fn unusable_free_index(free_blocks: &[u64]) -> Option<f64> {
    let free = pages(free_blocks, 0);
    (free > 0).then(|| 1.0 - pages(free_blocks, HUGE_ORDER) as f64 / free as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(samples: Vec<Sample>) -> Facts {
        Facts { duration: 9, samples, vmstat_names: vec!["pgalloc".into(), "pgfree".into()], ..Facts::default() }
    }

    fn sample(time: u64, small: u64, huge: u64, vmstat: [u64; 2]) -> Sample {
        let mut orders = vec![0; 11];
        orders[0] = small;
        orders[9] = huge;
        Sample { time, vmstat: vmstat.to_vec(), buddyinfo: vec![orders, vec![0; 11]], ..Sample::default() }
    }

    #[test]
    fn fragmentation_is_the_share_in_small_blocks() {
        let rows =
            fragmentation(&facts(vec![sample(0, 512, 1, [0; 2]), sample(5, 512, 0, [0; 2]), sample(9, 0, 2, [0; 2])]));
        let indices: Vec<_> = rows.iter().map(|row| row.unusable_free_index_order9).collect();
        assert_eq!(indices, [Some(0.5), Some(1.0), Some(0.0)]);
        assert_eq!(rows[2].free_pages, 1024);
    }

    #[test]
    fn only_changed_counters_are_shown() {
        let rows = vmstat(&facts(vec![sample(0, 1, 0, [5, 7]), sample(1, 1, 0, [3, 7])]));
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].name.as_str(), rows[0].delta), ("pgalloc", -2));
    }

    #[test]
    fn selected_word_of_a_setting_is_extracted() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("256 256 32\n"), "256 256 32");
    }

    fn sample_with_pressure(time: u64, total: u64) -> Sample {
        Sample { pressure: vec![total, 5], ..sample(time, 1, 0, [total, 0]) }
    }

    #[test]
    fn stalls_are_totals_of_the_recording() {
        let names = ["memory.some", "memory.full"].map(str::to_owned).to_vec();
        let facts = Facts {
            pressure_names: names,
            ..facts(vec![sample_with_pressure(0, 100), sample_with_pressure(1_000_000, 350)])
        };
        let rows = stalls(&facts);
        assert_eq!((rows[0].name.as_str(), rows[0].us, rows[0].share), ("memory.some", 250, 0.25));
        assert_eq!((rows[1].us, rows[1].share), (0, 0.0));
    }

    #[test]
    fn snapshot_has_one_moment_and_no_stalls() {
        let pressure_names = vec!["memory.some".to_owned()];
        let sample = Sample { pressure: vec![7], ..sample(0, 512, 1, [0; 2]) };
        let facts = Facts { duration: 0, pressure_names, ..facts(vec![sample]) };
        let moments: Vec<_> = fragmentation(&facts).into_iter().map(|row| (row.moment, row.free_pages)).collect();
        assert_eq!((moments, stalls(&facts).len()), (vec![("start", 1024)], 0));
    }

    #[test]
    fn recording_without_samples_has_no_fragmentation() {
        assert!(fragmentation(&facts(vec![])).is_empty());
        assert!(vmstat(&facts(vec![])).is_empty());
        assert!(stalls(&facts(vec![])).is_empty());
    }
}
