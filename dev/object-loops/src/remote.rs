//! The loop of two threads: this one allocates, another one on another CPU frees.
//!
//! They take turns, so that each is timed alone: while one works the other waits. They hand over by an atomic that the
//! other looks at again and again; after many looks it lets others have its CPU, which may be the only one.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::Objects;
use crate::array::ObjectArray;
use crate::rounds::{Rounds, Size, Trouble};

/// Looks before the CPU is given to somebody else.
const PATIENCE: u32 = 20_000;
/// The turn that ends it all.
const OVER: u32 = u32::MAX;

/// So many objects allocated here and freed by a new thread: ticks of both, for each timed round. The new thread begins
/// with `settle`, which moves it to its CPU.
///
/// # Errors
/// When an allocation fails, or `settle` does.
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

/// The allocator's part. Whatever happens, it ends with the turn that ends the other's.
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

/// The other's part: frees whenever it is its turn, which odd numbers say.
fn free_in_turn(objects: &(impl Objects + ?Sized), array: &ObjectArray, turn: &Turn) -> Vec<u64> {
    let mut freed = Vec::new();
    loop {
        let now = turn.wait(|turn| turn % 2 == 1);
        if now == OVER {
            return freed;
        }
        // SAFETY: an odd turn is given when the array has been filled, once each.
        freed.push(unsafe { array.clear(objects) });
        turn.give(now + 1);
    }
}

/// Whose turn it is.
#[derive(Default)]
struct Turn(AtomicU32);

impl Turn {
    fn give(&self, turn: u32) {
        self.0.store(turn, Ordering::Release);
    }

    /// Waits for a turn, and says which it is.
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
