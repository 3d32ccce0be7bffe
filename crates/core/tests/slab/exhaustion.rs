//! No page for the n-th slab, for every n: the request fails, and that is all.

use freehold::base::{Order, Pfn};

use crate::scenario::{NOWAIT, tell};
use crate::world::{SIZES, Slab, policies, with_world};

/// Takes all pages but `left`, tells the story, and gives them back; how many requests failed.
fn tell_with(slab: &Slab<'_, '_>, size: u32, left: usize) -> u32 {
    let mut pages = Vec::new();
    while let Ok(page) = slab.pages().alloc_pages(NOWAIT, Order::ZERO) {
        pages.push(page);
    }
    let free = |page: Pfn| slab.pages().free_pages(page, Order::ZERO).expect("it is ours");
    pages.drain(pages.len() - left..).for_each(free);
    let held = pages.len() as u64;
    let failures = tell(slab, size, held);
    pages.into_iter().for_each(free);
    failures
}

#[test]
fn every_request_for_a_page_may_fail() {
    for policy in policies() {
        for size in SIZES {
            let failures = |left| with_world(policy, |slab| tell_with(slab, size, left));
            let too_small = (0..).take_while(|&left| failures(left) > 0).count();
            assert!(too_small >= 3, "only {too_small} worlds were too small under {:?}", policy.slab);
        }
    }
}
