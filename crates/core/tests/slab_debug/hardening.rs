//! What costs next to nothing, and is on without debugging.

use freehold::Policy;
use freehold::policy::slab::SlabLinks;

/// Policies with each kind of link.
pub fn links() -> [Policy; 2] {
    [SlabLinks::Plain, SlabLinks::Mangled].map(|links| {
        let mut policy = Policy::FREEHOLD;
        policy.slab.links = links;
        policy
    })
}
