//! A benchmark as a value: a question, cases, a plan that turns them into comparisons, and an epilogue.

use freehold_policies::NamedPolicy;
use freehold_report::report::Table;

use super::comparison::Comparison;
use super::contest::{DuelRecord, Standing};
use super::error::Error;
use super::program::Kind;
use super::report::{ComparisonRow, Exact, Note};
use super::settings::{Method, Settings};
use super::subject::Case;

/// A benchmark.
pub struct Bench {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Question that the benchmark answers, in one sentence.
    pub asks: &'static str,
    /// Default of policy A.
    pub a: &'static str,
    /// Default of policy B.
    pub b: &'static str,
    /// Unit of the times.
    pub unit: &'static str,
    /// Method of measurement.
    pub method: Method,
    /// Programs with other projects' allocators that take part.
    pub(crate) beside: Option<Kind>,
    /// Returns the cases.
    pub cases: fn() -> Vec<&'static Case>,
    /// Returns the comparisons for a request.
    pub(crate) make_plan: fn(&Request) -> Result<Plan, Error>,
    /// Returns the additions to the report that follow the comparisons.
    pub(crate) epilogue: fn(&Request, &[ComparisonRow]) -> Result<Epilogue, Error>,
}

/// Policies to compare, and the settings.
#[derive(Clone, Debug)]
pub struct Request {
    /// Settings of the measurement.
    pub settings: Settings,
    /// Policy A.
    pub a: NamedPolicy,
    /// All policies B.
    pub rivals: Vec<NamedPolicy>,
}

/// Planned comparisons, and notes for the report.
#[derive(Default)]
pub struct Plan {
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) notes: Vec<Note>,
}

/// Additions to the report that follow the comparisons.
#[derive(Default)]
pub(crate) struct Epilogue {
    pub(crate) exact: Vec<Exact>,
    pub(crate) tables: Vec<Table>,
    pub(crate) standings: Vec<Standing>,
    pub(crate) duels: Vec<DuelRecord>,
    pub(crate) notes: Vec<Note>,
}
