//! Ticks of the processor's time stamp counter, whose rate does not depend on the processor's current frequency.
//!
//! A reading waits until all earlier instructions have completed, and no later instruction begins before it. It takes
//! about thirty ticks, which is negligible beside the thousands of operations between two readings. On processors
//! without such a counter, a tick is a nanosecond.

use std::thread;
use std::time::{Duration, Instant};

/// Time for which ticks are counted to measure their rate.
const RATE_TIME: Duration = Duration::from_millis(20);

/// Returns the current value of the counter, in ticks.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn now() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has these instructions. They only read a counter and order other instructions.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Returns the nanoseconds since the first call, for processors without such a counter.
#[cfg(not(target_arch = "x86_64"))]
pub fn now() -> u64 {
    use std::sync::LazyLock;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Returns the ticks per second, measured for 20 ms.
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
    fn ticks_are_monotonic() {
        let readings: Vec<u64> = (0..1000).map(|_| now()).collect();
        assert!(readings.is_sorted());
        assert!(rate() > 0.0);
    }
}
