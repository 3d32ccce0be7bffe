//! Who of a recording's tasks plays, and on which CPUs.
//!
//! A recording holds what the whole machine did. Where a plan names tasks, what others did is left out, but for blocks
//! that a named task allocates or frees. And where it says who purges, those tasks play on one of every so many CPUs,
//! and nobody else does: a server that has many CPUs still gives memory back from few threads.

use super::script::{LeftOut, Script};
use crate::error::Error;

/// CPUs by what is played on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Anybody plays on any of them.
    Open,
    /// The first of every so many is its purgers', as in the workload `purge`.
    Parted {
        /// How many, of which at least one is not.
        cpus_per_purger: u16,
    },
}

impl Stage {
    /// The CPU, of so many, of somebody whose number is mixed already.
    pub fn cpu(self, cpus: u16, mixed: u32, duty: Duty) -> u16 {
        let Stage::Parted { cpus_per_purger } = self else { return (mixed % u32::from(cpus)) as u16 };
        let purgers = cpus.div_ceil(cpus_per_purger);
        let others = cpus - purgers;
        let draw = |count: u16| (mixed % u32::from(count)) as u16;
        match duty {
            Duty::Purger => draw(purgers) * cpus_per_purger,
            Duty::Other if others == 0 => 0,
            Duty::Other => {
                let place = draw(others);
                place + place / (cpus_per_purger - 1) + 1
            }
        }
    }
}

/// What somebody does in the play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// It gives memory back for others.
    Purger,
    /// Anything else.
    #[default]
    Other,
}

/// Leaves the blocks that tasks of these names allocate or free; everything where no name is given.
///
/// # Errors
/// If no task has one of the names.
pub fn choose(script: &mut Script, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    expect_one(script, names)?;
    let mut is_chosen = vec![false; script.blocks.len()];
    for step in script.steps.iter().filter(|step| names.contains(script.name(step.runner))) {
        is_chosen[step.block as usize] = true;
    }
    let all = script.steps.len();
    script.steps.retain(|step| is_chosen[step.block as usize]);
    let of_others = (all - script.steps.len()) as u64;
    script.left_out = LeftOut { of_others, ..script.left_out };
    Ok(())
}

/// Gives tasks of these names the duty of purgers.
///
/// # Errors
/// If no task has one of the names.
pub fn set_purgers(script: &mut Script, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    expect_one(script, names)?;
    let duty = |name: &String| if names.contains(name) { Duty::Purger } else { Duty::Other };
    script.duties = script.names.iter().map(duty).collect();
    Ok(())
}

fn expect_one(script: &Script, names: &[String]) -> Result<(), Error> {
    if names.iter().any(|name| script.names.contains(name)) {
        return Ok(());
    }
    let mut there: Vec<&str> = script.names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    there.sort_unstable();
    there.dedup();
    Err(Error::Input(format!("no task in it is called {}; there are {}", names.join(" or "), there.join(", "))))
}

#[cfg(test)]
mod tests {
    use freehold::base::{Gfp, Order};

    use super::super::script::{Deed, Step, Wanted};
    use super::*;

    /// On two CPUs: `server` allocates block 0, `purger` frees it; `other` has block 1 for itself.
    fn script() -> Script {
        let step = |time, task: u32, block, deed| Step { time, runner: task * 2, block, deed };
        let wanted = |task: u32| Wanted { gfp: Gfp::KERNEL, order: Order::ZERO, runner: Some(task * 2) };
        Script {
            steps: vec![
                step(1, 1, 0, Deed::Alloc),
                step(2, 2, 1, Deed::Alloc),
                step(3, 3, 0, Deed::Free),
                step(4, 2, 1, Deed::Free),
            ],
            blocks: vec![wanted(1), wanted(2)],
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
    fn blocks_of_named_tasks_stay_whole() {
        for chosen in [&["server"][..], &["purger", "nobody"]] {
            let mut script = script();
            choose(&mut script, &names(chosen)).unwrap();
            let times: Vec<u64> = script.steps.iter().map(|step| step.time).collect();
            assert_eq!((times, script.left_out.of_others), (vec![1, 3], 2), "{chosen:?}");
        }
        let mut all = script();
        choose(&mut all, &[]).unwrap();
        assert_eq!(all.steps.len(), 4);
    }

    #[test]
    fn a_name_that_no_task_has_is_told_with_those_that_are_there() {
        for error in [choose(&mut script(), &names(&["sever"])), set_purgers(&mut script(), &names(&["prger"]))] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("there are other, purger, server") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn purgers_have_the_first_of_every_so_many_cpus_and_nobody_else_has_it() {
        let stage = Stage::Parted { cpus_per_purger: 4 };
        for (cpus, of_purgers, of_others) in [(8, vec![0, 4], vec![1, 2, 3, 5, 6, 7]), (5, vec![0, 4], vec![1, 2, 3])] {
            let all = |duty| {
                let mut cpus: Vec<u16> = (0..100).map(|mixed| stage.cpu(cpus, mixed, duty)).collect();
                cpus.sort_unstable();
                cpus.dedup();
                cpus
            };
            assert_eq!((all(Duty::Purger), all(Duty::Other)), (of_purgers, of_others));
        }
        assert_eq!((stage.cpu(1, 7, Duty::Purger), stage.cpu(1, 7, Duty::Other)), (0, 0));
        assert_eq!(Stage::Open.cpu(8, 12, Duty::Purger), 4);
    }
}
