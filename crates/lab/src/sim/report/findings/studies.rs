//! What is simulated for the document: plans as they are built in, and some of them again with dearer and cheaper locks.

use crate::error::Error;
use crate::sim::costs::Costs;
use crate::sim::plan::{Changes, Plan};
use crate::sim::report::SimReport;

/// The name of the locks' cost in the table, halved and doubled: the only numbers that most of the answers hang on.
const LOCK_PERCENTS: [(&str, u64); 3] = [("half", 50), ("once", 100), ("twice", 200)];

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
const STUDIES: [Study; 10] = [
    Study { plan: "purge", kept: Some("100"), locks: Locks::Varied },
    study("pingpong"),
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
pub struct Reports {
    reports: Vec<SimReport>,
    /// Reports with the costs of locks varied: plan, which of [`LOCK_PERCENTS`], report.
    varied: Vec<(&'static str, &'static str, SimReport)>,
}

impl Reports {
    /// Simulates everything. `changed` may shorten a plan.
    ///
    /// # Errors
    /// The first that a plan or a run has.
    pub fn simulate(costs: &Costs, changed: impl Fn(Plan) -> Plan) -> Result<Reports, Error> {
        let open = |name| Ok::<_, Error>(changed(Plan::open(name, &Changes::default())?));
        let mut reports = Vec::with_capacity(STUDIES.len());
        let mut varied = Vec::new();
        for study in STUDIES {
            reports.push(SimReport::simulate(open(study.plan)?, costs)?);
            let percents = LOCK_PERCENTS.iter().filter(|_| study.locks == Locks::Varied);
            for &(word, percent) in percents {
                let mut plan = open(study.plan)?;
                plan.points.retain(|point| point.value.as_deref() == study.kept);
                varied.push((study.plan, word, SimReport::simulate(plan, &costs.with_lock_transfer_percent(percent))?));
            }
        }
        Ok(Reports { reports, varied })
    }

    /// The report on this plan.
    pub fn of(&self, plan: &str) -> Option<&SimReport> {
        self.reports.iter().find(|report| report.plan.name == plan)
    }

    /// Every report with locks as they were measured.
    pub fn all(&self) -> impl Iterator<Item = &SimReport> {
        self.reports.iter()
    }

    /// The reports on this plan by the cost of locks, the cheapest first.
    pub fn varied<'r>(&'r self, plan: &'r str) -> impl Iterator<Item = (&'static str, &'r SimReport)> {
        self.varied.iter().filter(move |varied| varied.0 == plan).map(|(_, word, report)| (*word, report))
    }
}
