//! The heap and the runs of the process, made by the first request.

use core::cell::UnsafeCell;
use core::fmt::Write;
use core::hint::cold_path;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use freehold::base::CpuId;
use freehold::platform::Platform;
use freehold::policy::Policy;
use freehold::policy::slab::{SlabChoices, SlabLinks, SlabOrder};
use freehold::slab::own_caches;
use rustix::thread::sched_yield;

use super::options::{self, Hardened, Options, Sections};
use super::{AnyHeap, DefaultFastPath, GATE, hardened, helper, nested, outline, pressure, profile, with_heap};
use crate::heap::{Heap, HeapConfig, HeapError, LARGEST_BLOCK, SECTION, seed};
use crate::os::cpus::cpu_count;
use crate::os::mmap::{Reservation, address_space_limit, data_limit, memory_bytes};
use crate::os::platform::StandardError;
use crate::os::rseq::Rseq;
use crate::runs::Runs;

/// Bytes of the largest range of objects, and of runs.
const OBJECTS_MAX: usize = 4 << 40;
const RUNS_MAX: usize = 8 << 40;
/// Bytes of the smallest range of runs.
const RUNS_LEAST: usize = 2 << 20;

/// All that the process's malloc is made of.
#[derive(Debug)]
pub(super) struct Malloc {
    pub heap: AnyHeap,
    pub runs: Runs,
    pub options: Options,
}

/// State of the process's malloc, and the kind of its heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    /// No request was made yet.
    None = 0,
    /// The first request is making the heap.
    Starting = 1,
    /// The heap has restartable sequences.
    Rseq = 2,
    /// The heap has locks.
    Locks = 3,
    /// No heap could be made: all requests are served by [`nested`].
    Failed = 4,
    /// The heap is of either kind, and the process detects misuse.
    Hardened = 5,
}

/// Which requests may take the fast path: a number space of its own, beside that of [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum RequestMode {
    /// None: there is no heap yet, or it has locks, or the process is hardened.
    Slow = 0,
    /// All.
    Fast = 1,
    /// Those that the profiler counts and does not sample.
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

/// The process's malloc, once it is made, in a static, so that its address is known when the program is linked.
pub(super) struct MallocCell {
    /// A [`Mode`].
    mode: AtomicU8,
    /// A [`RequestMode`].
    request_mode: AtomicU8,
    malloc: UnsafeCell<MaybeUninit<Malloc>>,
}

// SAFETY: one thread writes it, before the mode says that it is there; from then on it is only read.
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

    /// Has the profiler count requests from now on.
    pub(super) fn count_requests(&self) {
        let (fast, counted) = (RequestMode::Fast as u8, RequestMode::Counted as u8);
        let _counted = self.request_mode.compare_exchange(fast, counted, Relaxed, Relaxed);
    }

    /// The process's malloc, if it was made.
    #[inline]
    pub(super) fn get(&'static self) -> Option<&'static Malloc> {
        // SAFETY: the mode says that it was written.
        matches!(self.mode(), Mode::Rseq | Mode::Locks | Mode::Hardened)
            .then(|| unsafe { (*self.malloc.get()).assume_init_ref() })
    }

    /// The same, if the process wants to notice misuse.
    #[inline]
    pub(super) fn hardened(&'static self) -> Option<&'static Malloc> {
        // SAFETY: the mode says that it was written.
        (self.mode() == Mode::Hardened).then(|| unsafe { (*self.malloc.get()).assume_init_ref() })
    }

    /// Its heap.
    ///
    /// # Safety
    /// The mode is [`Mode::Rseq`].
    #[inline(always)]
    pub(super) unsafe fn rseq_heap(&'static self) -> &'static Heap<Rseq> {
        // SAFETY: the mode says that it was written, and which of the two it is.
        unsafe {
            match &(*self.malloc.get()).assume_init_ref().heap {
                AnyHeap::Rseq(heap) => heap,
                AnyHeap::Locks(_) => core::hint::unreachable_unchecked(),
            }
        }
    }

    /// The same, made now if need be. Within a slow path only.
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
                // SAFETY: nobody reads it before the mode says so, and only one thread gets here.
                unsafe { (*self.malloc.get()).write(malloc) };
            }
            self.mode.store(mode as u8, Release);
            self.request_mode.store(RequestMode::for_mode(mode) as u8, Release);
            if let Some(malloc) = self.get() {
                outline::publish(malloc);
                forks_wait_for_us();
            }
        }
        while self.mode() == Mode::Starting {
            sched_yield();
        }
        self.get()
    }
}

impl Malloc {
    /// As large as the address space has room for. `None` if the limits of the process leave no room for the smallest.
    #[cold]
    fn make() -> Option<Malloc> {
        let options = Options::from_environment();
        let shares = Shares::of_limits(memory_bytes(), address_space_limit(), data_limit());
        // Reserved until both ranges are, so that these leave as much to stacks, libraries and threads.
        let _rest = Reservation::inaccessible(shares.rest, 1).ok()?;
        let heap = halves(shares.objects, LARGEST_BLOCK).find_map(|bytes| AnyHeap::make(bytes, &options))?;
        let runs = halves(shares.runs, RUNS_LEAST).find_map(|bytes| Runs::new(bytes, cpu_count()).ok())?;
        Some(Malloc { heap, runs, options })
    }

    #[inline]
    pub(super) fn cpu(&self) -> CpuId {
        with_heap!(&self.heap, heap => heap.slab().platform().cpu())
    }
}

/// The default policy, but that nobody knows which object of a slab comes next, or can change it.
const RANDOM: Policy = Policy {
    slab: SlabChoices { links: SlabLinks::Mangled, order: SlabOrder::Random, ..Policy::FREEHOLD.slab },
    ..Policy::FREEHOLD
};

/// Says that requests are served from the piece set aside alone. A program that runs with more rights than its user is
/// not told.
#[cold]
fn report_failure() {
    if !options::has_more_rights() {
        let _written = writeln!(
            StandardError,
            "freehold: the limits of this process (ulimit -v, ulimit -d) leave no room for a heap; it can allocate {} \
             KiB, each once",
            nested::BYTES >> 10
        );
    }
}

/// Bytes of addresses to reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    objects: usize,
    runs: usize,
    /// What the program needs beside them, if addresses are limited.
    rest: usize,
}

impl Shares {
    /// Objects may take twice the machine's memory, runs eight times: addresses cost nothing. Where addresses are
    /// limited, a third of the limit is left to the program, or more; of this an eighth of the limit has to be free.
    /// Where writable memory is limited, neither range can hold more than that.
    fn of_limits(memory: usize, addresses: Option<usize>, data: Option<usize>) -> Shares {
        let memory = memory.next_power_of_two();
        let whole = match addresses {
            None => {
                let objects = memory.saturating_mul(2).clamp(SECTION, OBJECTS_MAX);
                Shares { objects, runs: memory.saturating_mul(8).min(RUNS_MAX), rest: 0 }
            }
            Some(limit) => {
                let objects = (limit / 8).next_power_of_two().max((limit / 3).min(SECTION)).min(OBJECTS_MAX);
                Shares { objects, runs: (limit / 3).min(RUNS_MAX), rest: limit / 8 }
            }
        };
        let data = data.unwrap_or(usize::MAX);
        Shares { objects: whole.objects.min(data), runs: whole.runs.min(data), rest: whole.rest }
    }
}

/// A size, its half, and so on.
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
        let config = HeapConfig { bytes, policy, huge_pages: options.huge_pages, caches: own_caches(&policy) };
        match options.sections {
            Sections::Locks => AnyHeap::with_locks(&config),
            Sections::Auto => match Heap::with_rseq(&config) {
                Ok(heap) if heap.frontend::<DefaultFastPath>().is_some() => Some(AnyHeap::Rseq(heap)),
                Ok(_) | Err(HeapError::Rseq(_)) => AnyHeap::with_locks(&config),
                Err(_) => None,
            },
        }
    }
}

/// Has each fork of the program wait until no thread is within a slow path.
fn forks_wait_for_us() {
    extern "C" fn before() {
        GATE.close();
    }
    extern "C" fn in_parent() {
        GATE.open();
    }
    extern "C" fn in_child() {
        GATE.open_in_child();
        helper::forget();
        profile::in_child();
        pressure::in_child();
    }
    // SAFETY: functions that stay where they are; they take no lock that the C library has.
    let _registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_limit_leave_room_for_the_rest_of_the_program() {
        let unlimited = Shares::of_limits(15 << 30, None, None);
        assert_eq!(unlimited, Shares { objects: 32 << 30, runs: 128 << 30, rest: 0 });
        for limit in (1..20_000).step_by(7).map(|mib| mib << 20) {
            let Shares { objects, runs, rest } = Shares::of_limits(15 << 30, Some(limit), None);
            assert!(objects + runs + rest < limit / 8 * 7, "{limit}: {objects} and {runs}");
            assert!(objects >= limit / 8 && runs >= limit / 4 && rest >= limit / 8, "{limit}: {objects} and {runs}");
        }
        let data = Shares::of_limits(15 << 30, None, Some(64 << 20));
        assert_eq!(data, Shares { objects: 64 << 20, runs: 64 << 20, rest: 0 });
    }
}
