//! Concurrent threads: eight threads on four CPUs allocate objects, fill them, and free them or pass them on, while the
//! caches are shrunk and a fifth CPU goes offline and online.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use fastrand::Rng;
use freehold::base::{CpuId, Gfp};
use freehold::policy::Policy;
use freehold::policy::slab::SlabPolicy;
use freehold::slab::CacheConfig;

use crate::slab::interfering_local::Meddling;
use crate::slab::world::{CPUS, Cache, SIZES, Slab, judge_empty, policies, policy, run_on, with_meddler};

const THREADS: usize = 8;
const ROUNDS: u32 = 6000;

/// An object on its way to another thread, which then owns it.
struct Passed {
    object: NonNull<u8>,
    cache: usize,
    tag: u8,
}

// SAFETY: the holder of the value owns the object, so sending the value transfers the object.
unsafe impl Send for Passed {}

struct Worker<'a, 's, 'n, 'm, 'l> {
    caches: &'a [Cache<'s, 'n, 'm, 'l>],
    rng: Rng,
    held: Vec<Passed>,
    to: Sender<Passed>,
    from: Receiver<Passed>,
}

impl Worker<'_, '_, '_, '_, '_> {
    fn round(&mut self) {
        self.held.extend(self.from.try_iter());
        let is_full = self.held.len() > 40;
        match self.rng.u32(0..10) {
            0..5 if !is_full => self.alloc(),
            5..7 if !self.held.is_empty() => {
                let passed = self.held.swap_remove(self.rng.usize(0..self.held.len()));
                if let Err(back) = self.to.send(passed) {
                    self.held.push(back.0);
                }
            }
            _ => self.free(),
        }
    }

    fn alloc(&mut self) {
        let (cache, tag) = (self.rng.usize(0..self.caches.len()), self.rng.u8(..));
        let object = self.caches[cache].alloc(Gfp::KERNEL).expect("enough memory must be free");
        // SAFETY: the object was just allocated and has the size of its cache.
        unsafe { object.write_bytes(tag, SIZES[cache] as usize) };
        self.held.push(Passed { object, cache, tag });
    }

    fn free(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let Passed { object, cache, tag } = self.held.swap_remove(self.rng.usize(0..self.held.len()));
        // SAFETY: this thread owns the object, and the thread that allocated it initialised its bytes.
        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), SIZES[cache] as usize) };
        assert!(bytes.iter().all(|&byte| byte == tag), "{object:p} was allocated twice");
        // SAFETY: this thread owns the object, which is of this cache, and does not use it any more.
        unsafe { self.caches[cache].free(object) }.expect("the pointer must be an object in use");
    }
}

fn everybody(policy: Policy, what: Meddling) {
    with_meddler(policy, 1 << 13, (what, 100), |slab| {
        let caches =
            SIZES.map(|size| slab.create(&CacheConfig::new("shared", size)).expect("the cache can be created"));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let beside = scope.spawn(|| beside(slab, &caches, &is_over));
            let workers: Vec<_> = receivers
                .into_iter()
                .enumerate()
                .map(|(at, from)| {
                    let (to, caches) = (senders[(at + 1) % THREADS].clone(), &caches);
                    let rng = Rng::with_seed(at as u64);
                    scope.spawn(move || {
                        run_on(at as u16 % (CPUS - 1));
                        let mut worker = Worker { caches, rng, held: Vec::new(), to, from };
                        (0..ROUNDS).for_each(|_| worker.round());
                        worker
                    })
                })
                .collect();
            let ends: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            is_over.store(true, Relaxed);
            beside.join().expect("the thread must not panic");
            for worker in ends {
                let mut worker = worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                worker.held.extend(worker.from.try_iter());
                while !worker.held.is_empty() {
                    worker.free();
                }
            }
        });
        judge_empty(slab, 0);
    });
}

/// Shrinks the caches and takes a CPU offline and online. No other thread runs on that CPU.
fn beside(slab: &Slab<'_, '_, '_>, caches: &[Cache<'_, '_, '_, '_>], is_over: &AtomicBool) {
    let leaves = CPUS - 1;
    while !is_over.load(Relaxed) {
        run_on(leaves);
        let objects: Vec<_> =
            caches.iter().map(|cache| cache.alloc(Gfp::KERNEL).expect("enough memory must be free")).collect();
        run_on(0);
        slab.cpu_dead(CpuId(leaves));
        for (cache, object) in caches.iter().zip(objects) {
            // SAFETY: the object was allocated above from this cache and is not used any more.
            unsafe { cache.free(object) }.expect("the pointer must be an object in use");
            cache.shrink();
        }
        slab.cpu_online(CpuId(leaves));
        thread::yield_now();
    }
}

#[test]
fn threads_lose_no_object() {
    policies().into_iter().for_each(|policy| everybody(policy, Meddling::Nothing));
}

#[test]
fn fault_among_threads_is_found() {
    // Bitmaps store nothing in objects, so the contents that two threads write into one object corrupt no list.
    let outcome = catch_unwind(AssertUnwindSafe(|| everybody(policy(SlabPolicy::Bitmap, 0), Meddling::PopsTwice)));
    assert!(outcome.is_err(), "an object of two threads was not detected");
}
