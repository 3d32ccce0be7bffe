//! Stacks that were taken before, and how to see that one is still there.
//!
//! To walk a stack takes a third of a microsecond a call; to look whether each return address of a walk is where it
//! was, a few steps. If a function is at the same place of the stack with the same return address, its caller goes on
//! at the same place with the same stack pointer; so its frame has the same size, and the next address is the one to
//! look at. Only a frame that takes room as it goes could have another size; then what lies there would have to be that
//! very address. Processors that return by a register leave no such trail, and recall nothing.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use rustix::io::Errno;

use super::stack::{CALLS, Stack};
use crate::os::mmap::Reservation;

/// Stacks that are known of walks that began at the same place, or at few others.
const WAYS: usize = 8;
const SETS: usize = 128;
/// Bytes between places that are told apart.
const PLACE: usize = 16;

/// A walk that was made: where from, and where each return address was found.
#[derive(Debug)]
struct RecordedWalk {
    from: usize,
    slots: [usize; CALLS],
    stack: Stack,
}

#[derive(Debug)]
struct Set {
    /// Whether somebody looks, or writes one down. Nobody waits for that.
    is_busy: AtomicBool,
    /// The one that is forgotten next.
    oldest: UnsafeCell<usize>,
    ways: UnsafeCell<[RecordedWalk; WAYS]>,
}

/// Walks that were made.
#[derive(Debug)]
pub(super) struct Recall {
    sets: Reservation,
}

impl Recall {
    /// Nothing yet.
    ///
    /// # Errors
    /// If the address space has no room.
    pub(super) fn new() -> Result<Recall, Errno> {
        Ok(Recall { sets: Reservation::new(SETS * size_of::<Set>(), align_of::<Set>())? })
    }

    /// The stack of a walk from here, if one like it was made before.
    ///
    /// # Safety
    /// `from` is a place of the calling thread's stack, and of the frame that walks begin with.
    pub(super) unsafe fn find(&self, from: usize) -> Option<Stack> {
        self.with(from, |_, ways| {
            // SAFETY: the caller is within that very stack.
            ways.iter().find(|known| known.from == from && unsafe { known.is_there() }).map(|known| known.stack)
        })?
    }

    /// Writes a walk down, if each of its return addresses can be found again.
    ///
    /// # Safety
    /// As for [`find`](Self::find), and the walk was made from there just now.
    pub(super) unsafe fn note(&self, from: usize, stack: &Stack, slots: &[usize; CALLS]) {
        let known = RecordedWalk { from, slots: *slots, stack: *stack };
        // SAFETY: the caller is within that very stack.
        if cfg!(target_arch = "x86_64") && unsafe { known.is_there() } {
            self.with(from, |oldest, ways| {
                ways[*oldest % WAYS] = known;
                *oldest += 1;
            });
        }
    }

    fn with<R>(&self, from: usize, look: impl FnOnce(&mut usize, &mut [RecordedWalk; WAYS]) -> R) -> Option<R> {
        let index = (from / PLACE).wrapping_mul(0x9e37_79b9) >> 16 & (SETS - 1);
        // SAFETY: within the reservation, of which zeros are a set.
        let set = unsafe { self.sets.start().cast::<Set>().add(index).as_ref() };
        if set.is_busy.swap(true, Acquire) {
            return None;
        }
        // SAFETY: whoever has made the set busy has what is in it.
        let result = unsafe { look(&mut *set.oldest.get(), &mut *set.ways.get()) };
        set.is_busy.store(false, Release);
        Some(result)
    }
}

impl RecordedWalk {
    /// Whether each return address is where it was, but for that into the walk itself, which is always there.
    ///
    /// # Safety
    /// The caller is within that very stack.
    unsafe fn is_there(&self) -> bool {
        let calls = self.stack.calls().iter().zip(&self.slots).skip(1);
        calls.into_iter().all(|(&address, &slot)| {
            // SAFETY: all before it are where they were, so the stack goes on to here.
            slot.is_multiple_of(size_of::<usize>()) && unsafe { (slot as *const usize).read_volatile() } == address
        })
    }
}
