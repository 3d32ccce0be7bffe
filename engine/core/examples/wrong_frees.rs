//! Invalid frees that a kernel's slab detects, by default and with checks of objects, and the cost of the checks. The
//! tables in the documentation of `freehold::kernel` are printed by this program:
//! `cargo run --profile dist -p freehold --example wrong_frees`

use std::alloc::{Layout, alloc};
use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Instant;

use freehold::base::Gfp;
use freehold::kernel::{Boot, Cpu, Kernel, Promises, Region};
use freehold::platform::SlabReport;
use freehold::slab::CacheFlags;

const TRIALS: u32 = if cfg!(debug_assertions) { 100 } else { 1000 };
const MEMORY: u64 = 64 << 20;

thread_local! {
    static REPORTS: Cell<u32> = const { Cell::new(0) };
}

/// Defines a machine with one CPU and no interrupts, whose caches can be checked or not.
macro_rules! machine {
    ($($name:ident $slab_debug:literal)*) => { $(
        struct $name;

        impl Promises for $name {
            fn slab_error(_: &SlabReport<'_>) {
                REPORTS.set(REPORTS.get() + 1);
            }
        }

        // SAFETY: there are one CPU, one thread and no interrupt, so nothing runs between `irq_save` and `irq_restore`.
        unsafe impl Cpu for $name {
            const CPUS: u16 = 1;
            const SLAB_DEBUG: bool = $slab_debug;
            fn kernel() -> &'static Kernel<$name> {
                static KERNEL: Kernel<$name> = Kernel::new();
                &KERNEL
            }
            fn id() -> u16 {
                0
            }
            fn irq_save() -> usize {
                0
            }
            fn irq_restore(_: usize) {}
            fn call(_: u16) {}
        }
    )* };
}
machine!(Plain false Small false Sanity true RedZone true Poison true Tracked true);

fn boot<H: Cpu>(checks: &str) -> &'static Kernel<H> {
    let layout = Layout::from_size_align(MEMORY as usize, 4 << 20).expect("the alignment is a power of two");
    // SAFETY: `alloc` requires a layout of non-zero size, and this one has `MEMORY` bytes.
    let memory = unsafe { alloc(layout) };
    assert!(!memory.is_null(), "not enough memory for a small machine");
    let slab_debug = CacheFlags::from_slab_debug(checks).expect("the letters are options of slab_debug");
    let boot = Boot { direct_map: memory.expose_provenance(), slab_debug, ..Boot::default() };
    // SAFETY: the memory was just allocated, is never freed, and has no other user.
    unsafe { H::kernel().init([Region::usable(0, MEMORY)], &boot) }.expect("the region is valid memory");
    H::kernel()
}

/// An invalid free of one of two objects.
#[derive(Clone, Copy)]
enum Mistake {
    Stranger,
    Interior,
    TwiceInARow,
    TwiceWithOneBetween,
    TwiceThenFlushed,
}

const MISTAKES: [(Mistake, &str); 5] = [
    (Mistake::Stranger, "an address outside of the slab"),
    (Mistake::Interior, "an address inside an object"),
    (Mistake::TwiceInARow, "an object twice in a row"),
    (Mistake::TwiceWithOneBetween, "an object twice, with another between"),
    (Mistake::TwiceThenFlushed, "an object twice, with a flush of sheaves before the next request"),
];

/// Outcome of many frees with the same mistake.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Frees that were refused.
    refused: u32,
    /// Frees that were accepted and reported later.
    reported_later: u32,
    /// Trials after which an object was allocated twice.
    handed_out_twice: u32,
}

/// Makes a mistake once; returns whether a free was refused.
///
/// # Safety
/// Deliberately unsound: an object that is freed twice may be allocated twice. The caller writes to no object
/// afterwards.
unsafe fn free_wrongly<H: Cpu>(kernel: &'static Kernel<H>, mistake: Mistake, size: usize) -> bool {
    let mut elsewhere = [0_u64; 4];
    let [first, second] = [(); 2].map(|()| kernel.kmalloc(size, Gfp::KERNEL).expect("the machine has enough memory"));
    let frees = match mistake {
        Mistake::Stranger => [first, second, NonNull::from(&mut elsewhere).cast()],
        // SAFETY: the object has more than 8 bytes, so the result is inside it.
        Mistake::Interior => [first, second, unsafe { first.add(8) }],
        Mistake::TwiceInARow => [first, first, second],
        Mistake::TwiceWithOneBetween | Mistake::TwiceThenFlushed => [first, second, first],
    };
    let mut is_refused = false;
    for object in frees {
        // SAFETY: the contract of `kfree` is violated on purpose. The caller writes to no object afterwards, so two
        // owners of one object do no harm.
        is_refused |= unsafe { kernel.kfree(object) }.is_err();
    }
    is_refused
}

/// Makes a mistake many times, each time followed by three requests.
fn make<H: Cpu>(kernel: &'static Kernel<H>, mistake: Mistake, size: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..TRIALS {
        REPORTS.set(0);
        // SAFETY: no object is written to in this function or by its caller.
        let is_refused = unsafe { free_wrongly(kernel, mistake, size) };
        if matches!(mistake, Mistake::TwiceThenFlushed) {
            kernel.shrink();
        }
        outcome.refused += u32::from(is_refused);
        outcome.reported_later += u32::from(REPORTS.get() > 0 && !is_refused);
        let mut objects = [(); 3].map(|()| kernel.kmalloc(size, Gfp::KERNEL).expect("the machine has enough memory"));
        objects.sort_unstable();
        let is_twice = objects[0] == objects[1] || objects[1] == objects[2];
        outcome.handed_out_twice += u32::from(is_twice);
        for (at, object) in objects.into_iter().enumerate() {
            if at == 0 || object != objects[at - 1] {
                // SAFETY: `kmalloc` returned the object, and the condition above skips duplicates, so it is freed once.
                let _ = unsafe { kernel.kfree(object) };
            }
        }
    }
    outcome
}

/// Returns the minimum time in nanoseconds of an allocation and its free, and the bytes of memory per object for 10,000
/// objects.
fn price<H: Cpu>(kernel: &'static Kernel<H>, size: usize) -> (f64, u64) {
    const PAIRS: u32 = 2000;
    let mut best = f64::INFINITY;
    for _ in 0..if cfg!(debug_assertions) { 3 } else { 400 } {
        let start = Instant::now();
        for _ in 0..PAIRS {
            let object = kernel.kmalloc(size, Gfp::KERNEL).expect("the machine has enough memory");
            // SAFETY: `kmalloc` returned the object just above, and it is freed once.
            unsafe { kernel.kfree(std::hint::black_box(object)) }.expect("the object is allocated");
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(PAIRS));
    }
    kernel.shrink();
    let before = kernel.stats().used();
    let objects: Vec<_> = (0..10_000).map_while(|_| kernel.kmalloc(size, Gfp::KERNEL).ok()).collect();
    let bytes = (kernel.stats().used() - before) * 4096 / objects.len() as u64;
    // SAFETY: `kmalloc` returned each object above, and each is freed once.
    objects.into_iter().for_each(|object| unsafe { kernel.kfree(object) }.expect("the object is allocated"));
    (best, bytes)
}

fn print_price<H: Cpu>(checks: &str) {
    let kernel = boot::<H>(checks);
    let (nanos, bytes) = price(kernel, 256);
    println!("| {checks} | {nanos:.1} | {bytes} |");
}

fn main() {
    println!("| checks | ns to allocate and free 256 bytes | bytes of memory per object |\n|---|---|---|");
    print_price::<Plain>("-");
    print_price::<Sanity>("F");
    print_price::<RedZone>("FZ");
    print_price::<Poison>("FZP");
    print_price::<Tracked>("FZPU");
    println!("\n| {TRIALS} frees of | checks | refused | reported later | allocated twice |\n|---|---|---|---|---|");
    for (mistake, name) in MISTAKES {
        print_outcome(name, "-", make(Plain::kernel(), mistake, 256));
        print_outcome(name, "F", make(Sanity::kernel(), mistake, 256));
    }
    let name = "an object of 32 bytes twice, with another between";
    print_outcome(name, "-", make(boot::<Small>("-"), Mistake::TwiceWithOneBetween, 32));
    print_outcome(name, "F", make(Sanity::kernel(), Mistake::TwiceWithOneBetween, 32));
}

fn print_outcome(name: &str, checks: &str, Outcome { refused, reported_later, handed_out_twice }: Outcome) {
    println!("| {name} | {checks} | {refused} | {reported_later} | {handed_out_twice} |");
}
