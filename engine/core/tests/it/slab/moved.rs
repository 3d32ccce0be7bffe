//! Between any two sections the caller may find itself on another CPU, and any replacement may come too late.

use std::panic::{AssertUnwindSafe, catch_unwind};

use freehold::policy::Policy;
use freehold::policy::slab::SlabPolicy;

use crate::slab::meddler::Meddling;
use crate::slab::scenario::tell;
use crate::slab::world::{SIZES, policies, policy, with_meddler};

/// Frames: there are many worlds, and each is walked many times.
const FEW: u32 = 256;

/// Meddles with one call after the other, until the story has no more; how many there were for each size.
fn meddle(policy: Policy, what: Meddling) -> usize {
    let meddled = |size, at| {
        with_meddler(policy, FEW, (what, at), |slab| {
            assert_eq!(tell(slab, size, 0), 0, "there is memory");
            slab.local().has_meddled()
        })
    };
    let calls = SIZES.map(|size| (0..).take_while(|&at| meddled(size, at)).count());
    calls.into_iter().min().unwrap_or_default()
}

#[test]
fn every_call_may_find_its_caller_moved() {
    for policy in policies() {
        let calls = meddle(policy, Meddling::Elsewhere);
        assert!(calls > 80, "{calls} calls under {:?}", policy.slab);
    }
}

#[test]
fn every_replacement_may_come_too_late() {
    for policy in policies() {
        for what in [Meddling::Moved, Meddling::Changed] {
            let calls = meddle(policy, what);
            assert!(calls > 5, "{calls} replacements under {:?}", policy.slab);
        }
    }
}

/// The story itself: a primitive that does not do what it says must be noticed.
#[test]
fn faults_of_the_primitive_are_found() {
    let is_found = |what, at| {
        let story = || with_meddler(policy(SlabPolicy::Tagged, 0), FEW, (what, at), |slab| tell(slab, 1344, 0));
        catch_unwind(AssertUnwindSafe(story)).is_err()
    };
    for what in [Meddling::PopsTwice, Meddling::LosesPush, Meddling::LosesReplacement] {
        assert!((0..4).any(|at| is_found(what, at)), "{what:?} was not found");
    }
}
