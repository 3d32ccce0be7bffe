//! What is measured, how it is judged, and how an answer leaves the program.
//!
//! The ground floor of the laboratory: it knows numbers, not what they are numbers of. From below: how time is taken
//! ([`clock`], [`affinity`], [`spin_barrier`]), who looks at work from outside ([`observer`]) and how much of it is done at a time
//! ([`parallel`]), what there is room for ([`room`]), what may be said of
//! numbers ([`stats`], [`groups`], [`verdict`]), how they look ([`number`], [`terminal`], [`markdown`]), what a report
//! is and how each reader gets it ([`report`]), and how it leaves the program ([`formats`], [`output`], [`progress`],
//! [`origin`]).

pub mod affinity;
pub mod clock;
pub mod formats;
pub mod groups;
pub mod markdown;
pub mod number;
pub mod observer;
pub mod origin;
pub mod output;
pub mod parallel;
pub mod progress;
pub mod report;
pub mod room;
pub mod spin_barrier;
pub mod stats;
pub mod terminal;
pub mod verdict;
