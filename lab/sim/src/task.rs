//! Background tasks of the simulated machine: their numbers and their nodes.
//!
//! Each node has a kswapd and a kcompactd; the machine has one khugepaged. Their clocks follow the clocks of the CPUs,
//! in the order of their numbers. [`background`](crate::background) has the code that they run.

use freehold::base::NodeId;

/// Number of tasks of a node.
const PER_NODE: u16 = 2;

/// A task that runs beside the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Reclaims memory of a node.
    Kswapd(NodeId),
    /// Compacts a node.
    Kcompactd(NodeId),
    /// Makes huge pages.
    Khugepaged,
}

impl Task {
    /// Returns the number of tasks on a machine with `nodes` nodes.
    pub(crate) const fn count(nodes: u8) -> u16 {
        nodes as u16 * PER_NODE + 1
    }

    /// Returns the task with this number, on a machine with `nodes` nodes.
    pub(crate) fn from_number(number: u16, nodes: u8) -> Task {
        let node = NodeId((number / PER_NODE) as u8);
        match number % PER_NODE {
            _ if node.0 >= nodes => Task::Khugepaged,
            0 => Task::Kswapd(node),
            _ => Task::Kcompactd(node),
        }
    }

    /// Returns the number of the task.
    pub(crate) fn number(self, nodes: u8) -> u16 {
        match self {
            Task::Kswapd(node) => u16::from(node.0) * PER_NODE,
            Task::Kcompactd(node) => u16::from(node.0) * PER_NODE + 1,
            Task::Khugepaged => u16::from(nodes) * PER_NODE,
        }
    }

    /// Returns the node on which the task runs; node 0 for khugepaged.
    pub(crate) fn node(self) -> NodeId {
        match self {
            Task::Kswapd(node) | Task::Kcompactd(node) => node,
            Task::Khugepaged => NodeId(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_numbers_round_trip() {
        for nodes in [1, 2, 8] {
            let tasks: Vec<Task> = (0..Task::count(nodes)).map(|number| Task::from_number(number, nodes)).collect();
            assert!(tasks.iter().enumerate().all(|(number, task)| usize::from(task.number(nodes)) == number));
            assert_eq!(tasks.iter().filter(|&&task| task == Task::Khugepaged).count(), 1);
        }
    }
}
