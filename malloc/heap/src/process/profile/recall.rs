//! Cache of stacks, and a check of whether a cached stack is still the current one.
//!
//! A walk of a stack takes a third of a microsecond per call. A check that each return address of an earlier walk is
//! still in its place takes only a few instructions per call. The check is valid for this reason: if a function has the
//! same position on the stack and the same return address, then its caller continues at the same instruction with the
//! same stack pointer. So the caller's frame has the same size, and the next address is in the same place as before.
//! Only a frame of variable size could differ, and then its memory would have to contain that same address by accident.
//! Processors that pass return addresses in a register leave no such trail, so nothing is cached on them.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use rustix::io::Errno;

use super::stack::{CALLS, Stack};
use crate::os::mmap::Reservation;

/// Stacks in each set. A set holds stacks of walks that began at one position, or at a few others.
const WAYS: usize = 8;
const SETS: usize = 128;
/// Bytes between positions that select different sets.
const PLACE: usize = 16;

/// A recorded walk: its start, and the location of each return address.
#[derive(Debug)]
struct RecordedWalk {
    from: usize,
    slots: [usize; CALLS],
    stack: Stack,
}

#[derive(Debug)]
struct Set {
    /// Whether a thread reads or writes the set. Other threads do not wait for it.
    is_busy: AtomicBool,
    /// Index, modulo `WAYS`, of the walk that is replaced next.
    oldest: UnsafeCell<usize>,
    ways: UnsafeCell<[RecordedWalk; WAYS]>,
}

/// Recorded walks.
#[derive(Debug)]
pub(super) struct Recall {
    sets: Reservation,
}

impl Recall {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// If the address space has no room.
    pub(super) fn new() -> Result<Recall, Errno> {
        Ok(Recall { sets: Reservation::new(SETS * size_of::<Set>(), align_of::<Set>())? })
    }

    /// Returns the stack of a walk from `from`, if an identical walk was recorded.
    ///
    /// # Safety
    /// `from` is a position in the calling thread's stack, in the frame in which walks begin.
    pub(super) unsafe fn find(&self, from: usize) -> Option<Stack> {
        self.with(from, |_, ways| {
            // SAFETY: the caller promises that `from`, at which the recorded walk began, is in its own stack.
            ways.iter().find(|known| known.from == from && unsafe { known.is_there() }).map(|known| known.stack)
        })?
    }

    /// Records a walk, if each of its return addresses can be found again.
    ///
    /// # Safety
    /// As for [`find`](Self::find), and the walk from `from` was made just now.
    pub(super) unsafe fn note(&self, from: usize, stack: &Stack, slots: &[usize; CALLS]) {
        let known = RecordedWalk { from, slots: *slots, stack: *stack };
        // SAFETY: the caller promises that the walk began in its own stack and was made just now.
        if cfg!(target_arch = "x86_64") && unsafe { known.is_there() } {
            self.with(from, |oldest, ways| {
                ways[*oldest % WAYS] = known;
                *oldest += 1;
            });
        }
    }

    fn with<R>(&self, from: usize, look: impl FnOnce(&mut usize, &mut [RecordedWalk; WAYS]) -> R) -> Option<R> {
        let index = (from / PLACE).wrapping_mul(0x9e37_79b9) >> 16 & (SETS - 1);
        // SAFETY: the index is below `SETS`, so the set is inside the reservation, and zeroed memory is a valid set.
        let set = unsafe { self.sets.start().cast::<Set>().add(index).as_ref() };
        if set.is_busy.swap(true, Acquire) {
            return None;
        }
        // SAFETY: this call has set `is_busy`, so no other call accesses the contents until it is cleared.
        let result = unsafe { look(&mut *set.oldest.get(), &mut *set.ways.get()) };
        set.is_busy.store(false, Release);
        Some(result)
    }
}

impl RecordedWalk {
    /// Returns whether each return address is in its recorded place. The first one, which points into the walk itself,
    /// is not checked, because it is always there.
    ///
    /// # Safety
    /// The calling thread's stack contains the position at which the walk began.
    unsafe fn is_there(&self) -> bool {
        let calls = self.stack.calls().iter().zip(&self.slots).skip(1);
        calls.into_iter().all(|(&address, &slot)| {
            // SAFETY: all earlier return addresses are in their places, so the stack extends at least to this one.
            slot.is_multiple_of(size_of::<usize>()) && unsafe { (slot as *const usize).read_volatile() } == address
        })
    }
}
