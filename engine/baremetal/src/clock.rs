//! Instructions by the clock, where that counts them: an emulator may let time pass by instructions, and by nothing
//! else.

use core::arch::asm;

use crate::arch;

/// What is said where it does not count them; whoever boots on a clock that does looks for this.
pub const OTHER: &str = "the clock does not count instructions";

/// Units of the clock that many instructions take, or nothing where it measures another kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    units: u64,
}

/// Instructions that a rate is of.
const SAMPLE: u64 = 100_000;
/// How often it is looked how long these take, and how often at least that must come out the same.
const LOOKS: usize = 16;
const SAME_MIN: usize = 4;

impl Rate {
    /// Looks several times how long as many instructions take, with interrupts off. Some looks have other CPUs' time in
    /// them; on another clock than this, hardly two are the same, and an emulator is much faster.
    pub fn find() -> Option<Rate> {
        let flags = arch::irq_save();
        let looks: [u64; LOOKS] = core::array::from_fn(|_| sample());
        arch::irq_restore(flags);
        let units = looks.into_iter().min()?;
        // Where a unit is no whole number of instructions, a look may be a little off.
        let same = looks.iter().filter(|&&look| look - units <= 2).count();
        (same >= SAME_MIN && units > SAMPLE / 2).then_some(Rate { units })
    }

    /// Instructions of a time through a path: of the shortest of several looks at a few times, since other CPUs' time
    /// may pass in between.
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

/// The difference of two lengths, so that what comes before and after does not count.
fn sample() -> u64 {
    timed(|| nops(120)) - timed(|| nops(20))
}

fn timed(run: impl Fn()) -> u64 {
    let began = arch::clock();
    run();
    arch::clock().wrapping_sub(began)
}

/// So many thousands of instructions, and a few to count them.
#[inline(never)]
fn nops(thousands: u32) {
    for _ in 0..thousands {
        // SAFETY: what is executed does nothing.
        unsafe { asm!(".rept 1000", "nop", ".endr", options(nostack, preserves_flags)) };
    }
}
