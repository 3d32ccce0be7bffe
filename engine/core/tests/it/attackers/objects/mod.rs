//! Slabs under attack, by every function of theirs that safe code can call. Safe code cannot free, so what it allocates
//! stays; what it cannot ask for either is a proof, so each machine is audited when its attack is over.
//!
//! ```text
//! ends        sizes, alignments, flags, names, numbers of a policy and addresses, each at its ends
//! strangers   CPUs that are not there, or away; caches that end too early; two allocators side by side
//! crowd       walks, shrinks, and CPUs that come and go, while others allocate
//! ```

mod crowd;
mod ends;
mod strangers;

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

/// CPUs of each machine.
const CPUS: usize = 3;
/// Frames of each machine: two of the largest blocks.
const FRAMES: u32 = 2048;

/// Every way of objects to a CPU, with links and orders of both kinds.
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

/// Runs an attack on a machine whose caches make these checks; what is left then is in order.
fn attack<R>(policy: Policy, debug: CacheFlags, run: impl FnOnce(&Slab<'_, '_, '_, '_>) -> R) -> R {
    attack_with(&Config { policy, cpu_nodes: &[NodeId(0); CPUS], ..Config::default() }, CPUS, debug, run)
}

/// The same on a machine laid out like this, whose sections have so many locks.
fn attack_with<R>(
    config: &Config<'_>,
    lock_count: usize,
    debug: CacheFlags,
    run: impl FnOnce(&Slab<'_, '_, '_, '_>) -> R,
) -> R {
    let (mut run, mut result) = (Some(run), None);
    run_audited(config, lock_count, debug, &mut |slab| result = run.take().map(|run| run(slab)));
    result.expect("an attack runs once")
}

/// Builds the machine of [`attack_with`], calls `run` once, and audits the rest. The machine is compiled once, and not
/// for each attack.
fn run_audited(config: &Config<'_>, lock_count: usize, debug: CacheFlags, run: &mut dyn FnMut(&Slab<'_, '_, '_, '_>)) {
    let locks: Vec<_> = (0..lock_count).map(|_| CheckedSpinLock::new()).collect();
    run_on_cpu(CpuId(0));
    let local = CpuLocks::new(&locks, HostCpu);
    let ((), audit) =
        with_audited_slab(Host::default(), config, FRAMES, local, (7, debug), run).expect("the machine is right");
    audit.objects.unwrap_or_else(|violation| panic!("under {:?}: {violation}", config.policy.slab));
    audit.pages.unwrap_or_else(|violation| panic!("under {:?}: {violation}", config.policy.slab));
}

/// What can be seen of all caches.
fn picture(slab: &Slab<'_, '_, '_, '_>) -> Vec<(String, CacheUsage)> {
    let mut seen = Vec::new();
    slab.usage(|cache, usage| seen.push((cache.name.as_str().to_owned(), usage)));
    seen
}
