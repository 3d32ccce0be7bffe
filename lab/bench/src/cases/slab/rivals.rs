//! The contestants of the contest between policies and primitives of the slab.

use freehold::Policy;
use freehold::policy::Numbers;
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabOrder, SlabPolicy};
use freehold_object_loops::Work;
use freehold_policies::NamedPolicy;

use super::rival::{Primitive, Rival};
use crate::bench::Request;
use crate::mallocs::Cpus;

/// Loops of the author's table.
const AUTHOR_LOOPS: [Work; 3] = [Work::Fill, Work::Pair, Work::Remote];

/// Contestants, in the order of the contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlabRival {
    /// Policy A.
    A,
    /// Policy A without its guard.
    Unguarded,
    /// Policy B with tagged lists.
    Tagged,
    /// Policy B with arrays (sheaves).
    Sheaves,
    /// Policy B with bitmaps of free objects beside slabs of larger objects.
    Bitmap,
    /// Policy B with both arrays and bitmaps.
    SheavesBitmap,
    /// Policy B with tagged lists, hardened.
    Hardened,
    /// Policy A with slabs of Linux's sizes.
    LinuxA,
    /// Policy B with tagged lists and slabs of Linux's sizes.
    LinuxTagged,
    /// Policy B with tagged lists and no exclusion.
    ThreadLocal,
    /// Policy B with tagged lists and a lock for each CPU.
    Locked,
}

impl SlabRival {
    pub(super) const ALL: [SlabRival; 11] = [
        SlabRival::A,
        SlabRival::Unguarded,
        SlabRival::Tagged,
        SlabRival::Sheaves,
        SlabRival::Bitmap,
        SlabRival::SheavesBitmap,
        SlabRival::Hardened,
        SlabRival::LinuxA,
        SlabRival::LinuxTagged,
        SlabRival::ThreadLocal,
        SlabRival::Locked,
    ];

    /// Builds the contestant for policies A and B.
    pub(super) fn rival(self, request: &Request, b: &NamedPolicy, cpus: Cpus) -> Rival {
        let (name, policy) = self.policy(&request.a, b);
        match self {
            SlabRival::LinuxA | SlabRival::LinuxTagged => Rival::new(name, policy, cpus, &AUTHOR_LOOPS),
            SlabRival::ThreadLocal => Rival::new(name, policy, cpus, &[Work::Pair]).with(Primitive::ThreadLocal),
            SlabRival::Locked => Rival::new(name, policy, cpus, &[Work::Pair]).with(Primitive::Locked),
            _ => Rival::new(name, policy, cpus, &Work::ALL),
        }
    }

    /// Returns the name of the contestant, and its policy.
    fn policy(self, a: &NamedPolicy, b: &NamedPolicy) -> (&'static str, NamedPolicy) {
        let tagged = with_objects(b, SlabPolicy::Tagged);
        match self {
            SlabRival::A => ("A", a.clone()),
            SlabRival::Unguarded => ("A, no guard", changed(a, |policy| policy.slab.guard = SlabGuard::None)),
            SlabRival::Tagged => ("tagged", tagged),
            SlabRival::Sheaves => ("sheaves", with_objects(b, SlabPolicy::Sheaves)),
            SlabRival::Bitmap => ("bitmap", with_objects(b, SlabPolicy::Bitmap)),
            SlabRival::SheavesBitmap => ("sheaves-bitmap", with_objects(b, SlabPolicy::SheavesBitmap)),
            SlabRival::Hardened => ("hardened", changed(&tagged, harden)),
            SlabRival::LinuxA => ("A, Linux's slabs", changed(a, linux_sizes)),
            SlabRival::LinuxTagged => ("tagged, Linux's slabs", changed(&tagged, linux_sizes)),
            SlabRival::ThreadLocal => ("tagged, nothing", tagged),
            SlabRival::Locked => ("tagged, a lock", tagged),
        }
    }
}

/// Returns the policy with another way of keeping free objects.
fn with_objects(policy: &NamedPolicy, objects: SlabPolicy) -> NamedPolicy {
    changed(policy, |policy| policy.slab.objects = objects)
}

fn harden(policy: &mut Policy) {
    policy.slab.links = SlabLinks::Mangled;
    policy.slab.order = SlabOrder::Random;
}

/// Sets the sizes of slabs, and the number of kept slabs, to those of Linux.
fn linux_sizes(policy: &mut Policy) {
    let Numbers { slab_min_objects, slab_max_order, slab_cpu_free, .. } = Policy::LINUX_6_12.numbers;
    policy.numbers = Numbers { slab_min_objects, slab_max_order, slab_cpu_free, ..policy.numbers };
}

fn changed(policy: &NamedPolicy, change: impl Fn(&mut Policy)) -> NamedPolicy {
    let mut policy = policy.clone();
    change(&mut policy.policy);
    policy
}
