//! Creation of the process's heap and runs at the first request.

use core::cell::UnsafeCell;
use core::fmt::Write;
use core::hint::cold_path;
use core::mem::MaybeUninit;
use core::ops::RangeInclusive;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use freehold::policy::Policy;
use freehold::policy::slab::{SlabChoices, SlabLinks, SlabOrder};
use freehold::slab::own_caches;
use rustix::thread::sched_yield;

use super::options::{self, Hardened, Options, Sections, SystemCalls};
use super::parts::Malloc;
use super::{AnyHeap, BUDGET, DefaultFastPath, NESTED, fork, hardened, nested, outline, profile, sandbox};
use crate::heap::{Heap, HeapConfig, HeapError, LARGEST_BLOCK, seed};
use crate::os::cpus::cpu_count;
use crate::os::mmap::{address_space_limit, data_limit, memory_bytes};
use crate::os::platform::StandardError;
use crate::os::rseq::Rseq;
use crate::runs::Runs;

/// Bytes of the smallest and of the largest range for objects of a process without limits, and of those for runs. Also
/// with little memory, a range has addresses behind mappings of some GiB that the program may put in its way.
const OBJECTS: RangeInclusive<usize> = 8 << 30..=4 << 40;
const RUNS: RangeInclusive<usize> = 16 << 30..=8 << 40;
/// Bytes of the smallest range for runs.
const RUNS_LEAST: usize = 2 << 20;

/// State of the process's malloc, and the kind of its heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    /// No request has been made yet.
    None = 0,
    /// The first request is creating the heap.
    Starting = 1,
    /// The heap has restartable sequences.
    Rseq = 2,
    /// The heap has locks.
    Locks = 3,
    /// No heap could be created: all requests are served by [`nested`].
    Failed = 4,
    /// The heap is of either kind, and the process detects misuse.
    Hardened = 5,
}

/// Requests that may take the fast path. The values are independent of those of [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum RequestMode {
    /// No request: there is no heap yet, or it has locks, or the process is hardened.
    Slow = 0,
    /// All requests.
    Fast = 1,
    /// Requests that the profiler counts but does not sample.
    Counted = 2,
}

impl RequestMode {
    const fn for_mode(mode: Mode) -> RequestMode {
        match mode {
            Mode::Rseq => RequestMode::Fast,
            Mode::None | Mode::Starting | Mode::Locks | Mode::Failed | Mode::Hardened => RequestMode::Slow,
        }
    }
}

/// The process's malloc, in a static whose address is known at link time.
pub(super) struct MallocCell {
    /// A [`Mode`].
    mode: AtomicU8,
    /// A [`RequestMode`].
    request_mode: AtomicU8,
    malloc: UnsafeCell<MaybeUninit<Malloc>>,
}

// SAFETY: one thread writes the malloc, before it stores a mode that allows reads; after that the malloc is only read.
unsafe impl Sync for MallocCell {}

impl MallocCell {
    pub(super) const fn new() -> MallocCell {
        MallocCell {
            mode: AtomicU8::new(Mode::None as u8),
            request_mode: AtomicU8::new(RequestMode::Slow as u8),
            malloc: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline(always)]
    pub(super) fn mode(&self) -> Mode {
        const NONE: u8 = Mode::None as u8;
        const STARTING: u8 = Mode::Starting as u8;
        const RSEQ: u8 = Mode::Rseq as u8;
        const LOCKS: u8 = Mode::Locks as u8;
        const HARDENED: u8 = Mode::Hardened as u8;
        match self.mode.load(Acquire) {
            RSEQ => Mode::Rseq,
            LOCKS => Mode::Locks,
            NONE => Mode::None,
            STARTING => Mode::Starting,
            HARDENED => Mode::Hardened,
            _ => Mode::Failed,
        }
    }

    /// Returns whether a request may take the fast path. In a profiled process this counts the request.
    #[inline(always)]
    pub(super) fn allows_fast_path(&self, size: usize) -> bool {
        let request_mode = self.request_mode.load(Acquire);
        if request_mode == RequestMode::Fast as u8 {
            return true;
        }
        cold_path();
        request_mode == RequestMode::Counted as u8 && profile::passes(size)
    }

    /// Makes the profiler count requests from now on.
    pub(super) fn count_requests(&self) {
        let (fast, counted) = (RequestMode::Fast as u8, RequestMode::Counted as u8);
        let _counted = self.request_mode.compare_exchange(fast, counted, Relaxed, Relaxed);
    }

    /// Returns the process's malloc, if it was created.
    #[inline]
    pub(super) fn get(&'static self) -> Option<&'static Malloc> {
        // SAFETY: these modes are stored only after the malloc was written.
        matches!(self.mode(), Mode::Rseq | Mode::Locks | Mode::Hardened)
            .then(|| unsafe { (*self.malloc.get()).assume_init_ref() })
    }

    /// Returns the process's malloc, if the process is hardened.
    #[inline]
    pub(super) fn hardened(&'static self) -> Option<&'static Malloc> {
        // SAFETY: this mode is stored only after the malloc was written.
        (self.mode() == Mode::Hardened).then(|| unsafe { (*self.malloc.get()).assume_init_ref() })
    }

    /// Returns the process's heap.
    ///
    /// # Safety
    /// The mode is [`Mode::Rseq`].
    #[inline(always)]
    pub(super) unsafe fn rseq_heap(&'static self) -> &'static Heap<Rseq> {
        // SAFETY: the caller promises the mode `Rseq`, which is stored only after a malloc with such a heap was
        // written.
        unsafe {
            match &(*self.malloc.get()).assume_init_ref().heap {
                AnyHeap::Rseq(heap) => heap,
                AnyHeap::Locks(_) => core::hint::unreachable_unchecked(),
            }
        }
    }

    /// Returns the process's malloc, and creates it if necessary; returns `None` if it cannot be created. Only within a
    /// slow path.
    #[inline]
    pub(super) fn or_start(&'static self) -> Option<&'static Malloc> {
        self.get().or_else(|| self.start())
    }

    #[cold]
    fn start(&'static self) -> Option<&'static Malloc> {
        let mine = self.mode.compare_exchange(Mode::None as u8, Mode::Starting as u8, Acquire, Relaxed).is_ok();
        if mine {
            let made = Malloc::make();
            let mode = match &made {
                Some(Malloc { options: Options { hardened: Hardened::On, .. }, .. }) => Mode::Hardened,
                Some(Malloc { heap: AnyHeap::Rseq(_), .. }) => Mode::Rseq,
                Some(Malloc { heap: AnyHeap::Locks(_), .. }) => Mode::Locks,
                None => Mode::Failed,
            };
            if mode == Mode::Failed {
                report_failure();
            }
            if mode == Mode::Hardened {
                hardened::prepare(seed(NonNull::from(self).cast()));
            }
            if let Some(malloc) = made {
                // SAFETY: the exchange above lets one thread reach this line, and no thread reads the malloc before the
                // mode is stored.
                unsafe { (*self.malloc.get()).write(malloc) };
            }
            self.mode.store(mode as u8, Release);
            self.request_mode.store(RequestMode::for_mode(mode) as u8, Release);
            if let Some(malloc) = self.get() {
                outline::publish(malloc);
                fork::register_handlers();
                NESTED.hide_unused();
            }
        }
        while self.mode() == Mode::Starting {
            sched_yield();
        }
        self.get()
    }
}

impl Malloc {
    /// Creates a malloc whose ranges are as large as the address space allows. Returns `None` if the limits of the
    /// process have no room for the smallest one.
    #[cold]
    fn make() -> Option<Malloc> {
        let options = Options::from_environment();
        if let Some(bytes) = options.limit {
            BUDGET.set_limit(bytes);
        }
        if options.system_calls == SystemCalls::Few {
            sandbox::restrict();
        }
        let limit = [address_space_limit(), data_limit()].into_iter().flatten().min();
        let shares = Shares::of_limit(memory_bytes(), limit);
        let heap = halves(shares.objects, LARGEST_BLOCK).find_map(|bytes| AnyHeap::make(bytes, &options))?;
        let runs =
            halves(shares.runs, RUNS_LEAST).find_map(|bytes| Runs::with_budget(bytes, cpu_count(), &BUDGET).ok())?;
        Some(Malloc { heap, runs, options })
    }
}

/// The default policy with protection against prediction and manipulation: objects of a slab are in random order, and
/// links are mangled.
const RANDOM: Policy = Policy {
    slab: SlabChoices { links: SlabLinks::Mangled, order: SlabOrder::Random, ..Policy::FREEHOLD.slab },
    ..Policy::FREEHOLD
};

/// Reports that requests are served from the reserved piece alone. A program that runs with elevated privileges gets no
/// report.
#[cold]
fn report_failure() {
    if !options::has_more_rights() {
        let _written = writeln!(
            StandardError,
            "freehold: the limits of this process (ulimit -v, ulimit -d) leave no room for a heap; {} KiB can be \
             allocated, without reuse",
            nested::BYTES >> 10
        );
    }
}

/// Most bytes of the two ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    objects: usize,
    runs: usize,
}

impl Shares {
    /// Returns the shares for a machine with `memory` bytes. Objects may take twice the machine's memory and runs eight
    /// times, because addresses cost nothing. If the process has a limit, neither is larger than that, since it could
    /// not be used.
    fn of_limit(memory: usize, limit: Option<usize>) -> Shares {
        let limit = limit.unwrap_or(usize::MAX);
        Shares {
            objects: memory.saturating_mul(2).clamp(*OBJECTS.start(), *OBJECTS.end()).min(limit),
            runs: memory.saturating_mul(8).clamp(*RUNS.start(), *RUNS.end()).min(limit),
        }
    }
}

/// Returns a size, its half, and so on, down to `least`.
fn halves(most: usize, least: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(most), move |bytes| Some(bytes / 2).filter(|&half| half >= least))
}

impl AnyHeap {
    fn with_locks(config: &HeapConfig) -> Option<AnyHeap> {
        Heap::with_locks(config).ok().map(AnyHeap::Locks)
    }

    fn make(bytes: usize, options: &Options) -> Option<AnyHeap> {
        let policy = match options.hardened {
            Hardened::Off => Policy::default(),
            Hardened::On => RANDOM,
        };
        let (huge_pages, caches) = (options.huge_pages, own_caches(&policy));
        let config = HeapConfig { bytes, policy, huge_pages, caches, budget: &BUDGET };
        match (options.sections, options.system_calls) {
            (Sections::Locks, _) | (_, SystemCalls::Few) => AnyHeap::with_locks(&config),
            (Sections::Auto, SystemCalls::All) => match Heap::with_rseq(&config) {
                Ok(heap) if heap.frontend::<DefaultFastPath>().is_some() => Some(AnyHeap::Rseq(heap)),
                Ok(_) | Err(HeapError::Rseq(_)) => AnyHeap::with_locks(&config),
                Err(_) => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_no_larger_than_a_limit() {
        assert_eq!(Shares::of_limit(15 << 30, None), Shares { objects: 30 << 30, runs: 120 << 30 });
        assert_eq!(Shares::of_limit(1 << 30, None), Shares { objects: 8 << 30, runs: 16 << 30 });
        assert_eq!(Shares::of_limit(15 << 30, Some(64 << 20)), Shares { objects: 64 << 20, runs: 64 << 20 });
        assert_eq!(Shares::of_limit(15 << 30, Some(64 << 30)), Shares { objects: 30 << 30, runs: 64 << 30 });
    }
}
