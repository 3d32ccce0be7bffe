//! Boundary values of the arguments of every function of the kernel module: 0, 1, the largest number, the largest
//! number less 1, one past the end of memory, misaligned, empty and reversed ranges, and contradictory flags.
//!
//! A refused call returns an error or panics with the documented message, and changes nothing: neither the statistics
//! nor the counts of the allocator's checks. `attackers` does the same for the page allocator, by frame and by range.

mod boot;
mod heap;
#[cfg(debug_assertions)]
mod unreported_interrupts;

use std::cell::Cell;
use std::fmt::Display;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp, Order, Pfn, Rank, RawLock};
use freehold::kernel::{Boot, Cma, Cpu, Kernel, Pages, Region, SpinLock};
use freehold::page::Placement;
use freehold::slab::{CacheConfig, CpuLocal};

use crate::common::panic_hook;
use crate::kernel::machine::{Equipped, Hooks, IRQS_OFF, MIB, Machine, audit, init, install};

type Hw = Machine<Equipped>;

/// First frame after the memory at boot, of which 16 to 20 MiB are a CMA area.
const END: u32 = 32 << 8;
const AREA: Range<u32> = 16 << 8..20 << 8;
/// First frame after the memory that may be added.
const END_MAX: u32 = 48 << 8;

/// A kernel with an allocated page and a CMA area.
struct Fixture {
    kernel: &'static Kernel<Hw>,
    area: Cma<Hw>,
    page: Pages<Hw>,
}

/// Expected outcome of a call.
#[derive(Clone, Copy)]
enum Outcome {
    /// An error whose text contains this.
    Error(&'static str),
    /// A panic whose message contains this.
    Panic(&'static str),
    /// A result of the call.
    Success,
}

use Outcome::{Error, Panic, Success};

type Row = (&'static str, Outcome, fn(&Fixture) -> Result<(), String>);

/// Drops the value of a result, and formats its error.
fn text<T>(result: Result<T, impl Display>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// Makes a call that returns no error.
fn done<T>(call: impl FnOnce() -> T) -> Result<(), String> {
    drop(call());
    Ok(())
}

fn frames(start: u32, end: u32) -> Range<Pfn> {
    Pfn::new(start)..Pfn::new(end)
}

fn set_up() -> Fixture {
    install::<Equipped>(Hooks::default());
    let area = u64::from(AREA.start) << 12..u64::from(AREA.end) << 12;
    let boot = Boot { reserved: std::slice::from_ref(&area), end_max: u64::from(END_MAX) << 12, ..Boot::default() };
    init::<Equipped>(&[Region::usable(0, 32 * MIB)], 64, &boot).unwrap();
    let kernel = Hw::kernel();
    // SAFETY: the frames were reserved for this area, and no code uses them otherwise.
    let area = unsafe { kernel.reserve_cma(frames(AREA.start, AREA.end), Order::ZERO) }.unwrap();
    let page = kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap();
    Fixture { kernel, area, page }
}

thread_local! {
    /// Whether this thread makes a call that is expected to panic.
    static EXPECTS_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call that may panic without output. Returns the message of the panic.
fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    panic_hook::silence(|_| EXPECTS_PANIC.get());
    EXPECTS_PANIC.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    EXPECTS_PANIC.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Makes each call, compares its outcome with the expected one, and checks that the machine has not changed.
fn make_all(rows: &[Row]) {
    let fixture = set_up();
    let before = audit::<Equipped>();
    for &(name, outcome, call) in rows {
        let result = match outcome {
            Panic(_) => catch(|| call(&fixture)),
            Error(_) | Success => Ok(call(&fixture)),
        };
        match (outcome, result) {
            (Success, Ok(Ok(()))) => {}
            (Error(expected), Ok(Err(error))) => {
                assert!(!expected.is_empty() && error.contains(expected), "{name}: {error}");
            }
            (Panic(expected), Err(message)) => assert!(message.contains(expected), "{name}: {message}"),
            (_, result) => panic!("{name}: {result:?}"),
        }
        assert!(!IRQS_OFF.replace(false), "{name} left interrupts off");
        assert_eq!(audit::<Equipped>(), before, "{name}");
        assert_eq!(fixture.area.allocated(), 0, "{name}");
    }
}

const BOTH: Gfp = Gfp::KERNEL.union(Gfp::MOVABLE).union(Gfp::RECLAIMABLE);
const ZONES: Gfp = Gfp::KERNEL.union(Gfp::DMA).union(Gfp::DMA32);
const FLAGS: Outcome = Error("the GFP flags contradict each other");

#[test]
fn pages_and_objects() {
    make_all(&[
        ("alloc_pages of two mobilities", FLAGS, |s| text(s.kernel.alloc_pages(BOTH, Order::ZERO))),
        ("alloc_pages of two zones", FLAGS, |s| text(s.kernel.alloc_pages(ZONES, Order::MAX))),
        ("alloc_pages with all flags", FLAGS, |s| text(s.kernel.alloc_pages(Gfp::all(), Order::ZERO))),
        ("alloc_pages without flags", Success, |s| text(s.kernel.alloc_pages(Gfp::empty(), Order::MAX))),
        ("order 11", Panic("an order must be at most 10"), |_| done(|| std::hint::black_box(Order::new(11)))),
        ("order 255", Panic("an order must be at most 10"), |_| done(|| std::hint::black_box(Order::new(255)))),
        ("from_raw of frame 0", NO_BLOCK, |_| from_raw(0, 0)),
        ("from_raw of the last number", NO_BLOCK, |_| from_raw(u32::MAX, 0)),
        ("from_raw of the last number, largest order", NO_BLOCK, |_| from_raw(u32::MAX, 10)),
        ("from_raw past the end", NO_BLOCK, |_| from_raw(END, 0)),
        ("from_raw of a free block", NO_BLOCK, |_| from_raw(256, 0)),
        ("from_raw of another order", NO_BLOCK, |s| from_raw(s.page.pfn().raw(), 1)),
        ("kmalloc of the largest number", TOO_LARGE, |s| text(s.kernel.kmalloc(usize::MAX, Gfp::KERNEL))),
        ("kmalloc of the largest number less 1", TOO_LARGE, |s| text(s.kernel.kmalloc(usize::MAX - 1, Gfp::KERNEL))),
        ("kmalloc past isize", TOO_LARGE, |s| text(s.kernel.kmalloc(1 << 63, Gfp::KERNEL))),
        ("kmalloc past a block", TOO_LARGE, |s| text(s.kernel.kmalloc((4 << 20) + 1, Gfp::KERNEL))),
        ("kmalloc of two mobilities", FLAGS, |s| text(s.kernel.kmalloc(100_000, BOTH))),
        ("kmalloc of two zones", FLAGS, |s| text(s.kernel.kmalloc(8, ZONES))),
        ("kmalloc of 0 bytes", Success, |s| {
            let object = s.kernel.kmalloc(0, Gfp::KERNEL).map_err(|error| error.to_string())?;
            kfree(s, object.as_ptr().addr())
        }),
        ("kfree of address 1", NO_OBJECT, |s| kfree(s, 1)),
        ("kfree of the last address", NO_OBJECT, |s| kfree(s, usize::MAX)),
        ("kfree before the direct map", NO_OBJECT, |s| kfree(s, direct_map(s) - 1)),
        ("kfree at the direct map", NO_OBJECT, |s| kfree(s, direct_map(s))),
        ("kfree past the memory", NO_OBJECT, |s| kfree(s, direct_map(s) + ((END as usize) << 12))),
        ("kfree past the memory that may be added", NO_OBJECT, |s| {
            kfree(s, direct_map(s) + ((END_MAX as usize) << 12))
        }),
        ("kfree of pages", NO_OBJECT, |s| kfree(s, s.page.as_ptr().addr().get())),
    ]);
}

const NO_BLOCK: Outcome = Panic("no allocated block of order");
const TOO_LARGE: Outcome = Error("no block of pages has");
const NO_OBJECT: Outcome = Error("is not an allocated object of this allocator");

fn from_raw(pfn: u32, order: u8) -> Result<(), String> {
    // SAFETY: no block of this order begins at the frame, so the call panics.
    done(|| unsafe { Pages::<Hw>::from_raw(Pfn::new(pfn), Order::new(order)) })
}

fn kfree(fixture: &Fixture, address: usize) -> Result<(), String> {
    let object = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("the address must not be 0");
    // SAFETY: no object begins at the address, so the call is refused, or the object is freed once.
    text(unsafe { fixture.kernel.kfree(object) })
}

/// Returns the virtual address of physical address 0.
fn direct_map(fixture: &Fixture) -> usize {
    fixture.page.as_ptr().addr().get() - ((fixture.page.pfn().raw() as usize) << 12)
}

const EMPTY: Outcome = Error("is empty");
const NOT_POWER: Outcome = Error("must be a power of two");
const NEVER_ONLINE: Outcome = Error("is in memory that was never online");
const OTHER_ZONE: Outcome = Error("is in another zone than the start of its range");
const NO_RANGE: Outcome = Error("no range of this size can be emptied");

fn contig(fixture: &Fixture, pages: u32, align: u32, end: u32) -> Result<(), String> {
    let place = Placement::aligned(align).below(Pfn::new(end));
    text(fixture.kernel.alloc_contig_pages_at(Gfp::KERNEL, pages, place))
}

fn contig_range(fixture: &Fixture, start: u32, end: u32) -> Result<(), String> {
    text(fixture.kernel.alloc_contig_range(frames(start, end), Gfp::KERNEL))
}

#[test]
fn contiguous_ranges() {
    make_all(&[
        ("no pages", EMPTY, |s| text(s.kernel.alloc_contig_pages(Gfp::KERNEL, 0))),
        ("the largest number of pages", NO_RANGE, |s| text(s.kernel.alloc_contig_pages(Gfp::KERNEL, u32::MAX))),
        ("more pages than memory", NO_RANGE, |s| text(s.kernel.alloc_contig_pages(Gfp::KERNEL, END))),
        ("two mobilities", FLAGS, |s| text(s.kernel.alloc_contig_pages(BOTH, 1))),
        ("3 pages as a compound", NOT_POWER, |s| text(s.kernel.alloc_contig_pages(Gfp::KERNEL | Gfp::COMP, 3))),
        ("alignment 0", NOT_POWER, |s| contig(s, 1, 0, u32::MAX)),
        ("alignment 3", NOT_POWER, |s| contig(s, 1, 3, u32::MAX)),
        ("the largest alignment", NOT_POWER, |s| contig(s, 1, u32::MAX, u32::MAX)),
        ("alignment 2^31", NO_RANGE, |s| contig(s, 1, 1 << 31, u32::MAX)),
        ("below frame 0", NO_RANGE, |s| contig(s, 1, 1, 0)),
        ("below frame 1", NO_RANGE, |s| contig(s, 1, 1, 1)),
        ("the last number of pages below frame 1", NO_RANGE, |s| contig(s, u32::MAX, 1, 1)),
        ("placement at multiples of 0", NO_ALIGN, |_| done(|| Kernel::<Hw>::placement(0, u64::MAX))),
        ("placement at multiples of 3", NO_ALIGN, |_| done(|| Kernel::<Hw>::placement(3, 0))),
        ("placement at multiples of u64::MAX", NO_ALIGN, |_| done(|| Kernel::<Hw>::placement(u64::MAX, 0))),
        ("placement at multiples of 2^63", NOT_POWER, |s| {
            text(s.kernel.alloc_contig_pages_at(Gfp::KERNEL, 1, Kernel::<Hw>::placement(1 << 63, u64::MAX)))
        }),
        ("placement below address 0", NO_RANGE, |s| {
            text(s.kernel.alloc_contig_pages_at(Gfp::KERNEL, 1, Kernel::<Hw>::placement(1, 0)))
        }),
        ("range of no frames", EMPTY, |s| contig_range(s, 300, 300)),
        ("range of no frames at 0", EMPTY, |s| contig_range(s, 0, 0)),
        ("range of no frames at the end", EMPTY, |s| contig_range(s, u32::MAX, u32::MAX)),
        ("reversed range", EMPTY, |s| contig_range(s, 301, 300)),
        ("reversed range of all numbers", EMPTY, |s| contig_range(s, u32::MAX, 0)),
        ("frame 0", Error("is Absent"), |s| contig_range(s, 0, 1)),
        ("range past the end", NEVER_ONLINE, |s| contig_range(s, END - 1, END + 1)),
        ("range behind the end", NEVER_ONLINE, |s| contig_range(s, END, END + 1)),
        ("range at the last number", NEVER_ONLINE, |s| contig_range(s, u32::MAX - 1, u32::MAX)),
        ("range of all numbers", OTHER_ZONE, |s| contig_range(s, 0, u32::MAX)),
        ("range of an area", Error("in a CMA area"), |s| contig_range(s, AREA.start, AREA.start + 1)),
        ("range of metadata", Error("is Reserved"), |s| contig_range(s, AREA.start - 1, AREA.start)),
        ("range of a page with a handle", Error("expected free memory"), |s| {
            contig_range(s, s.page.pfn().raw(), s.page.pfn().raw() + 1)
        }),
        ("range of two mobilities", FLAGS, |s| text(s.kernel.alloc_contig_range(frames(300, 301), BOTH))),
        ("compound range that is not aligned", Error("must be a multiple of"), |s| {
            text(s.kernel.alloc_contig_range(frames(301, 303), Gfp::KERNEL | Gfp::COMP))
        }),
    ]);
}

const NO_ALIGN: Outcome = Panic("an alignment is a power of two");

fn reserve(fixture: &Fixture, start: u32, end: u32) -> Result<(), String> {
    // SAFETY: the frames are in use or do not exist, so the call is refused.
    text(unsafe { fixture.kernel.reserve_cma(frames(start, end), Order::ZERO) })
}

#[test]
fn cma_areas() {
    make_all(&[
        ("area of no frames", EMPTY, |s| reserve(s, 512, 512)),
        ("reversed area", EMPTY, |s| reserve(s, 1024, 512)),
        ("reversed area of all numbers", EMPTY, |s| reserve(s, u32::MAX, 0)),
        ("area that is not aligned", Error("must be a multiple of"), |s| reserve(s, 513, 1024)),
        ("area in use", Error("expected Reserved memory"), |s| reserve(s, 512, 1024)),
        ("area in another area", Error("expected Reserved memory"), |s| reserve(s, AREA.start, AREA.end)),
        ("area past the end", NEVER_ONLINE, |s| reserve(s, END - 512, END + 512)),
        ("area behind the end", NEVER_ONLINE, |s| reserve(s, END, END + 512)),
        ("area of all numbers", TOO_LARGE, |s| reserve(s, 0, u32::MAX)),
        ("area of all numbers in large units", OTHER_ZONE, |s| {
            // SAFETY: some of the frames do not exist, so the call is refused.
            text(unsafe { s.kernel.reserve_cma(frames(0, u32::MAX), Order::MAX) })
        }),
        ("no pages of the area", EMPTY, |s| text(s.area.alloc(0, 1, Gfp::KERNEL))),
        ("more pages than the area", NO_RANGE, |s| text(s.area.alloc(1025, 1, Gfp::KERNEL))),
        ("the largest number of pages", NO_RANGE, |s| text(s.area.alloc(u32::MAX, 1, Gfp::KERNEL))),
        ("alignment 0 in the area", NOT_POWER, |s| text(s.area.alloc(1, 0, Gfp::KERNEL))),
        ("alignment 3 in the area", NOT_POWER, |s| text(s.area.alloc(1, 3, Gfp::KERNEL))),
        ("alignment 2^31 in the area", NO_RANGE, |s| text(s.area.alloc(1, 1 << 31, Gfp::KERNEL))),
        ("two zones in the area", FLAGS, |s| text(s.area.alloc(1, 1, ZONES))),
        ("3 pages of the area as a compound", NOT_POWER, |s| text(s.area.alloc(3, 1, Gfp::KERNEL | Gfp::COMP))),
        ("all pages of the area", Success, |s| text(s.area.alloc(1024, 1024, Gfp::KERNEL))),
    ]);
}

const NO_CPU: Outcome = Panic("there is no CPU");

#[test]
fn processors_and_addresses() {
    make_all(&[
        ("cpu_online of a missing CPU", NO_CPU, |s| done(|| s.kernel.cpu_online(CpuId(Hw::CPUS)))),
        ("cpu_online of the last number", NO_CPU, |s| done(|| s.kernel.cpu_online(CpuId(u16::MAX)))),
        ("cpu_online of a CPU that is online", Success, |s| done(|| s.kernel.cpu_online(CpuId(0)))),
        ("cpu_dead of a missing CPU", NO_CPU, |s| cpu_dead(s, Hw::CPUS)),
        ("cpu_dead of the last number", NO_CPU, |s| cpu_dead(s, u16::MAX)),
        ("cpu_dead twice", Success, |s| {
            cpu_dead(s, 2)?;
            cpu_dead(s, 2)?;
            done(|| s.kernel.cpu_online(CpuId(2)))
        }),
        ("fence of a missing CPU", NO_CPU, |s| {
            done(|| CpuLocal::fence(s.kernel.slab().unwrap().local(), CpuId(Hw::CPUS)))
        }),
        ("fence of the last number", NO_CPU, |s| {
            done(|| CpuLocal::fence(s.kernel.slab().unwrap().local(), CpuId(u16::MAX)))
        }),
        ("is_out_of_reach of a missing CPU", NO_CPU, |s| {
            done(|| CpuLocal::is_out_of_reach(s.kernel.slab().unwrap().local(), CpuId(u16::MAX)))
        }),
        ("answer without a call", Success, |s| done(|| s.kernel.answer())),
        ("phys_to_virt of addresses without memory", Success, |s| {
            let addresses = [0, 1, 4095, u64::from(END) << 12, u64::MAX - 1, u64::MAX, 1 << 44, (1 << 44) - 1];
            assert!(addresses.iter().all(|&physical| s.kernel.phys_to_virt(physical).is_none()));
            Ok(())
        }),
        ("virt_to_phys of addresses without memory", Success, |s| {
            let map = direct_map(s);
            let addresses = [0, 1, map - 1, map, map + ((END as usize) << 12), usize::MAX - 1, usize::MAX];
            assert!(addresses.iter().all(|&at| s.kernel.virt_to_phys(std::ptr::without_provenance(at)).is_none()));
            Ok(())
        }),
        ("names of caches", Success, names_of_caches),
        ("objects above a block", Error("no slab can contain objects"), |s| {
            text(s.kernel.cache::<[u8; 8 << 20]>("8M"))
        }),
        ("objects above u32", Error("no slab can contain objects"), |s| text(s.kernel.cache::<[u8; 8 << 30]>("8G"))),
        ("too many caches", Error("all numbers for caches are in use"), |s| {
            let mut caches = Vec::new();
            loop {
                caches.push(s.kernel.cache::<u64>("one of many").map_err(|error| error.to_string())?);
                assert!(caches.len() < 1000);
            }
        }),
    ]);
}

/// Creates caches whose names are empty, contain control characters, or exceed 31 bytes, after which they are cut off
/// at the end of a character.
fn names_of_caches(fixture: &Fixture) -> Result<(), String> {
    let (full, split) = ("a".repeat(31), "a".repeat(30) + "ä");
    let too_long = full.clone() + "b";
    for (name, expected) in
        [("", ""), ("\n", "\n"), ("\0", "\0"), ("ä", "ä"), (&full, &full), (&too_long, &full), (&split, &full[..30])]
    {
        text(fixture.kernel.cache::<u64>(name))?;
        let cache = fixture.kernel.slab().unwrap().create(&CacheConfig::new(name, 64)).unwrap();
        assert_eq!(cache.info().name.as_str(), expected, "{name:?}");
        cache.destroy().map_err(|_| "the cache was not destroyed".to_owned())?;
    }
    Ok(())
}

fn cpu_dead(fixture: &Fixture, cpu: u16) -> Result<(), String> {
    // SAFETY: the CPU does not exist, or no thread runs as this CPU.
    done(|| unsafe { fixture.kernel.cpu_dead(CpuId(cpu)) })
}

/// A request that can never succeed does not take idle memory from the CPUs.
#[test]
fn invalid_requests_leave_idle_memory_alone() {
    let fixture = set_up();
    let kernel = fixture.kernel;
    drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap());
    let object = kernel.kmalloc(64, Gfp::KERNEL).unwrap();
    // SAFETY: the object was just allocated, is not used, and is freed only here.
    unsafe { kernel.kfree(object) }.unwrap();
    let before = kernel.stats();
    assert!(before.cached > 0, "{before:?}");
    assert!(kernel.alloc_pages(ZONES, Order::ZERO).is_err());
    assert!(kernel.kmalloc(usize::MAX, Gfp::KERNEL).is_err());
    assert!(kernel.kmalloc(8, BOTH).is_err());
    assert!(kernel.alloc_contig_pages(Gfp::KERNEL, 0).is_err());
    assert!(kernel.alloc_contig_pages(BOTH, 1).is_err());
    assert!(contig(&fixture, 1, 3, u32::MAX).is_err());
    assert_eq!(kernel.stats(), before);
}

/// Functions with valid arguments, before `init`.
#[test]
fn functions_before_init() {
    install::<Equipped>(Hooks::default());
    let kernel = Hw::kernel();
    let one = frames(512, 1024);
    let not_set_up = freehold::kernel::Error::NotSetUp;
    assert_eq!(kernel.alloc_contig_pages_at(Gfp::KERNEL, 1, Placement::ANYWHERE).unwrap_err(), not_set_up);
    // SAFETY: the calls are refused because the kernel is not set up.
    unsafe {
        assert_eq!(kernel.reserve_cma(one, Order::ZERO).unwrap_err(), not_set_up);
        kernel.cpu_dead(CpuId(u16::MAX));
        assert!(kernel.pages().is_none());
    }
    kernel.cpu_online(CpuId(u16::MAX));
    assert_eq!((kernel.stats(), kernel.phys_to_virt(4096)), (Default::default(), None));
    let locked = catch(|| <SpinLock<Hw> as RawLock>::new().lock(Rank::Zone)).unwrap_err();
    assert!(locked.contains("the allocator is not set up"), "{locked}");
    assert!(catch(|| from_raw(1, 0)).is_err_and(|message| message.contains("is set up")));
}
