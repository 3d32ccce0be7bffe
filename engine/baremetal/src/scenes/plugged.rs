//! Memory that is added while the machine runs, is used, and is removed while CPUs continue.

use alloc::vec::Vec;

use freehold::base::{Gfp, Order};

use crate::console::say;
use crate::hardware::KERNEL;
use crate::memory::{PLUGGED_LATER, frame_at, plugged_later};
use crate::together;

/// Runs on all CPUs.
pub fn play() {
    let (before, range) = (KERNEL.stats().managed, plugged_later());
    // SAFETY: the range was not used at boot, is mapped in the direct map, and has no other use.
    let added = unsafe { KERNEL.add_memory(range.clone()) }.expect("the memory is not online");
    say!("  {added} of {} added pages are free", PLUGGED_LATER >> 12);
    assert_eq!(KERNEL.stats().managed, before + u64::from(added));
    // SAFETY: as above; the range is already online, so the call must be refused.
    assert!(unsafe { KERNEL.add_memory(range.clone()) }.is_err(), "memory was added twice");
    together::on_all_cpus(|_| {
        let blocks: Vec<_> = (0..40).filter_map(|_| KERNEL.alloc_pages(Gfp::KERNEL, Order::new(6)).ok()).collect();
        assert!(blocks.len() > 20);
    });
    // The start of the range may hold metadata, which stays.
    let half = frame_at(range.end - PLUGGED_LATER / 2)..frame_at(range.end);
    KERNEL.shrink();
    // SAFETY: `offline` removes only frames whose owners give them up, or fails.
    let gone = unsafe { KERNEL.pages() }.expect("the kernel is set up").offline(half.clone());
    match gone {
        Ok(()) => {
            // SAFETY: this part was just taken offline and has no other use.
            let again = unsafe { KERNEL.add_memory(range.end - PLUGGED_LATER / 2..range.end) };
            assert_eq!(again, Ok((PLUGGED_LATER >> 13) as u32), "the memory was not added again");
            say!("  {} pages were removed and added again", PLUGGED_LATER >> 13);
        }
        Err(error) => say!("  half of the memory stays: {error}"),
    }
}
