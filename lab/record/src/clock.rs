//! The clock of the recording: the kernel's `CLOCK_MONOTONIC`, which the trace clock `mono` shows as well. And
//! the clock that shows what the recorder itself costs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds of CPU time that this process has used, all threads together.
pub(crate) fn own_cpu_time() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both clocks count up from zero; neither part is ever negative.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns a duration as the clock counts it.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
