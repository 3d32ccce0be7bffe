//! State of memory at the start of a recording, combined from page flags, zones, and the events that follow.
//!
//! ```text
//! frames        flags of all frames, brought to one moment by the events during the scan
//! first_events  state of each frame at the start, according to its first event
//! pageblocks    type of each pageblock: named by events, or guessed from its contents
//! zones         the zones, and the number of their pageblocks of each type
//! rows          conversion of all of these to rows
//! ```
//!
//! A recorder scans the flags of the machine on which it runs. An importer has a copy of the flags of another machine,
//! or none. The other steps are the same for both.

mod first_events;
mod frames;
mod pageblocks;
mod rows;
mod zones;

pub use crate::snapshot::ALLOCATED;
pub use first_events::{Agreement, AllocatedBlock, CachedBlock, FirstEvents, Flags};
pub use frames::{CHUNK_FRAMES, COSTLY_ORDER, Frames, fits_percpu_lists};
pub use pageblocks::{Ballot, Pageblocks, TypeChange, Votes};
pub use rows::StateRows;
pub use zones::ZonesAt;
