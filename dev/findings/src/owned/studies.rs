//! Simulations for the document: the built-in plans, and some of them again with cheaper and more expensive locks.

use super::aged::{self, AgedRun};
use super::paces;
use super::reconcile::{self, Load};
use super::system_time::{self, Build};
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan, Point};
use freehold_sim::report::SimReport;

/// Cost of moving a lock between CPUs, halved and doubled, in percent. Most results depend on this number.
const LOCK_PERCENTS: [u64; 2] = [50, 200];

/// One plan, as the document simulates it.
#[derive(Clone, Copy, Debug)]
struct Study {
    /// Name of the built-in plan.
    plan: &'static str,
    /// Value of the swept parameter that is kept for the study of locks, or `None` if the plan sweeps nothing.
    kept: Option<&'static str>,
    /// Costs of locks that are simulated.
    locks: Locks,
}

impl Study {
    /// Returns whether a point of the plan is kept for the study of locks.
    fn keeps(&self, point: &Point) -> bool {
        point.value.as_deref() == self.kept
    }
}

/// Costs of locks that a study simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locks {
    AsMeasured,
    Varied,
}

const fn study(plan: &'static str) -> Study {
    Study { plan, kept: None, locks: Locks::AsMeasured }
}

/// All studies, in the order of the document.
const STUDIES: [Study; 11] = [
    Study { plan: "purge", kept: Some("100"), locks: Locks::Varied },
    study("pingpong"),
    study("mallocs"),
    Study { plan: "build", kept: None, locks: Locks::Varied },
    study("exit"),
    study("recording"),
    study("steady"),
    study("long"),
    study("pressure"),
    study("small-machine"),
    study("numa"),
];

/// Reports of all studies.
#[derive(Debug)]
pub(super) struct Reports {
    /// Command that writes the document.
    command: String,
    reports: Vec<SimReport>,
    /// Reports with cheaper and with more expensive locks.
    varied: Vec<VariedStudy>,
    /// Reports of one plan with decreasing load on the allocator.
    loads: Vec<Load>,
    /// Reports of the recorded server at other paces.
    paces: Vec<SimReport>,
    /// Reports of builds on the author's machine.
    builds: Vec<Build>,
    /// Reports of machines of several ages.
    aged: Vec<AgedRun>,
}

/// Point of a plan, simulated with several costs of locks.
#[derive(Debug)]
pub(super) struct VariedStudy {
    /// Name of the plan.
    pub(super) plan: &'static str,
    /// Index of the point in the plan.
    pub(super) point: usize,
    /// Reports of this point alone, one for each of [`LOCK_PERCENTS`].
    pub(super) reports: [SimReport; LOCK_PERCENTS.len()],
}

impl Reports {
    /// Simulates all studies for the document that `command` writes. `changed` may shorten a plan.
    ///
    /// # Errors
    /// Returns the first error of a plan or a run.
    pub(super) fn simulate(costs: &Costs, command: String, changed: impl Fn(Plan) -> Plan) -> Result<Reports, Error> {
        let mut reports = Vec::with_capacity(STUDIES.len());
        let mut varied = Vec::new();
        for study in STUDIES {
            let report = SimReport::simulate(changed(Plan::open(study.plan, &Changes::default())?), costs)?;
            let point = report.plan.points.iter().position(|point| study.keeps(point));
            if let Some(point) = point.filter(|_| study.locks == Locks::Varied) {
                let [half, twice] = LOCK_PERCENTS.map(|percent| {
                    let mut plan = report.plan.clone();
                    plan.points.retain(|point| study.keeps(point));
                    SimReport::simulate(plan, &costs.with_lock_transfer_percent(percent))
                });
                varied.push(VariedStudy { plan: study.plan, point, reports: [half?, twice?] });
            }
            reports.push(report);
        }
        let (loads, paces) = (reconcile::simulate(costs, &changed)?, paces::simulate(costs, &changed)?);
        let (aged, builds) = (aged::simulate(costs, &changed)?, system_time::simulate(costs, changed)?);
        Ok(Reports { command, reports, varied, loads, paces, builds, aged })
    }

    /// Returns the command that writes the document.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Returns the report on this plan.
    pub(super) fn find(&self, plan: &str) -> Option<&SimReport> {
        self.reports.iter().find(|report| report.plan.name == plan)
    }

    /// Returns all reports with locks at their measured cost.
    pub(super) fn plans(&self) -> impl Iterator<Item = &SimReport> {
        self.reports.iter()
    }

    /// Returns the reports of one plan with decreasing load on the allocator.
    pub(super) fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Returns the reports of the recorded server at other paces than its own.
    pub(super) fn paces(&self) -> &[SimReport] {
        &self.paces
    }

    /// Returns the reports of builds on the author's machine.
    pub(super) fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// Returns the reports of machines of several ages.
    pub(super) fn aged(&self) -> &[AgedRun] {
        &self.aged
    }

    /// Returns the reports with locks at half and at twice their cost.
    pub(super) fn varied(&self) -> impl Iterator<Item = &VariedStudy> {
        self.varied.iter()
    }
}
