//! Files of other tools, whole and damaged, as recordings.

mod common;
mod forms;
mod fuzz;
mod samples;
