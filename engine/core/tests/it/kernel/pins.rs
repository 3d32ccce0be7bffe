//! Handles pin their blocks. A block without a handle may move, and its place is the one that the last `Moved` gave.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::base::{Gfp, Order, Pfn};
use freehold::kernel::{Boot, Cpu, Error, Kernel, Pages, Region};
use freehold::page::{ContigError, PinError};
use freehold::platform::{Migrated, Migration};

use crate::kernel::machine::{
    Equipped, Hooks, MIB, Machine, OneCpu, audit, boot, boot_with, init, install, take_all_pages,
};

const MOVABLE: Gfp = Gfp::KERNEL.union(Gfp::MOVABLE);

/// Returns the first frame of a block as a range.
fn first_of(pfn: Pfn) -> core::ops::Range<Pfn> {
    pfn..pfn.offset(1)
}

/// Fills memory with single movable pages and frees every second one, so that compaction has work to do.
fn fragment<H: Cpu>(kernel: &'static Kernel<H>) -> Vec<Pages<H>> {
    let mut all = take_all_pages(kernel, MOVABLE);
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    all
}

#[test]
fn false_migrate_answer_does_not_affect_handles() {
    static CLAIMS: AtomicU32 = AtomicU32::new(0);
    fn claim(_: &Migration) -> Migrated {
        CLAIMS.fetch_add(1, SeqCst);
        Migrated::Moved
    }
    let kernel = boot_with::<Equipped>(32, Hooks { migrate: claim, ..Hooks::default() });
    let mut handles = fragment(kernel);
    for (handle, number) in handles.iter_mut().zip(0_u32..) {
        handle.as_uninit().fill(core::mem::MaybeUninit::new(number as u8));
    }
    for handle in handles.iter().take(50) {
        let refused = kernel.alloc_contig_range(first_of(handle.pfn()), Gfp::KERNEL).unwrap_err();
        assert!(matches!(refused, Error::Contig(ContigError::Unmovable { .. })), "{refused}");
    }
    assert!(kernel.alloc_contig_pages(Gfp::KERNEL, 3000).is_err());
    for _ in 0..20 {
        assert!(kernel.alloc_pages(Gfp::KERNEL, Order::new(9)).is_err(), "every second page is pinned");
    }
    assert_eq!(CLAIMS.load(SeqCst), 0, "a block with a handle was offered to the platform");
    for (handle, number) in handles.iter_mut().zip(0_u32..) {
        // SAFETY: every byte of the block was initialised above.
        assert!(handle.as_uninit().iter().all(|byte| unsafe { byte.assume_init() } == number as u8));
    }
    drop(handles);
    audit::<Equipped>();
}

/// Other memory that was requested as movable does not move, because its owner would not learn its new place.
#[test]
fn ranges_cma_areas_and_objects_never_migrate() {
    static CLAIMS: AtomicU32 = AtomicU32::new(0);
    fn claim(_: &Migration) -> Migrated {
        CLAIMS.fetch_add(1, SeqCst);
        Migrated::Moved
    }
    let (map, reserved) = ([Region::usable(0, 64 * MIB)], 16 * MIB..20 * MIB);
    let boot = Boot { reserved: core::slice::from_ref(&reserved), ..Boot::default() };
    install::<Equipped>(Hooks { migrate: claim, ..Hooks::default() });
    init::<Equipped>(&map, 64, &boot).unwrap();
    let kernel = Machine::<Equipped>::kernel();
    // SAFETY: these frames were reserved for this area and are not used otherwise.
    let area = unsafe { kernel.reserve_cma(Pfn::new(16 << 8)..Pfn::new(20 << 8), Order::ZERO) }.unwrap();
    let range = kernel.alloc_contig_pages(MOVABLE, 40).unwrap();
    let named = kernel.alloc_contig_range(range.range().end..range.range().end.offset(16), MOVABLE).unwrap();
    let lent = area.alloc(100, 1, MOVABLE).unwrap();
    let object = kernel.kmalloc(100_000, MOVABLE).unwrap();
    let frame = |address: *const u8| Pfn::new((kernel.virt_to_phys(address).unwrap() >> 12) as u32);
    for pfn in [range.range().start, named.range().start, frame(object.as_ptr())] {
        let refused = kernel.alloc_contig_range(first_of(pfn), Gfp::KERNEL).unwrap_err();
        assert!(matches!(refused, Error::Contig(ContigError::Unmovable { .. })), "{refused}");
    }
    let again = area.alloc(900, 1, Gfp::KERNEL).unwrap();
    assert!(again.pfn() >= lent.pfn().offset(100) || again.pfn().offset(900) <= lent.pfn());
    let two = kernel.alloc_contig_pages(Gfp::MOVABLE | Gfp::RECLAIMABLE, 4);
    assert_eq!(two.unwrap_err(), Error::Contig(ContigError::Flags));
    assert_eq!(CLAIMS.load(SeqCst), 0, "a block was offered to the platform");
    // SAFETY: the object was allocated above, is not used any more, and is freed only here.
    unsafe { kernel.kfree(object) }.unwrap();
}

/// Current places of the blocks that are kept by number.
static PLACES: Mutex<Vec<Pfn>> = Mutex::new(Vec::new());

#[test]
fn block_without_a_handle_is_migrated() {
    fn copy(migration: &Migration) -> Migrated {
        let mut places = PLACES.lock().unwrap();
        let Some(place) = places.iter_mut().find(|place| **place == migration.from) else {
            return Migrated::Refused;
        };
        let [from, to] = [migration.from, migration.to]
            .map(|pfn| Machine::<Equipped>::kernel().phys_to_virt(u64::from(pfn.raw()) << 12).unwrap());
        // SAFETY: both are pages of the machine and distinct. Only this table knows the source, and the engine owns the
        // target until the callback returns.
        unsafe { from.copy_to_nonoverlapping(to, 4096) };
        *place = migration.to;
        Migrated::Moved
    }
    let kernel = boot_with::<Equipped>(32, Hooks { migrate: copy, ..Hooks::default() });
    let before = audit::<Equipped>().0;
    let mut handles: Vec<_> = (0..8).map(|_| kernel.alloc_pages(MOVABLE, Order::ZERO).unwrap()).collect();
    let first = handles[0].pfn();
    let pinned = kernel.alloc_contig_range(first_of(first), Gfp::KERNEL);
    assert!(pinned.is_err(), "a range of pages with handles cannot be allocated");
    for (handle, fill) in handles.iter_mut().zip(1_u8..) {
        handle.as_uninit().fill(core::mem::MaybeUninit::new(fill));
    }
    for handle in handles {
        PLACES.lock().unwrap().push(handle.into_raw().0);
    }
    let taken = kernel.alloc_contig_range(first_of(first), Gfp::KERNEL).unwrap();
    assert!(PLACES.lock().unwrap().iter().all(|&place| place != first), "a block in the range was not moved");
    drop(taken);
    for (place, fill) in std::mem::take(&mut *PLACES.lock().unwrap()).into_iter().zip(1_u8..) {
        // SAFETY: `into_raw` returned this block once, no handle was made since, and the table has its current place.
        let mut handle = unsafe { Pages::<Machine<Equipped>>::from_raw(place, Order::ZERO) };
        // SAFETY: every byte was initialised above, and the move copied all of them.
        assert!(handle.as_uninit().iter().all(|byte| unsafe { byte.assume_init() } == fill), "block {fill}");
        let refused = kernel.alloc_contig_range(first_of(place), Gfp::KERNEL);
        assert!(refused.is_err(), "the block has a handle again, so it must not move");
    }
    assert_eq!(audit::<Equipped>().0, before);
}

/// The owner of a block makes a handle of it while the engine wants to move it, and the callback reports a move.
#[test]
fn handle_made_during_a_migration_keeps_its_block() {
    static RETAKEN: Mutex<Option<Pages<Machine<Equipped>>>> = Mutex::new(None);
    fn retake(migration: &Migration) -> Migrated {
        let mut retaken = RETAKEN.lock().unwrap();
        if retaken.is_some() {
            return Migrated::Refused;
        }
        // SAFETY: the only block without a handle left it once by `into_raw`, and has not moved.
        *retaken = Some(unsafe { Pages::from_raw(migration.from, migration.order) });
        Migrated::Moved
    }
    let kernel = boot_with::<Equipped>(32, Hooks { migrate: retake, ..Hooks::default() });
    let mut block = kernel.alloc_pages(MOVABLE, Order::new(2)).unwrap();
    block.as_uninit().fill(core::mem::MaybeUninit::new(0x77));
    let before = audit::<Equipped>().0;
    let (pfn, order) = block.into_raw();
    let refused = kernel.alloc_contig_range(first_of(pfn), Gfp::KERNEL).unwrap_err();
    assert!(matches!(refused, Error::Contig(ContigError::Busy { .. })), "{refused}");
    let mut block = RETAKEN.lock().unwrap().take().expect("the block must have been offered to the platform");
    assert_eq!((block.pfn(), block.order()), (pfn, order));
    let others = take_all_pages(kernel, MOVABLE);
    assert!(
        others.iter().all(|other| !(pfn..pfn.offset(4)).contains(&other.pfn())),
        "the block was allocated again while it was in use"
    );
    // SAFETY: every byte was initialised above, and the block did not move.
    assert!(block.as_uninit().iter().all(|byte| unsafe { byte.assume_init() } == 0x77));
    drop(others);
    assert_eq!(
        audit::<Equipped>().0.allocated,
        before.allocated + 4,
        "exactly the target of the failed move must be lost"
    );
}

/// A kernel without [`MIGRATES`](freehold::kernel::Promises::MIGRATES) has not promised that `migrate` works.
#[test]
fn pin_longterm_without_migration_is_refused() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    fn count(_: &Migration) -> Migrated {
        CALLS.fetch_add(1, SeqCst);
        Migrated::Moved
    }
    let kernel = boot_with::<OneCpu>(32, Hooks { migrate: count, ..Hooks::default() });
    let mut block = kernel.alloc_pages(MOVABLE, Order::new(1)).unwrap();
    block.as_uninit().fill(core::mem::MaybeUninit::new(0x55));
    let before = audit::<OneCpu>().0;
    let (pfn, order) = block.into_raw();
    // SAFETY: nothing is freed or released through the reference, and `MIGRATES` is false, so the block does not move.
    let result = unsafe { kernel.pages() }.unwrap().pin_longterm(pfn, order, MOVABLE);
    assert_eq!((CALLS.load(SeqCst), result), (0, Err(PinError::Refused)));
    // SAFETY: `into_raw` returned this block once, no handle was made since, and the block was not moved.
    let mut block = unsafe { Pages::<Machine>::from_raw(pfn, order) };
    // SAFETY: every byte was initialised above.
    assert!(block.as_uninit().iter().all(|byte| unsafe { byte.assume_init() } == 0x55));
    assert_eq!(audit::<OneCpu>().0, before);
}

#[test]
fn from_raw_with_a_wrong_block_panics() {
    let kernel = boot::<OneCpu>(32);
    let (pfn, order) = kernel.alloc_pages(MOVABLE, Order::new(1)).unwrap().into_raw();
    for (pfn, order) in [(pfn, Order::ZERO), (pfn.offset(1), Order::ZERO), (Pfn::new(1 << 30), order)] {
        // SAFETY: no such block starts at this frame, so `from_raw` panics and makes no handle.
        let made = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Pages::<Machine>::from_raw(pfn, order) })));
        assert!(made.is_err());
    }
    // SAFETY: `into_raw` returned this block once, and the calls above made no handle.
    drop(unsafe { Pages::<Machine>::from_raw(pfn, order) });
    audit::<OneCpu>();
}
