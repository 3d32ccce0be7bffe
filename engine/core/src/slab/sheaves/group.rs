//! Objects in order of slabs: before a flush, those of one slab are brought together, so that a slab's metadata is
//! visited once, and changed by one atomic step, however its objects lay in the sheaf.
//!
//! One pass finds each object's slab in a small table by its address, and links the objects of a slab; a second one
//! writes them out, slab by slab. Nothing is compared with more than its neighbours in the table, so it costs some
//! steps an object, not a sort. These steps cost more than two visits of a slab, so objects stay as they are where
//! little would come together: those that came as few runs, after a look at each; and those of nearly as many slabs,
//! after a second look. What then lies together, or nearly so, is freed together ([`gather`]), as in Linux.

use super::super::address::{ObjectAddress, SlabAddress, SlabMask};

/// Objects that are brought into order together: a sheaf's, 124, or those of a request for many.
const OBJECTS_MAX: usize = 128;
/// Places of the table, a power of two, twice as many as there can be slabs.
const PLACES: usize = 2 * OBJECTS_MAX;
/// No object.
const NONE: u8 = u8::MAX;
/// Fewer runs are not worth a look at which slabs they are of.
const RUNS_MIN: usize = 8;
/// As many runs of a slab, on the average, are worth the passes.
const RUNS_OF_SLAB_MIN: usize = 4;
/// Objects of a slab, one after the other, that are no accident.
const RUN_MIN: usize = 4;
/// Objects of other slabs, if they are in no order, that are passed over in search of neighbours of one. linux:
/// mm/slub.c:build_detached_freelist
const PASSED_MAX: usize = 3;

/// Brings objects of the same slab together. Slabs keep the order of their first objects, and objects of a slab theirs.
pub(super) fn group(objects: &mut [ObjectAddress], mask: SlabMask) {
    for objects in objects.chunks_mut(OBJECTS_MAX) {
        let runs = runs(objects, mask);
        if runs >= RUNS_MIN && runs >= RUNS_OF_SLAB_MIN * slabs(objects, mask) {
            Links::new(objects, mask).write_out(objects);
        }
    }
}

/// Whether the first objects are of one slab, as where all are in order.
pub(super) fn begins_with_run(objects: &[ObjectAddress], mask: SlabMask) -> bool {
    let first = &objects[..objects.len().min(RUN_MIN)];
    first.iter().all(|object| mask.is_shared(object.get(), objects[0].get()))
}

/// How often the slab changes from one object to the next, and one.
fn runs(objects: &[ObjectAddress], mask: SlabMask) -> usize {
    1 + objects.windows(2).filter(|pair| !mask.is_shared(pair[0].get(), pair[1].get())).count()
}

/// About how many slabs objects are of: never more than there are.
fn slabs(objects: &[ObjectAddress], mask: SlabMask) -> usize {
    let seen = objects.iter().fold(0_u128, |seen, object| seen | 1 << (place_of(object.slab(mask)) / 2));
    seen.count_ones() as usize
}

/// From each object to the next one of its slab.
struct Links {
    next: [u8; OBJECTS_MAX],
    /// A bit for each object that is its slab's first.
    firsts: u128,
}

impl Links {
    fn new(objects: &[ObjectAddress], mask: SlabMask) -> Links {
        let mut links = Links { next: [NONE; OBJECTS_MAX], firsts: 0 };
        // The last object of each slab so far.
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

/// Where in the table a slab is looked for first: the upper bits of a product, which all bits of its address move.
fn place_of(slab: SlabAddress) -> usize {
    (slab.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

#[inline(always)]
fn is_of_slab(object: &ObjectAddress, base: SlabAddress, mask: SlabMask) -> bool {
    mask.is_shared(object.get(), base.get())
}

/// Moves objects of the first one's slab to the front, if they are close, and says how many there are.
pub(super) fn gather(objects: &mut [ObjectAddress], mask: SlabMask) -> usize {
    let base = objects[0].slab(mask);
    // Eight at a time, without a branch for each: runs are long where objects are freed in the order of allocation.
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

    /// Slabs of 4 KiB.
    const MASK: SlabMask = SlabMask::for_size(0x1000);

    fn group_addresses<const N: usize>(addresses: [u64; N]) -> [u64; N] {
        let mut objects = addresses.map(ObjectAddress::new);
        group(&mut objects, MASK);
        objects.map(ObjectAddress::get)
    }

    #[test]
    fn objects_of_a_slab_come_together_whatever_lies_between() {
        let scattered = [0x2000, 0x1000, 0x2040, 0x1040, 0x2080, 0x1080, 0x20c0, 0x10c0];
        let together = [0x2000, 0x2040, 0x2080, 0x20c0, 0x1000, 0x1040, 0x1080, 0x10c0];
        assert_eq!(group_addresses(scattered), together, "slabs and objects keep their order");
        assert_eq!(group_addresses(together), together);
    }

    #[test]
    fn where_little_would_come_together_objects_stay_as_they_are() {
        let few = [0x1000, 0x2000, 0x1040, 0x2040, 0x1080, 0x2080, 0x10c0];
        assert_eq!(group_addresses(few), few);
        let three_of_each = [0x1000, 0x2000, 0x3000, 0x1040, 0x2040, 0x3040, 0x1080, 0x2080, 0x3080];
        assert_eq!(group_addresses(three_of_each), three_of_each);
    }

    #[test]
    fn any_number_of_objects_is_the_same_set_afterwards() {
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
    fn four_objects_of_a_slab_are_no_accident() {
        assert!(begins(&[0x1000, 0x1040, 0x1080, 0x10c0, 0x2000]) && !begins(&[0x1000, 0x1040, 0x1080, 0x2000]));
        assert!(begins(&[0x1000, 0x1040]) && !begins(&[0x1000, 0x2000]), "as many as there are");
    }

    #[test]
    fn runs_of_any_length_are_gathered() {
        for run in 1..40 {
            let of_slab = (0..run).map(|at| 0x1000 + at * 8);
            let mut objects: std::vec::Vec<_> = of_slab.chain([0x2000; 12]).map(ObjectAddress::new).collect();
            assert_eq!(gather(&mut objects, MASK), run as usize);
            assert_eq!(gather(&mut objects[..run as usize], MASK), run as usize);
        }
    }

    #[test]
    fn objects_of_a_slab_are_freed_together_if_no_more_than_three_others_lie_between() {
        assert_eq!(gather_addresses([0x1000, 0x1040, 0x2000, 0x1080]), (3, [0x1000, 0x1040, 0x1080, 0x2000]));
        let three_between = [0x1000, 0x2000, 0x3000, 0x4000, 0x1040];
        assert_eq!(gather_addresses(three_between), (2, [0x1000, 0x1040, 0x3000, 0x4000, 0x2000]));
        let four_between = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x1040];
        assert_eq!(gather_addresses(four_between), (1, four_between));
        assert_eq!(gather_addresses([0x1000, 0x1040, 0x1080]).0, 3);
    }
}
