//! A CPU stops using the allocator; others take what it had, and it comes back.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use freehold::base::{CpuId, Gfp};

use crate::arch;
use crate::hardware::KERNEL;
use crate::together;

/// The CPU that goes: the last one.
static STILL: AtomicU32 = AtomicU32::new(0);
/// It may come back.
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// The last CPU goes while the others go on.
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
                // SAFETY: it waits with interrupts off.
                unsafe { KERNEL.cpu_dead(CpuId(last as u16)) };
                KERNEL.shrink();
                KERNEL.cpu_online(CpuId(last as u16));
                AGAIN.fetch_add(1, AcqRel);
            }
            for object in boxes.into_iter().flatten() {
                // SAFETY: it was allocated above, and is freed once.
                unsafe { KERNEL.kfree(object) }.expect("it is an object");
            }
        });
    }
}

/// Waits with interrupts off, and uses nothing.
fn rest() {
    let flags = arch::irq_save();
    STILL.fetch_add(1, AcqRel);
    while AGAIN.load(Acquire) == 0 {
        core::hint::spin_loop();
    }
    arch::irq_restore(flags);
}
