//! Files of other tools, whole and damaged, as recordings.

mod common;
mod fuzz;
mod samples;
