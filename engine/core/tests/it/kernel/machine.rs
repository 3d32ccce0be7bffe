//! Machines for tests: each has a kernel of its own, and memory that is never given back.

use std::alloc::{Layout, alloc};
use std::cell::Cell;

use freehold::base::{CpuId, Gfp, Order};
use freehold::kernel::{Boot, Cpu, Kernel, Pages, Region, SetupError};
use freehold::page::Census;
use freehold::slab::SlabCensus;

/// One MiB.
pub(crate) const MIB: u64 = 1 << 20;

thread_local! {
    /// The CPU that this thread stands for.
    pub static CPU: Cell<u16> = const { Cell::new(0) };
    /// Whether its interrupts are off.
    pub static IRQS_OFF: Cell<bool> = const { Cell::new(false) };
    /// CPUs that did not answer this thread.
    pub static UNANSWERED: Cell<u32> = const { Cell::new(0) };
}

/// A machine: the type, its kernel, and how many CPUs it has. The items in `promises` go into the implementation of
/// `Promises`, those that follow into that of `Cpu`.
macro_rules! machine {
    ($name:ident, $cpus:expr, promises { $($promise:item)* } $(, $more:item)*) => {
        pub(crate) struct $name;

        impl $name {
            /// CPUs for which a call waits.
            fn calls() -> &'static [std::sync::atomic::AtomicBool] {
                static CALLS: [std::sync::atomic::AtomicBool; $cpus as usize] =
                    [const { std::sync::atomic::AtomicBool::new(false) }; $cpus as usize];
                &CALLS
            }

            /// Takes the call that waits, if one does: interrupts are on.
            fn deliver() {
                let cpu = usize::from($crate::kernel::machine::CPU.get());
                let waits = Self::calls().get(cpu).is_some_and(|call| call.swap(false, std::sync::atomic::Ordering::AcqRel));
                if waits {
                    <$name as freehold::kernel::Cpu>::kernel().answer();
                }
            }
        }

        impl freehold::kernel::Promises for $name {
            $($promise)*

            fn unanswered(_: freehold::base::CpuId) {
                $crate::kernel::machine::UNANSWERED.set($crate::kernel::machine::UNANSWERED.get() + 1);
            }
        }

        // SAFETY: a thread stays the CPU that it says it is, and a call is answered where interrupts come on.
        unsafe impl freehold::kernel::Cpu for $name {
            const CPUS: u16 = $cpus;
            $($more)*

            fn kernel() -> &'static freehold::kernel::Kernel<$name> {
                static KERNEL: freehold::kernel::Kernel<$name> = freehold::kernel::Kernel::new();
                &KERNEL
            }

            fn id() -> u16 {
                $crate::kernel::machine::CPU.get()
            }

            fn irq_save() -> usize {
                $crate::kernel::machine::IRQS_OFF.replace(true).into()
            }

            fn irq_restore(flags: usize) {
                $crate::kernel::machine::IRQS_OFF.set(flags != 0);
                if flags == 0 {
                    Self::deliver();
                }
            }

            fn call(cpu: u16) {
                assert_ne!(cpu, $crate::kernel::machine::CPU.get(), "no CPU calls itself");
                Self::calls()[usize::from(cpu)].store(true, std::sync::atomic::Ordering::Release);
            }

            fn wait() {
                std::thread::yield_now();
            }

            fn irqs_disabled() -> Option<bool> {
                Some($crate::kernel::machine::IRQS_OFF.get())
            }
        }
    };
    ($name:ident, $cpus:expr $(, $more:item)*) => {
        $crate::kernel::machine::machine!($name, $cpus, promises {} $(, $more)*);
    };
}
pub(crate) use machine;

/// Memory for so many bytes of a machine, for ever: what is added to a physical address for its own.
pub(crate) fn memory(bytes: u64) -> usize {
    let layout = Layout::from_size_align(bytes as usize, 4 << 20).unwrap();
    // SAFETY: the layout has bytes, so it may be asked for.
    let memory = unsafe { alloc(layout) };
    assert!(!memory.is_null());
    memory.expose_provenance()
}

/// Sets a machine up with the memory from address 0 to here.
pub(crate) fn boot<H: Cpu>(mib: u64) -> &'static Kernel<H> {
    init::<H>(&[Region::usable(0, mib * MIB)], mib, &Boot::default()).unwrap();
    H::kernel()
}

/// The same with a map, for memory up to here; the direct map leads to it.
pub(crate) fn init<H: Cpu>(map: &[Region], mib: u64, boot: &Boot<'_>) -> Result<(), SetupError> {
    let boot = Boot { direct_map: memory(mib * MIB), ..boot.clone() };
    // SAFETY: the memory is there for ever, and nobody else's.
    unsafe { H::kernel().init(map.iter().copied(), &boot) }
}

/// What is there when nothing idles: slabs that nobody uses are given back first.
pub(crate) fn audit<H: Cpu>() -> (Census, SlabCensus) {
    let kernel = H::kernel();
    kernel.shrink();
    // SAFETY: nobody else uses the kernel, and the pages are only looked at.
    unsafe { (kernel.pages().unwrap().check().unwrap(), kernel.slab().unwrap().check().unwrap()) }
}

/// Allocates single pages until there are none.
pub(crate) fn take_all_pages<H: Cpu>(kernel: &'static Kernel<H>, gfp: Gfp) -> Vec<Pages<H>> {
    core::iter::from_fn(|| kernel.alloc_pages(gfp, Order::ZERO).ok()).collect()
}

/// Runs this as another CPU, and answers calls as if idle until `is_over`.
pub(crate) fn stand_for<H: Cpu>(cpu: u16, is_over: impl Fn() -> bool, run: impl FnOnce()) {
    CPU.set(cpu);
    run();
    while !is_over() {
        H::kernel().answer();
        H::wait();
    }
}

/// Has this CPU use the allocator, so that it counts as up.
pub(crate) fn touch<H: Cpu>() -> CpuId {
    let object = H::kernel().kmalloc(64, Gfp::KERNEL).unwrap();
    // SAFETY: it was just allocated.
    unsafe { H::kernel().kfree(object) }.unwrap();
    CpuId(H::id())
}
