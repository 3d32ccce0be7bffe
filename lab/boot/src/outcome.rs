//! Outcome of a boot: how its recording ended, and how long that took.

use std::time::Duration;

use crate::accelerator::Accelerator;

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// With its workload, which succeeded.
    Whole,
    /// With its workload, which failed with this status (-1: unknown).
    Failed(i32),
    /// When the time was over.
    OutOfTime,
    /// By Ctrl-C.
    Interrupted,
}

impl RecordingEnd {
    /// What the workload did instead of succeeding within the limit; nothing where it did, or nobody let it.
    pub fn shortfall(self, limit: Duration) -> Option<String> {
        match self {
            RecordingEnd::Whole | RecordingEnd::Interrupted => None,
            RecordingEnd::Failed(status) => Some(format!("the workload failed with status {status}")),
            RecordingEnd::OutOfTime => Some(format!("the workload did not end within {} s", limit.as_secs())),
        }
    }
}

/// Outcome of a boot.
#[derive(Clone, Copy, Debug)]
pub struct BootOutcome {
    /// Bytes of the recording.
    pub bytes: u64,
    /// How it ended.
    pub end: RecordingEnd,
    /// Boots that died of the emulator before this one.
    pub slips: u32,
    /// What executed it.
    pub accelerator: Accelerator,
}
