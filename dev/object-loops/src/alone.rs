//! The loops of one thread: fill and pair.

use crate::Objects;
use crate::array::ObjectArray;
use crate::clock::now;
use crate::rounds::{Rounds, Size, Trouble};

/// So many objects allocated, then freed in the order of allocation: ticks of both, for each timed round.
pub(crate) fn fill(
    objects: &(impl Objects + ?Sized),
    size: Size,
    count: usize,
    rounds: Rounds,
) -> Result<Vec<[u64; 2]>, Trouble> {
    let array = ObjectArray::new(count);
    rounds.run(|| {
        let filled = array.fill(objects, size)?;
        // SAFETY: it was filled in the line before.
        let cleared = unsafe { array.clear(objects) };
        Ok([filled, cleared])
    })
}

/// So many objects, each freed as soon as it is allocated: ticks for each timed round.
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
        // SAFETY: it was allocated two lines before, and nobody else knows of it.
        unsafe { objects.free(object) };
    }
    Ok(now() - start)
}
