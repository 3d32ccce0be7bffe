//! Timer interrupts that allocate and free, in the middle of whatever they interrupt, and note where that was.

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
    /// Interrupts that came, and requests that they made.
    pub ticks: AtomicU64,
    pub requests: AtomicU64,
    /// Requests that found no memory.
    pub refused: AtomicU64,
    is_in_handler: AtomicBool,
    /// An object that the last handler left, and its size.
    left: AtomicPtr<u8>,
}

/// Handlers of each CPU.
pub static HANDLERS: [HandlerState; CPUS_MAX as usize] = [const {
    HandlerState {
        ticks: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        is_in_handler: AtomicBool::new(false),
        left: AtomicPtr::new(null_mut()),
    }
}; CPUS_MAX as usize];

/// Work of the handlers: a [`TickWork`].
static TICK_WORK: AtomicU8 = AtomicU8::new(TickWork::Count as u8);

/// Addresses at which a tick came.
pub static TICKS_AT: AddressSet = AddressSet::new();
/// Addresses in fast paths at which a tick came that was meant for a fast path.
pub static TICKS_IN_PATHS: AddressSet = AddressSet::new();
/// Addresses at which the processor stopped with interrupts on, so that one could have come.
pub static STOPS_AT: AddressSet = AddressSet::new();

/// So long until a tick, in any timer's units, that it does not disturb what is done meanwhile.
pub const FAR: u32 = 1 << 30;

/// Whether this CPU is in a handler.
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
    /// They only count.
    Count,
    /// They allocate or free, one thing in turn.
    Allocate,
    /// They go through the fast paths themselves; and no tick comes before it is asked for.
    WalkPaths,
}

/// A tick came at this address. Returns how long until the next, in the timer's units.
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
    // Not in step with anything; and what is interrupted has as long as what interrupts it, however slow the machine
    // is.
    let spread = (tick.wrapping_mul(0x9e37_79b9) >> 16) as u32 % arch::TICK_SPREAD;
    arch::TICK_MIN + spread + arch::clock().wrapping_sub(began) as u32
}

impl HandlerState {
    fn handle(&self, work: impl FnOnce()) {
        self.is_in_handler.store(true, Relaxed);
        work();
        self.is_in_handler.store(false, Relaxed);
    }

    /// Takes what the interrupted path may be about to take, and leaves it, or what it is about to give back.
    fn walk_paths(&self, tick: u64) {
        self.requests.store(self.requests.load(Relaxed) + 1, Relaxed);
        paths::PATHS.iter().for_each(|path| (path.walk)());
        let object = if tick.is_multiple_of(2) { KERNEL.kmalloc(64, Gfp::ATOMIC).ok() } else { None };
        self.leave(object.map_or(null_mut(), NonNull::as_ptr));
    }

    /// One request of each kind, in turn; an object stays until the next tick.
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

    /// Leaves an object, and frees the one that was left before.
    fn leave(&self, object: *mut u8) {
        if let Some(former) = NonNull::new(self.left.swap(object, Acquire)) {
            // SAFETY: it was left by a handler of this CPU, and nobody else has it.
            unsafe { KERNEL.kfree(former) }.expect("it is an object");
        }
    }
}

/// Whether a box of this could be had, for which the stable `Box` has no word; it is dropped.
fn can_box(value: u64) -> bool {
    let layout = core::alloc::Layout::new::<u64>();
    // SAFETY: the layout has bytes, and the memory is given back at once.
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

/// Frees what handlers have left, once they are not busy any more.
pub fn clear() {
    HANDLERS.iter().for_each(|cpu| cpu.leave(null_mut()));
}
