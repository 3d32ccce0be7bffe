//! Model checks of objects that return to their slab, under every order of steps that the memory model allows.
//!
//! The machine is loom's ([`world`](crate::world)): 64 frames, three CPUs, and one cache whose slabs are single pages of two or three
//! objects. Sections are locks ([`Locked`]). The exchange of a drain takes no lock, so it can happen at any point
//! within a section. In each scene two or three threads access one slab, some of them on the same CPU. During a scene
//! no object is allocated twice. Afterwards every list is consistent, every slab with free objects can be found, and
//! when all objects are freed, all memory is free.
use std::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::base::fault::Fault;
use freehold::policy::slab::SlabPolicy;

use crate::objects::{HALF, LEFT, Objects, Scene, THIRD, look_back_after, run_on};
use crate::world::{finds, in_every_order};

/// Maximum number of orders of a scene.
const ORDERS_MAX: usize = 20_000;
/// Policies under which scenes run.
const POLICIES: [SlabPolicy; 5] =
    [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap, SlabPolicy::Sheaves, SlabPolicy::SheavesBitmap];

/// Action of one thread of a scene.
type Act = fn(&Scene, Objects);

/// Runs `set_up` on CPU 0, then the acts, each in a thread that begins on the given CPU, in every order with two
/// preemptions, and finally `then` on CPU 1. The scene is repeated under every policy. In these scenes there is no
/// memory for sheaves, so under the policies with sheaves each object returns to its slab alone, and slabs have no
/// owner.
#[track_caller]
fn run<const N: usize>(size: u32, set_up: fn(&Scene) -> Objects, acts: [(u16, Act); N], then: fn(&Scene)) {
    POLICIES.into_iter().for_each(|objects| run_under(objects, size, set_up, acts, then));
}

/// Runs one act on its CPU.
fn play(scene: &Scene, (cpu, act): (u16, Act), objects: Objects) {
    run_on(cpu);
    act(scene, objects);
}

/// Runs a scene as [`run`] does, under one policy.
#[track_caller]
fn run_under<const N: usize>(
    policy: SlabPolicy,
    size: u32,
    set_up: fn(&Scene) -> Objects,
    acts: [(u16, Act); N],
    then: fn(&Scene),
) {
    let orders = in_every_order(2, ORDERS_MAX, move || {
        run_on(0);
        let scene = Scene::new(policy, size);
        let objects = set_up(scene);
        let spawned = acts[1..].iter().map(|&act| loom::thread::spawn(move || play(scene, act, objects)));
        let others = spawned.collect::<Vec<_>>();
        play(scene, acts[0], objects);
        others.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        run_on(1);
        then(scene);
        scene.judge();
    });
    println!("{orders} orders");
    // Some scenes are about ownership, which does not exist under sheaves.
    assert!(orders >= 5 || policy.has_sheaves(), "only {orders} orders under {policy:?}: the scene does not meet");
}

fn alloc_one(scene: &Scene, _: Objects) {
    scene.alloc();
}

fn shrink(scene: &Scene, _: Objects) {
    scene.cache.shrink();
}

fn free_first(scene: &Scene, [one, ..]: Objects) {
    scene.free(one);
}

fn free_second(scene: &Scene, [_, two, _]: Objects) {
    scene.free(two);
}

fn free_second_and_alloc(scene: &Scene, [_, two, _]: Objects) {
    scene.free(two);
    scene.alloc();
}

fn nothing(_: &Scene) {}

#[test]
fn remote_free_at_the_end_of_the_owners_list() {
    POLICIES.into_iter().for_each(freed_elsewhere);
}

/// The thread that gets the object sees the data that was written to it before the free.
fn freed_elsewhere(objects: SlabPolicy) {
    run_under(objects, HALF, Scene::fill, [(0, alloc_and_read), (1, write_and_free)], nothing);
}

/// Writes to the first object, and frees it.
fn write_and_free(scene: &Scene, [one, ..]: Objects) {
    scene.mark.store(1, Relaxed);
    scene.free(one);
}

/// Allocates an object, and asserts that the mark is visible if it is the first object.
fn alloc_and_read(scene: &Scene, [one, ..]: Objects) {
    let is_marked = scene.alloc() != one || scene.mark.load(Relaxed) == 1;
    assert!(is_marked, "what was written before the free is not seen");
}

#[test]
fn first_owner_free_and_remote_free() {
    run(HALF, Scene::used_up, [(0, free_first), (1, free_second)], nothing);
}

#[test]
fn node_slab_taken_during_a_remote_free() {
    run(HALF, Scene::at_node, [(0, alloc_one), (1, free_second_and_alloc)], nothing);
}

#[test]
fn slab_settled_during_a_remote_free() {
    settled_while_freed_into();
}

fn settled_while_freed_into() {
    run(THIRD, use_up_and_free_first, [(2, shrink), (1, free_second_and_alloc)], nothing);
}

/// Allocates all objects of a slab, and frees the first.
fn use_up_and_free_first(scene: &Scene) -> Objects {
    let objects = scene.used_up();
    scene.free(objects[0]);
    objects
}

#[test]
fn list_drain_during_a_remote_free() {
    run(HALF, Scene::fill, [(2, shrink), (1, free_second_and_alloc)], nothing);
}

#[test]
fn list_drain_during_local_and_remote_frees() {
    run(HALF, Scene::fill, [(2, shrink), (0, free_first), (1, free_second_and_alloc)], nothing);
}

#[test]
fn list_drain_during_pop_and_push() {
    drained_while_used();
}

fn drained_while_used() {
    run(THIRD, |scene| [scene.alloc(), 0, 0], [(1, shrink), (0, alloc_and_free_first)], nothing);
}

/// Allocates an object, and frees the first.
fn alloc_and_free_first(scene: &Scene, [one, ..]: Objects) {
    scene.alloc();
    scene.free(one);
}

#[test]
fn first_owner_free_at_the_end_of_the_slab() {
    first_free_meets_the_end();
}

fn first_free_meets_the_end() {
    run(HALF, Scene::used_up, [(0, free_first), (1, free_second_shrink_and_alloc)], nothing);
}

/// Frees the second object, shrinks the cache, and allocates two.
fn free_second_shrink_and_alloc(scene: &Scene, objects: Objects) {
    free_second_and_shrink(scene, objects);
    (0..2).for_each(|_| _ = scene.alloc());
}

/// Frees the second object, and shrinks the cache.
fn free_second_and_shrink(scene: &Scene, objects: Objects) {
    free_second(scene, objects);
    scene.cache.shrink();
}

/// The CPU that freed the last object but one has not pushed the slab yet when the slab becomes wholly free.
#[test]
fn slab_freed_during_a_pending_push() {
    run(HALF, Scene::used_up, [(1, free_first), (2, free_second_and_shrink)], nothing);
}

#[test]
fn slab_takeover_during_an_owner_free() {
    taken_over_while_freed_into();
}

fn taken_over_while_freed_into() {
    run(THIRD, use_up_and_free_first, [(1, shrink), (0, free_second)], nothing);
}

#[test]
fn cpu_offline_during_a_slab_push() {
    let acts: [(u16, Act); 2] = [(2, |scene, _| scene.slab.cpu_dead(CpuId(0))), (1, free_first)];
    run(HALF, Scene::used_up, acts, all_are_found);
}

/// Asserts that a CPU without objects finds all free objects.
fn all_are_found(scene: &Scene) {
    let census = scene.check();
    (0..census.free).for_each(|_| _ = scene.alloc());
    assert_eq!(scene.cache.slabs(), census.slabs, "a slab was created although an object was free");
}

#[test]
fn two_slab_pushes_to_an_offline_cpu() {
    pushed_offline();
}

fn pushed_offline() {
    run(HALF, fill_two_and_go_offline, [(1, free_first), (2, free_second)], all_are_found);
}

/// Fills two slabs on CPU 0, and takes the CPU offline; returns an object of each.
fn fill_two_and_go_offline(scene: &Scene) -> Objects {
    let ([one, ..], [two, ..]) = (scene.fill(), scene.used_up());
    scene.slab.cpu_dead(CpuId(0));
    [one, two, 0]
}

/// The thread that refills for that CPU has been moved to another CPU, and takes the slab that was just pushed.
#[test]
fn slab_push_to_an_offline_cpu_during_a_refill() {
    run(HALF, use_up_and_go_offline, [(2, alloc_after_two_looks), (1, free_first)], all_are_found);
}

/// Allocates all objects of a slab on CPU 0, takes that CPU offline, and continues on CPU 1.
fn use_up_and_go_offline(scene: &Scene) -> Objects {
    let [one, ..] = scene.used_up();
    scene.slab.cpu_dead(LEFT);
    run_on(1);
    [one, 0, 0]
}

/// Allocates an object after two reads of the CPU, by sections that find no object.
fn alloc_after_two_looks(scene: &Scene, _: Objects) {
    look_back_after(Some(2));
    scene.alloc();
    look_back_after(None);
}

/// The number of slabs that wait for a CPU exceeds the limit, and the CPU that freed into the last one gives all of
/// them to the node.
#[test]
fn owner_checks_its_slabs_above_the_waiting_limit() {
    run(HALF, fill_five, [(0, alloc_three), (1, free_second)], nothing);
}

/// Fills five slabs, and makes CPU 1 free into four of which CPU 0 freed an object; returns the objects of the fifth.
fn fill_five(scene: &Scene) -> Objects {
    let [slab, others @ ..] = core::array::from_fn::<_, 5, _>(|_| scene.fill());
    scene.alloc();
    scene.free(slab[0]);
    others.iter().for_each(|&[one, ..]| scene.free(one));
    run_on(1);
    others.iter().for_each(|&[_, two, _]| scene.free(two));
    run_on(0);
    slab
}

fn alloc_three(scene: &Scene, _: Objects) {
    (0..3).for_each(|_| _ = scene.alloc());
}

/// Too many slabs wait for a CPU, so one of them goes to the node while its owner frees into it.
#[test]
fn waiting_slabs_move_to_the_node_during_an_owner_free() {
    waiting_slabs_go();
}

fn waiting_slabs_go() {
    run(THIRD, fill_five, [(1, free_second), (0, |scene, [.., three]| scene.free(three))], nothing);
}

/// The second thread has preempted the first on the same CPU.
#[test]
fn free_into_a_slab_becoming_current() {
    run(HALF, fill_two_and_free_first, [(0, alloc_one), (0, free_second)], nothing);
}

/// Fills two slabs, and frees an object of the first; returns the objects of the first.
fn fill_two_and_free_first(scene: &Scene) -> Objects {
    let objects = fill_two(scene);
    scene.free(objects[0]);
    objects
}

#[test]
fn two_refills_of_one_cpu() {
    run(HALF, Scene::at_node, [(0, alloc_one), (0, alloc_one)], nothing);
}

/// The slab is on no list yet when its last object in use is freed, so the other CPU has to detect that it is wholly
/// free.
#[test]
fn two_frees_that_empty_a_full_node_slab() {
    two_free_all();
}

fn two_free_all() {
    run(HALF, fill_two, [(0, free_first), (1, free_second)], Scene::free_all);
}

/// Fills two slabs; returns the objects of the first.
fn fill_two(scene: &Scene) -> Objects {
    let first = scene.fill();
    scene.fill();
    first
}

#[test]
fn planted_drain_faults_are_found() {
    finds(Fault::DrainLooksOnce, drained_while_used);
    finds(Fault::DisownsUnfenced, taken_over_while_freed_into);
    finds(Fault::DisownsUnfenced, waiting_slabs_go);
}

#[test]
fn planted_ordering_faults_are_found() {
    for objects in POLICIES {
        finds(Fault::PushUnreleased, || freed_elsewhere(objects));
        // Without owners, the thread that takes all objects of a slab then releases the slab, and that atomic step
        // orders it with the other thread.
        if !objects.has_sheaves() {
            finds(Fault::TakeUnacquired, || freed_elsewhere(objects));
        }
    }
}

#[test]
fn planted_hold_faults_are_found() {
    finds(Fault::MeetsNobody, two_free_all);
    finds(Fault::TakesQueue, settled_while_freed_into);
    finds(Fault::LetsGoEarly, settled_while_freed_into);
    finds(Fault::FreesUnlocked, first_free_meets_the_end);
    finds(Fault::ClosedIsTried, pushed_offline);
}
