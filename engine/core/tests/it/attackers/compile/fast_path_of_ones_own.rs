//! A fast path that hands out an address that no slab has: the trait is sealed.

use freehold::Policy;
use freehold::platform::Platform;
use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::{CpuLocal, FreedObject, PushOutcome, Slots};
use freehold::slab::fast_path::FastPath;
use freehold::slab::hot::Hot;

#[derive(Clone, Copy)]
struct Mine;

impl FastPath for Mine {
    fn serves(_: &Policy) -> bool {
        true
    }

    fn pop<P: Platform, C: CpuLocal>(_: &C, _: Slots<'_>, _: &Hot) -> Option<ObjectAddress> {
        Some(ObjectAddress::new(0xdead_0000))
    }

    fn push<P: Platform, C: CpuLocal>(_: &C, _: Slots<'_>, _: &Hot, _: FreedObject<'_>) -> PushOutcome {
        PushOutcome::Refused
    }
}

fn main() {}
