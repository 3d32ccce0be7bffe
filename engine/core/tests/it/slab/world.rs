//! Small worlds, and a policy for each fast path.

use freehold::base::lock::RawLock;
use freehold::base::{CpuId, NodeId};
use freehold::machine::objects::{HostCpu, with_slab};
use freehold::page::{Config, PageAllocator};
use freehold::platform::NoProbe;
use freehold::platform::host::{CheckedSpinLock, Threads, run_on_cpu};
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabOrder, SlabPolicy, SlabSizes};
use freehold::policy::{Numbers, PcpPolicy, Policy};
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::{KmemCache, SlabAllocator, SlabCensus};

use crate::slab::interfering_local::{Meddler, Meddling};

pub(super) type Slab<'n, 'm, 'l> = SlabAllocator<'n, 'm, Threads<NoProbe>, Meddler<'l>>;
pub(super) type Cache<'s, 'n, 'm, 'l> = KmemCache<'s, 'n, 'm, Threads<NoProbe>, Meddler<'l>>;

/// Number of CPUs of every world.
pub(super) const CPUS: u16 = 5;
/// Frames of a world.
pub(super) const PAGES: u32 = 1 << 11;

/// Sizes of objects of which one, two or three fill a slab.
pub(super) const SIZES: [u32; 3] = [4096, 2048, 1344];

/// Sets the CPU on which the following calls run.
pub(super) fn run_on(cpu: u16) {
    run_on_cpu(CpuId(cpu));
}

/// Returns a policy whose slabs are single pages where an object fits into one, and whose CPUs keep `free_kib` KiB of
/// free slabs.
pub(super) fn policy(objects: SlabPolicy, free_kib: u32) -> Policy {
    let numbers = Numbers {
        slab_min_objects: Some(1),
        slab_max_order: Some(0),
        slab_cpu_free: Some(free_kib),
        ..Numbers::default()
    };
    let mut policy = Policy { pcp: PcpPolicy::Off, numbers, ..Policy::FREEHOLD };
    policy.slab.objects = objects;
    policy
}

/// Returns policies for every fast path: plain with fine sizes, and hardened with Linux's sizes; with limits of no slab
/// and of one slab.
pub(super) fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for (objects, guard) in [
        (SlabPolicy::Tagged, SlabGuard::None),
        (SlabPolicy::PageField, SlabGuard::None),
        (SlabPolicy::PageField, SlabGuard::Preempt),
        (SlabPolicy::Bitmap, SlabGuard::None),
        (SlabPolicy::Sheaves, SlabGuard::None),
        (SlabPolicy::SheavesBitmap, SlabGuard::None),
    ] {
        for (links, order, free_kib, sizes) in [
            (SlabLinks::Plain, SlabOrder::Address, 0, SlabSizes::Fine),
            (SlabLinks::Mangled, SlabOrder::Random, 4, SlabSizes::Linux),
        ] {
            let mut policy = policy(objects, free_kib);
            (policy.slab.guard, policy.slab.links, policy.slab.order) = (guard, links, order);
            policy.slab.sizes = sizes;
            policies.push(policy);
        }
    }
    policies
}

/// Runs `run` on CPU 0 of a world without interference.
pub(super) fn with_world<R>(policy: Policy, run: impl FnOnce(&Slab<'_, '_, '_>) -> R) -> R {
    with_meddler(policy, PAGES, (Meddling::Nothing, 0), run)
}

/// Runs `run` in a world of `pages` frames, with interference in one call of the primitive.
pub(super) fn with_meddler<R>(
    policy: Policy,
    pages: u32,
    (what, at): (Meddling, u64),
    run: impl FnOnce(&Slab<'_, '_, '_>) -> R,
) -> R {
    let (mut run, mut result) = (Some(run), None);
    run_meddled(policy, pages, (what, at), &mut |slab| result = run.take().map(|run| run(slab)));
    result.expect("the test must call its body once")
}

/// Builds the world of [`with_meddler`], and calls `run` once. This function is not generic, so the world is compiled
/// once instead of once per test.
fn run_meddled(policy: Policy, pages: u32, (what, at): (Meddling, u64), run: &mut dyn FnMut(&Slab<'_, '_, '_>)) {
    let nodes = [NodeId(0); CPUS as usize];
    let config = Config { policy, cpu_nodes: &nodes, ..Config::default() };
    let locks: Vec<_> = nodes.iter().map(|_| CheckedSpinLock::new()).collect();
    let local = Meddler::new(CpuLocks::new(&locks, HostCpu), what, at);
    run_on(0);
    let outcome = with_slab(Threads::default(), &config, pages, local, 7, |slab| {
        run(slab);
        assert_eq!(slab.local().pinned(), 0, "preemption must be enabled again");
    });
    outcome.expect("the configuration must be valid")
}

/// Returns the page allocator below the slab.
pub(super) fn pages_of<'s, 'm>(slab: &'s Slab<'_, 'm, '_>) -> &'s PageAllocator<'m, Threads<NoProbe>> {
    // SAFETY: the tests free only pages that they have allocated through this reference.
    unsafe { slab.pages() }
}

/// Checks that nothing is lost, and returns the census.
pub(super) fn check(slab: &Slab<'_, '_, '_>) -> SlabCensus {
    // SAFETY: worlds are checked only when all threads except the caller's have ended.
    unsafe { slab.check() }.expect("the check must find no error")
}

/// Checks that nothing is lost, and that `in_use` objects are in use, apart from sheaves.
pub(super) fn judge(slab: &Slab<'_, '_, '_>, in_use: usize) {
    let census = check(slab);
    let found = census.objects - census.free - census.sheaves;
    assert_eq!(found, in_use as u64, "objects in use");
}

/// Checks that all slabs and pages are free after a shrink, except for `left` pages that are allocated elsewhere.
pub(super) fn judge_empty(slab: &Slab<'_, '_, '_>, left: u64) {
    slab.shrink();
    judge(slab, 0);
    assert_eq!(check(slab).slabs, 0, "slabs are left");
    assert_eq!(pages_of(slab).check().expect("the check must find no error").allocated, left, "pages are left");
}
