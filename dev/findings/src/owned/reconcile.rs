//! The proposal's own figure for throughput beside ours: the plan that is nearest to its test, simulated again and
//! again while CPUs have more to do beside the allocator. The gain shrinks with the load on the zone lock; what is told
//! is where it is as small as the author's.

use freehold_report::number;

use super::sentences::{median, nearest};
use crate::markup::{list, table};
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::SimReport;
use freehold_sim::report::{judge, measures};

/// The plan, the value of its swept parameter that is kept, and the number of CPUs.
const PLAN: &str = "purge";
const KEPT: &str = "100";
const CPUS: u16 = 32;
/// What a CPU computes before it asks for a page, in ns. The first is the plan's own.
const THINK_NS: [u64; 8] = [500, 1000, 1500, 2000, 3000, 4000, 8000, 16_000];
/// The plan's warm-up and duration at the first of these. They grow with it, so that as much is allocated in each.
const WINDOW_MS: [u64; 2] = [4, 8];
/// What the author measured: so much more throughput.
const AUTHORS_GAIN: f64 = 0.01;
/// Zone locks that are held for as much of the time limit what can be done.
const SATURATED: f64 = 0.95;

/// The plan under one load.
#[derive(Debug)]
pub struct Load {
    think_ns: u64,
    window_ms: [u64; 2],
    report: SimReport,
}

/// Simulates every load. `changed` may shorten a plan.
///
/// # Errors
/// The first that a plan or a run has.
pub fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Vec<Load>, Error> {
    let load = |think_ns| {
        let window_ms = WINDOW_MS.map(|ms| ms * think_ns / THINK_NS[0]);
        let [warmup_ms, duration_ms] = window_ms;
        let set = [("workload.think_ns", think_ns), ("warmup_ms", warmup_ms), ("duration_ms", duration_ms)];
        let set = set.map(|(key, value)| format!("{key}={value}")).to_vec();
        let mut plan = changed(Plan::open(PLAN, &Changes { set, cpus: vec![CPUS], ..Changes::default() })?);
        plan.points.retain(|point| point.value.as_deref() == Some(KEPT));
        Ok(Load { think_ns, window_ms, report: SimReport::simulate(plan, costs)? })
    };
    THINK_NS.into_iter().map(load).collect()
}

impl Load {
    fn of(&self, measure: &measures::Measure, policy: usize) -> f64 {
        median(&self.report, measure, 0, nearest(&self.report.plan.cpus, CPUS), policy)
    }

    /// By how much a policy does more than policy A.
    fn gain(&self, policy: usize) -> f64 {
        self.of(&measures::THROUGHPUT, policy) / self.of(&measures::THROUGHPUT, 0) - 1.0
    }

    /// The share of the time for which some CPU holds a zone lock.
    fn held(&self, policy: usize) -> f64 {
        self.of(&measures::THROUGHPUT, policy) * self.of(&measures::ZONE_HOLD, policy) / 1e12
    }

    fn standing(&self, policy: usize) -> Standing {
        Standing { gain: self.gain(policy), share: self.of(&measures::ALLOCATOR, 0), held: self.held(0) }
    }

    fn row(&self) -> Vec<String> {
        let shares = [measures::ZONE_WAIT, measures::ALLOCATOR, measures::IDLE];
        let mut cells = vec![number::count(self.think_ns), self.window_ms.map(|ms| ms.to_string()).join(" + ")];
        cells.push(measures::THROUGHPUT.text(self.of(&measures::THROUGHPUT, 0)));
        cells.push(number::percent(self.held(0)));
        cells.extend(shares.map(|measure| measure.text(self.of(&measure, 0))));
        cells.extend((1..self.report.plan.policies.len()).map(|policy| number::change(Some(self.gain(policy)))));
        cells
    }
}

/// The table of loads.
pub fn loads(loads: &[Load]) -> String {
    let Some(first) = loads.first() else { return String::new() };
    let mut header: Vec<String> =
        ["think, ns", "window, ms", "M operations/s", "zone lock held", "waiting", "in the allocator", "idle"]
            .map(str::to_owned)
            .to_vec();
    header.extend((1..first.report.plan.policies.len()).map(|policy| format!("`{}`", first.report.label(policy))));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let command = format!(
        "Each row is the part for bursts of {KEPT} % of `freehold sim {PLAN} --cpus {CPUS} --set workload.think_ns=THINK --set \
         warmup_ms=WARMUP --set duration_ms=DURATION`, with its think and window. Columns up to `idle` are those of `{}`; in the others stands by how much a policy does more.",
        first.report.plan.policies[0].name
    );
    format!("{command}\n\n{}", table(&header, loads.iter().map(Load::row)))
}

/// What the table says about the author's figure and ours.
pub fn meaning(loads: &[Load]) -> String {
    let Some(own) = loads.first() else { return String::new() };
    let a = &own.report.plan.policies[0].name;
    let percent = |measure: &measures::Measure| measure.text(own.of(measure, 0));
    let load = format!(
        "At the plan's own load `{a}` holds a zone lock for {} of the time, and its CPUs are idle for {}, since those that free \
         cannot keep up. They spend {} in the allocator, of which waiting for the lock is {}.{}",
        number::percent(own.held(0)),
        percent(&measures::IDLE),
        percent(&measures::ALLOCATOR),
        percent(&measures::ZONE_WAIT),
        if own.held(0) >= SATURATED {
            " So what is gained there is not what the allocator costs, but the distance between what one lock lets through and what \
             the CPUs could do."
        } else {
            ""
        },
    );
    let author = format!(
        "The author's {} means that {} of all CPU time was saved, if his CPUs were busy. What share the allocator had in his test \
         was not published; it was at least that. A gain of this size lies within the {} % up to which this page sees no difference.",
        number::change(Some(AUTHORS_GAIN)),
        number::percent(1.0 - 1.0 / (1.0 + AUTHORS_GAIN)),
        judge::MARGIN * 100.0,
    );
    let policies = 1..own.report.plan.policies.len();
    let shares = policies.map(|policy| {
        let name = own.report.label(policy);
        let standings: Vec<_> = loads.iter().map(|load| load.standing(policy)).collect();
        match crossing(&standings) {
            Some(Standing { share, held, .. }) => format!(
                "`{name}` gains as little as that where `{a}` spends {} of CPU time in the allocator and holds a zone lock for {} of \
                 the time, read off between two rows.",
                number::percent(share),
                number::percent(held),
            ),
            None => format!("`{name}` does not come down to that in this table."),
        }
    });
    list([load, author].into_iter().chain(shares))
}

/// How a policy stands against policy A under one load, and what policy A's load is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Standing {
    gain: f64,
    share: f64,
    held: f64,
}

/// Where a gain first comes down to the author's: on the straight line between two loads.
fn crossing(standings: &[Standing]) -> Option<Standing> {
    let comes_down = |pair: &&[Standing]| pair[0].gain > AUTHORS_GAIN && pair[1].gain <= AUTHORS_GAIN;
    let &[before, after] = standings.windows(2).find(comes_down)? else { return None };
    let way = (before.gain - AUTHORS_GAIN) / (before.gain - after.gain);
    let between = |from: f64, to: f64| from + (to - from) * way;
    let (share, held) = (between(before.share, after.share), between(before.held, after.held));
    Some(Standing { gain: AUTHORS_GAIN, share, held })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(gain: f64, share: f64, held: f64) -> Standing {
        Standing { gain, share, held }
    }

    #[test]
    fn a_crossing_lies_between_the_two_loads_around_it() {
        let loads = [standing(1.5, 0.3, 1.0), standing(0.03, 0.04, 0.6), standing(0.0, 0.01, 0.3)];
        let found = crossing(&loads).unwrap();
        assert!((found.share - 0.02).abs() < 1e-9 && (found.held - 0.4).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_gain_that_stays_large_or_is_small_from_the_start_crosses_nowhere() {
        assert_eq!(crossing(&[standing(1.5, 0.3, 1.0), standing(0.5, 0.1, 0.5)]), None);
        assert_eq!(crossing(&[standing(0.0, 0.3, 1.0), standing(0.0, 0.1, 0.5)]), None);
        assert_eq!(crossing(&[]), None);
    }
}
