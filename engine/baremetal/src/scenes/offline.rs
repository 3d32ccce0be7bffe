//! A CPU stops using the allocator, another CPU takes its cached objects and pages, and the first one returns.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use freehold::base::{CpuId, Gfp};

use crate::arch;
use crate::hardware::KERNEL;
use crate::together;

/// Set to 1 when the last CPU has stopped.
static STILL: AtomicU32 = AtomicU32::new(0);
/// Set to 1 when the last CPU may continue.
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// Stops the last CPU while the others continue.
pub fn play() {
    if together::cpus() < 2 {
        return;
    }
    for _ in 0..3 {
        STILL.store(0, core::sync::atomic::Ordering::Release);
        AGAIN.store(0, core::sync::atomic::Ordering::Release);
        together::on_all_cpus(|cpu| {
            let boxes: Vec<_> = (0..2000_usize).map(|size| KERNEL.kmalloc(size % 700, Gfp::KERNEL)).collect();
            let last = together::cpus() - 1;
            if cpu == last {
                rest();
            } else if cpu == 0 {
                while STILL.load(Acquire) == 0 {
                    core::hint::spin_loop();
                }
                // SAFETY: the last CPU waits in `rest` with interrupts off, so it does not use the allocator.
                unsafe { KERNEL.cpu_dead(CpuId(last as u16)) };
                KERNEL.shrink();
                KERNEL.cpu_online(CpuId(last as u16));
                AGAIN.fetch_add(1, AcqRel);
            }
            for object in boxes.into_iter().flatten() {
                // SAFETY: `kmalloc` returned the object above, and it is freed once.
                unsafe { KERNEL.kfree(object) }.expect("the object is allocated");
            }
        });
    }
}

/// Waits with interrupts off, without using the allocator.
fn rest() {
    let flags = arch::irq_save();
    STILL.fetch_add(1, AcqRel);
    while AGAIN.load(Acquire) == 0 {
        core::hint::spin_loop();
    }
    arch::irq_restore(flags);
}
