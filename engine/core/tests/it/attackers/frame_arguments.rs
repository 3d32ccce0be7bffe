//! Calls every function that takes a frame, at every frame that is a likely source of errors, with several orders. The
//! frames include blocks of all kinds, frames inside them and next to them, holes, borders, and the limits of the
//! number range.
//!
//! A refused call must have changed nothing. A successful call must leave the machine in order, and the next call gets
//! a new machine. No call panics. Cost: one machine per successful call.

use freehold::Policy;
use freehold::base::{CpuId, Gfp, MigrateType, Order, Pfn};
use freehold::page::{Mobility, Placement};
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::attackers::attempts::{Way, describe, make_all};
use crate::attackers::sample_machine::{Town, places, with_town};
use crate::common::picture::Picture;

/// Effect that a refused call may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// No effect.
    ChangesNothing,
    /// The effects in the function's documentation: bad blocks are withheld, valid pages are freed, lists are drained,
    /// and a request for a new place may claim a pageblock.
    AsDocumented,
}

type Call = fn(&Town<'_, '_, '_>, Pfn, Order) -> Result<(), String>;

use Refused::{AsDocumented, ChangesNothing};

const CALLS: [(&str, Refused, Call); 22] = [
    ("free_pages", ChangesNothing, |town, pfn, order| describe(town.engine.free_pages(pfn, order))),
    ("free_frozen_pages", AsDocumented, |town, pfn, order| describe(town.engine.free_frozen_pages(pfn, order))),
    ("get_page", ChangesNothing, |town, pfn, _| describe(town.engine.get_page(pfn))),
    ("put_page", ChangesNothing, |town, pfn, _| describe(town.engine.put_page(pfn))),
    ("split_page", ChangesNothing, |town, pfn, order| describe(town.engine.split_page(pfn, order))),
    ("split_to", ChangesNothing, |town, pfn, order| describe(town.engine.split_to(pfn, order, Order::new(2)))),
    ("split_to more", ChangesNothing, |town, pfn, order| describe(town.engine.split_to(pfn, order, Order::MAX))),
    ("split_compound", ChangesNothing, |town, pfn, order| {
        describe(town.engine.split_compound(pfn, order, Order::ZERO))
    }),
    ("pin", ChangesNothing, |town, pfn, order| describe(town.engine.pin(pfn, order))),
    ("unpin", ChangesNothing, |town, pfn, order| describe(town.engine.unpin(pfn, order))),
    ("pin_longterm", AsDocumented, |town, pfn, order| describe(town.engine.pin_longterm(pfn, order, Gfp::KERNEL))),
    ("poison", AsDocumented, |town, pfn, _| describe(town.engine.poison(pfn))),
    ("isolate_free_page", ChangesNothing, |town, pfn, order| {
        let taken = town.engine.isolate_free_page(pfn, order, Gfp::KERNEL | Gfp::COMP);
        describe(taken).and_then(|()| if taken == Ok(true) { Ok(()) } else { Err("in use".to_owned()) })
    }),
    ("isolate_free_page_near", ChangesNothing, |town, pfn, order| {
        describe(town.engine.isolate_free_page_near(pfn, order, Gfp::HIGHUSER_MOVABLE).ok_or("none"))
    }),
    ("adopt", ChangesNothing, |town, pfn, order| describe(town.engine.adopt(pfn, order, Mobility::Movable))),
    ("set_pageblock_type", ChangesNothing, |town, pfn, order| {
        let migratetype = MigrateType::from_index(order.index() % MigrateType::COUNT);
        describe(town.engine.set_pageblock_type(pfn, migratetype))
    }),
    ("free_pages_bulk", AsDocumented, |town, pfn, _| describe(town.engine.free_pages_bulk(&[pfn, pfn]))),
    ("free_pages_bulk neighbours", AsDocumented, |town, pfn, order| {
        let last = Pfn::new(pfn.raw().saturating_add(order.pages()));
        describe(town.engine.free_pages_bulk(&pfn.up_to(last).collect::<Vec<_>>()))
    }),
    ("free_pages_bulk backwards", AsDocumented, |town, pfn, _| {
        let pages = [pfn, Pfn::new(pfn.raw().wrapping_sub(1)), Pfn::new(pfn.raw().wrapping_add(1)), pfn];
        describe(town.engine.free_pages_bulk(&pages))
    }),
    ("cma_release", ChangesNothing, |town, pfn, order| {
        describe(town.engine.cma_release(town.area, pfn, order.pages()))
    }),
    ("cma_alloc", ChangesNothing, |town, pfn, order| {
        let gfp = if order == Order::ZERO { Gfp::KERNEL } else { Gfp::KERNEL | Gfp::COMP };
        describe(town.engine.cma_alloc(town.area, pfn.raw(), order.pages() << 21, gfp))
    }),
    ("alloc_contig_pages", ChangesNothing, |town, pfn, order| {
        let gfp = if order == Order::ZERO { Gfp::KERNEL | Gfp::COMP } else { Gfp::KERNEL };
        describe(town.engine.alloc_contig_frozen_pages(gfp, pfn.raw(), Placement::ANYWHERE))
    }),
];

type Attempt = (&'static (&'static str, Refused, Call), Pfn, Order);

const ORDERS: [u8; 6] = [0, 1, 2, 3, 5, 10];

#[test]
fn frame_calls_at_every_order_keep_the_state_valid() {
    let attempts: Vec<Attempt> = (CALLS.iter())
        .flat_map(|call| places().into_iter().map(move |pfn| (call, pfn)))
        .flat_map(|(call, pfn)| ORDERS.map(|order| (call, Pfn::new(pfn), Order::new(order))))
        .collect();
    let way = Way {
        attempt: |&(&(_, _, call), pfn, order): &Attempt, town, _| call(town, pfn, order),
        keeps: |&(&(_, may_change, _), _, _)| may_change == ChangesNothing,
        name: |&(&(name, ..), pfn, order)| format!("{name} of {pfn} with order {order}"),
    };
    for policy in [Policy::LINUX_6_12, Policy::FREEHOLD] {
        let (done, refused) = make_all(policy, &attempts, &way);
        assert!(refused > 4 * done || cfg!(miri), "most calls must be refused: {refused} refused, {done} successful");
    }
}

/// Tries every pair of ways to free each block. The second free of a block must fail, except for blocks with several
/// references.
#[test]
fn second_free_of_a_block_fails() {
    let frees: [(&str, Call); 5] = [
        ("free_pages", |town, pfn, order| describe(town.engine.free_pages(pfn, order))),
        ("put_page", |town, pfn, _| describe(town.engine.put_page(pfn))),
        ("free_contig_range", |town, pfn, order| {
            describe(town.engine.free_contig_range(pfn..Pfn::new(pfn.raw().saturating_add(order.pages()))))
        }),
        ("free_frozen_pages", |town, pfn, order| describe(town.engine.free_frozen_pages(pfn, order))),
        ("free_contig_frozen_range", |town, pfn, order| {
            describe(town.engine.free_contig_frozen_range(pfn..Pfn::new(pfn.raw().saturating_add(order.pages()))))
        }),
    ];
    for pcp in [PcpPolicy::Off, PcpPolicy::Merge, PcpPolicy::Owned] {
        for contig in [ContigPolicy::OneByOne, ContigPolicy::Batched] {
            with_town(Policy { pcp, contig, ..Policy::FREEHOLD }, |town, _| {
                for pfn in places() {
                    for order in ORDERS.map(Order::new) {
                        for (first, free) in frees {
                            let Ok(()) = free(town, Pfn::new(pfn), order) else { continue };
                            for (second, again) in frees {
                                let shared = pfn == crate::attackers::sample_machine::SHARED
                                    || pfn == crate::attackers::sample_machine::COUNTED_OUT;
                                let answer = again(town, Pfn::new(pfn), order);
                                assert!(answer.is_err() || shared, "{first}, then {second} of {pfn:#x}, {order}");
                            }
                        }
                    }
                    town.engine.check().expect("every block must be in exactly one place");
                }
            });
        }
    }
}

/// Counts references up to the maximum, and tries to add one more.
#[test]
fn reference_count_overflow_is_an_error() {
    with_town(Policy::FREEHOLD, |town, _| {
        let (engine, pfn) = (town.engine, Pfn::new(crate::attackers::sample_machine::COUNTED_OUT));
        let before = Picture::take(engine);
        engine.get_page(pfn).expect_err("the counter is at its maximum, so the call must fail");
        before.expect(engine, "one reference too many");
        engine.put_page(pfn).expect("enough references must be left");
        engine.get_page(pfn).expect("one more reference must be possible again");
        before.expect(engine, "one down, one up");
        engine.split_page(pfn, Order::ZERO).expect("the split of a single page must succeed");
        before.expect(engine, "a page split into itself");
        engine.free_frozen_pages(pfn, Order::ZERO).expect_err("the page has a reference, so the free must fail");
        engine.check().expect("a bad page is withheld");
    });
}

/// Takes a CPU offline that does not exist. The call panics and changes nothing.
#[test]
fn offlining_a_missing_cpu_panics_without_changes() {
    let config = crate::attackers::sample_machine::config(Policy::LINUX_6_12);
    crate::attackers::machine::with_frames(&freehold::page::Config { first: Pfn::new(0), ..config }, 4096, |engine| {
        let before = Picture::take(engine);
        let attack = std::panic::AssertUnwindSafe(|| engine.cpu_dead(CpuId(3)));
        std::panic::catch_unwind(attack).expect_err("the CPU does not exist, so the call must panic");
        before.expect(engine, "a CPU that is not there went offline");
    });
}
