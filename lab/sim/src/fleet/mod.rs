//! A fleet: many hosts of one plan, each simulated under policy A and under each policy B.
//!
//! The effect of a policy may differ from machine to machine. So the hosts differ, by their seeds and by the values
//! that each [draws](crate::plan::draws) for parameters of the plan. The result is about all hosts ([`judge`]): a value
//! with its interval, and the difference to policy A on the same hosts. Runs are independent and are done in
//! [parallel]. Each finished run is saved ([`state`]), so an interrupted fleet can be continued.

mod document;
pub mod fingerprint;
pub mod host;
mod json;
pub mod judge;
pub mod measures;
pub mod report;
mod spec;
mod spread;
pub mod state;
mod tables;
mod verdict;

use fingerprint::Fingerprint;
use freehold_policies::NamedPolicy;
use freehold_report::parallel;
use freehold_report::progress::Progress;
use freehold_report::{notes, observer};
use host::{Host, HostResult};
use report::FleetReport;
use serde::Serialize;
use state::{Header, Place, State};

use crate::costs::Costs;
use crate::error::Error;
use crate::meter;
use crate::plan::{Plan, Point};
use crate::run::RunError;

pub use spec::{Fleet, HOSTS_MAX};

/// All inputs of a run except its host and policy.
#[derive(Serialize)]
struct Question<'f> {
    text: &'f str,
    changes: &'f [String],
    points: &'f [Point],
    cpus: &'f [u16],
    costs: &'f Costs,
    seed: u64,
}

impl Fleet {
    /// Simulates every host under every policy. Skips runs that were done before.
    ///
    /// # Errors
    /// Returns an error if there is too little memory, if a run fails, or if the state cannot be read or written.
    pub fn simulate(self, place: &Place) -> Result<(FleetReport, State), Error> {
        let hosts: Vec<Host> =
            (1..=self.hosts).map(|number| Host::draw(&self.plan, self.seed, number)).collect::<Result<_, _>>()?;
        let runs = hosts.iter().flat_map(|host| self.plan.policies.iter().map(move |_| host));
        let needs = runs.map(|host| meter::need(&host.machine(), host.cpus)).collect();
        meter::expect_room(needs, parallel::at_once()).map_err(RunError::Room)?;
        let state = State::open(place, &self.header()?)?;
        let results = self.results(&hosts, &state)?;
        Ok((FleetReport::new(self, hosts, results), state))
    }

    /// Returns the results of each host, one for each policy. Runs that the state has are not done again.
    fn results(&self, hosts: &[Host], state: &State) -> Result<Vec<Vec<HostResult>>, Error> {
        let policies = &self.plan.policies;
        let runs: Vec<(&Host, &NamedPolicy)> =
            hosts.iter().flat_map(|host| policies.iter().map(move |policy| (host, policy))).collect();
        let done: Vec<Option<&HostResult>> =
            runs.iter().map(|(host, policy)| state.get(host.number, &policy.name)).collect();
        let open: Vec<usize> = (0..runs.len()).filter(|&run| done[run].is_none()).collect();
        print_kept_runs(runs.len(), open.len(), state);
        let weight = open.iter().map(|&run| meter::weight(runs[run].0.cpus, runs[run].0.window())).sum();
        let progress = Progress::weighing(self.plan.name.as_str(), weight);
        let new = parallel::run_all(open.len(), |index| {
            let (host, policy) = runs[open[index]];
            let result = host.run(policy.policy, &self.costs, &progress)?;
            state.keep(host.number, &policy.name, &result)?;
            Ok::<_, Error>(result)
        })?;
        let mut new = new.into_iter();
        let mut results = Vec::with_capacity(runs.len());
        for known in done {
            results.push(known.cloned().or_else(|| new.next()).expect("every missing run has a new result"));
        }
        Ok(results.chunks(policies.len()).map(<[HostResult]>::to_vec).collect())
    }

    fn header(&self) -> Result<Header, Error> {
        let Plan { text, changes, points, cpus, .. } = &self.plan;
        let question = Question { text, changes, points, cpus, costs: &self.costs, seed: self.seed };
        let question_json = serde_json::to_vec(&question).expect("a plan serializes to JSON");
        let policies: Vec<String> = self.plan.policies.iter().map(|policy| policy.name.clone()).collect();
        Header::new(&self.plan.name, Fingerprint::default().with(question_json), &policies)
    }
}

/// Prints a line on stderr: how many runs are done already, or the file in which finished runs are kept. Prints nothing
/// if no run is left to do, if there is no file, or if an observer watches this process.
fn print_kept_runs(runs: usize, open: usize, state: &State) {
    let is_printed = open > 0 && !observer::is_watched();
    let Some(path) = state.path().map(|path| path.display()).filter(|_| is_printed) else { return };
    if open < runs {
        notes::print(&format!("{} of {runs} runs are already in {path}", runs - open));
    } else {
        notes::print(&format!(
            "finished runs are kept in {path}; after an interruption, run the same command again to resume"
        ));
    }
}
