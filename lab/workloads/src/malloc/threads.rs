//! Loads of several threads: what one allocates, another may free.

use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use fastrand::Rng;

use super::block::{Block, Live};
use super::work::{block, size};

/// Threads of a load that has a few.
const FEW: usize = 4;

/// Threads replace what they have, and their successors go on with it.
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
        all = threads.into_iter().map(|thread| thread.join().expect("it only allocates")).collect();
    }
    Live::new(all.into_iter().flatten().collect())
}

/// One allocates, another frees.
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
    black_box(frees.join().expect("it only frees"));
    Live::default()
}

/// Threads keep some, swap some with each other, and free the rest.
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

/// Threads free an object of somebody else's, and write to their own, which would share a line with another's if the
/// malloc put them there.
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
    threads.into_iter().for_each(|thread| thread.join().expect("it only writes"));
    Live::default()
}

/// What each of many threads does: it allocates and frees a mixture.
pub(super) fn allocate_mixture(number: usize) -> usize {
    let mut chance = Rng::with_seed(number as u64);
    let blocks: Vec<Block> = (0..200).map(|_| block(size(&mut chance))).collect();
    black_box(blocks).len()
}

/// Threads that come and go.
pub(super) fn run_in_sequence(count: usize) -> Live {
    for number in 0..count {
        black_box(thread::spawn(move || allocate_mixture(number)).join().expect("it only allocates"));
    }
    Live::default()
}

/// Threads that are there at the same time.
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
            started.expect("the system allows as many threads");
        }
    });
    Live::default()
}
