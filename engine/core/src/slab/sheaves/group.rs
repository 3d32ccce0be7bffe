//! Grouping of objects by slab before a flush, so that the metadata of each slab is visited once and changed by one
//! atomic step, wherever its objects were in the sheaf.
//!
//! A first pass looks up each object's slab in a small table by address, and links the objects of each slab. A second
//! pass writes them out, slab by slab. An object is compared only with its neighbours in the table, so the cost is some
//! steps per object, without a sort.
//!
//! These steps cost more than two visits of a slab, so objects stay as they are if grouping gains little. One look at
//! each object counts the runs of objects of one slab; few runs are not grouped. A second look counts the slabs;
//! objects are not grouped if there are fewer than four runs per slab. Afterwards, objects of one slab that are
//! adjacent or nearly so are freed together ([`gather`]), as in Linux.

use super::super::address::{ObjectAddress, SlabAddress, SlabMask};

/// Maximum number of objects that are grouped together: those of a sheaf, up to 124, or of a bulk request.
const OBJECTS_MAX: usize = 128;
/// Places of the table, a power of two and twice the maximum number of slabs.
const PLACES: usize = 2 * OBJECTS_MAX;
/// Index that stands for no object.
const NONE: u8 = u8::MAX;
/// Minimum number of runs for which the slabs are counted.
const RUNS_MIN: usize = 8;
/// Minimum average number of runs per slab for which the objects are grouped.
const RUNS_OF_SLAB_MIN: usize = 4;
/// Objects of one slab in a row that are taken as a sign of order.
const RUN_MIN: usize = 4;
/// Maximum number of objects of other slabs that are skipped in search of more objects of a slab. linux:
/// mm/slub.c:build_detached_freelist
const PASSED_MAX: usize = 3;

/// Moves objects of the same slab together, in each [`OBJECTS_MAX`] objects where this gains enough. The slabs keep the
/// order of their first objects, and the objects of a slab keep their order.
pub(super) fn group(objects: &mut [ObjectAddress], mask: SlabMask) {
    for objects in objects.chunks_mut(OBJECTS_MAX) {
        let runs = runs(objects, mask);
        if runs >= RUNS_MIN && runs >= RUNS_OF_SLAB_MIN * slabs(objects, mask) {
            Links::new(objects, mask).write_out(objects);
        }
    }
}

/// Returns whether the first objects belong to one slab, as they do if all objects are in order.
pub(super) fn begins_with_run(objects: &[ObjectAddress], mask: SlabMask) -> bool {
    let first = &objects[..objects.len().min(RUN_MIN)];
    first.iter().all(|object| mask.is_shared(object.get(), objects[0].get()))
}

/// Returns the number of runs: maximal sequences of objects of one slab.
fn runs(objects: &[ObjectAddress], mask: SlabMask) -> usize {
    1 + objects.windows(2).filter(|pair| !mask.is_shared(pair[0].get(), pair[1].get())).count()
}

/// Returns an estimate of the number of slabs, which is never above the true number.
fn slabs(objects: &[ObjectAddress], mask: SlabMask) -> usize {
    let seen = objects.iter().fold(0_u128, |seen, object| seen | 1 << (place_of(object.slab(mask)) / 2));
    seen.count_ones() as usize
}

/// Links from each object to the next object of its slab.
struct Links {
    next: [u8; OBJECTS_MAX],
    /// Set of the objects that are the first of their slab.
    firsts: u128,
}

impl Links {
    fn new(objects: &[ObjectAddress], mask: SlabMask) -> Links {
        let mut links = Links { next: [NONE; OBJECTS_MAX], firsts: 0 };
        // Last object of each slab so far.
        let mut lasts = [NONE; PLACES];
        for (at, &object) in objects.iter().enumerate() {
            let slab = object.slab(mask);
            let mut place = place_of(slab);
            while let Some(&last) = objects.get(usize::from(lasts[place]))
                && last.slab(mask) != slab
            {
                place = (place + 1) % PLACES;
            }
            match lasts[place] {
                NONE => links.firsts |= 1 << at,
                last => links.next[usize::from(last)] = at as u8,
            }
            lasts[place] = at as u8;
        }
        links
    }

    fn write_out(&self, objects: &mut [ObjectAddress]) {
        let mut ordered = [ObjectAddress::new(0); OBJECTS_MAX];
        let (mut len, mut firsts) = (0, self.firsts);
        while firsts != 0 {
            let mut at = firsts.trailing_zeros() as u8;
            firsts &= firsts - 1;
            while at != NONE {
                ordered[len] = objects[usize::from(at)];
                len += 1;
                at = self.next[usize::from(at)];
            }
        }
        objects.copy_from_slice(&ordered[..len]);
    }
}

/// Returns the place in the table where the search for a slab begins: the upper bits of a product, which depend on all
/// bits of the address.
fn place_of(slab: SlabAddress) -> usize {
    (slab.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

#[inline(always)]
fn is_of_slab(object: &ObjectAddress, base: SlabAddress, mask: SlabMask) -> bool {
    mask.is_shared(object.get(), base.get())
}

/// Moves objects of the first object's slab to the front, if they are close to each other, and returns their number.
pub(super) fn gather(objects: &mut [ObjectAddress], mask: SlabMask) -> usize {
    let base = objects[0].slab(mask);
    // Eight objects are compared at a time, without a branch for each: runs are long if objects are freed in the order
    // of allocation.
    let eights = objects
        .chunks_exact(8)
        .take_while(|eight| eight.iter().fold(true, |all, object| all & is_of_slab(object, base, mask)));
    let whole = 8 * eights.count();
    let run = whole + objects[whole..].iter().take_while(|object| is_of_slab(object, base, mask)).count();
    let (mut same, mut passed) = (run, 0);
    for at in run..objects.len() {
        if is_of_slab(&objects[at], base, mask) {
            objects.swap(at, same);
            same += 1;
        } else if passed == PASSED_MAX {
            break;
        } else {
            passed += 1;
        }
    }
    same
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// Mask of slabs of 4 KiB.
    const MASK: SlabMask = SlabMask::for_size(0x1000);

    fn group_addresses<const N: usize>(addresses: [u64; N]) -> [u64; N] {
        let mut objects = addresses.map(ObjectAddress::new);
        group(&mut objects, MASK);
        objects.map(ObjectAddress::get)
    }

    #[test]
    fn group_sorts_interleaved_objects_by_slab() {
        let scattered = [0x2000, 0x1000, 0x2040, 0x1040, 0x2080, 0x1080, 0x20c0, 0x10c0];
        let together = [0x2000, 0x2040, 0x2080, 0x20c0, 0x1000, 0x1040, 0x1080, 0x10c0];
        assert_eq!(group_addresses(scattered), together, "slabs or objects changed their order");
        assert_eq!(group_addresses(together), together);
    }

    #[test]
    fn group_leaves_short_runs_in_place() {
        let few = [0x1000, 0x2000, 0x1040, 0x2040, 0x1080, 0x2080, 0x10c0];
        assert_eq!(group_addresses(few), few);
        let three_of_each = [0x1000, 0x2000, 0x3000, 0x1040, 0x2040, 0x3040, 0x1080, 0x2080, 0x3080];
        assert_eq!(group_addresses(three_of_each), three_of_each);
    }

    #[test]
    fn group_keeps_the_set_of_objects() {
        for (count, slabs) in [(0, 1), (1, 1), (124, 124), (124, 31), (124, 7), (128, 32), (300, 5)] {
            let mut objects: std::vec::Vec<ObjectAddress> =
                (0..count).map(|at| ObjectAddress::new((1 + at % slabs) * 0x1000 + at / slabs * 8)).collect();
            let mut before = objects.clone();
            group(&mut objects, MASK);
            let is_in_order = objects.chunks(OBJECTS_MAX).all(|chunk| runs(chunk, MASK) <= slabs as usize);
            assert!(is_in_order, "{count} objects of {slabs} slabs");
            objects.sort_unstable();
            before.sort_unstable();
            assert_eq!(objects, before, "{count} objects of {slabs} slabs");
        }
    }

    fn gather_addresses<const N: usize>(addresses: [u64; N]) -> (usize, [u64; N]) {
        let mut objects = addresses.map(ObjectAddress::new);
        (gather(&mut objects, MASK), objects.map(ObjectAddress::get))
    }

    fn begins(addresses: &[u64]) -> bool {
        let objects: std::vec::Vec<_> = addresses.iter().copied().map(ObjectAddress::new).collect();
        begins_with_run(&objects, MASK)
    }

    #[test]
    fn four_objects_of_a_slab_begin_a_run() {
        assert!(begins(&[0x1000, 0x1040, 0x1080, 0x10c0, 0x2000]) && !begins(&[0x1000, 0x1040, 0x1080, 0x2000]));
        assert!(begins(&[0x1000, 0x1040]) && !begins(&[0x1000, 0x2000]), "the number of objects changed");
    }

    #[test]
    fn gather_finds_runs_of_any_length() {
        for run in 1..40 {
            let of_slab = (0..run).map(|at| 0x1000 + at * 8);
            let mut objects: std::vec::Vec<_> = of_slab.chain([0x2000; 12]).map(ObjectAddress::new).collect();
            assert_eq!(gather(&mut objects, MASK), run as usize);
            assert_eq!(gather(&mut objects[..run as usize], MASK), run as usize);
        }
    }

    #[test]
    fn gather_skips_at_most_three_foreign_objects() {
        assert_eq!(gather_addresses([0x1000, 0x1040, 0x2000, 0x1080]), (3, [0x1000, 0x1040, 0x1080, 0x2000]));
        let three_between = [0x1000, 0x2000, 0x3000, 0x4000, 0x1040];
        assert_eq!(gather_addresses(three_between), (2, [0x1000, 0x1040, 0x3000, 0x4000, 0x2000]));
        let four_between = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x1040];
        assert_eq!(gather_addresses(four_between), (1, four_between));
        assert_eq!(gather_addresses([0x1000, 0x1040, 0x1080]).0, 3);
    }
}
