//! Direct reclaim: a request that found too little asks the platform to free pages, with growing urgency.
//!
//! linux: mm/vmscan.c:try_to_free_pages, do_try_to_free_pages, shrink_zones

use core::cell::Cell;

use super::PageAllocator;
use crate::base::{Order, Pfn};
use crate::platform::{Event, FreePages, OutOfMemory, Platform, Promise, Reclaim, Reclaimer, Request};

/// Pages that reclaim frees before it looks again. linux: SWAP_CLUSTER_MAX
const CLUSTER: u64 = 32;

/// The way back that a promise is handed: counts what comes.
struct Returns<'a, 'm, P: Platform> {
    allocator: &'a PageAllocator<'m, P>,
    promise: Promise,
    pages: Cell<u64>,
}

impl<P: Platform> FreePages for Returns<'_, '_, P> {
    fn free_pages(&self, pfn: Pfn, order: Order) {
        match self.allocator.free_pages(pfn, order) {
            Ok(()) => self.pages.set(self.pages.get() + u64::from(order.pages())),
            Err(_) => self.allocator.report(Event::BrokenPromise { promise: self.promise }),
        }
    }

    fn free_pages_bulk(&self, pages: &[Pfn]) {
        pages.iter().for_each(|&pfn| self.free_pages(pfn, Order::ZERO));
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Reclaims for a request; says how many pages came.
    pub(super) fn reclaim_directly(&self, request: &Request) -> u64 {
        let Request { gfp, order, node, highest, .. } = *request;
        self.report(Event::DirectReclaim { highest });
        let returns = Returns { allocator: self, promise: Promise::Reclaim, pages: Cell::new(0) };
        let by = Reclaimer::Direct;
        let wanted = Reclaim { node, highest, goal: CLUSTER, order, priority: 0, by, gfp };
        let said = self.platform.reclaim(&returns, &wanted);
        self.report(Event::Reclaim { by, pages: returns.pages.get(), scanned: said.scanned });
        returns.pages.get()
    }

    /// Ends something for a request.
    pub(super) fn end_something(&self, request: &Request) -> OutOfMemory {
        let returns = Returns { allocator: self, promise: Promise::OutOfMemory, pages: Cell::new(0) };
        self.platform.out_of_memory(&returns, request)
    }
}
