//! Restartable sequences against the portable sections: the same steps on equal words must yield equal words.
//!
//! Each primitive has a world of its own. Random steps are executed in both worlds. After each step the results and the
//! words must be equal, with addresses relative to the start of their world. The slots of all CPUs are used, one CPU at
//! a time. Without restartable sequences the tests print a message and are skipped.

mod steps;

use std::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::base::lock::SpinLock;
use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::locked::{CpuLocks, CurrentCpu};
use freehold::slab::cpu::{CpuLocal, Exchange, ExchangeOutcome, PushOutcome};
use freehold::slab::freelist::{Mangled, Plain};
use freehold::slab::word::{EMPTY, end_mark};
use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::thread_local::{ThreadLocal, stand_for};

use crate::common::machine::{cpus, run_on};
use crate::common::skip_message::left_out;
use crate::common::world::World;
use crate::fault_injection::Altered;
use crate::lost_pop_fault::Forgetful;

const PLAIN: Plain = Plain { offset: 0 };
const MIDDLE: Plain = Plain { offset: 24 };
const MANGLED: Mangled = Mangled { offset: 16, secret: 0x9e37_79b9_7f4a_7c15 };

/// CPU to which a test has pinned itself.
struct Pinned(CpuId);

impl CurrentCpu for Pinned {
    fn cpu(&self) -> CpuId {
        self.0
    }
}

fn rseq() -> Option<Rseq> {
    Rseq::find().inspect_err(|why| left_out(why)).ok()
}

/// Returns one more than the highest number of a CPU on which the process may run.
fn cpu_count() -> u16 {
    cpus().iter().max().expect("the affinity mask must contain a CPU").0 + 1
}

fn locks() -> Vec<SpinLock> {
    (0..cpu_count()).map(|_| SpinLock::default()).collect()
}

#[test]
fn rseq_sections_match_the_portable_sections() {
    let Some(rseq) = rseq() else { return };
    let locks = locks();
    for cpu in cpus() {
        run_on(cpu);
        let portable = CpuLocks::new(&locks, Pinned(cpu));
        for seed in 0..40 {
            steps::compare(&rseq, &portable, PLAIN, cpu, seed);
            steps::compare(&rseq, &portable, MIDDLE, cpu, seed);
            steps::compare(&rseq, &portable, MANGLED, cpu, seed);
        }
    }
}

#[test]
fn thread_local_lists_match_the_portable_sections() {
    let locks = locks();
    let cpu = CpuId(0);
    stand_for(cpu);
    // SAFETY: this thread alone represents a CPU, no signal handler uses the primitive, and the test does not fence.
    let threads = unsafe { ThreadLocal::new(1) };
    for seed in 0..40 {
        steps::compare(&threads, &CpuLocks::new(&locks, Pinned(cpu)), PLAIN, cpu, seed);
    }
}

#[test]
#[should_panic(expected = "differ")]
fn planted_difference_is_detected() {
    let locks = locks();
    let cpu = CpuId(0);
    let portable = CpuLocks::new(&locks, Pinned(cpu));
    let forgetful = Altered { sound: CpuLocks::new(&locks, Pinned(cpu)), alteration: Forgetful::once_in(3) };
    steps::compare(&forgetful, &portable, PLAIN, cpu, 1);
}

#[test]
fn replace_requires_the_expected_word_and_cpu() {
    let Some(rseq) = rseq() else { return };
    let world = World::new(cpu_count(), PLAIN);
    let here = cpus()[0];
    run_on(here);
    assert_eq!(rseq.cpu(), here);
    let elsewhere = CpuId(here.0 ^ 1);
    let (word, witness) = (world.local(0), world.owner(0));
    let (before, seen) = (word.load(Relaxed), witness.load(Relaxed));
    let exchange = Exchange::new(word, before, 42);
    assert_eq!((rseq.replace_if(elsewhere, exchange), word.load(Relaxed)), (ExchangeOutcome::Moved, before));
    let other = exchange.with_witness(witness, seen + 1);
    assert_eq!((rseq.replace_if(here, other), word.load(Relaxed)), (ExchangeOutcome::Changed, before));
    assert_eq!(
        (rseq.replace_if(here, exchange.with_witness(witness, seen)), word.load(Relaxed)),
        (ExchangeOutcome::Done, 42)
    );
    assert_eq!((rseq.replace_if(here, exchange), word.load(Relaxed)), (ExchangeOutcome::Changed, 42));
}

#[test]
fn drain_takes_the_list_of_each_cpu() {
    let Some(rseq) = rseq() else { return };
    let world = World::new(cpu_count(), PLAIN);
    for (slab, cpu) in cpus().into_iter().enumerate().take(crate::common::world::SLABS) {
        let slot = world.slot(cpu);
        slot.main.store(world.chain(slab, 0..3).head, Relaxed);
        let taken = rseq.drain(cpu, slot, EMPTY);
        let (objects, mark) = world.list(taken).expect("the list must be unchanged");
        assert_eq!(objects, [0, 1, 2].map(|index| world.object(slab, index)));
        assert_eq!(mark, end_mark(world.base(slab)));
        assert_eq!(rseq.drain(cpu, slot, EMPTY), EMPTY);
        run_on(cpu);
        assert_eq!(rseq.pop(world.slots(), PLAIN), None);
    }
}

#[test]
fn drain_takes_the_sheaf_of_each_cpu() {
    let Some(rseq) = rseq() else { return };
    let world = World::new(cpu_count(), PLAIN);
    world.use_sheaves();
    for cpu in cpus() {
        let objects = [0, 1, 2].map(|index| world.object(0, index));
        world.fill_sheaf(cpu.index(), &objects);
        let (slot, none) = (world.slot(cpu), world.no_sheaf());
        let taken = rseq.drain(cpu, slot, none);
        assert_eq!(world.sheaf_by_word(taken), Some(cpu.index()));
        world.put_aside(taken);
        assert_eq!((world.is_in_a_slot(cpu.index()), world.sheaf(cpu.index())), (false, objects.to_vec()));
        assert_eq!(rseq.drain(cpu, slot, none), none);
        run_on(cpu);
        assert_eq!(rseq.pop_sheaf(world.slots()), None);
        // SAFETY: the push is refused because the slot has no sheaf, so the object is not used.
        let pushed = unsafe { rseq.push_sheaf(world.slots(), ObjectAddress::new(objects[0])) };
        assert_eq!(
            (pushed, slot.main.load(Relaxed)),
            (PushOutcome::Refused, none),
            "a push without a sheaf must be refused"
        );
    }
}

#[test]
fn preemption_guard_nests() {
    let Some(rseq) = rseq() else { return };
    for _ in 0..3 {
        rseq.preempt_disable();
        rseq.preempt_disable();
        rseq.preempt_enable();
        rseq.preempt_enable();
    }
}
