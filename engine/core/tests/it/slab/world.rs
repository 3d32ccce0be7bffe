//! Small worlds, one for each policy.

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

use crate::slab::meddler::{Meddler, Meddling};

pub(super) type Slab<'n, 'm, 'l> = SlabAllocator<'n, 'm, Threads<NoProbe>, Meddler<'l>>;
pub(super) type Cache<'s, 'n, 'm, 'l> = KmemCache<'s, 'n, 'm, Threads<NoProbe>, Meddler<'l>>;

/// CPUs of every world.
pub(super) const CPUS: u16 = 5;
/// Frames of a world.
pub(super) const PAGES: u32 = 1 << 11;

/// Objects of these sizes are alone in their slab, or share it with one or two others.
pub(super) const SIZES: [u32; 3] = [4096, 2048, 1344];

/// What comes next runs on this CPU.
pub(super) fn run_on(cpu: u16) {
    run_on_cpu(CpuId(cpu));
}

/// A policy whose slabs are single pages where an object fits into one, and whose CPUs keep so many KiB of free slabs.
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

/// Every way of objects to a CPU, plain with fine sizes and hardened with Linux's, with limits of no slab and of one.
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

/// Runs in a world where nobody meddles, on CPU 0.
pub(super) fn with_world<R>(policy: Policy, run: impl FnOnce(&Slab<'_, '_, '_>) -> R) -> R {
    with_meddler(policy, PAGES, (Meddling::Nothing, 0), run)
}

/// Runs in a world of so many frames where somebody meddles with one call of the primitive.
pub(super) fn with_meddler<R>(
    policy: Policy,
    pages: u32,
    (what, at): (Meddling, u64),
    run: impl FnOnce(&Slab<'_, '_, '_>) -> R,
) -> R {
    let (mut run, mut result) = (Some(run), None);
    run_meddled(policy, pages, (what, at), &mut |slab| result = run.take().map(|run| run(slab)));
    result.expect("a world runs once")
}

/// Builds the world of [`with_meddler`], and calls `run` once. The world is compiled once, and not for each test.
fn run_meddled(policy: Policy, pages: u32, (what, at): (Meddling, u64), run: &mut dyn FnMut(&Slab<'_, '_, '_>)) {
    let nodes = [NodeId(0); CPUS as usize];
    let config = Config { policy, cpu_nodes: &nodes, ..Config::default() };
    let locks: Vec<_> = nodes.iter().map(|_| CheckedSpinLock::new()).collect();
    let local = Meddler::new(CpuLocks::new(&locks, HostCpu), what, at);
    run_on(0);
    let outcome = with_slab(Threads::default(), &config, pages, local, 7, |slab| {
        run(slab);
        assert_eq!(slab.local().pinned(), 0, "whoever disables preemption enables it again");
    });
    outcome.expect("the configuration is right")
}

/// The pages beneath.
pub(super) fn pages_of<'s, 'm>(slab: &'s Slab<'_, 'm, '_>) -> &'s PageAllocator<'m, Threads<NoProbe>> {
    // SAFETY: tests give back what they have taken; what they keep, they keep within a world.
    unsafe { slab.pages() }
}

/// Whether nothing is lost.
pub(super) fn check(slab: &Slab<'_, '_, '_>) -> SlabCensus {
    // SAFETY: worlds are judged when all threads but the caller's are over.
    unsafe { slab.check() }.expect("nothing is lost")
}

/// Nothing is lost, and so many objects are in use, beside sheaves.
pub(super) fn judge(slab: &Slab<'_, '_, '_>, in_use: usize) {
    let census = check(slab);
    let found = census.objects - census.free - census.sheaves;
    assert_eq!(found, in_use as u64, "objects in use");
}

/// Everything has come back, down to the last page but so many that are somebody else's.
pub(super) fn judge_empty(slab: &Slab<'_, '_, '_>, left: u64) {
    slab.shrink();
    judge(slab, 0);
    assert_eq!(check(slab).slabs, 0, "slabs are left");
    assert_eq!(pages_of(slab).check().expect("no page is lost").allocated, left, "pages are left");
}
