//! How long the engine's paths take, on one thread of the thread platform, with real locks.
//!
//! ```text
//! cargo bench -p freehold                 all cases
//! cargo bench -p freehold -- 'order 0'    cases with this in their names
//! cargo bench -p freehold -- --smoke      one short round of each, to see that they run
//! ```
//!
//! Each case runs under every policy in turn, round after round, so that a slow moment of the machine hits all of them.
//! Shown are the median and the best of the rounds, in nanoseconds an operation, and the ratio of the median to the first
//! policy's. A pair is an allocation and a free. The time is the thread's CPU time: other programs do not count,
//! though they still disturb the caches.

use std::hint::black_box;

use fastrand::Rng;
use freehold::Policy;
use freehold::base::{Gfp, Order, Pfn};
use freehold::machine;
use freehold::page::{Config, PageAllocator};
use freehold::platform::NoProbe;
use freehold::platform::host::Threads;
use rustix::time::{ClockId, clock_gettime};

type Engine<'m> = PageAllocator<'m, Threads<NoProbe>>;

/// Frames of a gibibyte.
const GIB: u32 = 1 << 18;

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// Pairs in a round of the pair cases.
    pairs: u32,
    /// Frames of the fill cases.
    frames: u32,
}

const FULL: Effort = Effort { rounds: 15, pairs: 1_000_000, frames: GIB };
const SMOKE: Effort = Effort { rounds: 1, pairs: 1000, frames: 1 << 12 };

/// One thing to be timed: returns the time and the number of operations in it.
struct Case {
    name: &'static str,
    run: fn(&Engine<'_>, Effort) -> (f64, u64),
}

const CASES: [Case; 5] = [
    Case { name: "order 0, alloc+free pair", run: |engine, effort| pair(engine, effort, Gfp::KERNEL, 0) },
    Case { name: "order 3, alloc+free pair", run: |engine, effort| pair(engine, effort, Gfp::KERNEL, 3) },
    Case { name: "order 9, alloc+free pair", run: |engine, effort| pair(engine, effort, Gfp::TRANSHUGE, 9) },
    Case { name: "order 4, alloc+free pair", run: |engine, effort| pair(engine, effort, Gfp::KERNEL, 4) },
    Case { name: "1 GiB of order 0, filled, then freed at random", run: fill },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let smoke = arguments.iter().any(|argument| argument == "--smoke");
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-')).map_or("", String::as_str);
    let effort = if smoke { SMOKE } else { FULL };
    let policies = [("linux-6.12", Policy::LINUX_6_12), ("freehold", Policy::FREEHOLD)];
    println!("{:<48} {:<12} {:>8} {:>8} {:>7}", "case", "policy", "median", "best", "ratio");
    for case in CASES.iter().filter(|case| case.name.contains(wanted)) {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..effort.rounds {
            for (times, (_, policy)) in times.iter_mut().zip(policies) {
                times.push(measure(case, effort, policy));
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let medians = times.each_ref().map(|times| times[times.len() / 2]);
        for ((times, median), (policy, _)) in times.iter().zip(medians).zip(policies) {
            let (best, ratio) = (times[0], median / medians[0]);
            println!("{:<48} {policy:<12} {median:>8.1} {best:>8.1} {ratio:>7.2}", case.name);
        }
    }
}

/// Nanoseconds an operation of one run in a new machine of 2 GiB, half of it to spare.
fn measure(case: &Case, effort: Effort, policy: Policy) -> f64 {
    let config = Config { policy, ..Config::default() };
    machine::with_memory(Threads::default(), &config, 2 * GIB, |engine| {
        let (time, operations) = (case.run)(engine, effort);
        time / operations as f64
    })
    .expect("the configuration is right")
}

fn pair(engine: &Engine<'_>, effort: Effort, gfp: Gfp, order: u8) -> (f64, u64) {
    // Not known to the compiler, so that nothing is worked out ahead.
    let (gfp, order) = (black_box(gfp), black_box(Order::new(order)));
    let once = || {
        let pfn = engine.alloc_pages(gfp, order).expect("memory is plenty");
        engine.free_pages(pfn, order).expect("the block is ours");
    };
    once();
    let start = cpu_time();
    (0..effort.pairs).for_each(|_| once());
    (cpu_time() - start, u64::from(effort.pairs))
}

/// From an empty start: every page once, then back in random order. An allocation and a free count as two operations; the
/// shuffling in between does not count.
fn fill(engine: &Engine<'_>, effort: Effort) -> (f64, u64) {
    let mut pages = vec![Pfn::new(0); effort.frames as usize];
    let start = cpu_time();
    for page in &mut pages {
        *page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("memory is plenty");
    }
    let filled = cpu_time();
    Rng::with_seed(1).shuffle(&mut pages);
    let shuffled = cpu_time();
    for &page in &pages {
        engine.free_pages(page, Order::ZERO).expect("the page is ours");
    }
    (cpu_time() - shuffled + (filled - start), 2 * u64::from(effort.frames))
}

/// Nanoseconds that this thread has run so far.
fn cpu_time() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}
