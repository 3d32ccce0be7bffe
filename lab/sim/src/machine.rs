//! The simulated machine: its memory, its nodes, and the assignment of CPUs to nodes.

use freehold::base::{NodeId, Pfn, ZoneKind};
use freehold::machine::{self, MachineError};
use freehold::page::{Config, MinFree, Range};
use freehold::platform::Platform;
use freehold::{PageAllocator, Policy};

/// Distance of a node to itself, and to another node, in Linux's unit. linux: include/linux/topology.h
const DISTANCE_LOCAL: u8 = 10;
const DISTANCE_REMOTE: u8 = 20;

/// Size of the machine, as the plan gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Pages of memory, split evenly between the nodes.
    pub pages: u32,
    /// Number of nodes. CPUs are also split evenly, in order: of two nodes, the first gets the first half.
    pub nodes: u8,
}

impl Machine {
    /// Returns the node of a CPU on a machine with `cpus` CPUs.
    pub fn node_of(&self, cpu: u16, cpus: u16) -> NodeId {
        NodeId((u32::from(cpu) * u32::from(self.nodes) / u32::from(cpus.max(1))) as u8)
    }

    /// Returns the last CPU of a node. If the node has no CPU, returns the last CPU of the nodes before it.
    pub fn last_cpu_of(&self, node: NodeId, cpus: u16) -> u16 {
        let end = ((u32::from(node.0) + 1) * u32::from(cpus)).div_ceil(u32::from(self.nodes.max(1)));
        end.saturating_sub(1) as u16
    }

    /// Returns the number of pages of a node, in whole pageblocks.
    pub fn pages_per_node(&self) -> u32 {
        (self.pages / u32::from(self.nodes.max(1))) >> 9 << 9
    }

    /// Builds the machine with all memory free, and passes its allocator to `run`.
    ///
    /// # Errors
    /// Returns an error if no machine can be built from these sizes.
    pub fn run_released<P: Platform, R>(
        &self,
        platform: P,
        cpus: u16,
        policy: Policy,
        run: impl FnOnce(&PageAllocator<'_, P>) -> R,
    ) -> Result<R, MachineError> {
        self.build(platform, cpus, policy, |allocator| {
            self.release(allocator)?;
            allocator.set_up_watermarks(MinFree::BySize);
            Ok(run(allocator))
        })?
    }

    /// Releases all memory to the free lists.
    ///
    /// # Errors
    /// Returns an error if some frames are no longer Reserved.
    pub fn release<P: Platform>(&self, allocator: &PageAllocator<'_, P>) -> Result<(), MachineError> {
        for range in self.ranges() {
            allocator.release(range.start, range.end).map_err(MachineError::Online)?;
        }
        Ok(())
    }

    /// Builds the machine with all frames Reserved, and passes its allocator to `run`.
    ///
    /// # Errors
    /// Returns an error if no machine can be built from these sizes.
    pub fn build<P: Platform, R>(
        &self,
        platform: P,
        cpus: u16,
        policy: Policy,
        run: impl FnOnce(&mut PageAllocator<'_, P>) -> R,
    ) -> Result<R, MachineError> {
        let cpu_nodes: Vec<NodeId> = (0..cpus).map(|cpu| self.node_of(cpu, cpus)).collect();
        let distances = self.distances();
        let ranges = self.ranges();
        let config = Config {
            cpu_nodes: &cpu_nodes,
            distances: &distances,
            nodes: self.nodes,
            end: Pfn::new(self.pages),
            policy,
            ..Config::default()
        };
        machine::with_ranges(platform, &config, &ranges, run)
    }

    fn distances(&self) -> Vec<u8> {
        let nodes = 0..self.nodes;
        let pairs = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        pairs.map(|(from, to)| if from == to { DISTANCE_LOCAL } else { DISTANCE_REMOTE }).collect()
    }

    /// Returns the ranges of frames: one Normal zone for each node, of whole pageblocks.
    fn ranges(&self) -> Vec<Range> {
        let share = self.pages_per_node();
        (0..self.nodes)
            .map(|node| Range {
                start: Pfn::new(u32::from(node) * share),
                end: Pfn::new((u32::from(node) + 1) * share),
                node: NodeId(node),
                kind: ZoneKind::Normal,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use freehold::platform::NoProbe;
    use freehold::platform::host::Solo;

    use super::*;

    #[test]
    fn cpus_and_memory_are_split_between_nodes() {
        let machine = Machine { pages: 1 << 17, nodes: 2 };
        let nodes: Vec<u8> = (0..6).map(|cpu| machine.node_of(cpu, 6).0).collect();
        assert_eq!(nodes, [0, 0, 0, 1, 1, 1]);
        machine
            .run_released(Solo::<NoProbe>::default(), 6, Policy::default(), |allocator| {
                let managed: Vec<u64> = allocator.zones().iter().map(|zone| zone.managed()).collect();
                assert_eq!(managed.iter().filter(|&&pages| pages == 1 << 16).count(), 2);
                allocator.check().expect("a sound machine");
            })
            .expect("a machine");
    }

    #[test]
    fn nodes_may_share_a_section() {
        let machine = Machine { pages: 3 << 14, nodes: 2 };
        let free = machine.run_released(Solo::<NoProbe>::default(), 2, Policy::default(), |allocator| {
            allocator.check().expect("a sound machine").free
        });
        assert_eq!(free, Ok(3 << 14));
    }
}
