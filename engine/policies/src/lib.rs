//! Policies by name.
//!
//! A policy is written `SET[,field=value...]`, for instance `linux-6.12,pcp=merge,pcp.batch=31`: a set that decides
//! everything, then changes to it, from left to right. The change `on=linux-6.18` gives it the rules of that kernel,
//! but for those in which it is not as the pinned kernel on purpose: `freehold,on=linux-6.18`. What there is to choose
//! stands in the tables of [`tables`], with the sentence that `freehold policies` prints about each. A rival policy is
//! one row there.

mod choice;
mod parse;
mod rules;
mod tables;

pub use choice::{Choice, Field, Number, Set};
pub use parse::{NamedPolicy, ON, PolicyError, baseline, choices, hint, parse};
pub use rules::RULES;
pub use tables::{BASELINE, BEST, FIELDS, NUMBERS, SETS, SWITCHES};
