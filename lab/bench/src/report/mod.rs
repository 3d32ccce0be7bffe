//! Reports of benchmarks: flat JSON for programs ([`results`]), and a report for people ([`view`]).

mod results;
mod view;

pub use results::{BenchReport, BenchResult, ComparisonRow, Exact, Note};
