//! All runs of a plan: every value of the swept parameter, number of CPUs, policy and seed.
//!
//! Runs are independent, so they are done in [parallel]. The largest runs begin first, so that no large run is left for
//! the end. Results are returned only if all runs have succeeded.

use freehold_report::parallel;
use freehold_report::progress::Progress;
use freehold_report::room::Need;

use super::costs::Costs;
use super::machine::Machine;
use super::meter::{self, Meter};
use super::outcome::Outcome;
use super::plan::Plan;
use super::run::{self, RunError, Setup};
use super::window::Window;

/// The runs of one point, number of CPUs and policy.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Index of the plan's point.
    pub point: usize,
    /// Number of CPUs.
    pub cpus: u16,
    /// Index of the plan's policy.
    pub policy: usize,
    /// One outcome for each seed, from seed 1 up.
    pub outcomes: Vec<Outcome>,
}

/// Identity of a run within its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Index of the plan's point.
    pub point: usize,
    /// Number of CPUs.
    pub cpus: u16,
    /// Index of the plan's policy.
    pub policy: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Simulates all runs of a plan. The cells are in the order of points, then CPUs, then policies.
///
/// # Errors
/// Returns an error if there is too little memory for the runs, or the error of a run that could not be simulated. No
/// more runs are started after an error.
pub fn sweep(plan: &Plan, costs: &Costs) -> Result<Vec<Cell>, RunError> {
    let jobs = jobs(plan);
    meter::expect_room(jobs.iter().map(|job| need(plan, *job)).collect(), parallel::at_once())?;
    let all = jobs.iter().map(|job| meter::weight(job.cpus, window(plan, *job))).sum();
    let progress = Progress::weighing(plan.name.as_str(), all);
    let outcomes = parallel::run_jobs(&largest_first(&jobs), |index| {
        let job = jobs[index];
        simulate_metered(plan, costs, job, &Meter::new(&progress, job.cpus, window(plan, job)))
    })?;
    Ok(cells(plan, &jobs, outcomes))
}

fn jobs(plan: &Plan) -> Vec<Job> {
    let mut jobs = Vec::with_capacity(plan.runs());
    for point in 0..plan.points.len() {
        for &cpus in &plan.cpus {
            for policy in 0..plan.policies.len() {
                jobs.extend((1..=u64::from(plan.seeds)).map(|seed| Job { point, cpus, policy, seed }));
            }
        }
    }
    jobs
}

/// Returns the indices of the jobs, those with the most CPUs first.
fn largest_first(jobs: &[Job]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&index| (u16::MAX - jobs[index].cpus, index));
    order
}

fn machine(plan: &Plan, job: Job) -> Machine {
    plan.points[job.point]
        .machine
        .machine(job.cpus)
        .expect("the machine of a checked plan is valid for all its numbers of CPUs")
}

fn window(plan: &Plan, job: Job) -> Window {
    let point = &plan.points[job.point];
    Window::after_ms(point.warmup_ms, point.duration_ms)
}

/// Simulates one run of a plan.
///
/// # Errors
/// Returns an error if the run fails.
pub fn simulate(plan: &Plan, costs: &Costs, job: Job) -> Result<Outcome, RunError> {
    simulate_metered(plan, costs, job, &Meter::without_progress(job.cpus, window(plan, job)))
}

/// Returns the memory that one run of a plan needs.
pub fn need(plan: &Plan, job: Job) -> Need {
    meter::need(&machine(plan, job), job.cpus)
}

fn simulate_metered(plan: &Plan, costs: &Costs, job: Job, meter: &Meter<'_>) -> Result<Outcome, RunError> {
    let point = &plan.points[job.point];
    let start = point.machine.start(job.cpus, job.seed)?;
    let setup = Setup {
        workload: &point.workload,
        machine: &machine(plan, job),
        start: start.as_ref(),
        cpus: job.cpus,
        policy: plan.policies[job.policy].policy,
        seed: job.seed,
        costs,
        window: window(plan, job),
    };
    run::simulate_metered(&setup, meter)
}

/// Groups the outcomes into cells. The seeds of a cell are adjacent.
fn cells(plan: &Plan, jobs: &[Job], outcomes: Vec<Outcome>) -> Vec<Cell> {
    let mut outcomes = outcomes.into_iter();
    let mut cells = Vec::new();
    for &Job { point, cpus, policy, .. } in jobs.iter().filter(|job| job.seed == 1) {
        cells.push(Cell { point, cpus, policy, outcomes: outcomes.by_ref().take(plan.seeds as usize).collect() });
    }
    cells
}
