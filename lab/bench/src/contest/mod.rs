//! A contest: many contestants at the same events, in turns.
//!
//! Where a [comparison](crate::comparison::Comparison) takes as many runs of two sides as its verdict needs, a contest
//! takes runs of everybody: tables of many allocators and sizes would never end otherwise, and any two of their columns
//! may be held against each other. In a run all contestants are built anew, in random order, and live at the same time;
//! the events come in random order, and in each event all contestants one after the other, in random order too. So a
//! disturbance hits neighbours, and the ratio of two contestants is taken within a run ([`Duel`]).
//!
//! How many runs there are is settled beforehand, by number and by time, not by what comes out; so one look is taken.

mod duel;
mod event;
mod hold;
mod times;

pub(crate) use duel::Sum;
pub use duel::{Duel, DuelRecord};
pub(crate) use event::{Cell, Contestant, Event, Then};
pub(crate) use hold::{hold, limits};
pub(crate) use times::Contest;
pub use times::Standing;

/// What is read as time.
pub(crate) const CLOCK: &str = "the processor's time stamp counter";
