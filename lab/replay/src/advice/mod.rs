//! Advice: settings of a recorded machine that are worth changing, the expected effect, and how reliable it is.
//!
//! 1. [`refusal`] checks the recordings of one machine.
//! 2. [`mod@candidates`] lists the values to try. The caller replays each recording under its own settings, with varied
//!    watermarks, and under each candidate.
//! 3. [`evidence`] looks for gains and losses in one recording, by [`mod@concerns`].
//! 4. [`judge`] decides over all recordings whether a candidate is recommended, worth testing, or to be left.
//! 5. A [`setting`] gets its best value or is left, with the commands to apply and undo the change.
//! 6. [`report`] ranks the settings by their gain and shows the record of earlier predictions ([`track`]).

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
pub use concerns::concerns;
pub use judge::Level;
pub use refusal::{check, is_reproduced, not_reproduced};
pub use track::{Directions, Predictions, TrackRecord, metric_of_row};
