//! Bare per-CPU sections: objects are popped off a CPU's list and pushed back by inlined code. The other costs of a
//! call of `malloc` (the call, finding the size class, finding the slab) are not included.

use std::sync::atomic::Ordering;

use freehold::base::CpuId;
use freehold::slab::address::{ObjectAddress, SlabAddress, SlabMask};
use freehold::slab::cpu::{CpuSlots, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::{Chain, Plain};
use freehold::slab::slab::Slab;
use freehold::slab::{CacheId, CpuLocal};
use freehold_malloc::os::cpus::cpu_count;
use freehold_malloc::os::platform::{CurrentCpuOfProcess, lock_cpus};
use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::thread_local::{ThreadLocal, stand_for};
use freehold_object_loops::{Ticks, Work, clock};

use super::rival::Primitive;
use crate::contest::{Contestant, Event, Then};
use crate::error::Error;
use crate::mallocs::Cpus;

/// Size of an object in bytes.
const OBJECT_BYTES: u64 = 64;
/// Cache whose slots are used.
const CACHE: CacheId = CacheId::new(3);

/// Contestant that times pairs under a primitive.
pub(super) struct Bare {
    name: &'static str,
    primitive: Primitive,
    cpus: Cpus,
}

impl Bare {
    /// Creates the contestant for a primitive.
    pub(super) fn new(name: &'static str, primitive: Primitive, cpus: Cpus) -> Bare {
        Bare { name, primitive, cpus }
    }

    fn take(&self, list: &List, event: Event) -> Result<Vec<Ticks>, Error> {
        let pairs = event.objects;
        let rounds = 0..=event.rounds;
        let mut ticks: Vec<u64> = match self.primitive {
            Primitive::Rseq => {
                let rseq =
                    Rseq::find().map_err(|error| Error::Input(format!("sections cannot be measured: {error}")))?;
                rounds.map(|_| list.pairs(&rseq, pairs)).collect()
            }
            Primitive::Locked => {
                let locked = lock_cpus(cpu_count(), CurrentCpuOfProcess::find())
                    .map_err(|errno| Error::Input(format!("locks cannot be allocated: {errno}")))?;
                rounds.map(|_| list.pairs(&locked, pairs)).collect()
            }
            Primitive::ThreadLocal => {
                stand_for(CpuId(self.cpus.cpu));
                // SAFETY: only this thread uses the value, it stands for a CPU of these since the line before, and no
                // signal handler uses it; no CPU is fenced.
                let local = unsafe { ThreadLocal::new(cpu_count()) };
                rounds.map(|_| list.pairs(&local, pairs)).collect()
            }
        };
        // The first round is the warm-up.
        let timed = &mut ticks[1..];
        timed.sort_unstable();
        Ok(vec![Ticks { ticks: timed[timed.len() / 2], operations: pairs as u64 }])
    }
}

impl Contestant for Bare {
    fn name(&self) -> &str {
        self.name
    }

    fn does(&self, work: Work) -> bool {
        work == Work::Pair
    }

    fn open(&self, then: &mut Then<'_>) -> Result<(), Error> {
        let list = List::new();
        then(&mut |event| self.take(&list, event))
    }
}

/// Memory of a slab. The alignment makes the slab's start computable from an object's address.
#[repr(C, align(4096))]
struct Memory([u64; 512]);

/// A slab, all of whose objects are on the list of every CPU. Only one of these lists is ever used.
struct List {
    memory: Box<Memory>,
    slab: Slab,
    slots: Box<[CpuSlots]>,
}

impl List {
    fn new() -> List {
        let slots = (0..cpu_count()).map(|_| CpuSlots::empty()).collect();
        let list = List { memory: Box::new(Memory([0; 512])), slab: Slab::unused(), slots };
        let start = list.start();
        let objects =
            (0..size_of::<Memory>() as u64 / OBJECT_BYTES).map(|at| ObjectAddress::new(start + at * OBJECT_BYTES));
        // SAFETY: the memory is owned by `list`, so all of its objects are free, and the iterator yields each object
        // once.
        let chain = unsafe { Chain::build(SlabAddress::new(start), objects, Plain { offset: 0 }) };
        list.slots.iter().for_each(|slots| slots.slot(CACHE).main.store(chain.head, Ordering::Relaxed));
        list
    }

    fn start(&self) -> u64 {
        (&raw const *self.memory).expose_provenance() as u64
    }

    /// Times a number of pairs on the CPU that this thread is pinned to, and returns the ticks.
    #[inline(never)]
    fn pairs<C: CpuLocal>(&self, local: &C, pairs: usize) -> u64 {
        // SAFETY: there are slots for each CPU; each list contains free objects, linked with these links; the slots are
        // written by sections of this thread's CPU only, and nothing drains them.
        let slots = unsafe { Slots::new(&self.slots, CACHE) };
        let (links, mask) = (Plain { offset: 0 }, SlabMask::for_size(size_of::<Memory>() as u64));
        let start = clock::now();
        for _ in 0..pairs {
            let object = local.pop(slots, links).expect("only one object is allocated at a time");
            // SAFETY: the object was popped from this slab's list in the line before, and is not used after the push.
            let freed = unsafe { FreedObject::new(object, &self.slab, mask) };
            assert_eq!(local.push(slots, freed, links), PushOutcome::Done, "the list belongs to the object's slab");
        }
        clock::now() - start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_object_loops::Size;
    use freehold_timing::affinity;

    #[test]
    fn bare_list_is_intact_after_pairs() {
        let cpu = *affinity::usable().unwrap().last().expect("this thread may use a CPU");
        affinity::pin(cpu).unwrap();
        let event = Event { work: Work::Pair, size: Size::TABLE[3], objects: 1000, rounds: 2 };
        for primitive in [Primitive::Rseq, Primitive::ThreadLocal, Primitive::Locked] {
            let bare = Bare::new("bare", primitive, Cpus { cpu, partner: None });
            let list = List::new();
            let figures = bare.take(&list, event).unwrap();
            assert_eq!((figures.len(), figures[0].operations), (1, 1000));
            let head = list.slots[usize::from(cpu)].slot(CACHE).main.load(Ordering::Relaxed);
            // SAFETY: the list belongs to this test, and no section runs on it any more.
            let chain = unsafe { Chain::count(head, 100, Plain { offset: 0 }) };
            assert_eq!((head, chain.len), (list.start(), 64));
        }
    }
}
