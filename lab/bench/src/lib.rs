//! `freehold bench`: times two policies, or an allocator and its rivals, against each other until there is a verdict.
//!
//! A *benchmark* is a value in a table ([`BENCHES`]): a question, cases, and a plan that turns them into *comparisons*.
//! Each comparison is of one case on two subjects, A and B. The modules, in the order in which a comparison uses them:
//!
//! ```text
//! cases/*      the work that is timed, one file per benchmark
//! bench        a benchmark as a value                        catalogue   the list of all benchmarks
//! measure      plans a benchmark and runs it                 profile     the build profile that figures need
//! session      takes runs until the evidence is enough       decide      interval -> verdict; uses freehold-stats
//! run          builds both machines anew, samples in pairs   subject     A or B: opened, sampled, closed
//! engine       the engine as a subject                       peers       other page-frame allocators as subjects
//! contest      times many contestants in turns; tables       program     programs with other allocators, over a pipe
//! report       tables and JSON, with the recipe
//! whole        mallocs under whole programs: a separate study
//! corruption   mallocs under programs that misuse their memory: a separate study, without timing
//! ```
//!
//! A further benchmark is one more file in `cases` and one more row in `catalogue`. The module `synthetic` tests the
//! verdicts on generated runs whose true difference is known.

mod bar;
mod bench;
mod cases;
mod catalogue;
mod comparison;
mod contest;
pub mod corruption;
pub mod decide;
mod engine;
mod error;
mod mallocs;
mod measure;
mod numbers;
mod peers;
mod profile;
mod program;
pub mod recipe;
pub mod report;
mod run;
mod session;
mod settings;
mod subject;
#[cfg(test)]
mod synthetic;
mod values;
pub mod whole;

pub use bar::{Bar, Holding};
pub use bench::{Bench, Plan, Request};
pub use catalogue::BENCHES;
pub use contest::{Duel, DuelRecord, Standing};
pub use error::Error;
pub use profile::check_profile;
pub use session::{Disturbance, Outcome};
pub use settings::{Method, Settings};
pub use subject::{Case, Effort};
