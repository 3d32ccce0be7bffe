//! Steps of a worker thread, and of a signal handler that interrupts them.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

use fastrand::Rng;
use freehold::slab::CpuLocal;
use freehold_malloc::heap::Heap;
use rustix::thread::gettid;

use crate::live_objects::{LiveObjects, Object};
use crate::locks::{Noticing, holds_any};
use crate::machine::{cpus, run_on};
use crate::timers::{Timer, handle};

/// Most objects that a thread keeps.
const KEPT: usize = 300;
/// Places for objects that are passed between threads.
const MAIL: usize = 64;
/// Objects that a thread's handler keeps.
const STASHED: usize = 8;
/// Binary logarithm of the largest power of two up to which sizes are drawn.
const SIZE_BITS: u32 = 13;

/// State that all threads share.
pub(crate) struct Shared<'h, C> {
    pub heap: &'h Heap<C, Noticing>,
    pub live_objects: LiveObjects,
    pub is_over: AtomicBool,
    mail: [AtomicPtr<Object>; MAIL],
    threads: Mutex<Vec<i32>>,
    handled: AtomicU64,
    signals: AtomicU64,
}

impl<'h, C: CpuLocal> Shared<'h, C> {
    pub(crate) fn new(heap: &'h Heap<C, Noticing>, live_objects: LiveObjects) -> Shared<'h, C> {
        Shared {
            heap,
            live_objects,
            is_over: AtomicBool::new(false),
            mail: [const { AtomicPtr::new(null_mut()) }; MAIL],
            threads: Mutex::new(Vec::new()),
            handled: AtomicU64::new(0),
            signals: AtomicU64::new(0),
        }
    }

    /// Returns the IDs of the worker threads.
    pub(crate) fn threads(&self) -> Vec<i32> {
        self.threads.lock().expect("no thread panicked while it held the lock").clone()
    }

    /// Returns the number of objects that handlers have allocated or freed.
    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    /// Returns the number of signals that were handled.
    pub(crate) fn signals(&self) -> u64 {
        self.signals.load(Relaxed)
    }

    /// Frees the objects that are still being passed.
    pub(crate) fn free_mail(&self) {
        for place in &self.mail {
            self.exchange(place, None).into_iter().for_each(|object| self.free(object));
        }
    }

    fn allocate(&self, size: usize) -> Option<Object> {
        match self.heap.malloc(size) {
            Ok(start) => {
                let object = Object { start, size };
                self.live_objects.take(object);
                Some(object)
            }
            Err(error) => {
                self.live_objects.violate(format!("{size} bytes of a heap that is nearly empty: {error}"));
                None
            }
        }
    }

    /// Draws a size, mostly a small one.
    fn size(&self, chance: &mut Rng) -> usize {
        let start = self.live_objects.marks().min_size_bits();
        let end = chance.u32(start + 1..=SIZE_BITS);
        let size = 1 << chance.u32(start..end);
        size + chance.usize(..size)
    }

    fn free(&self, object: Object) {
        if self.live_objects.give(object) {
            // SAFETY: `live_objects` has confirmed that the object is allocated and belongs to the caller.
            let freed = unsafe { self.heap.free(object.start) };
            freed.unwrap_or_else(|error| self.live_objects.violate(error.to_string()));
        }
    }

    fn exchange(&self, place: &AtomicPtr<Object>, object: Option<Object>) -> Option<Object> {
        let new = object.map_or(null_mut(), |object| Box::into_raw(Box::new(object)));
        let old = place.swap(new, AcqRel);
        // SAFETY: a pointer in a place was created by `Box::into_raw` above, and the swap takes it out once.
        (!old.is_null()).then(|| *unsafe { Box::from_raw(old) })
    }
}

/// Runs one worker thread.
pub(crate) fn work<C: CpuLocal>(shared: &Shared<'_, C>, seed: u64, steps: u64) {
    let cpus = cpus();
    run_on(cpus[seed as usize % cpus.len()]);
    shared.threads.lock().expect("no thread panicked while it held the lock").push(gettid().as_raw_nonzero().get());
    let step_of_handler = |stash: &Stash| stash.step(shared);
    let stash = Stash::new(seed, &step_of_handler);
    let mut kept: Vec<Object> = Vec::with_capacity(KEPT);
    stash.receive(|| {
        let mut chance = Rng::with_seed(seed);
        for _ in 0..steps {
            if shared.live_objects.is_violated() {
                return;
            }
            step(shared, &mut chance, &mut kept);
        }
    });
    if !shared.live_objects.is_violated() {
        kept.into_iter().chain(stash.take_all()).for_each(|object| shared.free(object));
    }
    shared.handled.fetch_add(stash.steps.get(), Relaxed);
    shared.signals.fetch_add(stash.signals.get(), Relaxed);
}

fn step<C: CpuLocal>(shared: &Shared<'_, C>, chance: &mut Rng, kept: &mut Vec<Object>) {
    match chance.u8(..16) {
        0 => {
            let place = &shared.mail[chance.usize(..MAIL)];
            let sent = if kept.is_empty() { None } else { Some(kept.swap_remove(chance.usize(..kept.len()))) };
            shared.exchange(place, sent).into_iter().for_each(|object| shared.free(object));
        }
        1..=8 if kept.len() < KEPT => kept.extend(shared.allocate(shared.size(chance))),
        _ if kept.is_empty() => kept.extend(shared.allocate(shared.size(chance))),
        _ => shared.free(kept.swap_remove(chance.usize(..kept.len()))),
    }
}

/// State of a thread's signal handler.
pub(crate) struct Stash<'a> {
    objects: [Cell<Option<Object>>; STASHED],
    chance: RefCell<Rng>,
    signals: Cell<u64>,
    steps: Cell<u64>,
    step: &'a dyn Fn(&Stash),
}

/// Whether handlers do not use the heap.
static ONLY_COUNT: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    /// The stash of the calling thread, while it receives signals.
    static MINE: Cell<*const Stash<'static>> = const { Cell::new(std::ptr::null()) };
}

impl<'a> Stash<'a> {
    fn new(seed: u64, step: &'a dyn Fn(&Stash)) -> Stash<'a> {
        Stash {
            objects: [const { Cell::new(None) }; STASHED],
            chance: RefCell::new(Rng::with_seed(!seed)),
            signals: Cell::new(0),
            steps: Cell::new(0),
            step,
        }
    }

    /// Runs a test of a primitive that handlers must not use.
    pub(crate) fn with_handlers_that_only_count<R>(run: impl FnOnce() -> R) -> R {
        ONLY_COUNT.store(true, Relaxed);
        let result = run();
        ONLY_COUNT.store(false, Relaxed);
        result
    }

    /// Sends signals to the calling thread while it works.
    fn receive(&self, work: impl FnOnce()) {
        handle(on_signal);
        MINE.set((&raw const *self).cast());
        let timer = Timer::start();
        work();
        drop(timer);
        MINE.set(std::ptr::null());
    }

    /// Frees one of the handler's objects, or allocates one.
    fn step<C: CpuLocal>(&self, shared: &Shared<'_, C>) {
        let mut chance = self.chance.borrow_mut();
        for _ in 0..chance.u8(1..4) {
            let place = &self.objects[chance.usize(..STASHED)];
            match place.take() {
                Some(object) => shared.free(object),
                None => place.set(shared.allocate(shared.size(&mut chance))),
            }
            self.steps.set(self.steps.get() + 1);
        }
    }

    fn take_all(&self) -> impl Iterator<Item = Object> {
        self.objects.iter().filter_map(Cell::take)
    }
}

extern "C" fn on_signal(_: c_int) {
    // SAFETY: `receive` keeps the stash alive while its thread receives signals.
    let Some(stash) = (unsafe { MINE.get().as_ref() }) else { return };
    stash.signals.set(stash.signals.get() + 1);
    if !holds_any() && !ONLY_COUNT.load(Relaxed) {
        (stash.step)(stash);
    }
}
