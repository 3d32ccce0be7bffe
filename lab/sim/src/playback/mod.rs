//! Playback of a recording by the CPUs of a run.
//!
//! ```text
//! script   one pass over the file: the task, block and time of each allocation and free
//! cast     selection of the tasks that are played, and of their CPUs
//! play     copies of the script, distributed to the CPUs of one run
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
