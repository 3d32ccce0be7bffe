//! Forks while other threads allocate: every child must be able to allocate too, and exit.
//!
//! A malloc that does not prepare for forks may leave a lock held that is never released in the child. A child is ended
//! by a signal after [`PATIENCE`] seconds, and then counts as lost. After [`LOST_MAX`] lost children no more are
//! forked.

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
/// Blocks that they replace before they sleep, and the time of sleep, so that a child sometimes has a CPU for itself.
const AT_ONCE: usize = 100;
const REST: Duration = Duration::from_micros(100);
/// Maximum seconds of a child.
const PATIENCE: u32 = 3;
/// Number of lost children after which the load ends early.
const LOST_MAX: usize = 10;

/// Forks `count` times.
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

/// Returns the number of children, and how many of them failed.
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

/// Replaces blocks until the load is over.
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
