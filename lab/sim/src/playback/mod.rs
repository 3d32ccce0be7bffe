//! A recording, played by the CPUs of a run.
//!
//! ```text
//! script   one pass over the file: which task allocates and frees which block when
//! cast     which of the tasks are played, and on which CPUs
//! play     copies of the script, dealt to the CPUs of one run
//! ```

mod cast;
mod error;
mod play;
mod script;

pub(crate) use cast::{CpuSplit, keep_tasks, set_purgers};
pub(crate) use error::PlaybackError;
pub(crate) use play::Play;
pub(crate) use play::PlaySettings;
pub(crate) use script::{Action, Omissions, Script};
