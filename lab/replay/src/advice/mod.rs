//! Advice: which settings of a recorded machine to change, what that would do, and how far to believe it.
//!
//! Recordings of one machine are checked first ([`refusal`]). [`mod@candidates`] lists the values that are tried. Each
//! recording is replayed as it was set, with varied watermarks, and under each candidate. [`evidence`] looks for gains
//! and losses in one recording, by [`concerns`]; [`judge`] decides over all recordings whether a candidate is
//! recommended, worth testing, or to be left. A [`setting`] takes its best value or is left, with the recipe to apply
//! and undo it; [`report`] ranks settings by their gain, beside the record of earlier predictions ([`track`]).

mod candidates;
mod concerns;
mod evidence;
mod judge;
mod refusal;
pub mod report;
mod sentences;
mod setting;
mod track;

pub use candidates::{Candidate, list as candidates, nudges, requests, select, with_nudges};
pub use refusal::{check, is_reproduced, not_reproduced};
pub use track::{Directions, Predictions, TrackRecord, metric_of_row};
