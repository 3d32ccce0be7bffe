//! The plan's table `[machine]`, and the machine that it describes for a number of CPUs.

use std::path::PathBuf;

use freehold::Policy;
use freehold::base::CpuId;
use freehold::platform::NoProbe;
use freehold::platform::host::Solo;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use crate::NODES_MAX;
use crate::machine::Machine;
use crate::start::{self, Figures, PAGEBLOCK_ORDER, SnapshotError, Start, age};

/// Minimum memory of a node: its watermarks and lists need some room.
const NODE_MIN: Bytes = Bytes::mib(16);
/// Maximum memory of a machine. The engine's metadata takes one 256th of the simulated memory, in real memory;
/// [`need`](crate::meter::need) counts the whole.
const MEMORY_MAX: Bytes = Bytes::mib(1 << 20);

/// MiB of a pageblock.
const PAGEBLOCK_MIB: u64 = 2;

/// The plan's table `[machine]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSpec {
    /// Memory of the machine, independent of the number of CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Memory for each CPU, instead of `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_per_cpu: Option<Bytes>,
    /// Number of nodes. Memory and CPUs are split evenly between them.
    pub nodes: u8,
    /// Age of memory when a run begins, from 0 to 100. See [`age`].
    #[serde(skip_serializing_if = "is_new")]
    pub age: u8,
    /// Path of a snapshot or a recording whose start state is the start state of a run. It also gives the size of
    /// memory if no key does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<PathBuf>,
}

fn is_new(age: &u8) -> bool {
    *age == 0
}

impl Default for MachineSpec {
    fn default() -> MachineSpec {
        MachineSpec { memory: None, memory_per_cpu: None, nodes: 1, age: 0, start: None }
    }
}

/// Reason why a machine cannot exist: a key of its table, and a sentence that follows the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Name of the key.
    pub key: &'static str,
    /// Sentence that follows the key.
    pub sentence: String,
}

impl Impossible {
    fn new(key: &'static str, sentence: impl Into<String>) -> Impossible {
        Impossible { key, sentence: sentence.into() }
    }
}

impl MachineSpec {
    /// Returns the machine with `cpus` CPUs.
    ///
    /// # Errors
    /// Returns an error if its memory is missing, given by both keys, too small or too large, if the number of nodes or
    /// the age is out of range, or if both an age and a start are given.
    pub fn machine(&self, cpus: u16) -> Result<Machine, Impossible> {
        if !(1..=NODES_MAX).contains(&self.nodes) {
            let sentence = format!("is {}; give a number of nodes from 1 to {NODES_MAX}", self.nodes);
            return Err(Impossible::new("nodes", sentence));
        }
        let (key, size, count) = match (self.memory, self.memory_per_cpu) {
            (Some(size), None) => ("memory", size, 1),
            (None, Some(size)) => ("memory_per_cpu", size, u64::from(cpus)),
            (Some(_), Some(_)) => {
                return Err(Impossible::new("memory_per_cpu", "conflicts with `memory`; keep one of the two"));
            }
            (None, None) => {
                let sentence = "is missing; add it, as in memory = \"4 GiB\", or add memory_per_cpu";
                return Err(Impossible::new("memory", sentence));
            }
        };
        let pages = size.pages().checked_mul(count).filter(|pages| *pages <= MEMORY_MAX.pages());
        let Some(pages) = pages else {
            let sentence =
                format!("is {size}, too much with {cpus} CPUs; a simulated machine has at most {MEMORY_MAX}");
            return Err(Impossible::new(key, sentence));
        };
        if pages / u64::from(self.nodes) < NODE_MIN.pages() {
            let (nodes, s) = (self.nodes, if self.nodes == 1 { "" } else { "s" });
            let sentence =
                format!("is {size}, too little with {cpus} CPUs and {nodes} node{s}; a node needs {NODE_MIN}");
            return Err(Impossible::new(key, sentence));
        }
        if self.age > age::AGE_MAX {
            let sentence = format!("is {}; give an age from 0 to {}", self.age, age::AGE_MAX);
            return Err(Impossible::new("age", sentence));
        }
        if self.age > 0 && self.start.is_some() {
            return Err(Impossible::new("age", "conflicts with `start`; keep one of the two"));
        }
        Ok(Machine { pages: pages as u32, nodes: self.nodes })
    }

    /// Returns the table with a size of memory: that of its start, if no key gives one.
    ///
    /// # Errors
    /// Returns an error if the start cannot be read as a snapshot or recording.
    pub fn sized(self) -> Result<MachineSpec, SnapshotError> {
        match &self.start {
            Some(path) if self.memory.is_none() && self.memory_per_cpu.is_none() => {
                let pageblocks = u64::from(start::read(path)?.len());
                let memory = Some(Bytes::mib(pageblocks * PAGEBLOCK_MIB));
                Ok(MachineSpec { memory, ..self })
            }
            _ => Ok(self),
        }
    }

    /// Returns the number of fixed pages and of tasks' pages when a run begins. They stay until the run ends, unless
    /// the workload ends the tasks.
    ///
    /// # Errors
    /// Returns an error if the start can no longer be read.
    pub fn held(&self, cpus: u16) -> Result<u64, SnapshotError> {
        match &self.start {
            None => Ok(age::figures(self.age, self.pageblocks(cpus).into()).held()),
            Some(_) => Ok(self.start(cpus, 1)?.map_or(0, |start| Figures::from_start(&start).held())),
        }
    }

    fn pageblocks(&self, cpus: u16) -> u32 {
        let machine = self.machine(cpus).expect("the machine was checked before");
        (machine.pages_per_node() >> PAGEBLOCK_ORDER) * u32::from(machine.nodes)
    }

    /// Returns the state of memory when a run with `cpus` CPUs begins; `None` if all of it is free. The seed decides
    /// all details that an age leaves open. A machine that is larger than its start repeats the start's pageblocks; a
    /// smaller machine has the first ones.
    ///
    /// # Errors
    /// Returns an error if the start can no longer be read.
    ///
    /// # Panics
    /// Panics if [`machine`](Self::machine) returns an error.
    pub fn start(&self, cpus: u16, seed: u64) -> Result<Option<Start>, SnapshotError> {
        let pageblocks = self.pageblocks(cpus);
        match &self.start {
            Some(path) => Ok(Some(start::read(path)?.repeated_to(pageblocks))),
            None if self.age == 0 => Ok(None),
            None => Ok(Some(start::draw_start(&age::layout(self.age, pageblocks.into()), seed))),
        }
    }

    /// Returns the limit (`high`) of the list of CPU 0 in the machine's first zone right after boot, in pages. Builds
    /// the machine, since only the engine computes the limit.
    ///
    /// # Panics
    /// Panics if [`machine`](Self::machine) returns an error.
    pub fn list_high(&self, cpus: u16) -> u32 {
        let machine = self.machine(cpus).expect("the machine was checked before");
        let high = machine.run_released(Solo::<NoProbe>::default(), cpus, Policy::LINUX_6_12, |allocator| {
            let zone = allocator.zones().iter().find(|zone| zone.is_populated());
            zone.map_or(0, |zone| allocator.pcp(CpuId(0), zone).inspect(|lists| lists.high()))
        });
        high.expect("the machine was checked before")
    }

    /// Returns the key that gives the size of memory.
    pub fn memory_key(&self) -> &'static str {
        if self.memory.is_some() { "memory" } else { "memory_per_cpu" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(memory: Option<u64>, per_cpu: Option<u64>, nodes: u8) -> MachineSpec {
        MachineSpec {
            memory: memory.map(Bytes::mib),
            memory_per_cpu: per_cpu.map(Bytes::mib),
            nodes,
            ..MachineSpec::default()
        }
    }

    #[test]
    fn memory_scales_with_cpus_only_if_planned() {
        assert_eq!(spec(Some(512), None, 1).machine(32).unwrap().pages, 512 << 8);
        assert_eq!(spec(None, Some(64), 2).machine(32).unwrap().pages, (64 * 32) << 8);
    }

    #[test]
    fn impossible_machines_are_errors_with_the_key() {
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
