//! What it costs that two CPUs use the same memory, measured on atomics alone.
//!
//! A line that one CPU wrote last must travel before another can use it. Where the next step waits for it, as at a
//! lock, the whole way counts (`handover`); where the processor runs ahead, as in a walk over frames that somebody else
//! wrote, several are on their way at once (`stream`).

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::error::Error;
use crate::meeting::beside;

/// Lines of a stream: twice what a level-1 cache holds, so that they come from where a busy CPU has them.
const LINES: usize = 2048;

/// A cache line to itself, with its neighbour, which processors fetch along.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// A cache line.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// Picoseconds that a line takes from one CPU to another which waits for it: half of a round trip.
///
/// # Errors
/// When the second thread may not run there.
pub fn handover(partner: u16, round_trips: u64) -> Result<f64, Error> {
    let line = Apart::default();
    let turn = |wanted: u64, trips: u64| {
        for trip in 0..trips {
            while line.0.load(Ordering::Acquire) != 2 * trip + wanted {
                spin_loop();
            }
            line.0.store(2 * trip + wanted + 1, Ordering::Release);
        }
    };
    let timed = || {
        let start = Instant::now();
        turn(0, round_trips);
        start.elapsed()
    };
    let (elapsed, ()) = beside(partner, |_| timed(), |_| turn(1, round_trips))?;
    Ok(elapsed.as_nanos() as f64 * 1000.0 / (2 * round_trips) as f64)
}

/// Picoseconds a line of a walk over lines that another CPU wrote, beyond those of the same walk over the CPU's own.
///
/// # Errors
/// When the second thread may not run there.
pub fn stream(partner: u16, walks: u32) -> Result<f64, Error> {
    let lines: Vec<Line> = (0..LINES).map(|_| Line::default()).collect();
    let walk = || {
        let start = Instant::now();
        lines.iter().for_each(|line| line.0.store(black_box(line.0.load(Ordering::Relaxed) + 1), Ordering::Relaxed));
        start.elapsed().as_nanos() as f64
    };
    let (foreign, _) = beside(
        partner,
        |meeting| {
            let mut beyond = 0.0;
            for _ in 0..walks {
                meeting.wait();
                meeting.wait();
                beyond += walk() - walk();
            }
            beyond
        },
        |meeting| {
            for _ in 0..walks {
                meeting.wait();
                black_box(walk());
                meeting.wait();
            }
        },
    )?;
    Ok(foreign * 1000.0 / (LINES as f64 * f64::from(walks)))
}
