//! A server that forks before it serves: a parent with a large heap, and children that allocate and free.
//!
//! The pages of the parent's heap are shared until a child writes to them. A malloc that writes to its own records next
//! to the parent's blocks makes copies of these pages in each child. The resident memory at the end is that of the
//! parent and of one group of children together, where a shared page counts once.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};

use fastrand::Rng;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::block::Block;
use super::cost::{Cost, Start};
use super::held::fill_block;
use super::programs::tree_kib;
use super::system::{children_usage, fork_child};
use super::work::size;

/// Bytes of the parent's heap.
const HEAP: usize = 128 << 20;
/// Children that live at the same time.
const TOGETHER: usize = 4;
/// Requests that a child answers, and blocks that a request allocates.
const REQUESTS: usize = 500;
const BLOCKS: usize = 100;
/// Blocks that a child keeps from one request to the next.
const KEPT: usize = 5;
/// Maximum seconds of a child.
const PATIENCE: u32 = 60;

/// Runs groups of children; `heap` has the percentage of the parent's heap.
pub(super) fn fork_server(groups: usize, percent: usize) -> io::Result<Cost> {
    let start = Start::now()?;
    let heap = parent_heap(HEAP / 100 * percent.min(100));
    let live = heap.iter().map(|block| block.len()).sum();
    let (before, _) = children_usage()?;
    let (mut peak, mut resident, mut lost) = (0, 0, 0);
    for _ in 0..groups {
        let group = Group::fork()?;
        resident = tree_kib(std::process::id());
        peak = peak.max(resident);
        lost += group.end()?;
    }
    let own = Cost::since(start, live, groups * TOGETHER)?;
    let (after, _) = children_usage()?;
    drop(heap);
    Ok(Cost { cpu_ns: own.cpu_ns + after - before, peak, resident, lost, ..own })
}

/// Allocates blocks of random sizes, and frees half of them at random, as a server that has loaded its data.
fn parent_heap(bytes: usize) -> Vec<Block> {
    let mut chance = Rng::with_seed(9);
    let (mut blocks, mut live) = (Vec::new(), 0);
    while live < bytes {
        let block = fill_block(size(&mut chance));
        live += block.len();
        blocks.push(block);
    }
    blocks.retain(|_| chance.bool());
    blocks
}

/// Children that have done their work and wait.
struct Group {
    children: Vec<Pid>,
    /// Pipe from which each child reads one byte before it ends.
    release: PipeWriter,
}

impl Group {
    /// Forks children and waits until all have done their work.
    fn fork() -> io::Result<Group> {
        let (done, has_done) = pipe()?;
        let (released, release) = pipe()?;
        let mut children = Vec::new();
        for number in 0..TOGETHER {
            children.push(fork_child(PATIENCE, || serve(number as u64, &has_done, &released))?);
        }
        drop(has_done);
        // A child that failed sends no byte; then the pipe ends when the other children are ended by their timers.
        done.take(TOGETHER as u64).read_to_end(&mut Vec::with_capacity(TOGETHER))?;
        Ok(Group { children, release })
    }

    /// Releases the children, and returns the number of those that failed.
    fn end(mut self) -> io::Result<usize> {
        self.release.write_all(&[0; TOGETHER])?;
        let mut lost = 0;
        for child in self.children {
            let status = waitpid(Some(child), WaitOptions::empty())?;
            lost += usize::from(status.is_none_or(|(_, status)| status.exit_status() != Some(0)));
        }
        Ok(lost)
    }
}

/// Answers requests in a child, reports that this is done, and waits to be released.
fn serve(number: u64, mut has_done: &PipeWriter, mut released: &PipeReader) {
    let mut chance = Rng::with_seed(number);
    let mut kept: Vec<Block> = Vec::new();
    for _ in 0..REQUESTS {
        let mut blocks: Vec<Block> = (0..BLOCKS).map(|_| fill_block(size(&mut chance))).collect();
        kept.truncate(KEPT);
        kept.extend(blocks.drain(..KEPT));
    }
    // If a pipe fails, the parent has ended, and so does the child.
    _ = has_done.write_all(&[1]);
    _ = released.read_exact(&mut [0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_share_the_parents_heap() {
        let cost = fork_server(2, 10).unwrap();
        assert_eq!((cost.steps, cost.lost), (2 * TOGETHER, 0));
        assert!(cost.peak >= cost.resident && cost.resident > 5 << 10, "{cost:?}");
    }
}
