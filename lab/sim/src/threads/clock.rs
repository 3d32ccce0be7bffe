//! The clock of a thread that runs as a CPU, and a loop that takes a given time.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::LazyLock;

use freehold_timing::clock;

use crate::cpu::PS_PER_NS;

/// Target interval between two readings of the clock, in picoseconds.
pub(super) const READ_EVERY: u64 = 20_000_000;
/// Maximum number of steps between two readings.
const STEPS_MAX: u64 = 4096;
/// Rounds of a short and a long turn of the loop. The difference of their times gives the time of a round.
const ROUNDS: [u64; 2] = [64, 1088];
/// Turns that are timed together, and number of attempts. Interruptions only lengthen an attempt, so the shortest one
/// counts.
const TURNS: u64 = 256;
const ATTEMPTS: u32 = 40;

std::thread_local! {
    /// The CPU that the calling thread runs as.
    pub static HERE: Here = const { Here::new() };
}

/// The calibrated loop.
pub(super) static SPIN: LazyLock<Spin> = LazyLock::new(Spin::measure);

/// The CPU that a thread runs as, and its clock.
pub(super) struct Here {
    /// Number of the CPU.
    pub cpu: Cell<u16>,
    /// Last reading of the clock, in picoseconds since the run began.
    pub now: Cell<u64>,
    /// CPU time of the thread when the run began, in nanoseconds.
    began: Cell<u64>,
    /// Steps until the next reading.
    steps_left: Cell<u64>,
    /// Steps between the last reading and the next one.
    steps: Cell<u64>,
}

impl Here {
    const fn new() -> Here {
        let (now, began, steps_left, steps) = (Cell::new(0), Cell::new(0), Cell::new(1), Cell::new(1));
        Here { cpu: Cell::new(0), now, began, steps_left, steps }
    }

    /// Makes the thread run as this CPU, whose clock starts now.
    pub(super) fn start(&self, cpu: u16) {
        self.cpu.set(cpu);
        self.began.set(clock::now());
        self.now.set(0);
        self.read_next_after(1);
    }

    /// Counts a step. Returns whether the clock must be read now.
    #[inline]
    pub(super) fn step(&self) -> bool {
        self.steps_left.set(self.steps_left.get().saturating_sub(1));
        self.steps_left.get() == 0
    }

    /// Reads the clock, and sets the number of steps until the next reading.
    pub(super) fn read(&self) -> u64 {
        let now = (clock::now() - self.began.get()) * PS_PER_NS;
        let elapsed = (now - self.now.get()).max(1);
        let taken = self.steps.get() - self.steps_left.get();
        // Without a step the CPU has only waited, so the interval does not show the time of a step.
        let fitting = if taken == 0 { self.steps.get() } else { taken * READ_EVERY / elapsed };
        self.read_next_after(fitting.clamp(1, STEPS_MAX));
        self.now.set(now);
        now
    }

    fn read_next_after(&self, steps: u64) {
        self.steps.set(steps);
        self.steps_left.set(steps);
    }
}

/// A loop that takes a given time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spin {
    /// Time of a turn without its rounds, in picoseconds.
    turn: u64,
    /// Time of 1024 rounds, in picoseconds.
    rounds: u64,
}

impl Spin {
    fn measure() -> Spin {
        let [short, long] = ROUNDS.map(shortest_turn);
        let rounds = (long.saturating_sub(short) * 1024 / (ROUNDS[1] - ROUNDS[0])).max(1);
        Spin { turn: short.saturating_sub(rounds * ROUNDS[0] / 1024), rounds }
    }

    /// Spins for a given time. The overhead of a turn is the minimum.
    pub(super) fn spin(&self, picoseconds: u64) {
        if picoseconds > self.turn {
            spin((picoseconds - self.turn) * 1024 / self.rounds);
        }
    }
}

/// Returns the picoseconds of a turn with `rounds` rounds: the shortest of all attempts.
fn shortest_turn(rounds: u64) -> u64 {
    let attempts = (0..ATTEMPTS).map(|_| clock::time(TURNS, || (0..TURNS).for_each(|_| spin(rounds))).nanoseconds);
    attempts.min().unwrap_or(0) * PS_PER_NS / TURNS
}

/// Runs rounds of a loop that the compiler cannot remove.
#[inline(never)]
fn spin(rounds: u64) {
    let mut sum = 0u64;
    for round in 0..rounds {
        sum = black_box(sum ^ round);
    }
}
