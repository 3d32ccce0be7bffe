//! Tests of importing files of other tools, complete and damaged.

mod common;
mod fuzz;
mod samples;
mod text_formats;
