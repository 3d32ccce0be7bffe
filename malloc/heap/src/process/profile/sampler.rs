//! Which requests are sampled: each byte that is asked for is as likely as any other to be the one that counts.
//!
//! The bytes between two samples are drawn from an exponential distribution, so a request of `s` bytes is sampled with
//! probability `1 - exp(-s / mean)`, whatever came before it; readers of a profile divide by that. A thread counts down
//! a word of its own, which is one step of every request. A word of 0 means that nothing was drawn yet.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::os::thread::Thread;

/// What threads' numbers begin with.
static SEED: AtomicU64 = AtomicU64::new(0);
/// An odd number without a pattern: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws anew what threads begin with: for a process that has just begun.
pub(super) fn seed() {
    let mut bytes = (&raw const SEED).addr().to_ne_bytes();
    // A part of them may be there: what is not, stays as it is.
    let _filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    SEED.store(u64::from_ne_bytes(bytes), Relaxed);
}

/// Counts a request; false if it is perhaps to be sampled, and was not counted.
#[inline(always)]
pub(super) fn passes(thread: &Thread, size: usize) -> bool {
    let left = thread.until_sample.load(Relaxed);
    let passes = (size as u64) < left;
    if passes {
        thread.until_sample.store(left - size as u64, Relaxed);
    }
    passes
}

/// Whether a request that did not pass is to be sampled.
pub(super) fn is_due(thread: &Thread, size: usize, mean: usize) -> bool {
    let was_drawn = thread.until_sample.load(Relaxed) != 0;
    thread.until_sample.store(draw(thread, mean), Relaxed);
    if was_drawn || passes(thread, size) {
        return was_drawn;
    }
    thread.until_sample.store(draw(thread, mean), Relaxed);
    true
}

/// Has the thread's next request draw anew, which changes nothing of what is likely; and its numbers, in a child.
pub(super) fn restart(thread: &Thread) {
    thread.until_sample.store(0, Relaxed);
}

/// Has the thread's numbers be others than those of the process that it was copied from.
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

/// A number that looks like any other.
fn mix(state: u64) -> u64 {
    let once = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ twice >> 31
}

/// Bytes up to the next one that counts, itself included.
fn distance(random: u64, mean: usize) -> u64 {
    // Above 0 and up to 1, in steps of 2^-53.
    let unit = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-ln(unit) * mean as f64) as u64 + 1
}

/// The natural logarithm of a positive number: the core library has none.
fn ln(number: f64) -> f64 {
    const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.to_bits();
    let exponent = (bits >> MANTISSA) as i64 - 1023;
    let fraction = f64::from_bits(bits & ((1 << MANTISSA) - 1) | 1023 << MANTISSA);
    // ln(f) = 2 artanh((f - 1) / (f + 1)), of which nine terms are right to ten digits for f up to 2.
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
    fn logarithms_are_right() {
        for number in [1.0, 0.5, 0.9999, 0.3, 1e-5, 2_f64.powi(-53), 2.0, 1.999_999] {
            assert!((ln(number) - number.ln()).abs() < 1e-9, "{number}: {}", ln(number));
        }
    }

    #[test]
    fn distances_have_their_mean_and_their_spread() {
        let draws = 200_000;
        let drawn = (1..=draws).map(|index: u64| distance(mix(index.wrapping_mul(GOLDEN)), MEAN) as f64);
        let (sum, squares) = drawn.fold((0.0, 0.0), |(sum, squares), bytes| (sum + bytes, squares + bytes * bytes));
        let mean = sum / draws as f64;
        let deviation = (squares / draws as f64 - mean * mean).sqrt();
        // Four standard errors, of which the mean has one in 447.
        assert!((mean / MEAN as f64 - 1.0).abs() < 0.009, "{mean}");
        assert!((deviation / MEAN as f64 - 1.0).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn what_was_asked_for_is_estimated_without_bias() {
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
    fn a_child_draws_other_numbers() {
        let thread = thread::current();
        let [first, second] = [(); 2].map(|()| {
            reseed(thread);
            draw(thread, usize::MAX >> 20)
        });
        assert_ne!(first, second);
        assert_eq!(thread.until_sample.load(Relaxed), 0);
    }
}
