//! Selection of sampled requests. Every requested byte has the same probability of being the one that is sampled.
//!
//! The distance in bytes between two samples is drawn from an exponential distribution. So a request of `s` bytes is
//! sampled with probability `1 - exp(-s / mean)`, independently of earlier requests; readers of a profile divide by
//! this probability. Each thread counts down a word of its own, at each request. The value 0 means that no distance was
//! drawn yet.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::os::thread::Thread;

/// Start of the threads' random numbers.
static SEED: AtomicU64 = AtomicU64::new(0);
/// 2^64 divided by the golden ratio, an odd number with irregular bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws a new start for the threads' random numbers, in a process that has just begun.
pub(super) fn seed() {
    let mut bytes = (&raw const SEED).addr().to_ne_bytes();
    // The kernel may fill only some of the bytes; the other bytes keep those of the address.
    let _filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    SEED.store(u64::from_ne_bytes(bytes), Relaxed);
}

/// Counts a request. Returns `false` if the request may have to be sampled; it is not counted then.
#[inline(always)]
pub(super) fn passes(thread: &Thread, size: usize) -> bool {
    let left = thread.until_sample.load(Relaxed);
    let passes = (size as u64) < left;
    if passes {
        thread.until_sample.store(left - size as u64, Relaxed);
    }
    passes
}

/// Returns whether a request that [`passes`] did not count is to be sampled, and draws the next distance.
pub(super) fn is_due(thread: &Thread, size: usize, mean: usize) -> bool {
    let was_drawn = thread.until_sample.load(Relaxed) != 0;
    thread.until_sample.store(draw(thread, mean), Relaxed);
    if was_drawn || passes(thread, size) {
        return was_drawn;
    }
    thread.until_sample.store(draw(thread, mean), Relaxed);
    true
}

/// Makes the thread's next request draw a new distance. The exponential distribution has no memory, so this does not
/// change any probability.
pub(super) fn restart(thread: &Thread) {
    thread.until_sample.store(0, Relaxed);
}

/// Gives the thread of a forked child random numbers that differ from those of its parent.
pub(super) fn reseed(thread: &Thread) {
    seed();
    thread.random.store(0, Relaxed);
    restart(thread);
}

fn draw(thread: &Thread, mean: usize) -> u64 {
    let mut state = thread.random.load(Relaxed);
    if state == 0 {
        state = SEED.fetch_add(GOLDEN, Relaxed);
    }
    state = state.wrapping_add(GOLDEN);
    thread.random.store(state, Relaxed);
    distance(mix(state), mean)
}

/// Returns a hash of `state` (the finaliser of SplitMix64).
fn mix(state: u64) -> u64 {
    let once = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ twice >> 31
}

/// Converts a random number to a distance: bytes up to and including the next sampled byte.
fn distance(random: u64, mean: usize) -> u64 {
    // The value is above 0 and at most 1, in steps of 2^-53.
    let unit = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-ln(unit) * mean as f64) as u64 + 1
}

/// Returns the natural logarithm of a positive number, which the core library does not provide.
fn ln(number: f64) -> f64 {
    const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.to_bits();
    let exponent = (bits >> MANTISSA) as i64 - 1023;
    let fraction = f64::from_bits(bits & ((1 << MANTISSA) - 1) | 1023 << MANTISSA);
    // ln(f) = 2 artanh((f - 1) / (f + 1)). Nine terms of the series are correct to ten digits for f up to 2.
    let ratio = (fraction - 1.0) / (fraction + 1.0);
    let square = ratio * ratio;
    let series = (0..9).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * ratio * series + exponent as f64 * core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::os::thread;

    const MEAN: usize = 4096;

    #[test]
    fn logarithm_is_accurate() {
        for number in [1.0, 0.5, 0.9999, 0.3, 1e-5, 2_f64.powi(-53), 2.0, 1.999_999] {
            assert!((ln(number) - number.ln()).abs() < 1e-9, "{number}: {}", ln(number));
        }
    }

    #[test]
    fn sample_distances_have_the_expected_mean_and_deviation() {
        let draws = 200_000;
        let drawn = (1..=draws).map(|index: u64| distance(mix(index.wrapping_mul(GOLDEN)), MEAN) as f64);
        let (sum, squares) = drawn.fold((0.0, 0.0), |(sum, squares), bytes| (sum + bytes, squares + bytes * bytes));
        let mean = sum / draws as f64;
        let deviation = (squares / draws as f64 - mean * mean).sqrt();
        // The bounds are four standard errors; the relative standard error of the mean is 1/447.
        assert!((mean / MEAN as f64 - 1.0).abs() < 0.009, "{mean}");
        assert!((deviation / MEAN as f64 - 1.0).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn sampled_bytes_are_estimated_without_bias() {
        let thread = thread::current();
        thread.random.store(GOLDEN, Relaxed);
        restart(thread);
        let sizes = [16, 100, 4096, 20_000, 1, 333];
        let turns = 200_000;
        let mut sampled = [0_u64; 6];
        for _ in 0..turns {
            for (size, count) in sizes.iter().zip(&mut sampled) {
                *count += u64::from(!passes(thread, *size) && is_due(thread, *size, MEAN));
            }
        }
        restart(thread);
        for (size, count) in sizes.iter().zip(sampled) {
            let likely = 1.0 - (-(*size as f64) / MEAN as f64).exp();
            let estimate = count as f64 / likely;
            let error = ((1.0 - likely) / likely / f64::from(turns)).sqrt();
            let off = estimate / f64::from(turns) - 1.0;
            assert!(off.abs() < 5.0 * error + 1e-9, "{size}: {estimate} of {turns}");
        }
    }

    #[test]
    fn reseeded_child_draws_other_distances() {
        let thread = thread::current();
        let [first, second] = [(); 2].map(|()| {
            reseed(thread);
            draw(thread, usize::MAX >> 20)
        });
        assert_ne!(first, second);
        assert_eq!(thread.until_sample.load(Relaxed), 0);
    }
}
