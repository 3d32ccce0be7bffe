//! Model checks of sheaves that move between CPUs, under every order of steps that the memory model allows.
//!
//! The machine is that of the slab's other scenes ([`objects`](crate::objects)), but with memory for sheaves, which have room for four
//! objects. CPUs exchange full sheaves for empty ones in their node's barn. A CPU's main sheaf is replaced while other
//! threads pop from it, push into it, or take it away. A section only loads and stores the length of a main sheaf. So
//! if a main sheaf is replaced outside of a section, or without waiting for running sections, an object is allocated
//! twice.
use freehold::base::CpuId;
use freehold::base::fault::Fault;
use freehold::policy::slab::SlabPolicy;

use crate::objects::{HALF, LEFT, Object, Scene, look_back_after, run_on};
use crate::world::{finds, in_every_order};

/// Maximum number of orders of a scene.
const ORDERS_MAX: usize = 3_000;
/// Capacity of a sheaf in objects.
const CAPACITY: usize = 4;

/// Upper limit of the number of reads of its CPU that a thread makes in a scene.
const LOOKS_MAX: u32 = 24;

/// Action of one thread of a scene. The thread has an object of its own, which it may free.
type Act = fn(&Scene, Object);

/// Runs `set_up` on CPU 0, then the acts, each in a thread that begins on the given CPU, in every order with two
/// preemptions.
#[track_caller]
fn run<const N: usize>(set_up: fn(&Scene), acts: [(u16, Act); N]) {
    let orders = run_then(2, set_up, acts, |_| ());
    println!("{orders} orders");
    assert!(orders >= 5, "only {orders} orders: the scene does not meet");
}

/// Runs one act on its CPU.
fn play(scene: &Scene, (cpu, act): (u16, impl Fn(&Scene, Object)), own: Object) {
    run_on(cpu);
    act(scene, own);
}

/// Runs a scene with this number of preemptions and then `then` on CPU 1. Returns the number of orders, which may be
/// small.
fn run_then<const N: usize>(
    preemptions: usize,
    set_up: fn(&Scene),
    acts: [(u16, impl Fn(&Scene, Object) + Send + Sync + Copy + 'static); N],
    then: fn(&Scene),
) -> usize {
    in_every_order(preemptions, ORDERS_MAX, move || {
        run_on(0);
        let scene = Scene::with_sheaves(SlabPolicy::SheavesBitmap, HALF);
        let own: [Object; N] = std::array::from_fn(|_| scene.alloc());
        set_up(scene);
        assert!(scene.check().sheaves > 0, "there is memory for sheaves");
        let spawned = (1..N).map(|at| loom::thread::spawn(move || play(scene, acts[at], own[at])));
        let others = spawned.collect::<Vec<_>>();
        play(scene, acts[0], own[0]);
        others.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        run_on(1);
        then(scene);
        scene.judge();
    })
}

fn alloc_one(scene: &Scene, _: Object) {
    scene.alloc();
}

fn free_own(scene: &Scene, own: Object) {
    scene.free(own);
}

fn shrink(scene: &Scene, _: Object) {
    scene.cache.shrink();
}

/// Allocates until this CPU has no object left. It has no second sheaf yet, and its only one is always filled
/// completely.
fn use_up(scene: &Scene) {
    while scene.in_use() % CAPACITY > 0 {
        scene.alloc();
    }
}

fn free_some(scene: &Scene, objects: &mut Vec<Object>, count: usize) {
    objects.drain(..count).for_each(|object| scene.free(object));
}

/// Allocates the objects of `sheaves` sheaves, after the objects that this CPU had.
fn objects_of(scene: &Scene, sheaves: usize) -> Vec<Object> {
    use_up(scene);
    (0..sheaves * CAPACITY).map(|_| scene.alloc()).collect()
}

/// Gives CPU 0 two full sheaves.
fn two_full(scene: &Scene) {
    let mut objects = objects_of(scene, 2);
    free_some(scene, &mut objects, 2 * CAPACITY);
}

/// Gives CPU 0 an empty main sheaf and a full spare.
fn main_empty(scene: &Scene) {
    two_full(scene);
    (0..CAPACITY).for_each(|_| _ = scene.alloc());
}

/// Gives CPU 0 two full sheaves, CPU 1 two empty ones, and the barn a full one.
fn barn_between(scene: &Scene) {
    let mut objects = objects_of(scene, 5);
    free_some(scene, &mut objects, 2 * CAPACITY);
    run_on(1);
    free_some(scene, &mut objects, 2 * CAPACITY);
    (0..2 * CAPACITY).for_each(|_| _ = scene.alloc());
    run_on(0);
    free_some(scene, &mut objects, CAPACITY);
}

#[test]
fn full_and_empty_sheaf_exchange_in_the_barn() {
    run(barn_between, [(0, free_own), (1, alloc_one)]);
}

#[test]
fn barn_shrink_during_an_exchange() {
    run(barn_between, [(0, free_own), (1, alloc_one), (2, shrink)]);
}

#[test]
fn main_sheaf_replacement_during_a_drain() {
    replaced_while_drained();
}

fn replaced_while_drained() {
    run(main_empty, [(1, shrink), (0, alloc_one)]);
}

#[test]
fn drain_during_pop_and_push() {
    drained_while_used();
}

fn drained_while_used() {
    run(two_full, [(1, shrink), (0, alloc_and_free)]);
}

/// Allocates an object, and frees the thread's own.
fn alloc_and_free(scene: &Scene, own: Object) {
    scene.alloc();
    scene.free(own);
}

/// Runs a scene in which a thread that was moved to CPU 1 reads its previous CPU once, at each of its reads in turn.
/// The operation that it had begun there is then outdated, and other threads run on that CPU.
fn moved_at_each_look(set_up: fn(&Scene), other: (u16, Act), moved: Act, then: fn(&Scene)) {
    let orders = (0..LOOKS_MAX).map(|looks| {
        let both = [(other.0, other.1, None), (1, moved, Some(looks))];
        let acts = both.map(|(cpu, act, looks)| {
            (cpu, move |scene: &Scene, own: Object| {
                look_back_after(looks);
                act(scene, own);
                look_back_after(None);
            })
        });
        run_then(1, set_up, acts, then)
    });
    println!("{} orders", orders.sum::<usize>());
}

#[test]
fn migrated_caller_does_not_replace_the_main_sheaf() {
    left_alone_by_who_was_moved();
}

/// The objects taken from the CPU go to the barn, where the moved thread finds them.
fn left_alone_by_who_was_moved() {
    moved_at_each_look(two_full, (0, alloc_one), free_and_alloc_two, |_| ());
}

/// Frees the thread's own object, and allocates two.
fn free_and_alloc_two(scene: &Scene, own: Object) {
    scene.free(own);
    (0..2).for_each(|_| _ = scene.alloc());
}

#[test]
fn offline_cpu_keeps_no_sheaf() {
    left_offline();
}

fn left_offline() {
    moved_at_each_look(two_full, (2, |scene, _| scene.slab.cpu_dead(LEFT)), alloc_one, |scene| {
        [1, 2].into_iter().for_each(|cpu| scene.slab.cpu_dead(CpuId(cpu)));
        let slabs = scene.cache.slabs();
        scene.alloc_bulk(2 * slabs as usize - scene.in_use());
        assert_eq!(scene.cache.slabs(), slabs, "a slab was created although an object was free");
    });
}

#[test]
fn planted_taking_faults_are_found() {
    finds(Fault::DisownsUnfenced, drained_while_used);
}

#[test]
fn planted_replacement_faults_are_found() {
    finds(Fault::ReplacesOutside, left_alone_by_who_was_moved);
    finds(Fault::KeepsOffline, left_offline);
}
