//! Sections of a kernel that run with interrupts off. A lock for each CPU simulates the exclusion.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use freehold::base::lock::{Rank, RawLock};
use freehold::base::{CpuId, Gfp, NodeId};
use freehold::machine::objects::with_slab;
use freehold::page::Config;
use freehold::platform::NoProbe;
use freehold::platform::host::{CheckedSpinLock, Threads, current_cpu};
use freehold::slab::cpu::FenceOutcome;
use freehold::slab::cpu::section::Sections;
use freehold::slab::{CacheConfig, KmemCache};

use crate::slab::world::{SIZES, policies, run_on};

const CPUS: u16 = 2;
/// Two threads per CPU.
const THREADS: usize = 4;
const ROUNDS: usize = 1500;

thread_local! {
    /// CPU on which this thread has turned interrupts off.
    static OFF: Cell<Option<CpuId>> = const { Cell::new(None) };
}

/// Simulated interrupts of all CPUs.
struct Fake {
    locks: [CheckedSpinLock; CPUS as usize],
    sections: AtomicU64,
    calls: AtomicU64,
}

/// State with interrupts off. Drop restores the previous state.
struct Off<'a> {
    fake: &'a Fake,
    were_off: bool,
}

impl Drop for Off<'_> {
    fn drop(&mut self) {
        if !self.were_off {
            let cpu = OFF.take().expect("interrupts must be off");
            // SAFETY: `enter` took this lock in this thread for this CPU, and it is released once.
            unsafe { self.fake.locks[cpu.index()].unlock(Rank::Section) }
        }
    }
}

// SAFETY: a CPU's lock excludes all other sections on that CPU. While a thread holds it, `cpu` returns that CPU.
// `fence` takes the lock once, so it waits for a section in progress.
unsafe impl<'f> Sections for &'f Fake {
    type Section<'a>
        = Off<'f>
    where
        Self: 'a;

    fn cpus(&self) -> u16 {
        CPUS
    }

    fn cpu(&self) -> CpuId {
        OFF.get().unwrap_or_else(current_cpu)
    }

    fn enter(&self) -> (CpuId, Off<'f>) {
        if let Some(cpu) = OFF.get() {
            return (cpu, Off { fake: self, were_off: true });
        }
        let cpu = current_cpu();
        self.locks[cpu.index()].lock(Rank::Section);
        OFF.set(Some(cpu));
        self.sections.fetch_add(1, Relaxed);
        (cpu, Off { fake: self, were_off: false })
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        assert_eq!(OFF.get(), None, "a fence in a section with interrupts off would never be answered");
        self.locks[cpu.index()].lock(Rank::Section);
        self.calls.fetch_add(1, Relaxed);
        // SAFETY: this thread holds the lock, which it took above.
        unsafe { self.locks[cpu.index()].unlock(Rank::Section) }
        FenceOutcome::Ended
    }
}

/// An object, and the byte that fills it.
struct FilledObject(NonNull<u8>, u8);

// SAFETY: the holder of the value owns the object, so sending the value transfers the object.
unsafe impl Send for FilledObject {}

type Cache<'s, 'n, 'm, 'f> = KmemCache<'s, 'n, 'm, Threads<NoProbe>, &'f Fake>;

/// Frees an object after checking that its bytes are unchanged.
fn free(cache: &Cache<'_, '_, '_, '_>, FilledObject(object, tag): FilledObject) {
    // SAFETY: the holder of the value owns the object, and the thread that allocated it initialised all its bytes.
    let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), cache.info().layout.object_size as usize) };
    assert!(bytes.iter().all(|&byte| byte == tag), "{object:p} was allocated twice");
    // SAFETY: the holder of the value owns the object and does not use it after this call.
    unsafe { cache.free(object) }.expect("the pointer must be an object in use");
}

#[test]
fn threads_lose_no_object_with_interrupts_off() {
    for policy in policies() {
        let fake =
            Fake { locks: [(); 2].map(|()| RawLock::new()), sections: AtomicU64::new(0), calls: AtomicU64::new(0) };
        let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS as usize], ..Config::default() };
        run_on(0);
        with_slab(Threads::<NoProbe>::default(), &config, 1 << 12, &fake, 7, |slab| {
            for size in SIZES {
                let cache = slab.create(&CacheConfig::new("guarded", size)).expect("the cache can be created");
                let passed = Mutex::new(Vec::new());
                thread::scope(|scope| {
                    for number in 0..THREADS {
                        let (cache, passed) = (&cache, &passed);
                        scope.spawn(move || {
                            run_on(number as u16 % CPUS);
                            let mut rng = fastrand::Rng::with_seed(number as u64);
                            for round in 0..ROUNDS {
                                let (object, tag) =
                                    (cache.alloc(Gfp::KERNEL).expect("enough memory must be free"), rng.u8(..));
                                // SAFETY: the object was just allocated and has `size` bytes.
                                unsafe { object.write_bytes(tag, size as usize) };
                                let mut held = passed.lock().expect("no thread panicked while it held the lock");
                                held.push(FilledObject(object, tag));
                                let other = rng.usize(0..held.len());
                                let back = (held.len() > 60).then(|| [held.swap_remove(other), held.swap_remove(0)]);
                                drop(held);
                                back.into_iter().flatten().for_each(|object| free(cache, object));
                                if round % 100 == number {
                                    cache.shrink();
                                }
                            }
                        });
                    }
                });
                passed
                    .into_inner()
                    .expect("no thread panicked while it held the lock")
                    .into_iter()
                    .for_each(|object| free(&cache, object));
                assert!(cache.destroy().is_ok(), "all objects must be freed");
            }
            slab.shrink();
            // SAFETY: the threads have ended, so nothing else uses the allocator.
            assert_eq!(unsafe { slab.check() }.expect("the check must find no error").slabs, 0);
        })
        .expect("the configuration must be valid");
        assert!(fake.sections.into_inner() > 10_000 && fake.calls.into_inner() > 50, "under {:?}", policy.slab);
    }
}
