//! Every combination of faults with every class of request, in a machine without free memory.

use freehold::base::{Gfp, Order, Pfn};
use freehold::page::MinFree;

use crate::common::{Memory, build};
use crate::faults::faulty::{Besides, Faulty, HELP, Help, MOVES, Manners, Move, config, memory};
use crate::faults::judge;

const CLASSES: [Gfp; 9] = [
    Gfp::ATOMIC,
    Gfp::KERNEL,
    Gfp::NOIO,
    Gfp::HIGHUSER_MOVABLE,
    Gfp::TRANSHUGE,
    Gfp::KERNEL.union(Gfp::NORETRY),
    Gfp::KERNEL.union(Gfp::RETRY_MAYFAIL),
    Gfp::KERNEL.union(Gfp::NOFAIL),
    Gfp::KERNEL.union(Gfp::MEMALLOC),
];

/// Makes requests of every class and several orders on one platform. Returns the number that succeeded.
fn ask_everything(manners: Manners) -> u32 {
    let (config, memory) = (config(), memory());
    // Built here and not by `with_machine`, because the platform refers to its own engine.
    let mut metadata = Memory::new(&config, &memory);
    let engine = &build(&config, &memory, &mut metadata);
    engine.release(Pfn::new(0), Pfn::new(2048)).expect("the ranges are online");
    engine.set_up_watermarks(MinFree::Pages(40));
    let faulty = Faulty::new(engine, manners);
    engine.platform().answer_with(&faulty);
    let mut served = 0;
    for gfp in CLASSES {
        for order in [0, 1, 3, 4, 10].map(Order::new) {
            faulty.run_dry(Gfp::HIGHUSER_MOVABLE);
            faulty.patience.set(10);
            faulty.calls.set(0);
            if let Ok(block) = engine.alloc_pages(gfp, order) {
                assert!(block.is_aligned(order));
                engine.free_pages(block, order).expect("the block was just allocated");
                served += 1;
            }
        }
    }
    // A page whose move was only claimed may have been allocated again while its owner still used it, so its current
    // owner is unknown.
    if manners.migrate == Move::InName {
        engine.check().expect("the check must find no error");
    } else {
        judge(engine, faulty.account()).unwrap_or_else(|problem| panic!("{manners:?}: {problem}"));
    }
    served
}

#[test]
fn requests_end_on_every_kind_of_platform() {
    for migrate in MOVES {
        for reclaim in HELP {
            for last_resort in [Help::Nothing, Help::Claimed, Help::Denied, Help::Twice, Help::All] {
                for reclaimable in [0, 1 << 20] {
                    let besides = Besides::CallBack;
                    ask_everything(Manners { reclaim, migrate, last_resort, reclaimable, besides });
                }
            }
        }
    }
}

#[test]
fn more_reclaim_serves_more_requests() {
    let besides = Besides::CallBack;
    let [nothing, one, all] = [Help::Nothing, Help::One, Help::All].map(|help| {
        ask_everything(Manners { reclaim: help, migrate: Move::Always, last_resort: help, reclaimable: 0, besides })
    });
    assert!(nothing < one, "reclaim of one page at a time must serve more requests than none");
    assert!(one <= all);
}
