//! Views of replays: plots of the course, and a map of memory.
//!
//! Lines of the recorded kernel come from its samples, if the recording has any. Lines of policies come from evenly
//! spaced moments. Plots without any nonzero value are left out.

use freehold_report::report::map::{MemoryMap, Side};
use freehold_report::report::plot::{Axis, Plot, PlotLine, Scale, Shape};

use super::course::{Course, Divergence, Moment, StallTimes};

/// Name of the recorded kernel in legends.
const RECORDED: &str = "recorded kernel";

/// One recording under some policies.
pub struct CourseView<'s> {
    /// Short name of the recording.
    pub recording: &'s str,
    /// The replay under each policy.
    pub sides: &'s [PolicyCourse<'s>],
}

/// The course of a replay under one policy.
pub struct PolicyCourse<'s> {
    /// Name of the policy.
    pub name: &'s str,
    /// Course of the replay.
    pub course: &'s Course,
}

impl CourseView<'_> {
    /// Returns the plots that have a nonzero value.
    pub fn plots(&self) -> Vec<Plot> {
        let mut plots: Vec<Plot> = self.sides.iter().map(|side| self.free_by_order(side)).collect();
        plots.extend([
            self.over_time(
                "free pageblocks",
                "pageblocks",
                "Free whole pageblocks: a huge page can be allocated from each without compaction.",
                |moment| whole(moment, 9),
                Some(|moment| moment.free_pageblocks.recorded),
            ),
            self.over_time(
                "free pages",
                "pages",
                "Under the rules of the recorded kernel, the line of a replay should match the recorded line.",
                |moment| whole(moment, 0),
                Some(|moment| moment.free_pages.recorded),
            ),
            self.over_time(
                "zone lock acquisitions so far",
                "acquisitions",
                "The slope of a line is the rate at which CPUs take the zone lock.",
                |moment| moment.zone_lock_acquisitions,
                None,
            ),
            self.over_time(
                "huge pages served so far",
                "huge pages",
                "Requests for a huge page that were served with one.",
                |moment| moment.huge_pages_served,
                None,
            ),
            self.over_time(
                "pages scanned by reclaim so far",
                "pages",
                "Scanned by kswapd and by requests. Where a line is flat, reclaim does not run.",
                |moment| moment.pgscan,
                Some(|moment| moment.scanned_by_kswapd.recorded + moment.scanned_by_requests.recorded),
            ),
            self.over_time(
                "direct reclaims so far",
                "requests",
                "Each of these requests waited while it reclaimed memory.",
                |moment| moment.allocstall,
                Some(|moment| moment.stalls.recorded),
            ),
            self.stalls(),
        ]);
        plots.retain(|plot| plot.lines.iter().flat_map(|line| &line.points).any(|point| point.1 != 0.0));
        plots
    }

    /// Returns the map, if memory was watched in all replays.
    pub fn map(&self) -> Option<MemoryMap> {
        let first = self.sides.first()?;
        let frame = first.course.watched.as_ref()?;
        let sides = self.sides.iter().map(|side| {
            let watched = side.course.watched.as_ref()?;
            Some(Side { name: side.name.to_owned(), ..watched.side.clone() })
        });
        Some(MemoryMap {
            of: self.recording.to_owned(),
            note: String::new(),
            block_pages: frame.block_pages,
            stretches: frame.stretches.clone(),
            moments: first.course.moments.iter().map(|moment| moment.time).collect(),
            sides: sides.collect::<Option<_>>()?,
        })
    }

    fn free_by_order(&self, side: &PolicyCourse<'_>) -> Plot {
        let orders = side.course.moments.first().map_or(0, |moment| moment.free_blocks.len());
        let lines = (0..orders).map(|order| {
            let points = side.course.moments.iter().map(|moment| {
                let pages = moment.free_blocks[order] << order;
                (seconds(moment.time), pages as f64)
            });
            PlotLine::new(format!("order {order}"), points.collect())
        });
        Plot {
            caption: "Free pages of all zones by the order of their block. A brighter colour is a higher order."
                .to_owned(),
            unit: "pages".into(),
            shape: Shape::Stacked,
            lines: lines.collect(),
            ..self.in_time(format!("free pages by order, {}", side.name))
        }
    }

    fn over_time(
        &self,
        title: &str,
        unit: &'static str,
        caption: &str,
        value: fn(&Moment) -> u64,
        recorded: Option<fn(&Divergence) -> u64>,
    ) -> Plot {
        let kernel = self.sides.first().zip(recorded).map(|(side, recorded)| {
            let moments = side.course.divergence.iter();
            PlotLine::new(RECORDED, moments.map(|moment| (seconds(moment.time), recorded(moment) as f64)).collect())
        });
        let replays = self.sides.iter().map(|side| {
            let moments = side.course.moments.iter();
            PlotLine::new(side.name, moments.map(|moment| (seconds(moment.time), value(moment) as f64)).collect())
        });
        Plot {
            unit: unit.into(),
            caption: caption.to_owned(),
            lines: kernel.into_iter().chain(replays).collect(),
            ..self.in_time(title.to_owned())
        }
    }

    fn in_time(&self, title: String) -> Plot {
        Plot { title, of: self.recording.to_owned(), along: "seconds".into(), scale: Scale::Even, ..Plot::default() }
    }

    /// Returns the plot of stall times, with a bar for each quantile.
    fn stalls(&self) -> Plot {
        let known: Vec<_> =
            self.sides.iter().filter_map(|side| Some((side.name, side.course.stalls.as_ref()?))).collect();
        let recorded = known.first().map(|(_, stalls)| quantiles(RECORDED, &stalls.recorded));
        Plot {
            title: "stall times of requests, in ms".to_owned(),
            caption:
                "Requests that reclaimed or compacted. Half of them stalled for at most the median, nine of ten for at \
                      most p90."
                    .to_owned(),
            unit: "ms".into(),
            along: "requests".into(),
            scale: Scale::Named(["median", "p90", "p99", "longest"].map(str::to_owned).to_vec()),
            axis: Axis::Logarithmic,
            shape: Shape::Bars,
            lines: recorded
                .into_iter()
                .chain(known.iter().map(|(name, stalls)| quantiles(name, &stalls.replayed)))
                .collect(),
            ..self.in_time(String::new())
        }
    }
}

/// Returns the quantiles of stall times as a line of a plot.
fn quantiles(name: &str, times: &StallTimes) -> PlotLine {
    let quantiles = [times.median, times.p90, times.p99, times.max];
    let points = (0..).zip(quantiles).map(|(index, ns): (u32, u64)| (f64::from(index), ns as f64 / 1e6));
    PlotLine::new(name, points.collect())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns the free memory in blocks of this order or more, in blocks of this order.
fn whole(moment: &Moment, order: usize) -> u64 {
    let blocks = moment.free_blocks.iter().enumerate().skip(order);
    blocks.map(|(of, blocks)| blocks << (of - order)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::course::{Pair, Stalls};
    use super::*;

    fn course(pgscan: u64) -> Course {
        let moments =
            [0, 1_500_000_000].map(|time| Moment { time, free_blocks: vec![1; 11], pgscan, ..Moment::default() });
        let recorded = Divergence { time: 5, free_pageblocks: Pair::new(7, 3), ..Divergence::default() };
        Course { moments: moments.to_vec(), divergence: vec![recorded], ..Course::default() }
    }

    fn plots(course: &Course) -> Vec<Plot> {
        let side = PolicyCourse { name: "linux-6.12", course };
        CourseView { recording: "build", sides: &[side] }.plots()
    }

    #[test]
    fn orders_are_stacked_in_the_free_memory_plot() {
        let plots = plots(&course(0));
        assert_eq!((plots[0].shape, plots[0].lines.len()), (Shape::Stacked, 11));
        assert_eq!(plots[0].lines[10].points[1], (1.5, 1024.0));
        let blocks = &plots[1].lines;
        assert_eq!((blocks[0].name.as_str(), blocks[0].points[0].1, blocks[1].points[0].1), (RECORDED, 7.0, 3.0));
    }

    fn titles(course: &Course) -> Vec<String> {
        plots(course).into_iter().map(|plot| plot.title).collect()
    }

    #[test]
    fn plots_without_events_are_omitted() {
        assert!(!titles(&course(0)).iter().any(|title| title.contains("reclaim")));
        assert!(titles(&course(9)).iter().any(|title| title.contains("scanned by reclaim")));
        let stalls = Stalls { recorded: StallTimes::from_stalls(vec![1_000_000]), ..Stalls::default() };
        let with = Course { stalls: Some(stalls), ..course(0) };
        assert!(titles(&with).iter().any(|title| title.contains("stall times")));
    }
}
