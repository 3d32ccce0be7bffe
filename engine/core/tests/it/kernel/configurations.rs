//! Machines with other constants: pages of 16 KiB, and the slab policy `bitmap`. Both have memory with a hole.

use std::ptr::NonNull;

use freehold::base::{Gfp, Order, Pfn};
use freehold::kernel::{Boot, Cpu, Kernel, Region, SetupError};
use freehold::page::OnlineError;

use crate::kernel::machine::{
    BitmapSlab, Hooks, LargePages, MIB, Machine, OBJECTS_MAX, Variant, audit, fill_with_objects, free_objects, init,
    install, take_all_pages,
};

/// Boots a machine with memory from 0 to 32 MiB, and of the same size from `upper` on.
fn boot_with_hole<V: Variant>(upper: u64, end_max: u64) -> &'static Kernel<Machine<V>> {
    let map = [Region::usable(0, 32 * MIB), Region::usable(upper, 32 * MIB)];
    install::<V>(Hooks::default());
    init::<V>(&map, end_max / MIB, &Boot { end_max, ..Boot::default() }).unwrap();
    Machine::<V>::kernel()
}

/// Adds memory between two addresses in MiB.
fn add_mib<H: Cpu>(kernel: &'static Kernel<H>, start: u64, end: u64) -> Result<u32, SetupError> {
    // SAFETY: the memory of the machine covers this range, and nothing else uses it.
    unsafe { kernel.add_memory(start * MIB..end * MIB) }
}

/// Allocates single pages, of which `total` exist and some are metadata, and writes the first and the last byte of each.
fn use_all_pages<H: Cpu>(kernel: &'static Kernel<H>, total: u64) {
    let size = H::PAGE_SIZE as usize;
    let mut all = take_all_pages(kernel, Gfp::ATOMIC);
    let count = all.len() as u64;
    assert!(count > total * 8 / 10 && count <= total, "{count} of {total} pages were allocated");
    for (number, page) in (0_u32..).zip(&mut all) {
        let bytes = page.as_uninit();
        assert_eq!(bytes.len(), size);
        bytes[0].write(number as u8);
        bytes[size - 1].write((number >> 8) as u8);
    }
    for (number, page) in (0_u32..).zip(&mut all) {
        let bytes = page.as_uninit();
        // SAFETY: both bytes were initialised above.
        let contents = unsafe { [bytes[0].assume_init(), bytes[size - 1].assume_init()] };
        assert_eq!(contents, [number as u8, (number >> 8) as u8], "two pages overlap");
    }
}

/// Sections have 512 MiB, and the largest block has 16 MiB.
#[test]
fn pages_of_16_kib() {
    let kernel = boot_with_hole::<LargePages>(1024 * MIB, 2048 * MIB);
    let before = audit::<LargePages>();
    use_all_pages(kernel, 64 * MIB / (16 << 10));
    assert_eq!(audit::<LargePages>(), before);
    for order in 0..=10 {
        let order = Order::new(order);
        let mut pages = kernel.alloc_pages(Gfp::KERNEL | Gfp::ZERO, order).unwrap();
        assert!(pages.physical().is_multiple_of((16 << 10) << order.get()));
        assert_eq!(pages.as_uninit().len(), (16 << 10) << order.get());
        assert_eq!(kernel.virt_to_phys(pages.as_ptr().as_ptr()), Some(pages.physical()));
    }
    for size in [8, 100, 256, 1000, 4096, 16 << 10, 40_000, 1 << 20] {
        let objects = fill_with_objects(kernel, size);
        let count = objects.len();
        let above = free_objects(kernel, objects, 1024 * MIB);
        assert!(above > 0 && above < count || count == OBJECTS_MAX, "{above} of {count} objects are above the hole");
    }
    assert!(kernel.kmalloc((16 << 20) + 1, Gfp::KERNEL).is_err());
    let range = kernel.alloc_contig_pages(Gfp::KERNEL, 1200).unwrap();
    assert_eq!(range.range().end.raw() - range.range().start.raw(), 1200);
    drop(range);
    assert_eq!(audit::<LargePages>(), before);
}

#[test]
fn adding_memory_with_pages_of_16_kib() {
    let kernel = boot_with_hole::<LargePages>(1024 * MIB, 2048 * MIB);
    assert!(matches!(add_mib(kernel, 1060, 1088), Err(SetupError::Misaligned { .. })));
    assert_eq!(add_mib(kernel, 1056, 1088), Ok(2048), "the section has its metadata already");
    let free = add_mib(kernel, 1536, 1664).unwrap();
    assert!((7000..8192).contains(&free), "{free} of 8192 pages are free; only the metadata may be missing");
    let overlap = SetupError::Online(OnlineError::Overlap { pfn: Pfn::new((1536 * MIB / (16 << 10)) as u32) });
    assert_eq!(add_mib(kernel, 1536, 1664), Err(overlap));
    assert_eq!(add_mib(kernel, 2048, 2064), Err(SetupError::Online(OnlineError::Range)));
    let before = audit::<LargePages>();
    use_all_pages(kernel, (64 + 32 + 128) * MIB / (16 << 10));
    let objects = fill_with_objects(kernel, 5000);
    assert!(free_objects(kernel, objects, 1536 * MIB) > 10_000, "few objects are in the new section");
    assert_eq!(audit::<LargePages>(), before);
}

/// Under `slab.objects=bitmap` the slab has one table for all memory, which includes the hole.
#[test]
fn bitmap_slab_with_a_hole() {
    let kernel = boot_with_hole::<BitmapSlab>(256 * MIB, 352 * MIB);
    let before = audit::<BitmapSlab>();
    use_all_pages(kernel, 64 * MIB / 4096);
    for size in [8, 64, 200, 1000, 4096, 20_000] {
        let objects = fill_with_objects(kernel, size);
        let count = objects.len();
        let above = free_objects(kernel, objects, 256 * MIB);
        assert!(above > 0 && above < count || count == OBJECTS_MAX, "{above} of {count} objects are above the hole");
    }
    assert_eq!(audit::<BitmapSlab>(), before);
    for hole in [32 * MIB, 128 * MIB, 256 * MIB - 4096, 288 * MIB, 352 * MIB] {
        let object = kernel.kmalloc(64, Gfp::KERNEL).unwrap();
        let distance = hole.wrapping_sub(kernel.virt_to_phys(object.as_ptr()).unwrap()) as usize;
        // SAFETY: no object is at the first address, so that free is refused; the object itself is freed once.
        unsafe {
            let foreign = NonNull::new(object.as_ptr().wrapping_add(distance)).unwrap();
            assert!(kernel.kfree(foreign).is_err(), "an address in a hole was freed");
            kernel.kfree(object).unwrap();
        }
    }
    let free = add_mib(kernel, 288, 352).unwrap();
    assert_eq!(free, 16_384, "all metadata exists already");
    let objects = fill_with_objects(kernel, 1000);
    assert!(free_objects(kernel, objects, 288 * MIB) > 40_000, "few objects are in the new memory");
    audit::<BitmapSlab>();
}
