//! Selection of the recorded tasks that are played, and of their CPUs.
//!
//! A recording holds the events of the whole machine. If a plan names tasks, events of other tasks are left out, except
//! for blocks that a named task allocates or frees. If the plan names purgers, those tasks play on one of every
//! `cpus_per_purger` CPUs, and no other task plays there. This models a server with many CPUs that returns memory from
//! few threads.

use super::error::PlaybackError;
use super::script::{Duty, Omissions, Script};

/// Division of a run's CPUs between purgers and other tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuSplit {
    /// Every task may be played on every CPU.
    Shared,
    /// The first CPU of each group is for purgers, as in the workload `purge`.
    Purgers {
        /// CPUs of a group, at least 2.
        cpus_per_purger: u16,
    },
}

impl CpuSplit {
    /// Returns the CPU that plays a task, by the hash of the task.
    pub(super) fn cpu(self, cpus: u16, hash: u32, duty: Duty) -> u16 {
        let CpuSplit::Purgers { cpus_per_purger } = self else { return remainder(hash, cpus) };
        let purgers = cpus.div_ceil(cpus_per_purger);
        let others = cpus - purgers;
        match duty {
            Duty::Purger => remainder(hash, purgers) * cpus_per_purger,
            Duty::Other if others == 0 => 0,
            Duty::Other => {
                let place = remainder(hash, others);
                place + place / (cpus_per_purger - 1) + 1
            }
        }
    }
}

/// Returns the remainder of a hash divided by a number of CPUs.
fn remainder(hash: u32, cpus: u16) -> u16 {
    (hash % u32::from(cpus)) as u16
}

/// Keeps the blocks that tasks of these names allocate or free; keeps everything if no name is given.
///
/// # Errors
/// Returns an error if no task has one of the names.
pub(crate) fn keep_tasks(script: &mut Script, names: &[String]) -> Result<(), PlaybackError> {
    if names.is_empty() {
        return Ok(());
    }
    require_task(script, names)?;
    let mut is_kept = vec![false; script.blocks.len()];
    for step in script.steps.iter().filter(|step| names.contains(script.name(step.runner))) {
        is_kept[step.block as usize] = true;
    }
    let recorded = script.steps.len();
    script.steps.retain(|step| is_kept[step.block as usize]);
    let of_others = (recorded - script.steps.len()) as u64;
    script.omissions = Omissions { of_others, ..script.omissions };
    Ok(())
}

/// Gives tasks of these names the duty of purgers.
///
/// # Errors
/// Returns an error if no task has one of the names.
pub(crate) fn set_purgers(script: &mut Script, names: &[String]) -> Result<(), PlaybackError> {
    if names.is_empty() {
        return Ok(());
    }
    require_task(script, names)?;
    script.duties =
        script.names.iter().map(|name| if names.contains(name) { Duty::Purger } else { Duty::Other }).collect();
    Ok(())
}

/// Returns an error unless a task of the script has one of these names.
fn require_task(script: &Script, names: &[String]) -> Result<(), PlaybackError> {
    if names.iter().any(|name| script.names.contains(name)) {
        return Ok(());
    }
    let mut present: Vec<String> = script.names.iter().filter(|name| !name.is_empty()).cloned().collect();
    present.sort_unstable();
    present.dedup();
    Err(PlaybackError::UnknownTask { wanted: names.to_vec(), present })
}

#[cfg(test)]
mod tests {
    use freehold::base::{Gfp, Order};

    use super::super::script::{Action, BlockRequest, Step};
    use super::*;

    fn step(time: u64, task: u32, block: u32, action: Action) -> Step {
        Step { time, runner: task * 2, block, action }
    }

    fn request(task: u32) -> BlockRequest {
        BlockRequest { gfp: Gfp::KERNEL, order: Order::ZERO, runner: Some(task * 2) }
    }

    /// Returns a script on two CPUs: `server` allocates block 0, `purger` frees it; `other` allocates and frees
    /// block 1.
    fn script() -> Script {
        Script {
            steps: vec![
                step(1, 1, 0, Action::Alloc),
                step(2, 2, 1, Action::Alloc),
                step(3, 3, 0, Action::Free),
                step(4, 2, 1, Action::Free),
            ],
            blocks: vec![request(1), request(2)],
            names: ["", "server", "other", "purger"].map(str::to_owned).to_vec(),
            duration: 9,
            cpus: 2,
            ..Script::default()
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn blocks_of_selected_tasks_are_kept_whole() {
        for chosen in [&["server"][..], &["purger", "nobody"]] {
            let mut script = script();
            keep_tasks(&mut script, &names(chosen)).unwrap();
            let times: Vec<u64> = script.steps.iter().map(|step| step.time).collect();
            assert_eq!((times, script.omissions.of_others), (vec![1, 3], 2), "{chosen:?}");
        }
        let mut whole = script();
        keep_tasks(&mut whole, &[]).unwrap();
        assert_eq!(whole.steps.len(), 4);
    }

    #[test]
    fn unknown_task_error_lists_the_known_tasks() {
        for result in [keep_tasks(&mut script(), &names(&["sever"])), set_purgers(&mut script(), &names(&["prger"]))] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("its tasks are other, purger, server") && !error.contains('\n'), "{error}");
        }
    }

    /// Returns all CPUs that hashes give, sorted.
    fn drawn_cpus(split: CpuSplit, cpus: u16, duty: Duty) -> Vec<u16> {
        let mut drawn: Vec<u16> = (0..100).map(|hash| split.cpu(cpus, hash, duty)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        drawn
    }

    #[test]
    fn purgers_use_every_nth_cpu_exclusively() {
        let split = CpuSplit::Purgers { cpus_per_purger: 4 };
        for (cpus, of_purgers, of_others) in [(8, vec![0, 4], vec![1, 2, 3, 5, 6, 7]), (5, vec![0, 4], vec![1, 2, 3])] {
            assert_eq!(drawn_cpus(split, cpus, Duty::Purger), of_purgers);
            assert_eq!(drawn_cpus(split, cpus, Duty::Other), of_others);
        }
        assert_eq!((split.cpu(1, 7, Duty::Purger), split.cpu(1, 7, Duty::Other)), (0, 0));
        assert_eq!(CpuSplit::Shared.cpu(8, 12, Duty::Purger), 4);
    }
}
