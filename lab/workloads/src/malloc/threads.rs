//! Loads of several threads, in which one thread may free memory that another allocated.

use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use fastrand::Rng;

use super::block::{Block, Live};
use super::work::{block, size};

/// Number of threads of a load with few threads.
const FEW: usize = 4;

/// Runs threads that replace random blocks, and pass all blocks on to their successors.
pub(super) fn larson(rounds: usize) -> Live {
    let mut all: Vec<Vec<Block>> = (0..FEW).map(|_| (0..1000).map(|_| block(100)).collect()).collect();
    for round in 0..rounds {
        let threads: Vec<_> = all
            .drain(..)
            .enumerate()
            .map(|(number, mut mine)| {
                thread::spawn(move || {
                    let mut chance = Rng::with_seed((round * FEW + number) as u64);
                    for _ in 0..60_000 {
                        let at = chance.usize(..mine.len());
                        mine[at] = block(chance.usize(8..=1000));
                    }
                    mine
                })
            })
            .collect();
        all = threads.into_iter().map(|thread| thread.join().expect("an allocating thread does not panic")).collect();
    }
    Live::new(all.into_iter().flatten().collect())
}

/// Runs a thread that allocates batches, and another that frees them.
pub(super) fn pass(batches: usize) -> Live {
    let (send, receive) = sync_channel::<Vec<Block>>(16);
    let frees = thread::spawn(move || receive.into_iter().map(|batch| batch.len()).sum::<usize>());
    let mut chance = Rng::with_seed(5);
    for _ in 0..batches {
        let batch = (0..1000).map(|_| block(chance.usize(16..=256))).collect();
        if send.send(batch).is_err() {
            break;
        }
    }
    drop(send);
    black_box(frees.join().expect("a freeing thread does not panic"));
    Live::default()
}

/// Runs threads that keep some blocks, swap some with each other, and free the rest.
pub(super) fn mixed(steps: usize) -> Live {
    let shared: Vec<Mutex<Option<Block>>> = (0..1000).map(|_| Mutex::new(None)).collect();
    let kept = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..FEW as u64 {
            let (shared, kept) = (&shared, &kept);
            scope.spawn(move || {
                let mut chance = Rng::with_seed(number);
                let mut mine: Vec<Block> = Vec::new();
                for step in 0..steps / FEW {
                    let new = block(size(&mut chance));
                    match step % 10 {
                        0 => mine.push(new),
                        1 => {
                            let place = &shared[chance.usize(..shared.len())];
                            drop(place.lock().unwrap_or_else(PoisonError::into_inner).replace(new));
                        }
                        _ => drop(new),
                    }
                    if mine.len() > 5000 {
                        mine.truncate(1000);
                    }
                }
                kept.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
            });
        }
    });
    Live::new(kept.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs threads that free a block of another thread, and write repeatedly to their own small blocks. If the malloc puts
/// blocks of several threads into one cache line, the writes contend.
pub(super) fn scratch(rounds: usize) -> Live {
    let given: Vec<Block> = (0..FEW).map(|_| block(8)).collect();
    let threads: Vec<_> = given
        .into_iter()
        .map(|given| {
            thread::spawn(move || {
                drop(given);
                for round in 0..rounds {
                    let mut own = block(8);
                    for _ in 0..40 {
                        black_box(&mut own)[0].write(round as u8);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a writing thread does not panic"));
    Live::default()
}

/// Allocates and frees a mixture of 200 blocks: the work of each of many threads. Returns the number of blocks.
pub(super) fn allocate_mixture(number: usize) -> usize {
    let mut chance = Rng::with_seed(number as u64);
    let blocks: Vec<Block> = (0..200).map(|_| block(size(&mut chance))).collect();
    black_box(blocks).len()
}

/// Runs threads one after the other.
pub(super) fn run_in_sequence(count: usize) -> Live {
    for number in 0..count {
        black_box(thread::spawn(move || allocate_mixture(number)).join().expect("an allocating thread does not panic"));
    }
    Live::default()
}

/// Runs threads at the same time.
pub(super) fn run_at_once(count: usize) -> Live {
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        for number in 0..count {
            let barrier = &barrier;
            let thread = thread::Builder::new().stack_size(64 << 10);
            let started = thread.spawn_scoped(scope, move || {
                allocate_mixture(number);
                barrier.wait();
            });
            started.expect("the system has resources for this many threads");
        }
    });
    Live::default()
}
