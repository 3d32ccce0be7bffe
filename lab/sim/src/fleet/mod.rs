//! A fleet: many hosts of one plan, each under policy A and under each policy B.
//!
//! A question about a policy may have one answer on a machine and another on the next. So hosts differ, in what chance
//! does on them and in what each [draws](crate::plan::draws) of the plan's parameters, and the answer is one about all
//! of them ([`judge`]): a number with its interval, and the difference to policy A on the same hosts. Runs know nothing
//! of each other and are done in [parallel]; each that ends is written down ([`state`]), so that an interrupted fleet
//! goes on where it was.

pub mod fingerprint;
pub mod host;
pub mod judge;
pub mod measures;
pub mod report;
mod spread;
pub mod state;
mod tables;
mod verdict;

use fingerprint::Fingerprint;
use freehold_report::observer;
use freehold_report::parallel;
use freehold_report::progress::Progress;
use host::{Host, HostResult};
use report::FleetReport;
use serde::Serialize;
use state::{Header, Place, State};

use crate::costs::Costs;
use crate::error::Error;
use crate::meter;
use crate::plan::{Plan, Point};
use crate::run::RunError;

/// Most hosts that a fleet may have.
pub const HOSTS_MAX: u32 = 10_000;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// What happens on a host, and the policies.
    pub plan: Plan,
    /// What steps cost.
    pub costs: Costs,
    /// How many hosts there are.
    pub hosts: u32,
    /// What chance decides on all of them.
    pub seed: u64,
}

/// Everything that decides a run but its host and policy.
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
    /// A fleet of this plan, on one number of CPUs.
    ///
    /// # Errors
    /// When the plan has several numbers of CPUs, or sweeps a parameter.
    pub fn new(plan: Plan, costs: Costs, hosts: u32, seed: u64) -> Result<Fleet, Error> {
        let name = &plan.name;
        if plan.cpus.len() > 1 {
            let cpus = plan.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::Input(format!(
                "the plan {name} is for {cpus} CPUs, but the hosts of a fleet all have the same number; choose one with --cpus"
            )));
        }
        if let Some(key) = &plan.swept {
            return Err(Error::Input(format!(
                "the plan {name} sweeps `{key}`, but a fleet stands for one value of it; take out its table [sweep]"
            )));
        }
        Ok(Fleet { plan, costs, hosts, seed })
    }

    /// Simulates every host under every policy, but what has been done before.
    ///
    /// # Errors
    /// When there is too little memory, a run breaks down, or what was done cannot be read or written down.
    pub fn simulate(self, place: &Place) -> Result<(FleetReport, State), Error> {
        let hosts = (1..=self.hosts).map(|number| Host::draw(&self.plan, self.seed, number));
        let hosts = hosts.collect::<Result<Vec<Host>, _>>()?;
        let runs = hosts.iter().flat_map(|host| self.plan.policies.iter().map(move |_| host));
        let needs = runs.map(|host| meter::need(&host.machine(), host.cpus)).collect();
        meter::expect_room(needs, parallel::at_once()).map_err(RunError::Room)?;
        let state = State::open(place, &self.header()?)?;
        let results = self.results(&hosts, &state)?;
        Ok((FleetReport::new(self, hosts, results), state))
    }

    /// One result a host and policy, policies of a host beside each other.
    fn results(&self, hosts: &[Host], state: &State) -> Result<Vec<Vec<HostResult>>, Error> {
        let policies = &self.plan.policies;
        let runs = hosts.len() * policies.len();
        let run_of = |number: usize| (&hosts[number / policies.len()], &policies[number % policies.len()]);
        let done = |number| {
            let (host, policy) = run_of(number);
            state.get(host.number, &policy.name)
        };
        let open: Vec<usize> = (0..runs).filter(|&number| done(number).is_none()).collect();
        say_what_is_kept(runs, open.len(), state);
        let host_of = |number: &usize| run_of(*number).0;
        let all = open.iter().map(host_of).map(|host| meter::weight(host.cpus, host.window())).sum();
        let progress = Progress::weighing(self.plan.name.as_str(), all);
        let new = parallel::run_all(open.len(), |index| {
            let (host, policy) = run_of(open[index]);
            let result = host.run(policy.policy, &self.costs, &progress)?;
            state.keep(host.number, &policy.name, &result)?;
            Ok::<_, Error>(result)
        })?;
        let mut new = new.into_iter();
        let mut result = |number| done(number).cloned().or_else(|| new.next()).expect("what was not done is done now");
        let mut of_host = |host| (0..policies.len()).map(|policy| result(host * policies.len() + policy)).collect();
        Ok((0..hosts.len()).map(&mut of_host).collect())
    }

    fn header(&self) -> Result<Header, Error> {
        let Plan { text, changes, points, cpus, .. } = &self.plan;
        let question = Question { text, changes, points, cpus, costs: &self.costs, seed: self.seed };
        let question = serde_json::to_vec(&question).expect("a plan is plain data");
        let policies: Vec<String> = self.plan.policies.iter().map(|policy| policy.name.clone()).collect();
        Header::new(&self.plan.name, Fingerprint::of_nothing().with(question), &policies)
    }
}

/// A line on stderr: which runs need not be done again, or where those will be that are done.
fn say_what_is_kept(runs: usize, open: usize, state: &State) {
    let is_told = open > 0 && !observer::is_watched();
    let Some(path) = state.path().map(|path| path.display()).filter(|_| is_told) else { return };
    if open < runs {
        eprintln!("freehold: {} of {runs} runs are in {path} already", runs - open);
    } else {
        eprintln!(
            "freehold: runs that are done are kept in {path}; if this is interrupted, the same command goes on there"
        );
    }
}
