//! One file a command: its arguments, and how it is answered.

pub mod compare;
pub mod completions;
pub mod diff;
pub mod inspect;
pub mod man;
pub mod policies;
pub mod record;
pub mod replay;
