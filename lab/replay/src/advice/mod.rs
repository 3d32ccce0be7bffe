//! Advice: which settings of a recorded machine to change, what that would do, and how far to believe it.
//!
//! Recordings of one machine are checked first ([`refusal`]). [`mod@candidates`] lists what is tried: a few values of
//! each setting that a replay can change. Each recording is replayed as it was set, with its watermarks nudged, and
//! under each candidate; [`judge`] says of each what it gains and costs, by what matters to who runs a machine
//! ([`concerns`]). A [`setting`] takes its best value or is left, with the recipe to apply and undo it; [`report`]
//! ranks settings by what they gain, and says beside each how often predictions about it came true ([`track`]).

mod candidates;
mod concerns;
mod judge;
mod refusal;
pub mod report;
mod sentences;
mod setting;
mod track;

pub use candidates::{Candidate, list as candidates, nudges, requests, with_nudges};
pub use refusal::{check, is_reproduced, not_reproduced};
pub use track::{Predictions, TrackRecord};
