//! Boundary values of the layouts and addresses of the heap.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::kernel::Heap;

use crate::kernel::machine::{Equipped, Hooks, Machine, audit, boot_with};

type Hw = Machine<Equipped>;

#[test]
fn layouts_and_addresses() {
    static REPORTS: AtomicU32 = AtomicU32::new(0);
    let hooks = Hooks { slab_error: |_| _ = REPORTS.fetch_add(1, SeqCst), ..Hooks::default() };
    boot_with::<Equipped>(32, hooks);
    let heap = Heap::<Hw>::new();
    let before = audit::<Equipped>();
    let largest = isize::MAX as usize;
    for (size, align) in
        [(largest, 1), (largest - 1, 2), (1, 1 << 62), ((1 << 62) - 1, 1 << 62), (largest - 4095, 4096)]
    {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the size of the layout is not zero.
        unsafe { assert!(heap.alloc(layout).is_null() && heap.alloc_zeroed(layout).is_null(), "{layout:?}") };
    }
    let (small, range) = (Layout::new::<u64>(), Layout::from_size_align(5 << 20, 8).unwrap());
    // SAFETY: null and addresses outside of objects are refused. `object` is used with its layout until it is freed,
    // and a `realloc` that fails leaves it alone.
    unsafe {
        heap.dealloc(null_mut(), small);
        for (layout, address) in [small, range].into_iter().flat_map(|layout| [(layout, 1), (layout, usize::MAX)]) {
            REPORTS.store(0, SeqCst);
            heap.dealloc(without_provenance_mut(address), layout);
            assert_eq!(REPORTS.load(SeqCst), 1, "{layout:?} at {address:#x}");
        }
        let object = heap.alloc(small).cast::<u64>();
        object.write(u64::MAX / 3);
        for size in [largest - 7, 33 << 20, 1 << 40] {
            assert!(heap.realloc(object.cast(), small, size).is_null(), "{size}");
        }
        assert_eq!(object.read(), u64::MAX / 3);
        heap.dealloc(object.cast(), small);
    }
    assert_eq!(audit::<Equipped>(), before);
}
