//! Plots of the course of a recording, from its samples: free memory, reclaim and stalls.
//!
//! A plot of free pages by order shows one recording. Each of the other plots has a line for every recording.

use freehold_report::report::plot::{Plot, PlotLine, Scale, Shape};
use freehold_trace::Facts;
use freehold_trace::facts::Sample;
use serde::Serialize;

use super::machine::{free_blocks, pages, seconds};

/// Order of a huge page.
const HUGE_ORDER: usize = 9;
/// Most points of a line. A longer recording contributes every n-th sample, ending with the last.
const POINTS_MAX: usize = 200;

/// State of the machine at one sample. Counters are relative to the first sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Seconds since the start.
    pub seconds: f64,
    /// Free blocks by order, in all zones.
    pub free_blocks: Vec<u64>,
    /// Pages that kswapd and direct reclaim have scanned since the start.
    pub pgscan: u64,
    /// Direct reclaims since the start.
    pub allocstall: u64,
    /// Direct compactions since the start.
    pub compact_stall: u64,
    /// Page faults that got a huge page since the start.
    pub thp_fault_alloc: u64,
    /// Microseconds in which some task waited for memory; `None` if the kernel has no pressure stall information.
    pub pressure_us: Option<u64>,
}

/// Returns the course of a recording, from its samples.
pub(crate) fn moments(facts: &Facts) -> Vec<Moment> {
    let Some(first) = facts.samples.first() else { return Vec::new() };
    let step = facts.samples.len().div_ceil(POINTS_MAX).max(1);
    let last = facts.samples.len() - 1;
    let shown = facts.samples.iter().enumerate().filter(|(at, _)| (last - at).is_multiple_of(step));
    shown.map(|(_, sample)| moment(facts, first, sample)).collect()
}

fn moment(facts: &Facts, first: &Sample, now: &Sample) -> Moment {
    Moment {
        seconds: seconds(now.time),
        free_blocks: free_blocks(now),
        pgscan: facts.vmstat_increase(now, |name| ["pgscan_kswapd", "pgscan_direct"].contains(&name)).unwrap_or(0),
        allocstall: facts.vmstat_increase(now, |name| name.starts_with("allocstall_")).unwrap_or(0),
        compact_stall: facts.vmstat_increase(now, |name| name == "compact_stall").unwrap_or(0),
        thp_fault_alloc: facts.vmstat_increase(now, |name| name == "thp_fault_alloc").unwrap_or(0),
        pressure_us: pressure_delta(facts, [first, now]),
    }
}

/// Returns the microseconds between two samples in which some task waited for memory; `None` if the kernel has no
/// pressure stall information.
fn pressure_delta(facts: &Facts, [first, now]: [&Sample; 2]) -> Option<u64> {
    let index = facts.pressure_names.iter().position(|name| name == "memory.some")?;
    Some(now.pressure.get(index)?.saturating_sub(*first.pressure.get(index)?))
}

/// Returns the plots of recordings, each with its name. Plots whose values are all zero are left out.
pub(crate) fn plots(recordings: &[(&str, &[Moment])]) -> Vec<Plot> {
    let mut plots: Vec<Plot> = recordings.iter().map(|(name, moments)| by_order(name, moments)).collect();
    plots.extend([
        over_time(recordings, "free pages", "pages", "Free pages of all zones.", |moment| {
            Some(pages(&moment.free_blocks, 0) as f64)
        }),
        over_time(
            recordings,
            "free pageblocks",
            "pageblocks",
            "A huge page can be allocated from each without compaction.",
            |moment| Some((pages(&moment.free_blocks, HUGE_ORDER) >> HUGE_ORDER) as f64),
        ),
        over_time(
            recordings,
            "pages scanned by reclaim so far",
            "pages",
            "Scanned by kswapd and by requests.",
            |moment| Some(moment.pgscan as f64),
        ),
        over_time(
            recordings,
            "allocstall so far",
            "requests",
            "The kernel's counter of requests that started direct reclaim. Each of them waited.",
            |moment| Some(moment.allocstall as f64),
        ),
        over_time(
            recordings,
            "direct compactions so far",
            "requests",
            "Each of these requests waited while it compacted.",
            |moment| Some(moment.compact_stall as f64),
        ),
        over_time(
            recordings,
            "faults that got a huge page so far",
            "faults",
            "The kernel's counter thp_fault_alloc.",
            |moment| Some(moment.thp_fault_alloc as f64),
        ),
        over_time(
            recordings,
            "seconds in which at least one task waited for memory",
            "seconds",
            "The kernel's pressure stall information (PSI). A steeper line is more pressure.",
            |moment| Some(moment.pressure_us? as f64 / 1e6),
        ),
    ]);
    plots.retain(|plot| plot.lines.iter().flat_map(|line| &line.points).any(|point| point.1 != 0.0));
    plots
}

/// Returns a plot of one number over time, with a line for each recording.
fn over_time(
    recordings: &[(&str, &[Moment])],
    title: &str,
    unit: &'static str,
    caption: &str,
    value: impl Fn(&Moment) -> Option<f64>,
) -> Plot {
    let lines = recordings.iter().map(|(name, moments)| {
        let points = moments.iter().filter_map(|moment| Some((moment.seconds, value(moment)?)));
        PlotLine::new(*name, points.collect())
    });
    let (title, caption) = (title.to_owned(), caption.to_owned());
    Plot { title, unit: unit.into(), caption, lines: lines.collect(), ..in_time() }
}

fn by_order(name: &str, moments: &[Moment]) -> Plot {
    let orders = moments.first().map_or(0, |moment| moment.free_blocks.len());
    let lines = (0..orders).map(|order| {
        let points = moments.iter().map(|moment| {
            let blocks = moment.free_blocks.get(order).copied().unwrap_or(0);
            (moment.seconds, blocks as f64 * (1_u64 << order.min(63)) as f64)
        });
        PlotLine::new(format!("order {order}"), points.collect())
    });
    Plot {
        title: format!("free pages by order, {name}"),
        caption: "Free pages of all zones by the order of their block. A brighter colour is a higher order.".to_owned(),
        unit: "pages".into(),
        shape: Shape::Stacked,
        lines: lines.collect(),
        ..in_time()
    }
}

fn in_time() -> Plot {
    Plot { along: "seconds".into(), scale: Scale::Even, ..Plot::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            vmstat_names: ["allocstall_normal", "allocstall_movable", "pgfree"].map(str::to_owned).to_vec(),
            pressure_names: vec!["memory.some".to_owned()],
            samples: vec![sample(0, 5, [1, 1, 9]), sample(2_000_000_000, 9, [4, 2, 99])],
            ..Facts::default()
        }
    }

    fn sample(time: u64, free: u64, vmstat: [u64; 3]) -> Sample {
        Sample {
            time,
            buddyinfo: vec![vec![free, 1]],
            vmstat: vmstat.to_vec(),
            pressure: vec![free],
            ..Sample::default()
        }
    }

    #[test]
    fn counters_are_relative_to_the_start() {
        let moments = moments(&facts());
        assert_eq!((moments[1].seconds, moments[1].allocstall, moments[1].pressure_us), (2.0, 4, Some(4)));
        assert_eq!((moments[0].allocstall, &moments[1].free_blocks), (0, &vec![9, 1]));
    }

    #[test]
    fn empty_plots_are_omitted_and_thinning_keeps_the_last_sample() {
        let moments = moments(&facts());
        let titles: Vec<String> = plots(&[("a", &moments)]).into_iter().map(|plot| plot.title).collect();
        assert!(
            titles.iter().any(|title| title.contains("allocstall"))
                && !titles.iter().any(|title| title.contains("huge page so"))
        );
        let mut long = facts();
        long.samples = (0..1001).map(|time| Sample { time, ..long.samples[0].clone() }).collect();
        let thinned = super::moments(&long);
        assert!(thinned.len() <= POINTS_MAX);
        assert_eq!(thinned.last().map(|moment| moment.seconds), Some(seconds(1000)));
    }
}
