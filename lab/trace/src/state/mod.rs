//! The state of memory at the start of a recording, out of what is known of it: page flags, zones, and the events that
//! follow.
//!
//! ```text
//! frames        the flags of all frames, brought to one moment by the events of that time
//! first_events  what the first event on each frame says that it was
//! pageblocks    the type of each pageblock: as events name it, or guessed from its contents
//! zones         the zones, and how many pageblocks of each type they have
//! rows          all of it as rows
//! ```
//!
//! A recorder scans the flags of the machine that it runs on; an importer has somebody's copy of them, or none. What
//! follows is the same for both.

mod first_events;
mod frames;
mod pageblocks;
mod rows;
mod zones;

pub use crate::snapshot::ALLOCATED;
pub use first_events::{Agreement, AllocatedBlock, CachedBlock, FirstEvents, Flags};
pub use frames::{CHUNK_FRAMES, Frames, fits_percpu_lists};
pub use pageblocks::{Ballot, Pageblocks, TypeChange, Votes};
pub use rows::StateRows;
pub use zones::ZonesAt;
