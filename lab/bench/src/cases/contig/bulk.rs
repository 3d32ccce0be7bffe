//! The pages of a vmalloc area, freed at once as a slice of page numbers. Unlike in a free of a range, neighbouring
//! pages have to be found in the slice.
//!
//! The number of neighbours depends on the order of the slice. So the same number of pages is freed in four orders:
//! sorted neighbours, every second page of twice as many pages, neighbours in random order, and pages in the order in
//! which a bulk allocation returned them. Each has a floor: a loop over the same slice that claims each page in words
//! of its own and frees nothing.

use std::hint::black_box;

use fastrand::Rng;
use freehold::base::{Gfp, Order, Pfn};
use freehold::page::Placement;
use freehold_timing::clock::time;

use super::floor::{Words, time_check};
use super::ranges::LARGE_PAGES;
use super::workloads::{Floor, PAGES};
use crate::engine::{Engine, Workload};
use crate::subject::{Case, Sample};

/// Maximum pages that vmalloc requests at once. linux: mm/vmalloc.c:vm_area_alloc_pages
const REQUEST_MAX: usize = 100;

/// Cases that free slices.
pub(super) static WORKLOADS: [Workload; 4] = [NEIGHBOURS, SCATTERED, SHUFFLED, AS_ALLOCATED];

const NEIGHBOURS: Workload = Workload {
    case: Case {
        name: "vfree-neighbours",
        about: "free a slice of 16384 adjacent single pages in order, as in a vmalloc area without memory pressure",
        operation: "a slice of 16384 pages",
        ..PAGES.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::neighbours),
    ..PAGES
};

const SCATTERED: Workload = Workload {
    case: Case {
        name: "vfree-scattered",
        about: "free a slice of 16384 single pages in order, none of them adjacent",
        ..NEIGHBOURS.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::scattered),
    ..PAGES
};

const SHUFFLED: Workload = Workload {
    case: Case {
        name: "vfree-shuffled",
        about: "free a slice of 16384 adjacent single pages in random order",
        ..NEIGHBOURS.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::shuffled),
    ..PAGES
};

const AS_ALLOCATED: Workload = Workload {
    case: Case {
        name: "vfree-as-allocated",
        about: "free a slice of 16384 single pages in the order of their bulk allocation, a hundred pages at a time, on memory \
            that earlier frees fragmented",
        ..NEIGHBOURS.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::as_allocated),
    ..PAGES
};

const FLOOR: &str = "lower bound: check and claim each page of a slice";

/// Floor of each case: the minimum work of its free.
pub(super) static FLOORS: [Floor; 4] = [
    floor(NEIGHBOURS, |engine, slices| drop_slices(engine, slices, Slice::neighbours)),
    floor(SCATTERED, |engine, slices| drop_slices(engine, slices, Slice::scattered)),
    floor(SHUFFLED, |engine, slices| drop_slices(engine, slices, Slice::shuffled)),
    floor(AS_ALLOCATED, |engine, slices| drop_slices(engine, slices, Slice::as_allocated)),
];

const fn floor(free: Workload, check: fn(&Engine<'_>, u64) -> Sample) -> Floor {
    let check = Workload { case: free.case, pages: free.pages, arrange: free.arrange, sample: check };
    Floor { name: FLOOR, check, free, bar: None }
}

/// Pages to be freed at once.
struct Slice {
    pages: Vec<Pfn>,
    /// Pages between them, which remain allocated during the free.
    between: Vec<Pfn>,
}

impl Slice {
    fn neighbours(engine: &Engine<'_>) -> Slice {
        Slice { pages: allocate_neighbours(engine, LARGE_PAGES), between: Vec::new() }
    }

    fn scattered(engine: &Engine<'_>) -> Slice {
        let all = allocate_neighbours(engine, 2 * LARGE_PAGES);
        let (pages, between) = all.iter().partition(|page| page.raw().is_multiple_of(2));
        Slice { pages, between }
    }

    fn shuffled(engine: &Engine<'_>) -> Slice {
        let mut slice = Slice::neighbours(engine);
        Rng::with_seed(1).shuffle(&mut slice.pages);
        slice
    }

    fn as_allocated(engine: &Engine<'_>) -> Slice {
        let mut pages = vec![Pfn::new(0); LARGE_PAGES as usize];
        let mut count = 0;
        while count < pages.len() {
            let end = pages.len().min(count + REQUEST_MAX);
            let allocated = engine.alloc_pages_bulk(Gfp::KERNEL, &mut pages[count..end]);
            assert!(allocated > 0, "free memory suffices");
            count += allocated;
        }
        Slice { pages, between: Vec::new() }
    }

    fn free(engine: &Engine<'_>, pages: &[Pfn]) {
        engine.free_pages_bulk(pages).expect("the pages are allocated");
    }
}

fn allocate_neighbours(engine: &Engine<'_>, pages: u32) -> Vec<Pfn> {
    let start = engine
        .alloc_contig_pages(Gfp::KERNEL, pages, Placement::aligned(Order::MAX.pages()))
        .expect("free memory suffices");
    (0..pages).map(|at| start.offset(at)).collect()
}

/// Times frees of slices, one after the other.
fn free_slices(engine: &Engine<'_>, slices: u64, allocate: fn(&Engine<'_>) -> Slice) -> Sample {
    (0..slices)
        .map(|_| {
            let Slice { pages, between } = allocate(engine);
            let sample = time(1, || Slice::free(engine, &pages));
            Slice::free(engine, &between);
            sample
        })
        .sum()
}

/// Times the minimum work of these frees.
fn drop_slices(engine: &Engine<'_>, slices: u64, allocate: fn(&Engine<'_>) -> Slice) -> Sample {
    (0..slices)
        .map(|_| {
            let Slice { pages, between } = allocate(engine);
            let sample = claim(&pages);
            Slice::free(engine, &pages);
            Slice::free(engine, &between);
            sample
        })
        .sum()
}

/// Times a claim of each page in the order of the slice, on words that are laid out like the engine's.
fn claim(pages: &[Pfn]) -> Sample {
    let lowest = pages.iter().map(|page| page.raw()).min().unwrap_or(0);
    let highest = pages.iter().map(|page| page.raw()).max().unwrap_or(0);
    let words: Vec<Words> = (lowest..=highest).map(|_| Words::held()).collect();
    time_check(|| claim_each(black_box(&words), black_box(pages), lowest))
}

/// Claims the words of all pages. A separate function, so that the compiler generates the same loop for each caller.
#[inline(never)]
fn claim_each(words: &[Words], pages: &[Pfn], lowest: u32) -> bool {
    pages.iter().all(|page| words[(page.raw() - lowest) as usize].claim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{GIB, with_engine};

    fn count_neighbours(pages: &[Pfn]) -> usize {
        pages.windows(2).filter(|pair| pair[0].offset(1) == pair[1]).count()
    }

    #[test]
    fn slices_have_the_order_of_their_names() {
        with_engine(&freehold_policies::baseline(), GIB, |engine| {
            let large = LARGE_PAGES as usize;
            for (allocate, least, most) in [
                (Slice::neighbours as fn(&Engine<'_>) -> Slice, large - 1, large - 1),
                (Slice::scattered, 0, 0),
                (Slice::shuffled, 0, 10),
                (Slice::as_allocated, 0, large - 1),
            ] {
                let slice = allocate(engine);
                assert_eq!(slice.pages.len(), large);
                assert!((least..=most).contains(&count_neighbours(&slice.pages)), "{}", count_neighbours(&slice.pages));
                Slice::free(engine, &slice.pages);
                Slice::free(engine, &slice.between);
            }
        })
        .unwrap();
    }

    #[test]
    fn lower_bound_detects_a_page_that_occurs_twice() {
        let words: Vec<Words> = (0..4).map(|_| Words::held()).collect();
        assert!(claim_each(&words, &[Pfn::new(7), Pfn::new(5)], 5));
        assert!(!claim_each(&words, &[Pfn::new(6), Pfn::new(7)], 5), "the first page was claimed before");
    }
}
