//! The author's own case beside the simulation: a kernel build with the author's number of CPUs and amount of memory.
//!
//! The author published the saving in system time, but a simulation knows only the time of the page allocator. The
//! allocator's share of system time is measured in a real build and scaled to more CPUs by the simulation. The table
//! shows it beside the share that the author's figure would require.
//!
//! The builds are simulated by the plan of a build and by the recording of a build. The recording is played at its own
//! pace and faster, because it is unknown how busy the author's CPUs kept the allocator.

use freehold_report::number;
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::SimReport;
use freehold_sim::report::measures;

use super::costs::per_operation;
use freehold_report::data_table::DataTable;

/// CPUs and memory of the author's machine, and the CPUs of the real builds.
const CPUS: u16 = 32;
const MEMORY: &str = "32GiB";
const CPUS_OF_REAL_BUILD: u16 = 2;
/// Paces of the recorded build, in percent. Window: ms of the recording that are played before and during the
/// measurement.
const PACE_PERCENTS: [u64; 3] = [100, 1000, 2000];
const WINDOW_MS: [u64; 2] = [300, 600];
/// Range of the author's measured saving, as a share of system time.
const AUTHORS_SAVING: [f64; 2] = [0.03, 0.04];
/// The page allocator's share of the system time of a real build, as measured by `recordings/system-time.sh`.
const MEASURED_SHARE: f64 = 0.085;

/// Build on the author's machine.
#[derive(Debug)]
pub(super) struct Build {
    /// Plan and its settings, for the table.
    words: String,
    report: SimReport,
}

/// Simulates the builds. `changed` may shorten a plan.
///
/// # Errors
/// Returns the first error of a plan or a run.
pub(super) fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Vec<Build>, Error> {
    let loads =
        [("build", Vec::new())].into_iter().chain(PACE_PERCENTS.map(|percent| ("recording", pace_settings(percent))));
    loads
        .map(|(plan, set)| {
            let words = [plan.to_owned()].into_iter().chain(set.iter().map(|change| format!("--set {change}")));
            let words = words.collect::<Vec<_>>().join(" ");
            let cpus = vec![CPUS_OF_REAL_BUILD, CPUS];
            let plan = Plan::open(plan, &Changes { set, cpus, memory: Some(MEMORY.to_owned()), ..Changes::default() })?;
            Ok(Build { words, report: SimReport::simulate(changed(plan), costs)? })
        })
        .collect()
}

/// Returns the settings of a pace. The window shrinks with the pace, so that the same part of the recording is played.
fn pace_settings(percent: u64) -> Vec<String> {
    let [warmup, duration] = WINDOW_MS.map(|ms| ms * 100 / percent);
    vec![format!("workload.pace_percent={percent}"), format!("warmup_ms={warmup}"), format!("duration_ms={duration}")]
}

impl Build {
    /// Returns the nanoseconds that an operation spends in the allocator.
    fn in_allocator(&self, cpus: u16, policy: usize) -> f64 {
        per_operation(&self.report, &measures::ALLOCATOR, 0, cpus, policy)
    }

    /// Returns the share of its allocator time that a policy saves compared with policy A.
    fn saved(&self, policy: usize) -> f64 {
        1.0 - self.in_allocator(CPUS, policy) / self.in_allocator(CPUS, 0)
    }

    /// Returns the measured share, scaled to the author's CPUs. The allocator's time grows as in the simulation, and
    /// all other time stays constant.
    fn share(&self) -> f64 {
        scale_share(MEASURED_SHARE, self.in_allocator(CPUS, 0) / self.in_allocator(CPUS_OF_REAL_BUILD, 0))
    }

    fn row(&self, policy: usize) -> Vec<String> {
        let (ns, saved, share) = (self.in_allocator(CPUS, policy), self.saved(policy), self.share());
        let [change_of_allocator, change_of_build] =
            [saved, saved * share].map(|saved| if policy == 0 { String::new() } else { number::change(Some(-saved)) });
        let (own, author) = match policy {
            0 => (number::percent(share), String::new()),
            _ => (String::new(), required_share(saved)),
        };
        let name = format!("`{}`", self.report.label(policy));
        vec![format!("`{}`", self.words), name, number::decimal(ns), change_of_allocator, own, change_of_build, author]
    }
}

/// Returns a share after its part grows by a factor while the rest stays constant.
fn scale_share(share: f64, factor: f64) -> f64 {
    share * factor / (share * factor + 1.0 - share)
}

/// Formats the share of system time that the allocator must have for a saving to equal the author's figure.
fn required_share(saved: f64) -> String {
    match AUTHORS_SAVING.map(|saving| saving / saved) {
        [least, most] if saved > 0.0 && least <= 1.0 => {
            format!("{} to {}", number::percent(least), number::percent(most.min(1.0)))
        }
        _ => "above 100 %".to_owned(),
    }
}

/// Makes the table of the allocator time that each policy saves, and of the resulting change in system time.
pub(super) fn savings(builds: &[Build]) -> DataTable {
    let header = [
        "build",
        "policy",
        "ns an operation in the allocator",
        "change",
        "allocator's share of system time",
        "change of system time",
        "share needed for the author's figure",
    ];
    let rows = builds.iter().flat_map(|build| {
        let policies = 0..build.report.plan.policies.len();
        policies.map(|policy| build.row(policy))
    });
    DataTable::new(header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_share_stays_below_one() {
        assert!((scale_share(0.1, 1.0) - 0.1).abs() < 1e-12);
        assert!((scale_share(0.1, 9.0) - 0.5).abs() < 1e-12);
        assert!(scale_share(0.5, 1e9) < 1.0);
    }

    #[test]
    fn a_small_saving_cannot_reach_the_authors_figure() {
        assert_eq!(required_share(0.3), "10.0 % to 13.3 %");
        assert_eq!(required_share(0.035), "85.7 % to 100.0 %");
        assert_eq!([required_share(0.02), required_share(0.0), required_share(-0.1)], ["above 100 %"; 3]);
    }
}
