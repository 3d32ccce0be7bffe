//! Parts of the process's malloc: its heap, its runs, and the options of the process.

use core::fmt;
use core::ptr::NonNull;

use freehold::base::CpuId;
use freehold::platform::Platform;
use freehold::slab::ObjectFreeError;

use super::options::Options;
use crate::heap::Heap;
use crate::os::platform::LockedCpus;
use crate::os::rseq::Rseq;
use crate::runs::Runs;

/// Parts of the process's malloc.
#[derive(Debug)]
pub(super) struct Malloc {
    pub heap: AnyHeap,
    pub runs: Runs,
    pub options: Options,
}

impl Malloc {
    #[inline]
    pub(super) fn cpu(&self) -> CpuId {
        with_heap!(&self.heap, heap => heap.slab().platform().cpu())
    }

    /// Allocates an object of at least `size` bytes; returns `None` if there is no memory.
    #[inline]
    pub(super) fn alloc_object(&self, size: usize) -> Option<NonNull<u8>> {
        with_heap!(&self.heap, heap => heap.malloc(size).ok())
    }

    /// Brings more memory online if the heap is short of it.
    pub(super) fn take_more_if_short(&self) {
        with_heap!(&self.heap, heap => heap.take_more_if_short());
    }
}

/// The heap of the process, with one of two CPU-local primitives.
#[derive(Debug)]
pub(super) enum AnyHeap {
    Rseq(Heap<Rseq>),
    Locks(Heap<LockedCpus>),
}

/// Refusal of a free by the heap, with the most likely cause of an address of another malloc.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeRefusal(pub ObjectFreeError);

impl fmt::Display for FreeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        match self.0 {
            ObjectFreeError::Foreign { .. } => {
                f.write_str(" (a plugin that was opened with RTLD_DEEPBIND has another malloc)")
            }
            _ => Ok(()),
        }
    }
}

/// Evaluates an expression with the heap, whichever of the two kinds it has.
macro_rules! with_heap {
    ($any:expr, $heap:ident => $what:expr) => {
        match $any {
            AnyHeap::Rseq($heap) => $what,
            AnyHeap::Locks($heap) => $what,
        }
    };
}
pub(super) use with_heap;
