//! Everybody at once: four CPUs that allocate, free each other's memory, shrink and go offline. No lock of the test's
//! is held while the kernel is called: a thread that waits for one takes no interrupt, as a CPU would.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use freehold::base::{CpuId, Gfp, Order};
use freehold::kernel::{Cpu, Pages};

use crate::kernel::machine::{audit, boot, machine, stand_for, touch};

machine!(Storm, 4);

/// An object, its size, and the byte that fills it.
struct Held {
    address: usize,
    size: usize,
    fill: u8,
}

impl Held {
    fn new(size: usize, fill: u8) -> Option<Held> {
        let object = Storm::kernel().kmalloc(size, Gfp::KERNEL).ok()?;
        // SAFETY: it has so many bytes.
        unsafe { object.write_bytes(fill, size) };
        Some(Held { address: object.as_ptr().expose_provenance(), size, fill })
    }

    fn free(self) {
        let object = core::ptr::NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(self.address)).unwrap();
        // SAFETY: it is this value's, and freed once.
        unsafe {
            assert!((0..self.size).all(|at| object.add(at).read() == self.fill), "somebody else wrote into it");
            Storm::kernel().kfree(object).unwrap();
        }
    }
}

#[test]
fn nothing_is_lost_when_all_cpus_do_everything() {
    const STEPS: u32 = if cfg!(debug_assertions) { 12_000 } else { 60_000 };
    let kernel = boot::<Storm>(64);
    let before = audit::<Storm>();
    let (objects, pages) = (Mutex::new(Vec::<Held>::new()), Mutex::new(Vec::<Pages<Storm>>::new()));
    let running = AtomicU32::new(4);
    let work = |cpu: u16| {
        let mut random = fastrand::Rng::with_seed(cpu.into());
        for step in 0..STEPS {
            match random.u8(0..16) {
                0..6 => {
                    let held = Held::new(random.usize(1..9000), random.u8(..));
                    objects.lock().unwrap().extend(held);
                }
                6..11 => {
                    let mut all = objects.lock().unwrap();
                    let at = random.usize(0..all.len().max(1));
                    let taken = (at < all.len()).then(|| all.swap_remove(at));
                    drop(all);
                    taken.into_iter().for_each(Held::free);
                }
                11..13 => {
                    let block = kernel.alloc_pages(Gfp::KERNEL, Order::new(random.u8(0..4)));
                    pages.lock().unwrap().extend(block);
                }
                13..15 => {
                    let block = pages.lock().unwrap().pop();
                    drop(block);
                }
                _ if step % 64 == 0 => kernel.shrink(),
                _ => kernel.slab().unwrap().drain_cpu(CpuId(random.u16(0..4))),
            }
        }
        running.fetch_sub(1, Release);
    };
    std::thread::scope(|scope| {
        for cpu in 1..4 {
            let (work, running) = (&work, &running);
            scope.spawn(move || stand_for::<Storm>(cpu, || running.load(Acquire) == 0, || work(cpu)));
        }
        stand_for::<Storm>(0, || running.load(Acquire) == 0, || work(0));
    });
    objects.into_inner().unwrap().into_iter().for_each(Held::free);
    drop(pages);
    retire();
    assert_eq!(audit::<Storm>(), before);
}

/// The other CPUs are gone by now: what they have left is taken from them.
fn retire() {
    for cpu in 1..4 {
        // SAFETY: no thread stands for it any more.
        unsafe { Storm::kernel().cpu_dead(CpuId(cpu)) };
    }
    touch::<Storm>();
}
