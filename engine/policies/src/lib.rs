//! Policies by name.
//!
//! A policy is written `SET[,field=value...]`, for instance `linux-6.12,pcp=merge,pcp.batch=31`: a complete set, and
//! changes to it from left to right. The change `on=linux-6.18` replaces the rules by those of that kernel, except for
//! the rules in which the policy before this change differs from Linux 6.12: `freehold,on=linux-6.18`. [`tables`] lists
//! all sets, fields and numbers, with the text that `freehold policies` prints for each. A new alternative is one row
//! in a table.

mod choice;
mod parse;
mod rules;
mod tables;

pub use choice::{Choice, Field, Number, Set};
pub use parse::{NamedPolicy, ON, PolicyError, baseline, choices, describe, hint, parse};
pub use rules::RULES;
pub use tables::{BASELINE, BEST, FIELDS, NUMBERS, SETS, SWITCHES};
