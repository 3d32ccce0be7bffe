//! Loops of one thread: fill and pair.

use crate::Objects;
use crate::array::ObjectArray;
use crate::clock::now;
use crate::rounds::{Rounds, Size, Trouble};

/// Allocates `count` objects and then frees them in the order of allocation. Returns the ticks of both steps for each
/// timed round.
pub(crate) fn fill(
    objects: &(impl Objects + ?Sized),
    size: Size,
    count: usize,
    rounds: Rounds,
) -> Result<Vec<[u64; 2]>, Trouble> {
    let array = ObjectArray::new(count);
    rounds.run(|| {
        let filled = array.fill(objects, size)?;
        // SAFETY: `fill` has just succeeded with the same allocator, and the array has not been cleared since.
        let cleared = unsafe { array.clear(objects) };
        Ok([filled, cleared])
    })
}

/// Allocates `count` objects and frees each immediately after its allocation. Returns the ticks of each timed round.
pub(crate) fn pair(
    objects: &(impl Objects + ?Sized),
    size: Size,
    count: usize,
    rounds: Rounds,
) -> Result<Vec<[u64; 1]>, Trouble> {
    rounds.run(|| pairs(objects, size, count).map(|ticks| [ticks]))
}

#[inline(never)]
fn pairs(objects: &(impl Objects + ?Sized), size: Size, count: usize) -> Result<u64, Trouble> {
    let bytes = size.bytes();
    let start = now();
    for at in 0..count {
        let object = objects.malloc(bytes);
        if object.is_null() {
            return Err(Trouble::Exhausted { after: at, size });
        }
        // SAFETY: `malloc` of this allocator has just returned the object, which is not null, and it is not used
        // elsewhere.
        unsafe { objects.free(object) };
    }
    Ok(now() - start)
}
