//! Tests of heaps with each primitive: objects do not overlap, heaps grow, run out of memory, and stay consistent.

use std::ptr::{NonNull, with_exposed_provenance_mut};

use fastrand::Rng;
use freehold::base::CpuId;
use freehold::policy::Policy;
use freehold::policy::slab::{SlabLinks, SlabPolicy};
use freehold::slab::fast_path::{Sheaves, Tagged};
use freehold::slab::freelist::Plain;
use freehold::slab::{CpuLocal, ObjectError};
use freehold_malloc::heap::{Heap, HeapConfig, HeapError, HeapViolation, PieceSize};
use freehold_malloc::os::budget::MemoryBudget;
use freehold_malloc::os::mmap::HugePages;
use freehold_malloc::os::platform::{CurrentCpuOfProcess, Process};
use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::thread_local::{ThreadLocal, stand_for};

use crate::common::skip_message::left_out;

/// Bytes of a section.
const SECTION: usize = 128 << 20;

fn policies() -> Vec<Policy> {
    let mut hardened = Policy::FREEHOLD;
    hardened.slab.links = SlabLinks::Mangled;
    let mut page_field = Policy::FREEHOLD;
    page_field.slab.objects = SlabPolicy::PageField;
    vec![Policy::FREEHOLD, hardened, page_field]
}

fn config(bytes: usize, policy: Policy) -> HeapConfig {
    HeapConfig { bytes, policy, huge_pages: HugePages::BySystem, ..HeapConfig::default() }
}

/// Allocates and frees objects at random. Each object is filled with its own number, which is checked at its free.
fn churn<C: CpuLocal>(heap: &Heap<C>, seed: u64) {
    let mut chance = Rng::with_seed(seed);
    let mut live: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
    for _ in 0..40_000 {
        if live.len() < 2000 && chance.u8(..5) < 3 || live.is_empty() {
            let size = 1 << chance.u32(0..14);
            let object = heap.malloc(size).expect("the heap must have enough memory");
            let number = chance.u8(..);
            // SAFETY: the object was just allocated with `size` bytes.
            unsafe { object.write_bytes(number, size) };
            live.push((object, size, number));
        } else {
            let (object, size, number) = live.swap_remove(chance.usize(..live.len()));
            // SAFETY: the object was allocated with `size` bytes, which were all written.
            let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), size) };
            assert!(bytes.iter().all(|byte| *byte == number), "the bytes of an object of {size} bytes were changed");
            // SAFETY: `live` holds each allocated object once, and this one was just removed.
            unsafe { heap.free(object) }.expect("the pointer must be an object in use");
        }
    }
    for (object, ..) in live {
        // SAFETY: `live` holds objects that were allocated and not freed, and each is visited once.
        unsafe { heap.free(object) }.expect("the pointer must be an object in use");
    }
    heap.slab().shrink();
    // SAFETY: no other thread uses the heap, and all objects were freed.
    let census = unsafe { heap.slab().check() }.expect("the check must find no error");
    assert_eq!(census.objects, census.free, "{census:?}");
}

#[test]
fn objects_do_not_overlap() {
    for (seed, policy) in (0..).zip(policies()) {
        let config = config(SECTION, policy);
        churn(&Heap::with_locks(&config).expect("a heap with locks can always be created"), seed);
        match Heap::with_rseq(&config) {
            Ok(heap) => churn(&heap, seed),
            Err(why) => left_out(why),
        }
        let current = CurrentCpuOfProcess::find();
        stand_for(CpuId(0));
        // SAFETY: this thread alone represents a CPU, no signal handler uses the primitive, and fences are called
        // outside of sections.
        let threads = unsafe { ThreadLocal::new(1) };
        churn(
            &Heap::new(&config, threads, Process::new(current)).expect("the heap can be created as with locks"),
            seed,
        );
    }
}

/// C requires alignment to 16 if an object can contain a value with that alignment, and programs rely on it.
#[test]
fn objects_of_more_than_8_bytes_are_aligned_to_16() {
    let heap = Heap::with_locks(&config(SECTION, Policy::FREEHOLD)).expect("a small heap can be created");
    for size in (9..2000).chain((2000..40_000).step_by(97)) {
        let objects = [(); 3].map(|()| heap.malloc(size).expect("the heap must have enough memory"));
        for object in objects {
            assert_eq!(object.addr().get() % 16, 0, "{size} bytes");
            assert!(!size.is_power_of_two() || object.addr().get() % size.min(4096) == 0, "{size} bytes");
            // SAFETY: the object was just allocated and is freed once.
            unsafe { heap.free(object) }.expect("the pointer must be an object in use");
        }
    }
}

/// A budget that is not a multiple of 2 MiB. All of it is usable, except for metadata and a piece of 32 KiB. Memory
/// that was returned to the system can be used again.
#[test]
fn heap_uses_its_whole_budget_and_no_more() {
    const LIMIT: usize = 11 << 20;
    const SIZE: usize = 4096;
    static BUDGET: MemoryBudget = MemoryBudget::unlimited();
    BUDGET.set_limit(LIMIT);
    let config = HeapConfig { budget: &BUDGET, ..config(SECTION, Policy::FREEHOLD) };
    let heap = Heap::with_locks(&config).expect("a small heap can be created");
    for _ in 0..3 {
        let objects: Vec<_> = std::iter::from_fn(|| heap.malloc(SIZE).ok()).collect();
        let bytes = objects.len() * SIZE;
        assert!(bytes < LIMIT && bytes > LIMIT / 16 * 15, "{bytes} bytes, {:?}", heap.usage());
        for object in objects {
            // SAFETY: the object was just allocated and is freed once.
            unsafe { heap.free(object) }.expect("the pointer must be an object in use");
        }
        heap.slab().shrink();
        assert!(BUDGET.charge(LIMIT / 2).is_err(), "free memory that has pages is charged");
        heap.give_back_pieces(usize::MAX, PieceSize::Small);
        BUDGET.charge(LIMIT / 2).expect("returned memory is not charged");
        BUDGET.release(LIMIT / 2);
    }
    // SAFETY: no other thread uses the heap.
    unsafe { heap.slab().check() }.expect("the check must find no error");
}

/// Objects of 3 KiB in slabs of 32 KiB, every sixteenth of which stays: about half of the slabs are free, and no block
/// of 2 MiB is.
#[test]
fn pieces_of_partly_used_blocks_are_returned_and_used_again() {
    const SIZE: usize = 3 << 10;
    let heap = Heap::with_locks(&config(SECTION, Policy::FREEHOLD)).expect("a small heap can be created");
    let allocate = || heap.malloc(SIZE).expect("the heap must have enough memory");
    let objects: Vec<_> = (0..16_000).map(|_| allocate()).collect();
    let (kept, freed): (Vec<_>, Vec<_>) = objects.into_iter().enumerate().partition(|(at, _)| at % 16 == 0);
    for (_, object) in freed {
        // SAFETY: the object was allocated above and is freed once.
        unsafe { heap.free(object) }.expect("the pointer must be an object in use");
    }
    heap.slab().shrink();
    let before = heap.usage();
    let whole = heap.give_back(usize::MAX);
    let pieces = heap.give_back_pieces(usize::MAX, PieceSize::Small);
    let after = heap.usage();
    assert!(whole < 4 << 20 && pieces > 10 << 20, "{whole} and {pieces} of {before:?}");
    assert!(after.returned == whole + pieces && after.free < 1 << 20, "{after:?}");
    let again: Vec<_> = (0..15_000).map(|_| allocate()).collect();
    let last = heap.usage();
    assert!(
        last.online == after.online && 4 * last.returned < after.returned,
        "returned memory is used first: {last:?}"
    );
    for object in kept.into_iter().map(|(_, object)| object).chain(again) {
        // SAFETY: each object was allocated above and is freed once.
        unsafe { heap.free(object) }.expect("the pointer must be an object in use");
    }
    // SAFETY: no other thread uses the heap.
    unsafe { heap.slab().check() }.expect("the check must find no error");
}

/// Fills a heap, frees all objects but those at the start of each 2 MiB, and returns free pieces as where huge pages
/// back the heap. Returns the bytes that were returned for each 2 MiB, on average.
fn return_pieces_of_huge_pages(kept: usize) -> usize {
    const HUGE: usize = 2 << 20;
    const FULL: usize = 32 * HUGE;
    const SIZE: usize = 16 << 10;
    let heap = Heap::with_locks(&config(SECTION, Policy::FREEHOLD)).expect("there is room");
    let first = heap.memory().start().addr().get();
    let objects: Vec<_> = (0..FULL / SIZE).map(|_| heap.malloc(SIZE).expect("there is memory")).collect();
    for object in objects.into_iter().filter(|object| (object.addr().get() - first) % HUGE >= kept) {
        // SAFETY: the object was allocated above and is freed once.
        unsafe { heap.free(object) }.expect("the pointer must be an object in use");
    }
    heap.slab().shrink();
    heap.give_back_pieces(usize::MAX, PieceSize::HalfHuge);
    // SAFETY: no other thread uses the heap.
    assert_eq!(unsafe { heap.check() }, Ok(()));
    heap.usage().returned / (FULL / HUGE)
}

#[test]
fn sparse_huge_page_is_returned_in_small_pieces() {
    // A quarter of a huge page is 512 KiB. The last blocks of the heap are not filled, so they are returned as a whole.
    let (sparse, others) = (return_pieces_of_huge_pages(384 << 10), return_pieces_of_huge_pages(768 << 10));
    assert!(sparse > 1600 << 10, "{sparse} bytes of each sparse huge page are returned");
    assert!((1000 << 10..1200 << 10).contains(&others), "{others} bytes of each other huge page are returned");
}

#[test]
fn heap_grows_to_its_limit_and_recovers() {
    const SIZE: usize = 1 << 20;
    let heap = Heap::with_locks(&config(2 * SECTION, Policy::FREEHOLD)).expect("a small heap can be created");
    for _ in 0..2 {
        let mut blocks = Vec::new();
        let error = loop {
            match heap.malloc(SIZE) {
                Ok(block) => blocks.push(block),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ObjectError::Pages(_)), "{error}");
        assert!(blocks.len() > SECTION / SIZE, "{} blocks are no more than a section", blocks.len());
        let range = heap.memory().start().addr().get()..;
        assert!(blocks.iter().all(|block| range.contains(&block.addr().get())));
        for block in blocks {
            // SAFETY: the block was allocated above and is freed once.
            unsafe { heap.free(block) }.expect("the pointer must be a block in use");
        }
    }
}

#[test]
fn heap_smaller_than_a_section_recovers_from_exhaustion() {
    for bytes in [4 << 20, 12 << 20, 13 << 20, SECTION - 1] {
        let heap = Heap::with_locks(&config(bytes, Policy::FREEHOLD)).expect("a small heap can be created");
        assert_eq!(heap.memory().bytes(), bytes.next_multiple_of(4 << 20).min(SECTION));
        for size in [64, 3000, 20_000] {
            let objects: Vec<_> = core::iter::from_fn(|| heap.malloc(size).ok()).collect();
            assert!(objects.len() * size > bytes / 2, "{} objects of {size} in {bytes}", objects.len());
            for object in objects {
                // SAFETY: the object was allocated above and is freed once.
                unsafe { heap.free(object) }.expect("the pointer must be an object in use");
            }
            heap.slab().shrink();
        }
        // SAFETY: no other thread uses the heap, and all objects were freed.
        let census = unsafe { heap.slab().check() }.expect("the check must find no error");
        assert_eq!(census.objects, census.free, "{census:?}");
    }
}

#[test]
fn frontend_shares_the_heap_and_grows() {
    const SIZE: usize = 8192;
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = SlabPolicy::Tagged;
    let heap = Heap::with_locks(&config(2 * SECTION, policy)).expect("a small heap can be created");
    assert!(heap.frontend::<Sheaves>().is_none(), "the heap must not have a front end of another policy");
    let frontend = heap.frontend::<Tagged<Plain>>().expect("the policy must have this front end");
    let objects: Vec<_> = (0..SECTION / SIZE + 1).map(|_| frontend.malloc(SIZE)).collect();
    assert!(objects.iter().all(|object| !object.is_null()), "the heap must grow by a section");
    for object in objects {
        // SAFETY: the object was allocated above and is freed once.
        unsafe { frontend.free(object) };
    }
    heap.slab().shrink();
    // SAFETY: no other thread uses the heap, and all objects were freed.
    let census = unsafe { heap.slab().check() }.expect("the check must find no error");
    assert_eq!(census.objects, census.free, "{census:?}");
}

#[test]
fn invalid_requests_and_heap_sizes_are_errors() {
    let heap = Heap::with_locks(&config(1, Policy::FREEHOLD)).expect("the smallest heap is a block");
    assert_eq!(heap.memory().bytes(), 4 << 20);
    assert_eq!(heap.malloc(1 << 40), Err(ObjectError::TooLarge { size: 1 << 40 }));
    let mine = Box::new(0u64);
    // SAFETY: the address is outside of the heap's range, so the heap refuses it without access to it.
    assert!(unsafe { heap.free(NonNull::from(&*mine).cast()) }.is_err());
    let error = Heap::with_locks(&config(usize::MAX, Policy::FREEHOLD)).expect_err("more than can be numbered");
    assert_eq!(error, HeapError::Size { bytes: usize::MAX });
    let error = Heap::with_locks(&config(1 << 50, Policy::FREEHOLD)).expect_err("as well");
    assert!(error.to_string().contains("use at most 16 TiB"), "{error}");
}

#[test]
fn check_finds_a_planted_slab() {
    let heap = Heap::with_locks(&config(SECTION, Policy::FREEHOLD)).expect("there is room");
    let object = heap.malloc(1000).expect("there is memory");
    // SAFETY: no other thread uses the heap.
    assert_eq!(unsafe { heap.check() }, Ok(()));
    let first = heap.memory().start().addr().get();
    let kinds = with_exposed_provenance_mut::<u8>(heap.slab().tables().kinds as usize);
    // SAFETY: the table has a byte for each page that has come online, and only this test writes to it. Afterwards the
    // heap is only checked and dropped.
    unsafe {
        let kind = kinds.add((object.addr().get() - first) / 4096).read();
        kinds.add(504).write(kind);
        let violation = heap.check().expect_err("that page begins no slab");
        assert!(matches!(violation, HeapViolation::Objects(_)), "{violation}");
    }
}

#[test]
fn threads_share_a_heap() {
    fn share<C: CpuLocal + Sync>(heap: &Heap<C>) {
        std::thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let mut chance = Rng::with_seed(seed);
                    let objects: Vec<_> = (0..5000).map(|_| heap.malloc(chance.usize(1..3000)).unwrap()).collect();
                    for object in objects {
                        // SAFETY: the object was allocated by this thread and is freed once.
                        unsafe { heap.free(object) }.expect("the pointer must be an object in use");
                    }
                });
            }
        });
        heap.slab().shrink();
        // SAFETY: all threads of the scope have ended, and all objects were freed.
        let census = unsafe { heap.slab().check() }.expect("the check must find no error");
        assert_eq!(census.objects, census.free, "{census:?}");
    }
    let config = config(SECTION, Policy::FREEHOLD);
    share(&Heap::with_locks(&config).expect("a heap with locks can always be created"));
    if Rseq::find().is_ok() {
        share(&Heap::with_rseq(&config).expect("the kernel must support restartable sequences"));
    }
}

#[test]
fn fragmented_heap_grows_before_using_whole_pages() {
    let heap =
        Heap::with_locks(&config(3 * SECTION, Policy::FREEHOLD)).expect("a heap with locks can always be created");
    // The blocks fill two sections, except the pages that the heap holds back.
    let blocks: Vec<_> = (0..(2 * SECTION - (16 << 20)) / (16 << 10))
        .map(|_| heap.malloc(16 << 10).expect("the heap must have enough memory"))
        .collect();
    // One of each two adjacent blocks is freed.
    for &block in blocks.iter().filter(|block| block.addr().get() & (16 << 10) != 0) {
        // SAFETY: the block was allocated above and is freed once.
        unsafe { heap.free(block) }.expect("the pointer must be a block in use");
    }
    for at in 0..40_000 {
        let object = heap.malloc(1024).expect("the heap must have enough memory");
        assert_eq!(heap.slab().ksize(object), Ok(1024), "the object number {at} has a block of its own");
    }
}
