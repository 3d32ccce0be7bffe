//! Outcome of a boot: the end of the recording, and the emulator's failures.

use std::time::Duration;

use crate::accelerator::Accelerator;

/// End of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The workload succeeded.
    Whole,
    /// The workload failed with this status (-1: unknown).
    Failed(i32),
    /// The time limit was reached.
    OutOfTime,
    /// The recording was interrupted by Ctrl-C.
    Interrupted,
}

impl RecordingEnd {
    /// Formats the failure of the workload; `None` if it succeeded or was interrupted.
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
    /// End of the recording.
    pub end: RecordingEnd,
    /// Earlier boots that died of the emulator.
    pub slips: u32,
    /// Way in which the guest was executed.
    pub accelerator: Accelerator,
}
