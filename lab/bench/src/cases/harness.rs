//! `harness`: a benchmark of the benchmarks. It compares the engine with itself, and with a variant of itself that does
//! 3 % more work.

use freehold_policies::{BASELINE, NamedPolicy};
use freehold_stats::verdict::Verdict;

use crate::bar::Bar;
use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::comparison::Comparison;
use crate::decide::Margin;
use crate::engine::{EngineSubject, Workload};
use crate::error::Error;
use crate::settings::Method;
use crate::subject::{Case, Sample, Subject, Then};

/// Planted extra work, in percent.
const PLANTED_PERCENT: u64 = 3;
/// Largest margin, in percent, that the planted difference clearly exceeds.
const MARGIN_MAX: f64 = 2.0;

pub(crate) const BENCH: Bench = Bench {
    name: "harness",
    asks: "Does the harness find a planted difference, and no difference between equal sides?",
    a: BASELINE,
    b: BASELINE,
    unit: "ns",
    method: Method::Comparisons,
    beside: None,
    cases: || CASES.iter().map(|planted| &planted.workload.case).collect(),
    make_plan: plan,
    epilogue: |_, _| Ok(Epilogue::default()),
};

/// A case with a known difference.
struct PlantedCase {
    workload: Workload,
    a: Extra,
    b: Extra,
    verdict: Verdict,
}

impl PlantedCase {
    /// Returns the bar with the expected verdict; `None` if the margin is about as large as the planted difference.
    fn bar(&self, margin: Margin) -> Option<Bar> {
        let is_clear = self.a == self.b || margin.as_percent() <= MARGIN_MAX;
        is_clear.then_some(Bar::Planted(self.verdict))
    }

    /// Returns one side of the comparison, with or without the extra work.
    fn side(&'static self, policy: &NamedPolicy, extra: Extra) -> Box<dyn Subject> {
        let subject = self.workload.under(policy);
        match extra {
            Extra::None => Box::new(subject.named("the engine")),
            Extra::Planted => Box::new(Busier(subject.named("the engine with 3 % more work"))),
        }
    }
}

/// Planted extra work of a side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    None,
    Planted,
}

static CASES: [PlantedCase; 3] = [
    planted("same", "the engine against itself", Extra::None, Extra::None, Verdict::NoChange),
    planted("slower-by-3", "the engine against itself with 3 % more work", Extra::None, Extra::Planted, Verdict::Worse),
    planted(
        "faster-by-3",
        "the engine with 3 % more work against itself",
        Extra::Planted,
        Extra::None,
        Verdict::Better,
    ),
];

const fn planted(name: &'static str, about: &'static str, a: Extra, b: Extra, verdict: Verdict) -> PlantedCase {
    let loop_case = &super::flags::COMPOUND;
    let case = Case { name, about, ..loop_case.case };
    PlantedCase { workload: Workload { case, ..*loop_case }, a, b, verdict }
}

fn plan(request: &Request) -> Result<Plan, Error> {
    let comparisons = CASES.iter().map(|planted| Comparison {
        case: &planted.workload.case,
        a: planted.side(&request.a, planted.a),
        b: planted.side(&request.a, planted.b),
        bar: planted.bar(request.settings.margin),
    });
    Ok(Plan { comparisons: comparisons.collect(), notes: Vec::new() })
}

/// A subject that does more operations than it reports.
struct Busier(EngineSubject);

impl Subject for Busier {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        let done = operations + operations * PLANTED_PERCENT / 100;
        self.0.open(done, &mut |sample| then(&mut || sample().map(|sample| Sample { operations, ..sample })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars_at(percent: f64) -> [Option<Bar>; CASES.len()] {
        let margin = Margin::percent(percent).unwrap();
        CASES.each_ref().map(|planted| planted.bar(margin))
    }

    #[test]
    fn differences_within_the_margin_have_no_bar() {
        let [same, slower, faster] = [Verdict::NoChange, Verdict::Worse, Verdict::Better].map(Bar::Planted);
        assert_eq!(bars_at(2.0), [Some(same), Some(slower), Some(faster)]);
        assert_eq!(bars_at(3.0), [Some(same), None, None]);
    }
}
