//! A lock-free stack of blocks that many CPUs push to and that one CPU takes as a whole. Other CPUs return freed blocks
//! to their owner CPU through it without that CPU's lock.
//!
//! One word holds the first frame, the number of pages on the stack, and a closed flag. Frames are linked through their
//! metadata. A push is one compare-and-swap. Single blocks are never popped, so there is no ABA problem: if the first
//! frame is removed and pushed again between the load and the swap, the link that the push has written is still
//! correct.
//!
//! A stack is closed when no CPU will look at it any more. A push to a closed stack succeeds, and the same
//! compare-and-swap shows the pushing CPU that it has to take the stack itself.

use core::sync::atomic::Ordering;

use super::atomic::AtomicU64;
use super::fault::{Fault, is_planted, ordered};
use super::frame::Frame;
use super::list::{NIL, pfn};
use super::memmap::MemMap;
use super::word::Word;
use super::{Order, Pfn};

/// Top word of an empty, open stack.
const EMPTY: u64 = NIL as u64;
/// Flag in the top word of a closed stack.
const CLOSED: u64 = 1 << 63;

/// Stack of blocks that other CPUs freed; 8 bytes.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Bit 63 is the closed flag, the rest of the upper half the number of pages, and the lower half the first frame.
    top: AtomicU64,
}

impl Stack {
    /// Creates an empty, open stack.
    pub(crate) fn new() -> Stack {
        Stack { top: AtomicU64::new(EMPTY) }
    }

    /// Returns the number of pages on the stack; the value may already be outdated.
    pub(crate) fn pages(&self) -> u32 {
        pages(self.top.load(Ordering::Relaxed))
    }

    /// Returns whether the stack is empty; the value may already be outdated.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed) as u32 == NIL
    }

    /// Closes the stack: from now on a CPU that pushes to it must also take it.
    pub(crate) fn close(&self) {
        self.top.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Returns whether the stack is closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.top.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Opens the stack again.
    pub(crate) fn open(&self) {
        self.top.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// Pushes a block that no other code refers to. Returns the number of pages that are now on the stack, or `None` if
    /// the stack is closed and the caller must take it.
    #[inline]
    pub(crate) fn push(&self, map: &MemMap<'_>, pfn: Pfn, order: Order) -> Option<u32> {
        let (frame, links) = map.frame_and_links(pfn);
        debug_assert!(pfn.is_aligned(order), "stack: no block of order {} begins at frame {pfn}", order.get());
        frame.set(Word::remote_pending(order));
        // Loom records only the latest access to an atomic. After a load it would not explore the races of the swap.
        let mut top = if cfg!(loom) { EMPTY } else { self.top.load(Ordering::Relaxed) };
        loop {
            links.next.store(top as u32, Ordering::Relaxed);
            let pages = pages(top) + order.pages();
            let pushed = top & CLOSED | u64::from(pages) << 32 | u64::from(pfn.raw());
            if is_planted(Fault::PushOverwrites) {
                self.top.store(pushed, Ordering::Release);
                return Some(pages);
            }
            let ordering = ordered(Fault::PushUnreleased, Ordering::AcqRel);
            match self.top.compare_exchange_weak(top, pushed, ordering, Ordering::Relaxed) {
                Ok(_) => return (top & CLOSED == 0 || is_planted(Fault::PushForgetsClosed)).then_some(pages),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all blocks off the stack; the iterator yields the last pushed block first.
    pub(crate) fn take<'l, 'm>(&self, map: &'l MemMap<'m>) -> impl Iterator<Item = (Pfn, Order)> + use<'l, 'm> {
        let mut top = self.top.load(Ordering::Relaxed);
        // Most stacks are empty. A load leaves the cache line shared, while a swap would take it away from the pushing
        // CPUs.
        while top as u32 != NIL {
            if is_planted(Fault::TakeInTwoSteps) {
                top = self.top.fetch_or(0, Ordering::AcqRel);
                self.top.store(top & CLOSED | EMPTY, Ordering::Release);
                break;
            }
            let order = ordered(Fault::TakeUnacquired, Ordering::AcqRel);
            match self.top.compare_exchange_weak(top, top & CLOSED | EMPTY, order, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        let (mut next, mut left) = (top as u32, pages(top));
        core::iter::from_fn(move || {
            let Some(pfn) = pfn(next) else {
                debug_assert!(left == 0, "stack: the count is {left} pages too high");
                return None;
            };
            let frame = map.frame(pfn);
            expect_coming_home(pfn, frame, &mut left);
            // The link is read before the block is passed on, because its next list reuses the link.
            next = map.links(pfn).next.load(Ordering::Relaxed);
            Some((pfn, frame.word().order()))
        })
    }

    /// Overwrites the first frame and the page count.
    #[cfg(feature = "damage")]
    pub(crate) fn plant(&self, first: Option<Pfn>, pages: u32) {
        self.top.store(u64::from(pages) << 32 | u64::from(first.map_or(NIL, Pfn::raw)), Ordering::Release);
    }

    /// Returns the first frame, or `None` if the stack is empty; the value may already be outdated.
    #[cfg(feature = "damage")]
    pub(crate) fn first(&self) -> Option<Pfn> {
        pfn(self.top.load(Ordering::Acquire) as u32)
    }

    /// Returns the blocks on the stack, for checkers that run while no other CPU does.
    pub(crate) fn iter<'l, 'm>(&self, map: &'l MemMap<'m>) -> impl Iterator<Item = (Pfn, Word)> + use<'l, 'm> {
        let mut next = self.top.load(Ordering::Acquire) as u32;
        core::iter::from_fn(move || {
            let pfn = pfn(next)?;
            let frame = map.try_frame(pfn)?;
            next = map.try_links(pfn)?.next.load(Ordering::Relaxed);
            Some((pfn, frame.word()))
        })
    }
}

fn pages(top: u64) -> u32 {
    ((top & !CLOSED) >> 32) as u32
}

/// Asserts in debug builds that a frame taken off the stack heads a block in state `RemotePending` whose pages the
/// stack has counted.
#[inline]
fn expect_coming_home(pfn: Pfn, frame: &Frame, left: &mut u32) {
    if cfg!(debug_assertions) {
        let word = frame.word();
        assert!(
            word.is_remote_pending() && word.is_sound(),
            "stack: frame {pfn} is {word:?}, not a pending remote free"
        );
        assert!(pfn.is_aligned(word.order()), "stack: frame {pfn} is not aligned to order {}", word.order().get());
        assert!(word.order().pages() <= *left, "stack: frame {pfn} is on the stack, but not counted");
        *left -= word.order().pages();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;
    use std::vec::Vec;

    use super::*;
    use crate::base::testing::with_map;

    const PUSHERS: u32 = 3;
    const PUSHES: u32 = 4000;

    #[test]
    fn stack_is_last_in_first_out() {
        with_map(|map| {
            let stack = Stack::new();
            assert_eq!(stack.push(map, Pfn::new(8), Order::new(3)), Some(8));
            assert_eq!(stack.push(map, Pfn::new(1), Order::ZERO), Some(9));
            let blocks: Vec<_> = stack.take(map).map(|(pfn, order)| (pfn.raw(), order.get())).collect();
            assert_eq!(blocks, [(1, 0), (8, 3)]);
            assert!(stack.is_empty() && stack.pages() == 0 && stack.take(map).next().is_none());
        });
    }

    #[test]
    fn push_to_a_closed_stack_returns_none() {
        with_map(|map| {
            let stack = Stack::new();
            stack.close();
            assert_eq!(stack.push(map, Pfn::new(4), Order::ZERO), None);
            assert_eq!((stack.pages(), stack.take(map).count()), (1, 1));
            assert_eq!(stack.push(map, Pfn::new(5), Order::ZERO), None, "still");
            stack.open();
            assert_eq!(stack.push(map, Pfn::new(6), Order::new(1)), Some(3));
        });
    }

    /// Several threads push while one takes: every block is taken exactly once.
    #[test]
    fn concurrent_pushes_are_taken_exactly_once() {
        with_map(|map| {
            let stack = Stack::new();
            let mut taken: Vec<u32> = thread::scope(|scope| {
                for pusher in 0..PUSHERS {
                    let stack = &stack;
                    scope.spawn(move || {
                        for pfn in (0..PUSHES).map(|push| push * PUSHERS + pusher) {
                            stack.push(map, Pfn::new(pfn), Order::ZERO);
                        }
                    });
                }
                let mut taken = Vec::new();
                while taken.len() < (PUSHERS * PUSHES) as usize {
                    taken.extend(stack.take(map).map(|(pfn, _)| pfn.raw()));
                }
                taken
            });
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..PUSHERS * PUSHES));
            assert_eq!(stack.pages(), 0);
        });
    }
}
