//! Tests of the command line: each runs the program `freehold` and checks its exit status, output and files.
//!
//! A module has the tests of one command, or of one kind of input; [`common`] has their shared code. All modules form
//! one test program, so that the laboratory is linked once. The test of the killed recorder is a program of its own,
//! `record_killed`.

mod common;

mod advise;
mod age;
mod anonymize;
mod answer;
mod apply;
mod bad_input;
mod bench;
mod boot;
mod calibrate;
mod commands;
mod contradictory_recordings;
mod disasm;
mod event_times;
mod fidelity;
mod fleet;
mod flight;
mod heap;
mod import;
mod inspect;
mod made_up;
mod map;
mod page;
mod record;
mod run;
mod run_obstacles;
mod sim;
mod snapshot;
mod stable_names;
mod sweep;
mod sweep_folder;
mod sweep_many;
mod two_requests;
