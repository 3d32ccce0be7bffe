//! Cases of freeing a range on a whole machine, and the type of their floors.

use super::ranges::{self, MadeOf};
use crate::bar::Bar;
use crate::engine::{GIB, Workload};
use crate::subject::Case;

pub(super) const PAGES: Workload = Workload {
    case: Case {
        name: "pages",
        about: "free a range of 16384 single pages, each with one reference",
        operation: "a range of 16384 pages",
        operations: 1,
        pairs: 5,
    },
    pages: GIB,
    arrange: |_| {},
    sample: |engine, ranges| ranges::free_large(engine, ranges, MadeOf::Pages),
};

pub(super) const PAGES_COLD: Workload = Workload {
    case: Case {
        name: "pages-cold",
        about: "the same, after an untimed read of memory that is twice as large as the largest cache",
        pairs: 1,
        ..PAGES.case
    },
    sample: |engine, ranges| ranges::free_large_cold(engine, ranges, MadeOf::Pages),
    ..PAGES
};

pub(super) const FROZEN_PAGES: Workload = Workload {
    case: Case { name: "frozen-pages", about: "free a range of 16384 single pages without references", ..PAGES.case },
    sample: |engine, ranges| ranges::free_large(engine, ranges, MadeOf::FrozenPages),
    ..PAGES
};

pub(super) const FROZEN_RANGE: Workload = Workload {
    case: Case {
        name: "frozen-range",
        about: "free a frozen range of 16384 pages that was allocated as the largest blocks that fit",
        ..PAGES.case
    },
    sample: |engine, ranges| ranges::free_large(engine, ranges, MadeOf::FrozenBlocks),
    ..PAGES
};

pub(super) const FROZEN_512: Workload = Workload {
    case: Case {
        name: "frozen-512",
        about: "free a range of 512 single pages without references",
        operation: "a range of 512 pages",
        operations: 256,
        ..PAGES.case
    },
    sample: ranges::free_huge,
    ..PAGES
};

pub(super) const AUTHOR_LOOP: Workload = Workload {
    case: Case {
        name: "order-9-split-free",
        about: "the loop of the patch's author: allocate a block of order 9, split it, free the range; all of it is \
            timed",
        operation: "a loop",
        operations: 500,
        ..PAGES.case
    },
    sample: ranges::author_loop,
    ..PAGES
};

pub(super) static WORKLOADS: [Workload; 6] = [PAGES, PAGES_COLD, FROZEN_PAGES, FROZEN_RANGE, FROZEN_512, AUTHOR_LOOP];

/// The complete iteration of the author's second test.
pub(super) static CMA_LOOP: Case = Case {
    name: "cma-iteration",
    about: "allocate 16384 pages from a CMA area and release them; both are timed",
    operation: "an iteration",
    operations: 1,
    pairs: 5,
};

/// A free, and the minimum work that it is compared with.
pub(super) struct Floor {
    pub(super) name: &'static str,
    pub(super) check: Workload,
    pub(super) free: Workload,
    pub(super) bar: Option<Bar>,
}
