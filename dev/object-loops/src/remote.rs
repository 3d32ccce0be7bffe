//! The loop of two threads: this thread allocates, and a thread on another CPU frees.
//!
//! The threads take turns, so that each is timed alone: one waits while the other works. They hand over through an
//! atomic variable that the waiting thread polls. After many polls it yields its CPU, because both threads may have to
//! share one.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::Objects;
use crate::array::ObjectArray;
use crate::rounds::{Rounds, Size, Trouble};

/// Polls before the CPU is yielded.
const PATIENCE: u32 = 20_000;
/// Turn that ends the loop.
const OVER: u32 = u32::MAX;

/// Allocates `count` objects on this thread and frees them on a new thread. Returns the ticks of both steps for each
/// timed round. The new thread calls `settle` first, which moves it to its CPU.
///
/// # Errors
/// Returns an error if an allocation or `settle` fails.
pub(crate) fn remote(
    objects: &(impl Objects + ?Sized),
    size: Size,
    count: usize,
    rounds: Rounds,
    settle: &(dyn Fn() -> Result<(), String> + Sync),
) -> Result<Vec<[u64; 2]>, Trouble> {
    let (array, turn) = (ObjectArray::new(count), Turn::default());
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let settled = settle().map_err(Trouble::Settle);
            objects.enter_thread();
            let freed = free_in_turn(objects, &array, &turn);
            objects.leave_thread();
            settled.map(|()| freed)
        });
        let filled = fill_in_turn(objects, size, rounds, &array, &turn);
        let freed = other.join().expect("the other thread does not panic");
        let (filled, freed) = (filled?, freed?);
        Ok(filled.into_iter().zip(rounds.keep_timed(freed)).map(|(fill, free)| [fill, free]).collect())
    })
}

/// Runs the allocating side. It always ends by setting the turn that ends the other side, even after an error.
fn fill_in_turn(
    objects: &(impl Objects + ?Sized),
    size: Size,
    rounds: Rounds,
    array: &ObjectArray,
    turn: &Turn,
) -> Result<Vec<u64>, Trouble> {
    let mut round = 0;
    let filled = rounds.run(|| {
        let filled = array.fill(objects, size)?;
        turn.give(2 * round + 1);
        turn.wait(|turn| turn == 2 * round + 2);
        round += 1;
        Ok(filled)
    });
    turn.give(OVER);
    filled
}

/// Runs the freeing side: frees all objects on every odd turn.
fn free_in_turn(objects: &(impl Objects + ?Sized), array: &ObjectArray, turn: &Turn) -> Vec<u64> {
    let mut freed = Vec::new();
    loop {
        let now = turn.wait(|turn| turn % 2 == 1);
        if now == OVER {
            return freed;
        }
        // SAFETY: the allocating side sets an odd turn after each successful `fill` with this allocator, and this
        // thread clears the array once per odd turn.
        freed.push(unsafe { array.clear(objects) });
        turn.give(now + 1);
    }
}

/// Number of the current turn. Odd turns belong to the freeing side, even turns to the allocating side.
#[derive(Default)]
struct Turn(AtomicU32);

impl Turn {
    fn give(&self, turn: u32) {
        self.0.store(turn, Ordering::Release);
    }

    /// Waits until `is_mine` accepts the turn, and returns the turn.
    fn wait(&self, is_mine: impl Fn(u32) -> bool) -> u32 {
        let mut looks = 0u32;
        loop {
            let turn = self.0.load(Ordering::Acquire);
            if is_mine(turn) {
                return turn;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(PATIENCE) { thread::yield_now() } else { spin_loop() }
        }
    }
}
