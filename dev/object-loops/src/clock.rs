//! Ticks: the processor's time stamp counter, which counts at one rate whatever the processor's own frequency is.
//!
//! A reading waits for what stands before it and lets nothing of what stands after it begin. It takes some thirty
//! ticks, which is nothing beside the thousands of operations between two of them. Where there is no such counter a
//! tick is a nanosecond.

use std::thread;
use std::time::{Duration, Instant};

/// How long ticks are counted to know their rate.
const RATE_TIME: Duration = Duration::from_millis(20);

/// Ticks so far.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn now() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has these instructions, which read a counter and wait.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Nanoseconds so far, where the processor has no counter of its own.
#[cfg(not(target_arch = "x86_64"))]
pub fn now() -> u64 {
    use std::sync::LazyLock;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Ticks a second, counted for a fiftieth of one.
pub fn rate() -> f64 {
    let (start, first) = (Instant::now(), now());
    thread::sleep(RATE_TIME);
    let (passed, last) = (start.elapsed(), now());
    (last - first) as f64 / passed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_do_not_go_back() {
        let readings: Vec<u64> = (0..1000).map(|_| now()).collect();
        assert!(readings.is_sorted());
        assert!(rate() > 0.0);
    }
}
