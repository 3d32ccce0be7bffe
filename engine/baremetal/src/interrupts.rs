//! Timer interrupts whose handlers allocate and free, regardless of the code that they interrupt. They record the
//! address at which they came.

use alloc::boxed::Box;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64};

use freehold::base::{Gfp, Order};

use crate::address_set::AddressSet;
use crate::arch::{self, CPUS_MAX};
use crate::hardware::KERNEL;
use crate::paths;

/// State of the interrupt handlers of one CPU.
pub struct HandlerState {
    /// Number of ticks. `requests` is the number of ticks that made a request.
    pub ticks: AtomicU64,
    pub requests: AtomicU64,
    /// Number of requests that found no memory.
    pub refused: AtomicU64,
    is_in_handler: AtomicBool,
    /// Object that the last handler allocated and left for the next one to free.
    left: AtomicPtr<u8>,
}

/// Handler state of each CPU.
pub static HANDLERS: [HandlerState; CPUS_MAX as usize] = [const {
    HandlerState {
        ticks: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        is_in_handler: AtomicBool::new(false),
        left: AtomicPtr::new(null_mut()),
    }
}; CPUS_MAX as usize];

/// Current work of the handlers: a [`TickWork`].
static TICK_WORK: AtomicU8 = AtomicU8::new(TickWork::Count as u8);

/// Addresses at which a tick came.
pub static TICKS_AT: AddressSet = AddressSet::new();
/// Addresses at which a tick interrupted a fast path, among the ticks set for this purpose.
pub static TICKS_IN_PATHS: AddressSet = AddressSet::new();
/// Addresses at which the processor single-stepped with interrupts on, so that a tick could have come there.
pub static STOPS_AT: AddressSet = AddressSet::new();

/// Timer count that is so large that no tick comes during a test.
pub const FAR: u32 = 1 << 30;

/// Returns whether this CPU is in a handler.
pub fn is_in_handler() -> bool {
    HANDLERS[usize::from(arch::cpu())].is_in_handler.load(Relaxed)
}

/// Sets the work of all handlers from now on.
pub fn set_tick_work(work: TickWork) {
    TICK_WORK.store(work as u8, Relaxed);
}

/// Work of a handler at each tick.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TickWork {
    /// Handlers only count.
    Count,
    /// Handlers allocate or free, with another kind of request at each tick.
    Allocate,
    /// Handlers execute the fast paths themselves, and ticks come only when they are set.
    WalkPaths,
}

/// Handles a tick that came at this address. Returns the timer count until the next tick.
pub fn tick(address: usize) -> u32 {
    let began = arch::clock();
    let here = &HANDLERS[usize::from(arch::cpu())];
    let tick = here.ticks.load(Relaxed);
    here.ticks.store(tick + 1, Relaxed);
    TICKS_AT.insert(address);
    let work = TICK_WORK.load(Relaxed);
    if work == TickWork::WalkPaths as u8 && arch::cpu() == 0 {
        if paths::is_walking() {
            TICKS_IN_PATHS.insert(address);
        }
        here.handle(|| here.walk_paths(tick));
        return FAR;
    }
    if work == TickWork::Allocate as u8 {
        here.handle(|| here.work(tick));
    }
    // The interval varies, so that ticks do not synchronize with the code. The interrupted code gets at least as much
    // time as the handler took, even on a slow machine.
    let spread = (tick.wrapping_mul(0x9e37_79b9) >> 16) as u32 % arch::TICK_SPREAD;
    arch::TICK_MIN + spread + arch::clock().wrapping_sub(began) as u32
}

impl HandlerState {
    fn handle(&self, work: impl FnOnce()) {
        self.is_in_handler.store(true, Relaxed);
        work();
        self.is_in_handler.store(false, Relaxed);
    }

    /// Executes the fast paths, which take the cached objects and pages that the interrupted path may be about to take.
    /// In turn it leaves an object allocated, and frees it at the next tick.
    fn walk_paths(&self, tick: u64) {
        self.requests.store(self.requests.load(Relaxed) + 1, Relaxed);
        paths::PATHS.iter().for_each(|path| (path.walk)());
        let object = if tick.is_multiple_of(2) { KERNEL.kmalloc(64, Gfp::ATOMIC).ok() } else { None };
        self.leave(object.map_or(null_mut(), NonNull::as_ptr));
    }

    /// Makes one request of each kind in turn. An object stays allocated until the next tick.
    fn work(&self, tick: u64) {
        self.requests.store(self.requests.load(Relaxed) + 1, Relaxed);
        let is_served = match tick % 4 {
            0 => KERNEL
                .kmalloc(8 + (tick as usize * 37) % 2000, Gfp::ATOMIC)
                .map(|object| self.leave(object.as_ptr()))
                .is_ok(),
            1 => KERNEL.alloc_pages(Gfp::ATOMIC, Order::new((tick / 4 % 3) as u8)).is_ok(),
            2 => can_box(tick),
            _ => {
                self.leave(null_mut());
                true
            }
        };
        if !is_served {
            self.refused.store(self.refused.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Stores an object for the next handler, and frees the one stored before.
    fn leave(&self, object: *mut u8) {
        if let Some(former) = NonNull::new(self.left.swap(object, Acquire)) {
            // SAFETY: a handler of this CPU allocated the object and stored it, and the swap above removed the only
            // reference to it.
            unsafe { KERNEL.kfree(former) }.expect("the object is allocated");
        }
    }
}

/// Returns whether a box can be allocated, and drops it. Stable `Box` has no fallible constructor.
fn can_box(value: u64) -> bool {
    let layout = core::alloc::Layout::new::<u64>();
    // SAFETY: the layout has a non-zero size. The memory is written before it becomes a box of the same layout, which
    // frees it.
    unsafe {
        let memory = alloc::alloc::alloc(layout).cast::<u64>();
        if memory.is_null() {
            return false;
        }
        memory.write(value);
        let boxed = Box::from_raw(memory);
        *boxed == value
    }
}

/// Frees the objects that handlers have left. Called after handlers have stopped allocating.
pub fn clear() {
    HANDLERS.iter().for_each(|cpu| cpu.leave(null_mut()));
}
