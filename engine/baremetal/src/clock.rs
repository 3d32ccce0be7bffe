//! Measurement of instructions by the clock. It works in an emulator whose virtual time depends only on the number of
//! executed instructions.

use core::arch::asm;

use crate::arch;

/// Message if the clock does not count instructions; the program that boots this kernel searches for it.
pub const OTHER: &str = "the clock does not count instructions";

/// Units of the clock per [`SAMPLE`] instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    units: u64,
}

/// Number of instructions to which a rate refers.
const SAMPLE: u64 = 100_000;
/// Number of measurements of a sample, and the number of them that must agree.
const LOOKS: usize = 16;
const SAME_MIN: usize = 4;

impl Rate {
    /// Measures a sample several times with interrupts off. Returns `None` if the clock measures another kind of time:
    /// then hardly two measurements agree, and an emulator is much faster. Some measurements include the time of other
    /// CPUs.
    pub fn find() -> Option<Rate> {
        let flags = arch::irq_save();
        let looks: [u64; LOOKS] = core::array::from_fn(|_| sample());
        arch::irq_restore(flags);
        let units = looks.into_iter().min()?;
        // If a unit is not a whole number of instructions, measurements may differ slightly.
        let same = looks.iter().filter(|&&look| look - units <= 2).count();
        (same >= SAME_MIN && units > SAMPLE / 2).then_some(Rate { units })
    }

    /// Returns the instructions of one execution of a path. Each measurement covers several executions, and the
    /// shortest measurement counts, since others may include the time of other CPUs.
    pub fn instructions(self, walk: fn()) -> u64 {
        const TIMES: u64 = 100;
        let all = self.least(walk, TIMES) - self.least(nothing, TIMES);
        (all * SAMPLE + self.units * TIMES / 2) / (self.units * TIMES)
    }

    fn least(self, walk: fn(), times: u64) -> u64 {
        (0..4 * LOOKS).map(|_| timed(|| (0..times).for_each(|_| walk()))).min().unwrap_or(0)
    }
}

#[inline(never)]
fn nothing() {
    core::hint::black_box(());
}

/// Returns the difference of two lengths, which eliminates the overhead of the measurement.
fn sample() -> u64 {
    timed(|| nops(120)) - timed(|| nops(20))
}

fn timed(run: impl Fn()) -> u64 {
    let began = arch::clock();
    run();
    arch::clock().wrapping_sub(began)
}

/// Executes `thousands` thousand instructions, and a few more for the loop.
#[inline(never)]
fn nops(thousands: u32) {
    for _ in 0..thousands {
        // SAFETY: the instructions are `nop`s, which change no state.
        unsafe { asm!(".rept 1000", "nop", ".endr", options(nostack, preserves_flags)) };
    }
}
