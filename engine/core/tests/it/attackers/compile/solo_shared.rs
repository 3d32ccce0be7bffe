//! An allocator whose locks wait for nobody, shared between threads, or sent to one.
use freehold::PageAllocator;
use freehold::platform::{NoProbe, host::Solo};

fn shared<T: Sync>() {}
fn sent<T: Send>() {}

fn main() {
    shared::<PageAllocator<'static, Solo<NoProbe>>>();
    sent::<PageAllocator<'static, Solo<NoProbe>>>();
}
