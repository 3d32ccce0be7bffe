//! `freehold bench`: rival policies, and other allocators, timed against each other until there is a verdict.
//!
//! A *benchmark* is a value in a table ([`BENCHES`]): a question, cases, and a plan that turns them into *comparisons*, each
//! of one case on two subjects, A and B. A comparison is settled as follows.
//!
//! ```text
//! cases/*   what is done, in one file a benchmark          subject   A or B: opened, sampled, closed
//! run       both machines built anew, samples in pairs     engine, peers   the kinds of subject
//! session   runs until the evidence is enough              decide    interval -> verdict; stats below it
//! bench     a benchmark as a value                         catalogue   all of them
//! measure   a benchmark, planned and run                   profile   the build that figures need
//! contest   many sides at once, in turns; tables of them   program   other people's allocators, asked over a pipe
//! report    tables and JSON, with the recipe
//! whole     mallocs under whole programs: a study of its own shape
//! corruption   mallocs under programs that misuse their memory: another one, in which nothing is timed
//! ```
//!
//! A later benchmark is one more file in `cases` and one more row in `catalogue`. What the harness says about runs whose truth is
//! known is tested in `synthetic`.

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
