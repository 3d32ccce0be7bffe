//! The page allocator's fast paths: for each one, a function to measure and a machine in a prepared state.

use std::hint::black_box;

use freehold::base::{CpuId, Gfp, Order, Pfn};
use freehold::platform::host::run_on_cpu;
use freehold::policy::PcpPolicy::{self, Linux, Merge, Off, Owned, OwnedRemote};

use crate::counts::Counts;
use crate::machine::{Engine, Place, places, with_engine};
use crate::step::Trace;

/// Flags of all requests.
const GFP: Gfp = Gfp::HIGHUSER_MOVABLE;
/// Requests before the measured one.
const WARM: u32 = 16;
/// Number of pages whose metadata is larger than a cache line.
const APART: usize = 8;

/// Name for addresses in no other place: sections, per-CPU and per-node data, and the thread's own CPU number.
const ELSEWHERE_AT: &str = "tables and the thread";

/// A measured function. It gets a page that it may use in any way.
type Act = for<'e, 'm> fn(&'e Engine<'m>, Pfn) -> u32;
/// Function that prepares a machine for an act, and returns the page for it.
type Arrange = for<'e, 'm> fn(&'e Engine<'m>) -> Pfn;

/// A measured operation and the policies under which it is measured.
pub(crate) struct Scene {
    pub name: &'static str,
    pub policies: &'static [PcpPolicy],
    arrange: Arrange,
    act: Act,
}

/// All policies with per-CPU lists.
const LISTS: &[PcpPolicy] = &[Linux, Merge, Owned, OwnedRemote];

/// Every scene in the order of the table, grouped by title.
pub(crate) const SCENES: [(&str, &[Scene]); 5] = [
    (
        "A page from this CPU's list and back. alloc: the flags, the nearest zone and its watermark check,\n\
         # the list's lock, its head. free: the frame's word, the pageblock, the claim, the zone, the list.",
        &[
            Scene { name: "alloc, order 0", policies: LISTS, arrange: warm::<0>, act: alloc::<0> },
            Scene { name: "free, order 0", policies: LISTS, arrange: warm::<0>, act: free::<0> },
            PAIR,
        ],
    ),
    (
        "Larger blocks from this CPU's list and back: an allocation also checks the zone for a block of that order.",
        &[
            Scene { name: "pair, order 3", policies: LISTS, arrange: warm::<3>, act: pair::<3> },
            Scene { name: "pair, order 9", policies: LISTS, arrange: warm::<9>, act: pair::<9> },
        ],
    ),
    (
        "References: pages without references, the last one dropped, one of two dropped, one added.",
        &[
            Scene { name: "pair, frozen", policies: LISTS, arrange: warm::<0>, act: pair_frozen },
            Scene { name: "put_page, the last", policies: LISTS, arrange: warm::<0>, act: put },
            Scene { name: "put_page, not the last", policies: &[Linux], arrange: shared, act: put },
            Scene { name: "get_page", policies: &[Linux], arrange: warm::<0>, act: get },
        ],
    ),
    (
        "A free on CPU 1 of pages of CPU 0: to CPU 1's list; to CPU 0's list, under its lock; onto CPU 0's stack.",
        &[ELSEWHERE],
    ),
    (
        "Without lists: allocation and free under the zone lock, with splits and merges.",
        &[Scene { name: "pair, order 0", policies: &[Off], arrange: warm::<0>, act: pair::<0> }],
    ),
];
/// An allocation and a free, the pair of requests that most programs consist of.
pub(crate) const PAIR: Scene = Scene { name: "pair, order 0", policies: LISTS, arrange: warm::<0>, act: pair::<0> };
/// The same pair with one additional read of a page's metadata.
pub(crate) const PAIR_AND_LOOK: Scene = Scene { act: pair_and_look, ..PAIR };
/// A free on a CPU other than the one that allocated the page.
pub(crate) const ELSEWHERE: Scene =
    Scene { name: "free elsewhere", policies: LISTS, arrange: held_elsewhere, act: free::<0> };

impl Scene {
    /// Measures the scene under a policy.
    pub(crate) fn counts(&self, pcp: PcpPolicy) -> Counts {
        self.trace(pcp, |_, _, trace| Counts::from_trace(trace))
    }

    /// Measures the scene separately for each part of the machine that it accesses.
    pub(crate) fn counts_by_place(&self, pcp: PcpPolicy) -> Vec<(&'static str, Counts)> {
        let all = self.trace(pcp, |engine, page, trace| {
            let places = places(engine, page);
            let names = places.iter().map(|&(name, _)| name).chain([ELSEWHERE_AT]);
            names
                .map(|name| (name, Counts::touching(trace, |address| place_of(&places, trace, address) == name)))
                .collect::<Vec<_>>()
        });
        all.into_iter().filter(|(_, counts)| counts.lines > 0).collect()
    }

    fn trace<R>(&self, pcp: PcpPolicy, look: impl FnOnce(&Engine<'_>, Pfn, &Trace) -> R) -> R {
        with_engine(pcp, |engine| {
            run_on_cpu(CpuId(0));
            let page = black_box((self.arrange)(engine));
            let trace = Trace::record(self.act as *const (), || _ = black_box((self.act)(engine, page)));
            run_on_cpu(CpuId(0));
            look(engine, page, &trace)
        })
    }
}

/// Returns the name of the place that contains an address.
fn place_of(places: &[Place], trace: &Trace, address: u64) -> &'static str {
    match places.iter().find(|(_, place)| place.contains(&address)) {
        Some(&(name, _)) => name,
        None if trace.is_on_stack(address) => "the function's own frames",
        None => ELSEWHERE_AT,
    }
}

/// Fills this CPU's list with blocks of an order, and returns an allocated block.
fn warm<const ORDER: u8>(engine: &Engine<'_>) -> Pfn {
    (0..WARM).for_each(|_| _ = pair::<ORDER>(engine, Pfn::new(0)));
    let held = engine.alloc_pages(GFP, Order::new(ORDER)).expect("enough memory must be free");
    (0..WARM).for_each(|_| _ = pair::<ORDER>(engine, held));
    held
}

/// Returns a page with two references.
fn shared(engine: &Engine<'_>) -> Pfn {
    let page = warm::<0>(engine);
    engine.get_page(page).expect("the test holds these pages");
    page
}

/// Returns a page that CPU 0 allocated, and moves the caller to CPU 1, on which another page of CPU 0 was just freed.
fn held_elsewhere(engine: &Engine<'_>) -> Pfn {
    warm::<0>(engine);
    let held: [Pfn; APART] =
        std::array::from_fn(|_| engine.alloc_pages(GFP, Order::ZERO).expect("enough memory must be free"));
    run_on_cpu(CpuId(1));
    warm::<0>(engine);
    engine.free_pages(held[0], Order::ZERO).expect("the test holds these pages");
    held[APART - 1]
}

#[inline(never)]
fn alloc<const ORDER: u8>(engine: &Engine<'_>, _: Pfn) -> u32 {
    engine.alloc_pages(GFP, Order::new(ORDER)).map_or(0, Pfn::raw)
}

#[inline(never)]
fn free<const ORDER: u8>(engine: &Engine<'_>, page: Pfn) -> u32 {
    u32::from(engine.free_pages(page, Order::new(ORDER)).is_ok())
}

#[inline(never)]
fn pair<const ORDER: u8>(engine: &Engine<'_>, _: Pfn) -> u32 {
    let Ok(page) = engine.alloc_pages(GFP, Order::new(ORDER)) else { return 0 };
    u32::from(engine.free_pages(page, Order::new(ORDER)).is_ok())
}

#[inline(never)]
fn pair_and_look(engine: &Engine<'_>, held: Pfn) -> u32 {
    let word = engine.map().frame(held).word();
    pair::<0>(engine, held) + u32::from(word.is_allocated())
}

#[inline(never)]
fn pair_frozen(engine: &Engine<'_>, _: Pfn) -> u32 {
    let Ok(page) = engine.alloc_frozen_pages(GFP, Order::ZERO) else { return 0 };
    u32::from(engine.free_frozen_pages(page, Order::ZERO).is_ok())
}

#[inline(never)]
fn put(engine: &Engine<'_>, page: Pfn) -> u32 {
    u32::from(engine.put_page(page).is_ok())
}

#[inline(never)]
fn get(engine: &Engine<'_>, page: Pfn) -> u32 {
    u32::from(engine.get_page(page).is_ok())
}
