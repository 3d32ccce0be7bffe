//! Specification of a fleet: a plan, a cost table, a number of hosts and a seed.

use crate::costs::Costs;
use crate::error::Error;
use crate::plan::Plan;

/// Maximum number of hosts of a fleet.
pub const HOSTS_MAX: u32 = 10_000;

/// Specification of a fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Workload of a host, and the policies.
    pub plan: Plan,
    /// Costs of steps.
    pub costs: Costs,
    /// Number of hosts.
    pub hosts: u32,
    /// Seed from which the seeds of all hosts are derived.
    pub seed: u64,
}

impl Fleet {
    /// Creates a fleet of this plan, which must have one number of CPUs.
    ///
    /// # Errors
    /// Returns an error if the plan has several numbers of CPUs, or sweeps a parameter.
    pub fn new(plan: Plan, costs: Costs, hosts: u32, seed: u64) -> Result<Fleet, Error> {
        let name = &plan.name;
        if plan.cpus.len() > 1 {
            let cpus = plan.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::Input(format!(
                "the plan {name} is for {cpus} CPUs, but a fleet has one number of CPUs; choose one with --cpus"
            )));
        }
        if let Some(key) = &plan.swept {
            return Err(Error::Input(format!(
                "the plan {name} sweeps `{key}`, but a fleet uses one value of it; remove the table [sweep]"
            )));
        }
        Ok(Fleet { plan, costs, hosts, seed })
    }
}
