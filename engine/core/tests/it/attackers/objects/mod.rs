//! Attacks on slabs, by every function that safe code can call. Safe code cannot free, so allocated objects stay. Safe
//! code cannot prove consistency either, so each machine is audited after its attack.
//!
//! ```text
//! extreme_arguments  sizes, alignments, flags, names, numbers of a policy and addresses, each at its limits
//! foreign_arguments  CPUs that do not exist or are offline; caches destroyed while in use; two allocators side by side
//! concurrent         walks, shrinks, and CPUs that go offline and online, while other threads allocate
//! ```

mod concurrent;
mod extreme_arguments;
mod foreign_arguments;

use freehold::base::{CpuId, NodeId, RawLock};
use freehold::machine::objects::{HostCpu, with_audited_slab};
use freehold::page::Config;
use freehold::platform::host::{CheckedSpinLock, run_on_cpu};
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabOrder, SlabPolicy};
use freehold::policy::{Numbers, Policy};
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::{CacheFlags, CacheUsage, SlabAllocator};

use crate::attackers::machine::Host;

type Slab<'s, 'm, 'h, 'l> = SlabAllocator<'s, 'm, Host<'h>, CpuLocks<'l, CheckedSpinLock, HostCpu>>;

/// Number of CPUs of each machine.
const CPUS: usize = 3;
/// Frames of each machine: two of the largest blocks.
const FRAMES: u32 = 2048;

/// Returns one policy for each fast path, with links and orders of both kinds.
fn policies() -> Vec<Policy> {
    let choices = [
        (SlabPolicy::Tagged, SlabLinks::Plain, SlabOrder::Address),
        (SlabPolicy::PageField, SlabLinks::Mangled, SlabOrder::Random),
        (SlabPolicy::Bitmap, SlabLinks::Plain, SlabOrder::Random),
        (SlabPolicy::Sheaves, SlabLinks::Mangled, SlabOrder::Address),
        (SlabPolicy::SheavesBitmap, SlabLinks::Plain, SlabOrder::Address),
    ];
    let mut policies = [Policy { numbers: Numbers::default(), ..Policy::FREEHOLD }; 5];
    for (policy, (objects, links, order)) in policies.iter_mut().zip(choices) {
        (policy.slab.objects, policy.slab.links, policy.slab.order) = (objects, links, order);
        policy.slab.guard = SlabGuard::Preempt;
    }
    policies.to_vec()
}

/// Runs an attack on a machine whose caches make the checks in `debug`, and audits the machine afterwards.
fn attack<R>(policy: Policy, debug: CacheFlags, run: impl FnOnce(&Slab<'_, '_, '_, '_>) -> R) -> R {
    attack_with(&Config { policy, cpu_nodes: &[NodeId(0); CPUS], ..Config::default() }, CPUS, debug, run)
}

/// Like [`attack`], on a machine with this configuration and `lock_count` locks for its sections.
fn attack_with<R>(
    config: &Config<'_>,
    lock_count: usize,
    debug: CacheFlags,
    run: impl FnOnce(&Slab<'_, '_, '_, '_>) -> R,
) -> R {
    let (mut run, mut result) = (Some(run), None);
    run_audited(config, lock_count, debug, &mut |slab| result = run.take().map(|run| run(slab)));
    result.expect("the test must call its body once")
}

/// Builds the machine of [`attack_with`], calls `run` once, and audits the machine. This function is not generic, so
/// the machine is compiled once instead of once per attack.
fn run_audited(config: &Config<'_>, lock_count: usize, debug: CacheFlags, run: &mut dyn FnMut(&Slab<'_, '_, '_, '_>)) {
    let locks: Vec<_> = (0..lock_count).map(|_| CheckedSpinLock::new()).collect();
    run_on_cpu(CpuId(0));
    let local = CpuLocks::new(&locks, HostCpu);
    let ((), audit) = with_audited_slab(Host::default(), config, FRAMES, local, (7, debug), run)
        .expect("the configuration of the machine must be valid");
    audit.objects.unwrap_or_else(|violation| panic!("under {:?}: {violation}", config.policy.slab));
    audit.pages.unwrap_or_else(|violation| panic!("under {:?}: {violation}", config.policy.slab));
}

/// Returns the names and usage of all caches.
fn picture(slab: &Slab<'_, '_, '_, '_>) -> Vec<(String, CacheUsage)> {
    let mut seen = Vec::new();
    slab.usage(|cache, usage| seen.push((cache.name.as_str().to_owned(), usage)));
    seen
}
