//! Coarse time, in ticks of a quarter of a second.

/// Resolution of times in milliseconds.
pub(super) const TICK: u32 = 250;

/// Returns the time in ticks of a quarter of a second, since an arbitrary start.
pub(super) fn now() -> u32 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` into the live variable `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.tv_sec as u32) * (1000 / TICK) + time.tv_nsec as u32 / (TICK * 1_000_000)
}
