//! All CPUs allocate, fill, check and free objects and pages, including those of other CPUs, and free idle memory.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::AcqRel;

use freehold::base::{CpuId, Gfp, Order};
use freehold::kernel::Pages;

use super::Random;
use crate::hardware::Hardware;
use crate::hardware::KERNEL;
use crate::together;

const STEPS: u64 = 60_000;
/// Number of slots in which all CPUs put objects, and from which they take them.
const SHARED: usize = 512;
static OBJECTS: [AtomicPtr<u8>; SHARED] = [const { AtomicPtr::new(null_mut()) }; SHARED];

/// Runs on all CPUs.
pub fn play() {
    together::on_all_cpus(|cpu| {
        let mut random = Random::new(u64::from(cpu) + 1);
        let mut pages: [Option<Pages<Hardware>>; 32] = [const { None }; 32];
        for _ in 0..STEPS {
            match random.below(1024) {
                0..800 => swap_object(&mut random),
                800..1022 => swap_pages(&mut pages, &mut random),
                // This waits for the other CPU; it happens a few dozen times per CPU.
                1022 => {
                    KERNEL
                        .slab()
                        .expect("the kernel is set up")
                        .drain_cpu(CpuId(random.below(together::cpus().into()) as u16));
                }
                _ if random.below(8) == 0 => KERNEL.shrink(),
                _ => {}
            }
        }
    });
    (0..SHARED).for_each(|place| free(OBJECTS[place].swap(null_mut(), AcqRel)));
}

/// Puts a new object into a random slot, and frees the object that was there, even if another CPU allocated it.
fn swap_object(random: &mut Random) {
    let most = if random.below(8) == 0 { 9000 } else { 500 };
    let size = 9 + random.below(most) as usize;
    let object = KERNEL.kmalloc(size, Gfp::KERNEL).map_or(null_mut(), |object| fill(object, size));
    free(OBJECTS[random.below(SHARED as u64) as usize].swap(object, AcqRel));
}

/// Writes the size into the first word and the last byte of an object. Filling it completely would take longer than the
/// tested operations, because interrupts come so often.
fn fill(object: NonNull<u8>, size: usize) -> *mut u8 {
    // SAFETY: the object has `size` bytes, at least 9, and no other code refers to it yet.
    unsafe {
        object.cast::<usize>().write_unaligned(size);
        object.add(size - 1).write(size as u8);
    }
    object.as_ptr()
}

fn free(object: *mut u8) {
    let Some(object) = NonNull::new(object) else { return };
    // SAFETY: `fill` has written the object, and the swap removed the only reference to it.
    unsafe {
        let size = object.cast::<usize>().read_unaligned();
        let is_whole = size < 10_000 && object.add(size - 1).read() == size as u8;
        assert!(is_whole, "an object was overwritten");
        KERNEL.kfree(object).expect("the object is allocated");
    }
}

fn swap_pages(pages: &mut [Option<Pages<Hardware>>], random: &mut Random) {
    let place = random.below(pages.len() as u64) as usize;
    let order = Order::new(random.below(5) as u8);
    pages[place] = KERNEL.alloc_pages(Gfp::KERNEL, order).ok();
    if let Some(block) = &mut pages[place] {
        block.as_uninit()[0].write(place as u8);
    }
}
