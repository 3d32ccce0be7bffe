//! The course of a recording as plots: what its samples show of free memory, reclaim and stalls.
//!
//! The lines of one recording stand in plots of their own; those of several in the same plots, each under its name.

use freehold_report::report::plot::{Plot, PlotLine, Scale, Shape};
use freehold_trace::Facts;
use freehold_trace::facts::Sample;
use serde::Serialize;

use super::machine::{free_blocks, pages, seconds};

/// Order of a huge page.
const HUGE_ORDER: usize = 9;
/// Points of a line, at most: about every so many-th sample of a longer recording.
const POINTS_MAX: usize = 200;

/// What samples say at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Seconds since the start.
    pub seconds: f64,
    /// Free blocks by order, in all zones.
    pub free_blocks: Vec<u64>,
    /// Pages that kswapd and requests have looked at since the start.
    pub pgscan: u64,
    /// Requests that have reclaimed for themselves since then.
    pub allocstall: u64,
    /// Requests that have compacted for themselves.
    pub compact_stall: u64,
    /// Faults that got a huge page.
    pub thp_fault_alloc: u64,
    /// Microseconds for which some task waited for memory; none where the kernel does not tell.
    pub pressure_us: Option<u64>,
}

/// The course of a recording.
pub fn of(facts: &Facts) -> Vec<Moment> {
    let Some(first) = facts.samples.first() else { return Vec::new() };
    let step = facts.samples.len().div_ceil(POINTS_MAX).max(1);
    let last = facts.samples.len() - 1;
    let shown = facts.samples.iter().enumerate().filter(|(at, _)| (last - at).is_multiple_of(step));
    shown.map(|(_, sample)| moment(facts, first, sample)).collect()
}

fn moment(facts: &Facts, first: &Sample, now: &Sample) -> Moment {
    let since = |names: &[&str]| {
        let moved = |(at, name): (usize, &String)| {
            let is_wanted =
                names.iter().any(|wanted| name == wanted || (wanted.ends_with('_') && name.starts_with(wanted)));
            let value = |sample: &Sample| sample.vmstat.get(at).copied().unwrap_or(0);
            is_wanted.then(|| value(now).saturating_sub(value(first)))
        };
        facts.vmstat_names.iter().enumerate().filter_map(moved).sum()
    };
    let pressure = facts.pressure_names.iter().position(|name| name == "memory.some");
    let waited = |at: usize| Some(now.pressure.get(at)?.saturating_sub(*first.pressure.get(at)?));
    Moment {
        seconds: seconds(now.time),
        free_blocks: free_blocks(now),
        pgscan: since(&["pgscan_kswapd", "pgscan_direct"]),
        allocstall: since(&["allocstall_"]),
        compact_stall: since(&["compact_stall"]),
        thp_fault_alloc: since(&["thp_fault_alloc"]),
        pressure_us: pressure.and_then(waited),
    }
}

/// The plots of recordings by name, those in which anything happens.
pub fn plots(recordings: &[(&str, &[Moment])]) -> Vec<Plot> {
    let mut plots: Vec<Plot> = recordings.iter().map(|(name, moments)| by_order(name, moments)).collect();
    let whole = |moment: &Moment, order: usize| pages(&moment.free_blocks, order);
    let lines = |title: &str, unit: &'static str, caption: &str, value: &dyn Fn(&Moment) -> Option<f64>| {
        let point = |moment: &Moment| Some((moment.seconds, value(moment)?));
        let line =
            |(name, moments): &(&str, &[Moment])| PlotLine::new(*name, moments.iter().filter_map(point).collect());
        let (title, caption) = (title.to_owned(), caption.to_owned());
        Plot { title, unit: unit.into(), caption, lines: recordings.iter().map(line).collect(), ..in_time() }
    };
    plots.extend([
        lines("free pages", "pages", "In all zones together.", &|moment| Some(whole(moment, 0) as f64)),
        lines("free pageblocks", "pageblocks", "What huge pages can be made of without moving anything.", &|moment| {
            Some((whole(moment, HUGE_ORDER) >> HUGE_ORDER) as f64)
        }),
        lines("pages that reclaim looked at so far", "pages", "By kswapd and by requests together.", &|moment| {
            Some(moment.pgscan as f64)
        }),
        lines(
            "allocstall so far",
            "requests",
            "The kernel's counter of requests that began to reclaim; each of them waited.",
            &|moment| Some(moment.allocstall as f64),
        ),
        lines(
            "requests that compacted for themselves so far",
            "requests",
            "Each of them waited for a block.",
            &|moment| Some(moment.compact_stall as f64),
        ),
        lines("faults that got a huge page so far", "faults", "As the kernel counts them.", &|moment| {
            Some(moment.thp_fault_alloc as f64)
        }),
        lines(
            "seconds in which some task waited for memory",
            "seconds",
            "The kernel's pressure stall information (PSI): the steeper, the worse.",
            &|moment| Some(moment.pressure_us? as f64 / 1e6),
        ),
    ]);
    plots.retain(|plot| plot.lines.iter().flat_map(|line| &line.points).any(|point| point.1 != 0.0));
    plots
}

fn by_order(name: &str, moments: &[Moment]) -> Plot {
    let orders = moments.first().map_or(0, |moment| moment.free_blocks.len());
    let line = |order: usize| {
        let point = |moment: &Moment| {
            let blocks = moment.free_blocks.get(order).copied().unwrap_or(0);
            (moment.seconds, blocks as f64 * (1_u64 << order.min(63)) as f64)
        };
        PlotLine::new(format!("order {order}"), moments.iter().map(point).collect())
    };
    Plot {
        title: format!("free pages by order, {name}"),
        caption: "All free pages of the zones, by the order of the block that they lie in: the brighter, the larger."
            .to_owned(),
        unit: "pages".into(),
        shape: Shape::Stacked,
        lines: (0..orders).map(line).collect(),
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
        let sample = |time, free, vmstat: [u64; 3]| Sample {
            time,
            buddyinfo: vec![vec![free, 1]],
            vmstat: vmstat.to_vec(),
            pressure: vec![free],
            ..Sample::default()
        };
        Facts {
            vmstat_names: ["allocstall_normal", "allocstall_movable", "pgfree"].map(str::to_owned).to_vec(),
            pressure_names: vec!["memory.some".to_owned()],
            samples: vec![sample(0, 5, [1, 1, 9]), sample(2_000_000_000, 9, [4, 2, 99])],
            ..Facts::default()
        }
    }

    #[test]
    fn counters_are_told_since_the_start() {
        let moments = of(&facts());
        assert_eq!((moments[1].seconds, moments[1].allocstall, moments[1].pressure_us), (2.0, 4, Some(4)));
        assert_eq!((moments[0].allocstall, &moments[1].free_blocks), (0, &vec![9, 1]));
    }

    #[test]
    fn what_never_happens_has_no_plot_and_a_long_recording_keeps_its_last_sample() {
        let moments = of(&facts());
        let titles: Vec<String> = plots(&[("a", &moments)]).into_iter().map(|plot| plot.title).collect();
        assert!(
            titles.iter().any(|title| title.contains("allocstall"))
                && !titles.iter().any(|title| title.contains("huge page so"))
        );
        let mut long = facts();
        long.samples = (0..1001).map(|time| Sample { time, ..long.samples[0].clone() }).collect();
        let moments = of(&long);
        assert!(moments.len() <= POINTS_MAX);
        assert_eq!(moments.last().map(|moment| moment.seconds), Some(seconds(1000)));
    }
}
