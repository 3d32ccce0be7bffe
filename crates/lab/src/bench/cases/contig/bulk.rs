//! The pages of a vmalloc area, given back all at once as a slice of page numbers: what a range is not told but has to be
//! found in.
//!
//! How much there is to find depends on how the pages lie, so the same number of pages is freed in four orders: neighbours
//! that are sorted, every second page of twice as many, neighbours in an order by chance, and pages as a bulk allocation
//! brought them. Beside each stands a floor: a loop over the same slice that checks each page, drops its reference and
//! frees nothing. It either looks each page up or gathers neighbours first, which is worth it where there are some; of both
//! there are three sizes, and the fastest of the six counts.

use std::hint::black_box;

use fastrand::Rng;
use freehold::base::frame::Word;
use freehold::base::{Frame, Gfp, Order, Pfn};

use super::ranges::LARGE_PAGES;
use super::{Floor, PAGES};
use crate::bench::clock::time;
use crate::bench::engine::{Engine, Workload};
use crate::bench::subject::{Case, Sample};

/// Pages that vmalloc asks for at once. linux: mm/vmalloc.c:vm_area_alloc_pages
const ASKED_AT_ONCE: usize = 100;

/// Cases of slices.
pub static WORKLOADS: [Workload; 4] = [NEIGHBOURS, SCATTERED, SHUFFLED, AS_ALLOCATED];

const NEIGHBOURS: Workload = Workload {
    case: Case {
        name: "vfree-neighbours",
        about: "free a slice of 16384 single pages that are neighbours, in order: a vmalloc area on calm memory",
        operation: "a slice of 16384 pages",
        ..PAGES.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::neighbours),
    ..PAGES
};

const SCATTERED: Workload = Workload {
    case: Case {
        name: "vfree-scattered",
        about: "free a slice of 16384 single pages in order, no two of which are neighbours",
        ..NEIGHBOURS.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::scattered),
    ..PAGES
};

const SHUFFLED: Workload = Workload {
    case: Case {
        name: "vfree-shuffled",
        about: "free a slice of 16384 single pages that are neighbours, in an order by chance",
        ..NEIGHBOURS.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::shuffled),
    ..PAGES
};

const AS_ALLOCATED: Workload = Workload {
    case: Case {
        name: "vfree-as-allocated",
        about: "free a slice of 16384 single pages as a hundred at a time came from the bulk allocation, on memory as the \
            frees before it left it",
        ..NEIGHBOURS.case
    },
    sample: |engine, slices| free_slices(engine, slices, Slice::as_allocated),
    ..PAGES
};

const FLOOR: &str = "the floor: check and drop a reference, a page of a slice";

/// The least that a free of each must do.
pub static FLOORS: [Floor; 4] = [
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
    /// Pages between them, which stay allocated meanwhile.
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
        let mut had = 0;
        while had < pages.len() {
            let end = pages.len().min(had + ASKED_AT_ONCE);
            let came = engine.alloc_pages_bulk(Gfp::KERNEL, &mut pages[had..end]);
            assert!(came > 0, "memory is plenty");
            had += came;
        }
        Slice { pages, between: Vec::new() }
    }

    fn free(engine: &Engine<'_>, pages: &[Pfn]) {
        engine.free_pages_bulk(pages).expect("the pages are ours");
    }
}

fn allocate_neighbours(engine: &Engine<'_>, pages: u32) -> Vec<Pfn> {
    let start = engine.alloc_contig_pages(Gfp::KERNEL, pages).expect("memory is plenty");
    (0..pages).map(|at| start.offset(at)).collect()
}

/// Times frees of slices, one after the other.
fn free_slices(engine: &Engine<'_>, slices: u64, allocate: fn(&Engine<'_>) -> Slice) -> Sample {
    let once = |_| {
        let Slice { pages, between } = allocate(engine);
        let sample = time(1, || Slice::free(engine, &pages));
        Slice::free(engine, &between);
        sample
    };
    (0..slices).map(once).sum()
}

/// Times what each of them has to do at least.
fn drop_slices(engine: &Engine<'_>, slices: u64, allocate: fn(&Engine<'_>) -> Slice) -> Sample {
    let once = |_| {
        let Slice { pages, between } = allocate(engine);
        let sample = fastest(engine, &pages);
        Slice::free(engine, &pages);
        Slice::free(engine, &between);
        sample
    };
    (0..slices).map(once).sum()
}

/// The fastest of the loops. Leaves the pages as they were.
fn fastest(engine: &Engine<'_>, pages: &[Pfn]) -> Sample {
    let passes: [&dyn Fn() -> bool; 6] = [
        &|| pass::<4>(engine, pages),
        &|| pass::<8>(engine, pages),
        &|| pass::<16>(engine, pages),
        &|| pass_over_runs::<4>(engine, pages),
        &|| pass_over_runs::<8>(engine, pages),
        &|| pass_over_runs::<16>(engine, pages),
    ];
    let timed = passes.map(|pass| {
        let mut held = false;
        let sample = time(1, || held = pass());
        assert!(held, "the pages are ours");
        let frames = pages.iter().map(|&page| engine.map().frame(page));
        frames.for_each(|frame| frame.set(frame.word().with_refs(1)));
        sample
    });
    timed.into_iter().min_by_key(|sample| sample.nanoseconds).expect("there are six")
}

/// Whether all are single pages with a reference; drops it of each group that is. A function of its own, so that the
/// compiler makes the same loop of it wherever it stands.
#[inline(never)]
fn pass<const N: usize>(engine: &Engine<'_>, pages: &[Pfn]) -> bool {
    let (groups, rest) = black_box(pages).as_chunks::<N>();
    assert!(rest.is_empty(), "a slice is made of whole groups");
    groups.iter().all(|group| drop_group(&group.map(|page| engine.map().frame(page))))
}

/// The same, by runs of neighbours: a run's frames lie side by side, and are found once.
#[inline(never)]
fn pass_over_runs<const N: usize>(engine: &Engine<'_>, pages: &[Pfn]) -> bool {
    let mut runs = black_box(pages).chunk_by(|page, next| page.raw() + 1 == next.raw());
    runs.all(|run| {
        let range = run[0]..run[run.len() - 1].offset(1);
        engine.map().frames(&range).all(|frames| {
            let (groups, rest) = frames.as_chunks::<N>();
            groups.iter().all(|group| drop_group(&group.each_ref())) && rest.iter().all(|frame| drop_group(&[frame]))
        })
    })
}

#[inline(always)]
fn drop_group<const N: usize>(group: &[&Frame; N]) -> bool {
    let words: [Word; N] = group.map(Frame::word);
    let held = words.iter().fold(true, |all, word| all & word.is_held_of(Order::ZERO, 1));
    if held {
        group.iter().zip(words).for_each(|(frame, word)| frame.set(word.with_refs(0)));
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::{GIB, with_engine};
    use crate::registry;

    #[test]
    fn slices_are_what_their_names_say() {
        with_engine(&registry::baseline(), GIB, |engine| {
            let neighbours = |pages: &[Pfn]| pages.windows(2).filter(|pair| pair[0].offset(1) == pair[1]).count();
            let large = LARGE_PAGES as usize;
            for (allocate, least, most) in [
                (Slice::neighbours as fn(&Engine<'_>) -> Slice, large - 1, large - 1),
                (Slice::scattered, 0, 0),
                (Slice::shuffled, 0, 10),
                (Slice::as_allocated, 0, large - 1),
            ] {
                let slice = allocate(engine);
                assert_eq!(slice.pages.len(), large);
                assert!((least..=most).contains(&neighbours(&slice.pages)), "{}", neighbours(&slice.pages));
                Slice::free(engine, &slice.pages);
                Slice::free(engine, &slice.between);
            }
        })
        .unwrap();
    }

    #[test]
    fn a_floor_notices_a_page_that_is_not_the_callers() {
        with_engine(&registry::baseline(), GIB, |engine| {
            let slice = Slice::neighbours(engine);
            engine.get_page(slice.pages[100]).unwrap();
            assert!(!pass::<8>(engine, &slice.pages));
            let slice = Slice::neighbours(engine);
            assert!(pass_over_runs::<8>(engine, &slice.pages), "all is well at first");
            assert!(!pass_over_runs::<8>(engine, &slice.pages), "and nobody holds them then");
        })
        .unwrap();
    }
}
