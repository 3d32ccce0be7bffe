//! Clock of the recording: the kernel's `CLOCK_MONOTONIC`, which is also the trace clock `mono`. Also the clock of the
//! recorder's own CPU time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the monotonic clock in nanoseconds.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Returns the CPU time of this process over all threads, in nanoseconds.
pub(crate) fn own_cpu_time() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both clocks count up from zero, so neither part is negative.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Converts a duration to nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
