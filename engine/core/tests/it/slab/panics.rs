//! A platform that panics below the slab: in its probe, at every event of a scenario, and in a constructor, at every
//! object. The panic is caught. Afterwards the slab must be in order, hold no lock, have lost at most the objects that
//! the interrupted call held, and serve further requests.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use freehold::base::lock::RawLock;
use freehold::base::{CpuId, Gfp, NodeId};
use freehold::machine::objects::{HostCpu, with_slab};
use freehold::page::Config;
use freehold::platform::host::{CheckedSpinLock, Threads};
use freehold::platform::{Event, Probe};
use freehold::policy::Policy;
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::{CacheConfig, KmemCache, SlabAllocator};

use crate::common::panic_hook;
use crate::slab::world::{policies, run_on};

type Platform<'b> = Threads<&'b Bomb>;
type Slab<'n, 'm, 'l, 'b> = SlabAllocator<'n, 'm, Platform<'b>, CpuLocks<'l, CheckedSpinLock, HostCpu>>;
type Cache<'s, 'n, 'm, 'l, 'b> = KmemCache<'s, 'n, 'm, Platform<'b>, CpuLocks<'l, CheckedSpinLock, HostCpu>>;

const CPUS: usize = 3;
const FRAMES: u32 = 1 << 10;
/// Size of which three objects fill a slab.
const SIZE: u32 = 1344;
/// Number of objects in one call, and therefore the maximum that a call can lose.
const MANY: usize = 150;

/// Payload of a planned panic.
struct Planned;

/// Probe that panics when its count of events reaches zero.
struct Bomb(AtomicU32);

impl Bomb {
    fn pass(&self) {
        if self.0.load(SeqCst) > 0 && self.0.fetch_sub(1, SeqCst) == 1 {
            panic_any(Planned);
        }
    }
}

impl Probe for &Bomb {
    fn report(&self, _: Event) {
        self.pass();
    }
}

/// Scenario whose objects are recorded as soon as they are allocated.
struct Story<'a, 's, 'n, 'm, 'l, 'b> {
    slab: &'s Slab<'n, 'm, 'l, 'b>,
    cache: &'a Cache<'s, 'n, 'm, 'l, 'b>,
    objects: Vec<NonNull<u8>>,
}

impl Story<'_, '_, '_, '_, '_, '_> {
    fn alloc(&mut self, cpu: u16, count: usize) {
        run_on(cpu);
        for _ in 0..count {
            self.objects.push(self.cache.alloc(Gfp::NOWAIT).expect("enough memory must be free"));
        }
    }

    fn alloc_bulk(&mut self, cpu: u16, count: usize) {
        run_on(cpu);
        let mut objects = vec![NonNull::dangling(); count];
        self.cache.alloc_bulk(Gfp::NOWAIT, &mut objects).expect("enough memory must be free");
        self.objects.extend(objects);
    }

    /// Frees every `step`th object.
    fn free(&mut self, cpu: u16, step: usize) {
        run_on(cpu);
        for at in (0..self.objects.len()).step_by(step).rev() {
            let object = self.objects.swap_remove(at);
            // SAFETY: the object was allocated from this cache and was removed from the list, so it is not used any
            // more.
            unsafe { self.cache.free(object) }.expect("the pointer must be an object of the cache");
        }
    }

    fn free_bulk(&mut self, cpu: u16, count: usize) {
        run_on(cpu);
        let objects = self.objects.split_off(self.objects.len() - count);
        // SAFETY: the objects were allocated from this cache and were removed from the list, so they are not used any
        // more.
        unsafe { self.cache.free_bulk(&objects) }.expect("the pointers must be objects of the cache");
    }

    fn tell(&mut self) {
        self.alloc(0, 20);
        self.free(1, 2);
        self.free(0, 3);
        self.alloc_bulk(0, MANY);
        self.alloc(2, 30);
        self.free(2, 3);
        self.free_bulk(1, 60);
        self.slab.cpu_dead(CpuId(2));
        self.free(1, 2);
        self.slab.shrink();
        self.alloc(1, 40);
        self.slab.cpu_online(CpuId(2));
        self.free(2, 1);
        run_on(0);
        self.cache.shrink();
        let temporary = self.slab.create(&CacheConfig::new("temporary", 512)).expect("the cache can be created");
        let object = temporary.alloc(Gfp::NOWAIT).expect("enough memory must be free");
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { temporary.free(object) }.expect("the pointer must be an object in use");
        assert!(temporary.destroy().is_ok());
    }
}

/// Records a problem, and the moment of the scenario at which it was found.
fn expect(wrong: &mut Vec<String>, when: &str, found: Result<(), String>) {
    wrong.extend(found.err().map(|problem| format!("{when}: {problem}")));
}

/// Plays the scenario with a panic at event `at`. Returns whether it panicked, and records problems in `wrong`.
fn tell(policy: Policy, at: u32, constructor: Option<fn(NonNull<u8>)>, wrong: &mut Vec<String>) -> bool {
    let bomb = Bomb(AtomicU32::new(0));
    let locks = [(); CPUS].map(|()| CheckedSpinLock::new());
    let config = Config { policy, cpu_nodes: &[NodeId(0); CPUS], ..Config::default() };
    let counts = if constructor.is_some() { &CONSTRUCTED } else { &bomb.0 };
    let scene = format!("panic {at} under {:?}", policy.slab.objects);
    run_on(0);
    with_slab(Threads::new(&bomb), &config, FRAMES, CpuLocks::new(&locks, HostCpu), 7, |slab| {
        let made = CacheConfig { constructor, ..CacheConfig::new("story", SIZE) };
        let cache = slab.create(&made).expect("the cache can be created");
        let mut story = Story { slab, cache: &cache, objects: Vec::new() };
        counts.store(at, SeqCst);
        let told = catch_unwind(AssertUnwindSafe(|| story.tell()));
        counts.store(0, SeqCst);
        let others = told.as_ref().err().filter(|panic| !panic.is::<Planned>());
        expect(
            wrong,
            &format!("{scene}, after it"),
            others.map_or(Ok(()), |panic| Err(format!("{:?}", panic.downcast_ref::<String>()))),
        );
        // SAFETY: no other thread uses the allocator.
        expect(
            wrong,
            &format!("{scene}, at once"),
            unsafe { slab.check() }.map(drop).map_err(|violation| violation.to_string()),
        );
        slab.cpu_online(CpuId(2));
        story.alloc(2, 20);
        story.free(0, 1);
        slab.shrink();
        // SAFETY: no other thread uses the allocator, and the pages are checked only.
        let (census, pages) = unsafe { (slab.check(), slab.pages().check()) };
        let lost = census.map(|census| census.objects - census.free - census.sheaves);
        let most = if told.is_ok() { 0 } else { MANY as u64 };
        expect(
            wrong,
            &format!("{scene}, later"),
            lost.map_err(|violation| violation.to_string())
                .and_then(|lost| if lost <= most { Ok(()) } else { Err(format!("{lost} objects are lost")) }),
        );
        expect(wrong, &format!("{scene}, pages"), pages.map(drop).map_err(|violation| violation.to_string()));
        told.is_err()
    })
    .expect("the configuration must be valid")
}

/// Objects until the constructor panics.
static CONSTRUCTED: AtomicU32 = AtomicU32::new(0);

fn prepare(_: NonNull<u8>) {
    if CONSTRUCTED.load(SeqCst) > 0 && CONSTRUCTED.fetch_sub(1, SeqCst) == 1 {
        panic_any(Planned);
    }
}

/// Plays the scenario with a panic at every possible place.
fn panic_everywhere(constructor: Option<fn(NonNull<u8>)>) {
    panic_hook::silence_payload::<Planned>();
    let mut wrong = Vec::new();
    for policy in policies() {
        let panics = (1..).take_while(|&at| tell(policy, at, constructor, &mut wrong)).count();
        assert!(panics > 20, "{panics} panics under {:?}", policy.slab);
    }
    assert!(wrong.is_empty(), "{} are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
}

#[test]
fn probe_panic_at_any_event_keeps_the_state_valid() {
    panic_everywhere(None);
}

#[test]
fn constructor_panic_at_any_object_keeps_the_state_valid() {
    panic_everywhere(Some(prepare));
}
