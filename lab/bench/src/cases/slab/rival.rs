//! The slab as a contestant: a heap under a policy, with a primitive that makes a few instructions one step on a CPU.
//!
//! All rivals are called through a table of functions, out of line, as the callers in a kernel do.

use std::ptr::{NonNull, null_mut};

use freehold::base::CpuId;
use freehold::slab::CpuLocal;
use freehold::slab::fast_path::{Bitmap, FastPath, Frontend, PageField, PageFieldGuarded, Sheaves, Tagged};
use freehold::slab::freelist::{Mangled, Plain};
use freehold_malloc::heap::{Heap, HeapConfig, HeapError};
use freehold_malloc::os::platform::{CurrentCpuOfProcess, Process};
use freehold_malloc::os::thread_local::{ThreadLocal, stand_for};
use freehold_object_loops::{Objects, Rounds, Work};
use freehold_policies::NamedPolicy;
use freehold_timing::affinity;

use crate::contest::{Contestant, Then};
use crate::error::Error;
use crate::mallocs::Cpus;

/// Warm-up rounds before the timed rounds of an event.
const WARM_UP: u32 = 1;
/// Size of a rival's heap in bytes.
const BYTES: usize = 2 << 30;

/// Primitive that keeps other threads off a CPU's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primitive {
    /// Restartable sequences.
    Rseq,
    /// No exclusion: each thread stands for a CPU of its own. This is the minimum cost of sections.
    ThreadLocal,
    /// A lock for each CPU.
    Locked,
}

/// The slab under a policy, with a primitive.
pub(super) struct Rival {
    name: String,
    policy: NamedPolicy,
    primitive: Primitive,
    cpus: Cpus,
    works: &'static [Work],
}

impl Rival {
    /// Returns a contestant for a policy's slab that takes part in these loops.
    pub(super) fn new(name: &str, policy: NamedPolicy, cpus: Cpus, works: &'static [Work]) -> Rival {
        Rival { name: name.to_owned(), policy, primitive: Primitive::Rseq, cpus, works }
    }

    /// Returns the contestant with another primitive.
    pub(super) fn with(self, primitive: Primitive) -> Rival {
        Rival { primitive, ..self }
    }

    /// Builds the heap and passes it to `run` as an allocator of objects.
    pub(super) fn with_objects<R>(&self, run: impl FnOnce(&dyn Objects) -> R) -> Result<R, Error> {
        let config = HeapConfig { bytes: BYTES, policy: self.policy.policy, ..HeapConfig::default() };
        let done = match self.primitive {
            Primitive::Rseq => Heap::with_rseq(&config).map(|heap| run(&*heap_objects(&heap))),
            Primitive::Locked => Heap::with_locks(&config).map(|heap| run(&*heap_objects(&heap))),
            Primitive::ThreadLocal => thread_local_heap(&config, self.cpus.cpu).map(|heap| run(&*heap_objects(&heap))),
        };
        done.map_err(|error| Error::Input(format!("no slab can be built under `{}`: {error}", self.policy.name)))
    }

    /// Moves the second thread of a loop to its CPU.
    fn settle_partner(&self) -> Result<(), String> {
        let partner = self.cpus.partner.ok_or("a second thread has no CPU")?;
        affinity::pin(partner).map_err(|error| format!("a second thread cannot be pinned to CPU {partner}: {error}"))
    }
}

/// Returns a heap on thread-local lists, for the calling thread alone. The thread stands for `cpu` from then on.
fn thread_local_heap(config: &HeapConfig, cpu: u16) -> Result<Heap<ThreadLocal>, HeapError> {
    stand_for(CpuId(cpu));
    // SAFETY: this primitive runs in loops of one thread only, and that thread stands for `cpu`, so no other thread
    // uses the value or is fenced; no signal handler of this program allocates from the heap.
    let local = unsafe { ThreadLocal::new(cpu + 1) };
    Heap::new(config, local, Process::new(CurrentCpuOfProcess::find()))
}

impl Contestant for Rival {
    fn name(&self) -> &str {
        &self.name
    }

    fn does(&self, work: Work) -> bool {
        self.works.contains(&work) && (work != Work::Remote || self.cpus.partner.is_some())
    }

    fn open(&self, then: &mut Then<'_>) -> Result<(), Error> {
        self.with_objects(|objects| {
            then(&mut |event| {
                let rounds = Rounds { warm_up: WARM_UP, timed: event.rounds };
                let figures = event.work.run(objects, event.size, event.objects, rounds, &|| self.settle_partner());
                figures.map_err(|trouble| Error::Input(format!("{} cannot be measured: {trouble}", self.name)))
            })
        })?
    }
}

/// Wraps a heap in code that was compiled for its policy's fast path.
fn heap_objects<C: CpuLocal + Sync>(heap: &Heap<C>) -> Box<dyn Objects + '_> {
    type Constructors<C> = [fn(&Heap<C>) -> Option<Box<dyn Objects + '_>>; 9];
    let constructors: Constructors<C> = [
        frontend_objects::<C, Tagged<Plain>>,
        frontend_objects::<C, Tagged<Mangled>>,
        frontend_objects::<C, PageFieldGuarded<Plain>>,
        frontend_objects::<C, PageFieldGuarded<Mangled>>,
        frontend_objects::<C, PageField<Plain>>,
        frontend_objects::<C, PageField<Mangled>>,
        frontend_objects::<C, Sheaves>,
        frontend_objects::<C, Bitmap<Plain>>,
        frontend_objects::<C, Bitmap<Mangled>>,
    ];
    constructors.into_iter().find_map(|construct| construct(heap)).expect("every policy has a fast path")
}

/// Returns the frontend of a heap for one fast path, or `None` if its policy uses another one.
fn frontend_objects<C: CpuLocal + Sync, F: FastPath + Sync + 'static>(heap: &Heap<C>) -> Option<Box<dyn Objects + '_>> {
    heap.slab().frontend::<F>().map(|frontend| Box::new(Malloc { frontend, heap }) as Box<dyn Objects>)
}

/// Allocation and free functions of a heap.
struct Malloc<'h, C, F> {
    frontend: Frontend<'h, 'static, 'static, Process, C, F>,
    heap: &'h Heap<C>,
}

impl<C: CpuLocal + Sync, F: FastPath + Sync> Objects for Malloc<'_, C, F> {
    #[inline(never)]
    fn malloc(&self, size: usize) -> *mut u8 {
        let object = self.frontend.malloc(size);
        if object.is_null() { with_more(self.heap, size) } else { object }
    }

    #[inline(never)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: by the contract of `Objects::free`, the object is from `malloc` of this allocator and has not been
        // freed.
        unsafe { self.frontend.free(object) }
    }
}

/// Brings more memory online, if there is any, and allocates an object; null if there is none.
#[cold]
fn with_more<C: CpuLocal>(heap: &Heap<C>, size: usize) -> *mut u8 {
    heap.malloc(size).map_or(null_mut(), NonNull::as_ptr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_object_loops::Size;

    const POLICIES: [&str; 6] = [
        "freehold,slab=tagged",
        "freehold,slab=page-field",
        "freehold,slab=page-field,slab.guard=none",
        "freehold,slab=sheaves",
        "freehold,slab=bitmap",
        "freehold,slab.links=mangled,slab.order=random",
    ];

    /// Both threads share one CPU here, which is slow but valid.
    #[test]
    fn every_loop_runs_under_every_slab_policy() {
        let cpu = *affinity::usable().unwrap().last().expect("this thread may use a CPU");
        affinity::pin(cpu).unwrap();
        let cpus = Cpus { cpu, partner: Some(cpu) };
        for primitive in [Primitive::Rseq, Primitive::Locked] {
            for name in POLICIES {
                let rival = Rival::new(name, freehold_policies::parse(name).unwrap(), cpus, &Work::ALL).with(primitive);
                let rounds = Rounds { warm_up: 1, timed: 2 };
                let done = rival.with_objects(|objects| {
                    for (work, size) in Work::ALL.into_iter().flat_map(|work| Size::TABLE.map(|size| (work, size))) {
                        let figures = work.run(objects, size, 300, rounds, &|| rival.settle_partner()).unwrap();
                        assert_eq!(figures.len(), work.figures().len(), "{name} {work:?} {size}");
                    }
                });
                done.unwrap();
            }
        }
    }
}
