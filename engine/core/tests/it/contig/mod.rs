//! Contiguous ranges: the rules of their allocation and free, the answer to each mistake, and concurrent requests for
//! the same frames.
//!
//! `rules` has scenes small enough to follow by hand. `errors` makes every mistake and compares the whole machine with
//! a snapshot taken before. `model` takes random steps on two machines side by side, one for each policy, and checks
//! each machine against a model. `race` runs threads.
//!
//! ```text
//! cargo test -p freehold --test it contig::                               a few seconds
//! TEST_FACTOR=200 cargo test --release -p freehold --test it contig::     a whole night
//! ```

mod errors;
mod model;
mod race;
mod rules;
mod scene;

use core::ops::Range;

use freehold::base::{Order, Pfn};

fn span(start: u32, end: u32) -> Range<Pfn> {
    Pfn::new(start)..Pfn::new(end)
}

/// Returns the blocks in which a run of frames is freed: from the left, each the largest one that is aligned and fits.
fn chunks(mut start: u32, end: u32) -> Vec<(u32, Order)> {
    let mut chunks = Vec::new();
    while start < end {
        let mut orders = Order::all().rev();
        let fitting = orders.find(|order| start.is_multiple_of(order.pages()) && order.pages() <= end - start);
        let order = fitting.expect("a single page always fits");
        chunks.push((start, order));
        start += order.pages();
    }
    chunks
}
