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
    /// Its name.
    pub name: &'static str,
    /// What it asks, in a sentence.
    pub asks: &'static str,
    /// What it asks, and why, for its page.
    pub question: &'static str,
    /// How its result is to be read, for its page.
    pub reading: &'static str,
    /// Policy A, unless another is asked for.
    pub a: &'static str,
    /// Policy B, unless others are asked for.
    pub b: &'static str,
    /// What times are counted in.
    pub unit: &'static str,
    /// How it measures.
    pub method: Method,
    /// Programs with other people's allocators that take part.
    pub(crate) beside: Option<Kind>,
    /// Its cases.
    pub cases: fn() -> Vec<&'static Case>,
    /// What is compared with what.
    pub(crate) make_plan: fn(&Request) -> Result<Plan, Error>,
    /// What is said after the comparisons.
    pub(crate) epilogue: fn(&Request, &[ComparisonRow]) -> Result<Epilogue, Error>,
}

/// What a benchmark is asked to compare.
#[derive(Clone, Debug)]
pub struct Request {
    /// How.
    pub settings: Settings,
    /// Policy A.
    pub a: NamedPolicy,
    /// Every policy B.
    pub rivals: Vec<NamedPolicy>,
}

/// What will be compared.
#[derive(Default)]
pub struct Plan {
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) notes: Vec<Note>,
}

/// What is said after the comparisons.
#[derive(Default)]
pub(crate) struct Epilogue {
    pub(crate) exact: Vec<Exact>,
    pub(crate) tables: Vec<Table>,
    pub(crate) standings: Vec<Standing>,
    pub(crate) duels: Vec<DuelRecord>,
    pub(crate) notes: Vec<Note>,
}
