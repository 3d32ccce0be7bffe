//! Between any two sections the caller may be moved to another CPU, and any replacement may come too late.

use std::panic::catch_unwind;

use freehold::policy::Policy;
use freehold::policy::slab::SlabPolicy;

use crate::common::is_exhaustive;
use crate::slab::interfering_local::Meddling;
use crate::slab::scenario::tell;
use crate::slab::world::{SIZES, policies, policy, with_meddler};

/// Frames of a world. There are many worlds, and each is checked many times.
const FEW: u32 = 256;

/// Interferes with one call after the other, or with every third if the test takes a sample, until the scenario has no
/// more calls. Returns the smallest number of calls among the sizes.
fn meddle(policy: Policy, what: Meddling) -> usize {
    let step = if is_exhaustive() { 1 } else { 3 };
    let calls = SIZES.map(|size| (0..).step_by(step).take_while(|&at| has_call(policy, size, (what, at))).count());
    calls.into_iter().min().unwrap_or_default() * step
}

/// Returns whether the scenario reached the call with the interference.
fn has_call(policy: Policy, size: u32, meddling: (Meddling, u64)) -> bool {
    with_meddler(policy, FEW, meddling, |slab| {
        assert_eq!(tell(slab, size, 0), 0, "no allocation may fail while memory is free");
        slab.local().has_meddled()
    })
}

#[test]
fn caller_may_migrate_at_every_call() {
    for policy in policies() {
        let calls = meddle(policy, Meddling::Elsewhere);
        assert!(calls > 80, "{calls} calls under {:?}", policy.slab);
    }
}

#[test]
fn every_late_replacement_is_retried() {
    for policy in policies() {
        for what in [Meddling::Moved, Meddling::Changed] {
            let calls = meddle(policy, what);
            assert!(calls > 5, "{calls} replacements under {:?}", policy.slab);
        }
    }
}

/// Returns whether the scenario detects a fault of the primitive.
fn is_found(fault: (Meddling, u64)) -> bool {
    catch_unwind(|| with_meddler(policy(SlabPolicy::Tagged, 0), FEW, fault, |slab| tell(slab, 1344, 0))).is_err()
}

/// Tests the scenario itself: it must detect a faulty primitive.
#[test]
fn faulty_primitives_are_found() {
    for what in [Meddling::PopsTwice, Meddling::LosesPush, Meddling::LosesReplacement] {
        assert!((0..4).any(|at| is_found((what, at))), "{what:?} was not found");
    }
}
