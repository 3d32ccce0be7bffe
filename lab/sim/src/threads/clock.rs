//! The clock of a thread that stands for a CPU, and a loop that takes a given time.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::LazyLock;

use freehold_timing::clock;

use crate::cpu::PS_PER_NS;

/// How often the clock should be read, in picoseconds.
pub(super) const READ_EVERY: u64 = 20_000_000;
/// Most steps between two readings.
const STEPS_MAX: u64 = 4096;
/// Rounds of a short and of a long turn of the loop, whose times are compared.
const ROUNDS: [u64; 2] = [64, 1088];
/// Turns that are timed together, and attempts at it: interruptions only make them longer, so the shortest counts.
const TURNS: u64 = 256;
const ATTEMPTS: u32 = 40;

std::thread_local! {
    /// The calling thread's CPU.
    pub static HERE: Here = const { Here::new() };
}

/// The loop, measured.
pub(super) static SPIN: LazyLock<Spin> = LazyLock::new(Spin::measure);

/// The CPU that a thread stands for, and its clock.
pub(super) struct Here {
    /// The CPU's number.
    pub cpu: Cell<u16>,
    /// The last reading of the clock, in picoseconds since the run began.
    pub now: Cell<u64>,
    /// CPU time of the thread when the run began, in nanoseconds.
    began: Cell<u64>,
    /// Steps until the next reading.
    steps_left: Cell<u64>,
    /// Steps from the last one to the next one.
    steps: Cell<u64>,
}

impl Here {
    const fn new() -> Here {
        let (now, began, steps_left, steps) = (Cell::new(0), Cell::new(0), Cell::new(1), Cell::new(1));
        Here { cpu: Cell::new(0), now, began, steps_left, steps }
    }

    /// The thread stands for this CPU, whose clock starts now.
    pub(super) fn start(&self, cpu: u16) {
        self.cpu.set(cpu);
        self.began.set(clock::now());
        self.now.set(0);
        self.read_next_after(1);
    }

    /// Takes a step; says whether the clock is to be read.
    #[inline]
    pub(super) fn step(&self) -> bool {
        self.steps_left.set(self.steps_left.get().saturating_sub(1));
        self.steps_left.get() == 0
    }

    /// Reads the clock, and decides when to read it next.
    pub(super) fn read(&self) -> u64 {
        let now = (clock::now() - self.began.get()) * PS_PER_NS;
        let elapsed = (now - self.now.get()).max(1);
        let taken = self.steps.get() - self.steps_left.get();
        // Without a step it waited, which tells nothing about steps.
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
    /// What a turn takes apart from its rounds, in picoseconds.
    turn: u64,
    /// What 1024 rounds take.
    rounds: u64,
}

impl Spin {
    fn measure() -> Spin {
        let [short, long] = ROUNDS.map(shortest_turn);
        let rounds = (long.saturating_sub(short) * 1024 / (ROUNDS[1] - ROUNDS[0])).max(1);
        Spin { turn: short.saturating_sub(rounds * ROUNDS[0] / 1024), rounds }
    }

    /// Takes so many picoseconds, or a little more where they are very few.
    pub(super) fn spin(&self, picoseconds: u64) {
        if picoseconds > self.turn {
            spin((picoseconds - self.turn) * 1024 / self.rounds);
        }
    }
}

/// Returns the picoseconds of a turn of so many rounds: the shortest of all attempts.
fn shortest_turn(rounds: u64) -> u64 {
    let attempts = (0..ATTEMPTS).map(|_| clock::time(TURNS, || (0..TURNS).for_each(|_| spin(rounds))).nanoseconds);
    attempts.min().unwrap_or(0) * PS_PER_NS / TURNS
}

/// Takes time, and the compiler cannot know how little it does.
#[inline(never)]
fn spin(rounds: u64) {
    let mut sum = 0u64;
    for round in 0..rounds {
        sum = black_box(sum ^ round);
    }
}
