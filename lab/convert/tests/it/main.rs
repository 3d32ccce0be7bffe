//! Tests of importing files of other tools, complete and damaged.

mod common;
mod forms;
mod fuzz;
mod samples;
