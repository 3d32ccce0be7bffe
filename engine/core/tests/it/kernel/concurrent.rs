//! Concurrent CPUs: four CPUs allocate, free each other's memory, shrink and drain each other. The test holds none of
//! its own locks while it calls the kernel, because a thread that waits for such a lock would not answer calls, unlike
//! a CPU.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Barrier, Mutex};

use freehold::base::{CpuId, Gfp, Order};
use freehold::kernel::{Boot, Cpu, Pages, Region};

use crate::kernel::machine::{
    FourCpus, Hooks, MIB, Machine, audit, boot, fill_with_objects, free_objects, init, install, spawn_cpu, stand_for,
    take_all_pages, touch,
};

type Storm = Machine<FourCpus>;

/// An object, its size, and the byte that fills it.
struct FilledObject {
    address: usize,
    size: usize,
    fill: u8,
}

impl FilledObject {
    fn new(size: usize, fill: u8) -> Option<FilledObject> {
        let object = Storm::kernel().kmalloc(size, Gfp::KERNEL).ok()?;
        // SAFETY: the object has at least `size` bytes and was just allocated.
        unsafe { object.write_bytes(fill, size) };
        Some(FilledObject { address: object.as_ptr().expose_provenance(), size, fill })
    }

    fn free(self) {
        let object = core::ptr::NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(self.address)).unwrap();
        // SAFETY: this value owns the object of `size` bytes, and the object is not used after the free.
        unsafe {
            assert!(
                (0..self.size).all(|at| object.add(at).read() == self.fill),
                "the object's bytes were changed by another thread"
            );
            Storm::kernel().kfree(object).unwrap();
        }
    }
}

const STEPS: u32 = if cfg!(debug_assertions) { 12_000 } else { 60_000 };

/// Memory that any CPU may free, and the number of CPUs that still work.
struct Shared {
    objects: Mutex<Vec<FilledObject>>,
    pages: Mutex<Vec<Pages<Storm>>>,
    running: AtomicU32,
}

/// Does the work of this CPU, and then answers calls until all CPUs have finished.
fn work_as(cpu: u16, shared: &Shared) {
    stand_for::<FourCpus>(
        || shared.running.load(Acquire) == 0,
        || {
            let mut random = fastrand::Rng::with_seed(cpu.into());
            for step in 0..STEPS {
                take_step(step, &mut random, shared);
            }
            shared.running.fetch_sub(1, Release);
        },
    );
}

fn take_step(step: u32, random: &mut fastrand::Rng, shared: &Shared) {
    let kernel = Storm::kernel();
    match random.u8(0..16) {
        0..6 => {
            let object = FilledObject::new(random.usize(1..9000), random.u8(..));
            shared.objects.lock().unwrap().extend(object);
        }
        6..11 => {
            let mut all = shared.objects.lock().unwrap();
            let at = random.usize(0..all.len().max(1));
            let taken = (at < all.len()).then(|| all.swap_remove(at));
            drop(all);
            taken.into_iter().for_each(FilledObject::free);
        }
        11..13 => {
            let block = kernel.alloc_pages(Gfp::KERNEL, Order::new(random.u8(0..4)));
            shared.pages.lock().unwrap().extend(block);
        }
        13..15 => {
            let block = shared.pages.lock().unwrap().pop();
            drop(block);
        }
        _ if step.is_multiple_of(64) => kernel.shrink(),
        _ => kernel.slab().unwrap().drain_cpu(CpuId(random.u16(0..4))),
    }
}

#[test]
fn concurrent_use_by_all_cpus_loses_nothing() {
    boot::<FourCpus>(64);
    let before = audit::<FourCpus>();
    let shared = Shared { objects: Mutex::default(), pages: Mutex::default(), running: AtomicU32::new(4) };
    std::thread::scope(|scope| {
        for cpu in 1..4 {
            let shared = &shared;
            spawn_cpu(scope, cpu, move || work_as(cpu, shared));
        }
        work_as(0, &shared);
    });
    shared.objects.into_inner().unwrap().into_iter().for_each(FilledObject::free);
    drop(shared.pages);
    retire();
    assert_eq!(audit::<FourCpus>(), before);
}

/// Takes the other CPUs offline, so that their objects are returned.
fn retire() {
    for cpu in 1..4 {
        // SAFETY: no thread runs as this CPU any more.
        unsafe { Storm::kernel().cpu_dead(CpuId(cpu)) };
    }
    touch::<FourCpus>();
}

/// Flags of a request that uses all reserves.
const EMERGENCY: Gfp = Gfp::ATOMIC.union(Gfp::MEMALLOC);

/// Number of machines whose CPUs race.
const RACES: usize = if cfg!(miri) { 2 } else { 8 };

/// Adds 64 MiB from `start` MiB on, once all CPUs have reached the barrier. Returns the number of free frames.
fn add_half_of_section(start: u64, barrier: &Barrier) -> u32 {
    barrier.wait();
    // SAFETY: the memory of the machine covers this range, and nothing else uses it.
    unsafe { Storm::kernel().add_memory(start * MIB..(start + 64) * MIB) }.unwrap()
}

/// Both calls find that the section of 128 MiB has no metadata, and each half holds a copy of the metadata.
#[test]
fn concurrent_add_memory_in_one_section() {
    for _ in 0..RACES {
        install::<FourCpus>(Hooks::default());
        let boot = Boot { end_max: 256 * MIB, ..Boot::default() };
        init::<FourCpus>(&[Region::usable(0, 8 * MIB)], 256, &boot).unwrap();
        let kernel = Storm::kernel();
        let at_boot = take_all_pages(kernel, EMERGENCY);
        let barrier = &Barrier::new(2);
        let free = std::thread::scope(|scope| {
            let cpus = [(0, 128), (1, 192)]
                .map(|(cpu, start)| spawn_cpu(scope, cpu, move || add_half_of_section(start, barrier)));
            cpus.map(|cpu| cpu.join().unwrap())
        });
        assert!(free.iter().all(|free| (15_000..=16_384).contains(free)), "{free:?} of 16384 frames are free");
        let before = audit::<FourCpus>();
        let added = take_all_pages(kernel, EMERGENCY);
        assert_eq!(added.len() as u32, free[0] + free[1], "all free frames can be allocated");
        drop(added);
        let objects = fill_with_objects(kernel, 32 << 10);
        let count = objects.len();
        let upper = free_objects(kernel, objects, 192 * MIB);
        assert!(upper > 1900 && count - upper > 1900, "{upper} of {count} objects are in the upper half");
        assert_eq!(audit::<FourCpus>(), before);
        drop(at_boot);
        audit::<FourCpus>();
    }
}
