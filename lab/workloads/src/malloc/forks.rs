//! Forks while other threads allocate: every child must be able to allocate too, and end.
//!
//! A malloc that does not prepare for forks may leave a lock taken that nobody in the child will ever release. A child
//! ends after [`PATIENCE`] by a signal, and counts as lost; after [`LOST_MAX`] of them no more are made.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::block::Block;
use super::cost::{Cost, Start};
use super::held::fill_block;
use super::system;
use super::threads::allocate_mixture;
use super::work::size;

/// Threads that allocate meanwhile.
const THREADS: usize = 2;
/// Blocks that they replace before they rest, so that a child has a CPU for itself now and then.
const AT_ONCE: usize = 100;
const REST: Duration = Duration::from_micros(100);
/// Seconds that a child may take.
const PATIENCE: u32 = 3;
/// Lost children after which it is known.
const LOST_MAX: usize = 10;

/// Forks so many times.
pub(super) fn forks(count: usize) -> io::Result<Cost> {
    let start = Start::now()?;
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || replace_until(is_over, number));
        }
        let cost = children(count).and_then(|(made, lost)| Ok(Cost { lost, ..Cost::since(start, 0, made)? }));
        is_over.store(true, Relaxed);
        cost
    })
}

/// How many children were made, and how many of them did not end well.
fn children(count: usize) -> io::Result<(usize, usize)> {
    let (mut made, mut lost) = (0, 0);
    while made < count && lost < LOST_MAX {
        let child = system::fork_child(PATIENCE, || _ = allocate_mixture(made))?;
        made += 1;
        lost += usize::from(!ended_well(child)?);
    }
    Ok((made, lost))
}

fn ended_well(child: Pid) -> io::Result<bool> {
    let status = waitpid(Some(child), WaitOptions::empty())?;
    Ok(status.is_some_and(|(_, status)| status.exit_status() == Some(0)))
}

/// Replaces blocks until it is over.
fn replace_until(is_over: &AtomicBool, number: usize) {
    let mut chance = Rng::with_seed(number as u64);
    let mut blocks: Vec<Block> = (0..100).map(|_| fill_block(size(&mut chance))).collect();
    while !is_over.load(Relaxed) {
        for _ in 0..AT_ONCE {
            let at = chance.usize(..blocks.len());
            blocks[at] = fill_block(size(&mut chance));
        }
        thread::sleep(REST);
    }
}
