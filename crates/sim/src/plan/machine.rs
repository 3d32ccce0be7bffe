//! What a plan says about the machine, and which machine that is with so many CPUs.

use freehold::Policy;
use freehold::base::CpuId;
use freehold::platform::NoProbe;
use freehold::platform::host::Solo;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use crate::NODES_MAX;
use crate::machine::Machine;

/// The least memory of a node: its watermarks and lists need some room.
const NODE_MIN: Bytes = Bytes::mib(16);
/// The most memory of a machine: metadata takes one 256th of it, in real memory.
const MEMORY_MAX: Bytes = Bytes::mib(1 << 20);

/// What a plan says about the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSpec {
    /// Memory of the machine, whatever the number of CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Memory for each CPU, in place of `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_per_cpu: Option<Bytes>,
    /// Number of nodes, between which memory and CPUs are split evenly.
    pub nodes: u8,
}

impl Default for MachineSpec {
    fn default() -> MachineSpec {
        MachineSpec { memory: None, memory_per_cpu: None, nodes: 1 }
    }
}

/// Why there cannot be such a machine: a key of its table, and a sentence that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The key.
    pub key: &'static str,
    /// What is wrong with it.
    pub sentence: String,
}

impl MachineSpec {
    /// The machine with so many CPUs.
    ///
    /// # Errors
    /// When it has no memory, too little or too much, or more nodes than CPUs could be split between.
    pub fn machine(&self, cpus: u16) -> Result<Machine, Impossible> {
        let impossible = |key, sentence: String| Err(Impossible { key, sentence });
        if !(1..=NODES_MAX).contains(&self.nodes) {
            return impossible("nodes", format!("is {}; give a number of nodes from 1 to {NODES_MAX}", self.nodes));
        }
        let (key, size, count) = match (self.memory, self.memory_per_cpu) {
            (Some(size), None) => ("memory", size, 1),
            (None, Some(size)) => ("memory_per_cpu", size, u64::from(cpus)),
            (Some(_), Some(_)) => {
                return impossible("memory_per_cpu", "stands beside `memory`; keep one of the two".to_owned());
            }
            (None, None) => {
                let sentence = "is missing; say how much memory there is, as in memory = \"4 GiB\", or memory_per_cpu";
                return impossible("memory", sentence.to_owned());
            }
        };
        let pages = size.pages().checked_mul(count).filter(|pages| *pages <= MEMORY_MAX.pages());
        let Some(pages) = pages else {
            let sentence =
                format!("is {size}, too much with {cpus} CPUs; a simulated machine has at most {MEMORY_MAX}");
            return impossible(key, sentence);
        };
        if pages / u64::from(self.nodes) < NODE_MIN.pages() {
            let (nodes, s) = (self.nodes, if self.nodes == 1 { "" } else { "s" });
            let sentence =
                format!("is {size}, too little with {cpus} CPUs and {nodes} node{s}; a node needs {NODE_MIN}");
            return impossible(key, sentence);
        }
        Ok(Machine { pages: pages as u32, nodes: self.nodes })
    }

    /// The limit of a per-CPU list as the machine with so many CPUs comes up, in pages. Only the engine knows, so the
    /// machine is built.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn list_high(&self, cpus: u16) -> u32 {
        let machine = self.machine(cpus).expect("there is such a machine");
        let high = machine.with(Solo::<NoProbe>::default(), cpus, Policy::LINUX_6_12, |allocator| {
            let zone = allocator.zones().iter().find(|zone| zone.is_populated());
            zone.map_or(0, |zone| allocator.pcp(CpuId(0), zone).inspect(|lists| lists.high()))
        });
        high.expect("there is such a machine")
    }

    /// The key that says how much memory there is.
    pub fn memory_key(&self) -> &'static str {
        if self.memory.is_some() { "memory" } else { "memory_per_cpu" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(memory: Option<u64>, per_cpu: Option<u64>, nodes: u8) -> MachineSpec {
        MachineSpec { memory: memory.map(Bytes::mib), memory_per_cpu: per_cpu.map(Bytes::mib), nodes }
    }

    #[test]
    fn memory_grows_with_cpus_only_where_the_plan_says_so() {
        assert_eq!(spec(Some(512), None, 1).machine(32).unwrap().pages, 512 << 8);
        assert_eq!(spec(None, Some(64), 2).machine(32).unwrap().pages, (64 * 32) << 8);
    }

    #[test]
    fn impossible_machines_are_refused_by_key() {
        for (spec, key) in [
            (spec(None, None, 1), "memory"),
            (spec(Some(1), None, 1), "memory"),
            (spec(Some(64), Some(64), 1), "memory_per_cpu"),
            (spec(None, Some(1 << 19), 1), "memory_per_cpu"),
            (spec(Some(64), None, 0), "nodes"),
            (spec(Some(64), None, 9), "nodes"),
        ] {
            assert_eq!(spec.machine(32).unwrap_err().key, key, "{spec:?}");
        }
    }
}
