//! A kernel's allocator on a host: the program of the tutorial in `docs/kernel.md`, on a simulated machine with one
//! CPU.
//!
//! The program contains everything that a kernel writes. The module `arch` replaces its processor. To run it:
//! `cargo run -p freehold --example kernel`

use std::alloc::{GlobalAlloc, Layout};

use freehold::base::{Gfp, Order};
use freehold::kernel::{Boot, Cpu, Heap, Kernel, Promises, Region, RegionKind, SetupError};

/// The processor; a real kernel uses instructions for these functions.
mod arch {
    use std::alloc::{Layout, alloc};
    use std::cell::Cell;

    thread_local! {
        static IRQS_OFF: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn cpu() -> u16 {
        0
    }

    pub(crate) fn irq_save() -> usize {
        IRQS_OFF.replace(1)
    }

    pub(crate) fn irq_restore(flags: usize) {
        IRQS_OFF.set(flags);
    }

    pub(crate) fn irqs_disabled() -> bool {
        IRQS_OFF.get() != 0
    }

    pub(crate) fn interrupt(_cpu: u16) {}

    /// Size of memory in bytes, from physical address 0.
    pub(crate) const MEMORY: u64 = 64 << 20;

    /// Returns the virtual address of physical address 0.
    pub(crate) fn direct_map() -> usize {
        let layout = Layout::from_size_align(MEMORY as usize, 4 << 20).expect("the alignment is a power of two");
        // SAFETY: `alloc` requires a layout of non-zero size, and this one has `MEMORY` bytes.
        let memory = unsafe { alloc(layout) };
        assert!(!memory.is_null(), "not enough memory for a small machine");
        memory.expose_provenance()
    }
}

struct Hw;

// SAFETY: `kernel` returns the one static. `id` reads the number of the running CPU. Between `irq_save` and
// `irq_restore` interrupts are off, so the caller stays on its CPU and nothing else runs there. `call` raises an
// interrupt, and only its handler answers.
unsafe impl Cpu for Hw {
    const CPUS: u16 = 4;
    fn kernel() -> &'static Kernel<Hw> {
        &KERNEL
    }
    fn id() -> u16 {
        arch::cpu()
    }
    fn irq_save() -> usize {
        arch::irq_save()
    }
    fn irq_restore(flags: usize) {
        arch::irq_restore(flags)
    }
    fn call(cpu: u16) {
        arch::interrupt(cpu)
    }
    fn irqs_disabled() -> Option<bool> {
        Some(arch::irqs_disabled())
    }
}

impl Promises for Hw {}

static KERNEL: Kernel<Hw> = Kernel::new();
static HEAP: Heap<Hw> = Heap::new();

/// One entry of a PC's memory map.
struct E820 {
    addr: u64,
    size: u64,
    kind: u32,
}

fn regions(map: &[E820]) -> impl Iterator<Item = Region> + Clone {
    map.iter().map(|entry| match entry.kind {
        1 => Region::usable(entry.addr, entry.size),
        _ => Region::reserved(entry.addr, entry.size),
    })
}

fn set_up(map: &[E820], kernel_image: std::ops::Range<u64>) -> Result<(), SetupError> {
    let boot = Boot { direct_map: arch::direct_map(), reserved: &[kernel_image], ..Boot::default() };
    // SAFETY: the loader's usable regions are memory, and mapped at `direct_map`. The only memory in use is the kernel
    // image, which is reserved, and no other CPU uses the allocator yet.
    unsafe { KERNEL.init(regions(map), &boot) }
}

/// Handler of the interrupt that `arch::interrupt` raises on another CPU.
fn call_interrupt() {
    KERNEL.answer();
}

#[derive(Debug)]
struct Inode {
    number: u64,
}

fn use_it() -> Result<(), freehold::kernel::Error> {
    let mut page = KERNEL.alloc_pages(Gfp::KERNEL | Gfp::ZERO, Order::ZERO)?;
    page.as_uninit()[0].write(1);
    let ring = KERNEL.alloc_pages(Gfp::KERNEL | Gfp::DMA32, Order::new(3))?;
    println!("physical address for a device: {:#x}", ring.physical());
    let frame_buffer = KERNEL.alloc_contig_pages(Gfp::KERNEL, 1000)?;
    println!("a thousand pages, from frame {:?}", frame_buffer.range().start);
    let inodes = KERNEL.cache::<Inode>("inode")?;
    let mut inode = inodes.alloc(Inode { number: 1 }, Gfp::KERNEL)?;
    inode.number += 1;
    println!("{inode:?}");
    Ok(())
}

fn main() {
    let map = [
        E820 { addr: 0, size: 0x9_fc00, kind: 1 },
        E820 { addr: 0x9_fc00, size: 0x6_0400, kind: 2 },
        E820 { addr: 0x10_0000, size: arch::MEMORY - 0x10_0000, kind: 1 },
    ];
    assert_eq!(regions(&map).filter(|region| region.kind == RegionKind::Usable).count(), 2);
    set_up(&map, 0x20_0000..0x40_0000).expect("the map has room for its metadata");
    use_it().expect("the machine has enough memory");
    call_interrupt();
    // SAFETY: the layout has a non-zero size, and the memory is freed with the layout of its allocation.
    unsafe {
        let boxed = HEAP.alloc(Layout::new::<[u64; 100]>());
        assert!(!boxed.is_null());
        HEAP.dealloc(boxed, Layout::new::<[u64; 100]>());
    }
    // SAFETY: nothing else runs, and the page allocator is only read.
    let census = unsafe { KERNEL.pages() }.expect("the kernel is set up").check().expect("it is consistent");
    println!("{census:?}");
}

#[cfg(test)]
mod tests {
    const TUTORIAL: &str = include_str!("../../../docs/kernel.md");
    const PROGRAM: &str = include_str!("kernel.rs");

    /// Removes all white space, since line breaks depend on the formatter.
    fn words(text: &str) -> String {
        text.split_whitespace().collect()
    }

    #[test]
    fn tutorial_blocks_occur_in_the_program() {
        let program = words(PROGRAM);
        let blocks = TUTORIAL.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
        let mut shown = 0;
        for block in blocks {
            assert!(program.contains(&words(block)), "the tutorial has a block that is not in this program:\n{block}");
            shown += 1;
        }
        assert!(shown >= 5, "only {shown} blocks");
    }

    #[test]
    fn kernel_example_runs() {
        super::main();
    }
}
