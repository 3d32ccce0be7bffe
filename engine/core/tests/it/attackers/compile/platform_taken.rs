//! The inside of an allocator: zones, policy and platform exchanged for others.
use freehold::platform::Platform;
use freehold::{PageAllocator, Policy};

fn attack<P: Platform>(mut one: PageAllocator<'_, P>, two: &PageAllocator<'_, P>) {
    one.zones = two.zones();
    one.policy = Policy::LINUX_6_12;
    exchange(one.policy(), &mut Policy::FREEHOLD);
}

fn exchange<T>(_: &mut T, _: &mut T) {}

fn main() {}
