//! A contest: many contestants in the same events, in turns.
//!
//! A [comparison](crate::comparison::Comparison) takes as many runs of two sides as its verdict needs. A contest takes
//! runs of all contestants instead: tables of many allocators and sizes would take too long otherwise, and any two of
//! their columns can be compared. In a run all contestants are built anew, in random order, and exist at the same time.
//! The events follow in random order, and each event is done by all contestants one after the other, in random order
//! too. So a disturbance hits times that are close to each other, and the ratio of two contestants is taken within a
//! run ([`Duel`]).
//!
//! The number of runs is fixed beforehand, by a maximum number and a maximum time, and does not depend on the results.
//! So a single look is taken.

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

/// Clock of contests.
pub(crate) const CLOCK: &str = "the processor's time stamp counter";
