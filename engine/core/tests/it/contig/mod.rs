//! Ranges of frames, taken by name and given back together: what each rule means, what each mistake is answered, and
//! what happens when everybody wants the same frames at once.
//!
//! `rules` are scenes small enough to be followed by hand. `errors` makes every mistake and holds the whole machine
//! against a picture of itself taken before. `model` takes random steps on two machines side by side, one
//! for each policy, each judged by a model. `race` does it with threads.
//!
//! ```text
//! cargo test -p freehold --test it contig::                               a few seconds
//! CONTIG_RUNS=500 cargo test --release -p freehold --test it contig::     a long night's
//! ```

mod errors;
mod model;
mod race;
mod rules;
mod scene;

use core::ops::Range;

use freehold::base::{Order, Pfn};

/// How often the random tests start anew, unless `CONTIG_RUNS` says otherwise.
fn runs(usual: u64) -> u64 {
    std::env::var("CONTIG_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}

fn span(start: u32, end: u32) -> Range<Pfn> {
    Pfn::new(start)..Pfn::new(end)
}

/// The blocks that a run of frames goes back as: from the left, each the largest that is aligned and fits.
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
