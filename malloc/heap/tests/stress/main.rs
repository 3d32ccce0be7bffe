//! Stress tests. Threads allocate, free, and pass objects to each other. Signal handlers do the same in between. CPUs
//! change constantly, and per-CPU lists are drained. No object may be lost or handed out twice.
//!
//! ```text
//! live_objects  the state of each object, recorded outside of the heap, and a mark at both of its ends
//! worker        the steps of a thread, and those of a signal handler that interrupts them
//! pest          migrates threads between CPUs, and shrinks the heap
//! timers        deliver the signals
//! locks         record whether a handler may allocate
//! ```
//!
//! `cargo test` executes a few million steps. A soak test of any length:
//!
//! ```text
//! STEPS=1000000000 cargo test --profile dist -p freehold-malloc --test stress soak -- --ignored --nocapture
//! ```

#![cfg(target_os = "linux")]

#[path = "../common/fault_injection.rs"]
mod fault_injection;
#[path = "../common/skip_message.rs"]
mod left_out;
#[path = "../common/lost_pop_fault.rs"]
mod lost_pop_fault;
#[path = "../common/machine.rs"]
mod machine;

mod disturber;
mod live_objects;
mod locks;
mod timers;
mod worker;

use std::env;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use freehold::policy::Policy;
use freehold::policy::slab::{SlabLinks, SlabOrder, SlabPolicy};
use freehold::slab::CpuLocal;
use freehold_malloc::heap::{Heap, HeapConfig};
use freehold_malloc::os::cpus::cpu_count;
use freehold_malloc::os::mmap::HugePages;
use freehold_malloc::os::platform::{CurrentCpuOfProcess, lock_cpus};
use freehold_malloc::os::rseq::Rseq;

use fault_injection::Altered;
use left_out::left_out;
use live_objects::{LiveObjects, Marks};
use locks::Noticing;
use lost_pop_fault::Forgetful;
use worker::{Shared, Stash};

/// Number of threads that allocate.
const THREADS: u64 = 8;
/// Default number of steps of all threads together.
const STEPS: u64 = 2_000_000;
/// Default number of steps of the soak test, which take half a minute.
const STEPS_OF_SOAK: u64 = 200_000_000;
/// Bytes of a heap.
const BYTES: usize = 128 << 20;

/// Serialises the tests, because signals and affinities affect the whole process.
static TURN: Mutex<()> = Mutex::new(());

fn policy_of(objects: SlabPolicy, links: SlabLinks, order: SlabOrder) -> Policy {
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = objects;
    policy.slab.links = links;
    policy.slab.order = order;
    policy
}

/// Returns a policy for each fast path.
fn policies() -> Vec<(&'static str, Policy)> {
    vec![
        ("freehold", Policy::FREEHOLD),
        ("tagged", policy_of(SlabPolicy::Tagged, SlabLinks::Plain, SlabOrder::Address)),
        ("hardened", policy_of(SlabPolicy::Tagged, SlabLinks::Mangled, SlabOrder::Random)),
        ("page-field", policy_of(SlabPolicy::PageField, SlabLinks::Plain, SlabOrder::Address)),
        ("bitmap", policy_of(SlabPolicy::Bitmap, SlabLinks::Plain, SlabOrder::Address)),
        ("sheaves", policy_of(SlabPolicy::Sheaves, SlabLinks::Plain, SlabOrder::Address)),
    ]
}

/// Number of steps of all threads together, and the words of an object that are marked.
#[derive(Clone, Copy)]
struct Load {
    steps: u64,
    marks: Marks,
}

/// Executes steps on a heap with a primitive; returns a description of the first violation.
fn stress<C: CpuLocal + Sync>(name: &str, policy: Policy, local: C, load: Load) -> Result<(), String> {
    let config = HeapConfig { bytes: BYTES, policy, huge_pages: HugePages::BySystem, ..HeapConfig::default() };
    let platform = Noticing::new(CurrentCpuOfProcess::find());
    let heap = Heap::new(&config, local, platform).map_err(|error| error.to_string())?;
    let Load { steps, marks } = load;
    let shared = Shared::new(&heap, LiveObjects::new(heap.memory(), marks));
    std::thread::scope(|scope| {
        let shared = &shared;
        let workers: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || worker::work(shared, seed, steps / THREADS))).collect();
        scope.spawn(|| disturber::pester(shared));
        workers.into_iter().for_each(|worker| worker.join().expect("a worker must not panic"));
        shared.is_over.store(true, Relaxed);
    });
    println!("{name}: {} steps, {} of them in handlers, {} signals", steps, shared.handled(), shared.signals());
    if let Some(why) = shared.live_objects.violation() {
        return Err(format!("{name}: {why}"));
    }
    shared.free_mail();
    heap.slab().shrink();
    // SAFETY: all threads of the scope have ended, so no thread uses the heap.
    let census = unsafe { heap.slab().check() }.map_err(|violation| format!("{name}: {violation}"))?;
    if census.objects == census.free && shared.live_objects.live() == 0 {
        return Ok(());
    }
    Err(format!("{name}: {census:?}, and {} objects that nobody has freed", shared.live_objects.live()))
}

/// Tests all policies with restartable sequences, and the default policy with locks.
fn stress_all(steps: u64) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let policies = policies();
    let each = Load { steps: steps / (policies.len() as u64 + 1), marks: Marks::BothEnds };
    let locks = lock_cpus(cpu_count(), CurrentCpuOfProcess::find()).expect("there is room");
    // A handler must not wait for the lock of a section that it interrupts.
    Stash::with_handlers_that_only_count(|| {
        stress("locks", Policy::FREEHOLD, locks, each).expect("the stress test must lose no object")
    });
    match Rseq::find() {
        Err(why) => left_out(why),
        Ok(rseq) => {
            for (name, policy) in policies {
                stress(name, policy, rseq, each).expect("the stress test must lose no object");
            }
        }
    }
}

#[test]
fn threads_signals_and_migrations_lose_no_object() {
    stress_all(STEPS);
}

#[test]
#[ignore = "takes half a minute, or as long as STEPS says; `cargo xtask ci --only soak` runs it"]
fn soak_of_threads_signals_and_migrations() {
    let steps = env::var("STEPS").ok().map(|steps| steps.parse().expect("STEPS is a number"));
    stress_all(steps.unwrap_or(STEPS_OF_SOAK));
}

#[test]
fn planted_double_allocation_is_detected() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(rseq) = Rseq::find() else { return left_out("there are no restartable sequences") };
    let mut policy = Policy::FREEHOLD;
    policy.slab.objects = SlabPolicy::Tagged;
    let forgetful = Altered { sound: rseq, alteration: Forgetful::once_in(5000) };
    // A mark of the first owner in place of the link would lead the second pop to an address without memory.
    let load = Load { steps: STEPS, marks: Marks::AfterLink };
    let noticed = Stash::with_handlers_that_only_count(|| stress("forgetful", policy, forgetful, load));
    let why = noticed.expect_err("the planted fault must be detected");
    assert!(why.contains("handed out twice"), "{why}");
}
