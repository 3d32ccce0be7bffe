//! A fleet as it is asked for: a plan, a cost table, a number of hosts and a seed.

use crate::costs::Costs;
use crate::error::Error;
use crate::plan::Plan;

/// Most hosts that a fleet may have.
pub const HOSTS_MAX: u32 = 10_000;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// What happens on a host, and the policies.
    pub plan: Plan,
    /// What steps cost.
    pub costs: Costs,
    /// How many hosts there are.
    pub hosts: u32,
    /// What chance decides on all of them.
    pub seed: u64,
}

impl Fleet {
    /// A fleet of this plan, on one number of CPUs.
    ///
    /// # Errors
    /// When the plan has several numbers of CPUs, or sweeps a parameter.
    pub fn new(plan: Plan, costs: Costs, hosts: u32, seed: u64) -> Result<Fleet, Error> {
        let name = &plan.name;
        if plan.cpus.len() > 1 {
            let cpus = plan.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::Input(format!(
                "the plan {name} is for {cpus} CPUs, but the hosts of a fleet all have the same number; choose one with --cpus"
            )));
        }
        if let Some(key) = &plan.swept {
            return Err(Error::Input(format!(
                "the plan {name} sweeps `{key}`, but a fleet stands for one value of it; take out its table [sweep]"
            )));
        }
        Ok(Fleet { plan, costs, hosts, seed })
    }
}
