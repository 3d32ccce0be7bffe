//! Tests of the other policies on the same machine: one allocator per policy, with separate memory.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use freehold::base::{CpuId, Gfp, Order};
use freehold::kernel::{Boot, Cpu, Kernel, Promises, Region};
use freehold::policy::Policy;

use super::Random;
use crate::arch;
use crate::console::say;
use crate::hardware::KERNEL;
use crate::together;

/// Defines the hardware type and the allocator of each policy.
macro_rules! rules {
    ($($name:ident $static:ident $policy:expr;)*) => {
        $(
            struct $name;
            static $static: Kernel<$name> = Kernel::new();

            impl Promises for $name {
                fn unanswered(cpu: CpuId) {
                    panic!("CPU {} does not answer a call", cpu.0);
                }
            }

            // SAFETY: as for `Hardware`; `answer` below answers the calls for all these allocators.
            unsafe impl Cpu for $name {
                const CPUS: u16 = arch::CPUS_MAX;
                const POLICY: Policy = $policy;

                fn kernel() -> &'static Kernel<$name> {
                    &$static
                }

                fn id() -> u16 {
                    arch::cpu()
                }

                fn irq_save() -> usize {
                    arch::irq_save()
                }

                fn irq_restore(flags: usize) {
                    arch::irq_restore(flags);
                }

                fn call(cpu: u16) {
                    arch::call(cpu);
                }

                fn irqs_disabled() -> Option<bool> {
                    Some(arch::irqs_disabled())
                }
            }
        )*

        /// Answers the calls of all these allocators.
        pub fn answer() {
            $($static.answer();)*
        }

        /// Tests each of the allocators on all CPUs.
        pub fn play() {
            $(
                set_up::<$name>();
                together::on_all_cpus(work::<$name>);
                finish::<$name>(stringify!($name));
            )*
        }
    };
}

rules! {
    Linux612 LINUX_6_12 Policy::LINUX_6_12;
    Linux618 LINUX_6_18 Policy::LINUX_6_18;
    Linux72 LINUX_7_2 Policy::LINUX_7_2;
    Linux73 LINUX_7_3 Policy::LINUX_7_3;
}

/// Pages of memory for each allocator.
const PAGES: u32 = 12 << 8;

fn set_up<H: Cpu>() {
    let range = KERNEL.alloc_contig_pages(Gfp::KERNEL, PAGES).expect("most memory is free");
    let start = u64::from(range.range().start.raw()) << 12;
    // The memory belongs to the new allocator forever.
    core::mem::forget(range);
    let map = [Region::usable(start, u64::from(PAGES) << 12)];
    let boot = Boot { direct_map: arch::DIRECT_MAP, ..Boot::default() };
    // SAFETY: the range was allocated above, is mapped there, and is never freed or used otherwise.
    unsafe { H::kernel().init(map, &boot) }.expect("the range has room for the metadata");
}

fn work<H: Cpu>(cpu: u32) {
    let (kernel, mut random) = (H::kernel(), Random::new(u64::from(cpu) + 7));
    let mut objects = [const { MaybeUninit::<Option<NonNull<u8>>>::new(None) }; 64];
    let mut blocks = [const { None }; 16];
    for step in 0..2_000_u32 {
        // SAFETY: every element of the array is initialized with `None`.
        let place = unsafe { objects[random.below(64) as usize].assume_init_mut() };
        if let Some(object) = place.take() {
            // SAFETY: this CPU allocated the object, and `take` removed the only reference to it.
            unsafe { kernel.kfree(object) }.expect("the object is allocated");
        } else {
            *place = kernel.kmalloc(1 + random.below(3000) as usize, Gfp::KERNEL).ok();
        }
        blocks[random.below(16) as usize] = kernel.alloc_pages(Gfp::KERNEL, Order::new(random.below(4) as u8)).ok();
        if step % 500 == 0 {
            kernel.shrink();
        }
    }
    for place in objects {
        // SAFETY: every element of the array is initialized.
        if let Some(object) = unsafe { place.assume_init() } {
            // SAFETY: this CPU allocated the object, and the array held the only reference to it.
            unsafe { kernel.kfree(object) }.expect("the object is allocated");
        }
    }
}

fn finish<H: Cpu>(name: &str) {
    let kernel = H::kernel();
    kernel.shrink();
    // SAFETY: all other CPUs wait, and the page allocator is only read.
    let (objects, pages) = unsafe {
        let slab = kernel.slab().expect("the kernel is set up");
        (slab.check(), slab.pages().check())
    };
    let (objects, pages) = (objects.expect("no object is lost"), pages.expect("no page is lost"));
    assert_eq!((objects.objects, pages.allocated), (0, 0), "objects or pages of {name} are still in use");
    say!("  {name}: {} pages free", pages.free + pages.cached);
}
