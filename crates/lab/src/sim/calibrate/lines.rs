//! What it costs that two CPUs use the same memory, measured on atomics alone.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::bench::clock::time;
use crate::error::Error;
use crate::meeting::{Meeting, beside};
use crate::sim::cpu::PS_PER_NS;

/// A cache line to itself, with its neighbour, which processors fetch along.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

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
    let timed = |meeting: &Meeting| {
        meeting.wait();
        let start = Instant::now();
        turn(0, round_trips);
        start.elapsed()
    };
    let answer = |meeting: &Meeting| {
        meeting.wait();
        turn(1, round_trips);
    };
    let (elapsed, ()) = beside(partner, timed, answer)?;
    Ok(elapsed.as_nanos() as f64 * PS_PER_NS as f64 / (2 * round_trips) as f64)
}

/// Picoseconds of an exchange in a line that nobody else wants.
pub fn swap(times: u64) -> f64 {
    let line = Apart::default();
    let sample = time(times, || {
        for _ in 0..times {
            black_box(line.0.swap(1, Ordering::AcqRel));
        }
    });
    sample.each() * PS_PER_NS as f64
}
