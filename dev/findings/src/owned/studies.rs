//! What is simulated for the document: plans as they are built in, and some of them again with dearer and cheaper
//! locks.

use super::aged::{self, AgedRun};
use super::paces;
use super::reconcile::{self, Load};
use super::system_time::{self, Build};
use freehold_sim::Error;
use freehold_sim::costs::Costs;
use freehold_sim::plan::{Changes, Plan, Point};
use freehold_sim::report::SimReport;

/// The cost of a lock that moves, halved and doubled, in percent: the number that most of the answers hang on.
const LOCK_PERCENTS: [u64; 2] = [50, 200];

/// One plan, as the document simulates it.
#[derive(Clone, Copy, Debug)]
struct Study {
    /// The built-in plan.
    plan: &'static str,
    /// The value of the swept parameter that is kept for the study of locks; `None` if nothing is swept.
    kept: Option<&'static str>,
    /// Whether it is simulated with cheaper and dearer locks as well.
    locks: Locks,
}

impl Study {
    /// Returns whether a point of the plan is kept for the study of locks.
    fn keeps(&self, point: &Point) -> bool {
        point.value.as_deref() == self.kept
    }
}

/// What is asked about the cost of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locks {
    AsMeasured,
    Varied,
}

const fn study(plan: &'static str) -> Study {
    Study { plan, kept: None, locks: Locks::AsMeasured }
}

/// Every study, in the order of the document.
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

/// All reports, by the name of the plan.
#[derive(Debug)]
pub(super) struct Reports {
    /// The command that writes the document.
    command: String,
    reports: Vec<SimReport>,
    /// With cheaper and with dearer locks.
    varied: Vec<VariedStudy>,
    /// With less and less to do for the allocator.
    loads: Vec<Load>,
    /// The recorded server at other paces.
    paces: Vec<SimReport>,
    /// Builds on the author's machine.
    builds: Vec<Build>,
    /// Machines of several ages.
    aged: Vec<AgedRun>,
}

/// A point of a plan with locks at several costs.
#[derive(Debug)]
pub(super) struct VariedStudy {
    /// The plan.
    pub(super) plan: &'static str,
    /// Which of its points.
    pub(super) point: usize,
    /// That point alone, with each of [`LOCK_PERCENTS`].
    pub(super) reports: [SimReport; LOCK_PERCENTS.len()],
}

impl Reports {
    /// Simulates everything for the document that this command writes. `changed` may shorten a plan.
    ///
    /// # Errors
    /// The first that a plan or a run has.
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

    /// The command that writes the document.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// The report on this plan.
    pub(super) fn find(&self, plan: &str) -> Option<&SimReport> {
        self.reports.iter().find(|report| report.plan.name == plan)
    }

    /// Every report with locks as they were measured.
    pub(super) fn plans(&self) -> impl Iterator<Item = &SimReport> {
        self.reports.iter()
    }

    /// One plan with less and less to do for the allocator.
    pub(super) fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The recorded server at other paces than its own.
    pub(super) fn paces(&self) -> &[SimReport] {
        &self.paces
    }

    /// Builds on the author's machine.
    pub(super) fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// Machines of several ages.
    pub(super) fn aged(&self) -> &[AgedRun] {
        &self.aged
    }

    /// What was simulated with locks at half and at twice their cost as well.
    pub(super) fn varied(&self) -> impl Iterator<Item = &VariedStudy> {
        self.varied.iter()
    }
}
