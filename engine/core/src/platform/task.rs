//! What the caller of an allocation is, beyond its GFP flags, and what that entitles it to.
//!
//! Linux asks three questions about where code runs, and they do not agree: whether it is a task (`in_task`), whether
//! it serves a soft interrupt (`in_serving_softirq`), and whether it is in an interrupt at all (`in_interrupt`, which
//! includes a task that holds soft interrupts off). So there are four contexts, and each right is granted by its own
//! question:
//!
//! | right | task | task, soft interrupts off | soft interrupt | hard interrupt |
//! |---|---|---|---|---|
//! | half of the min reserve, as a real-time task | yes | yes | no | no |
//! | all reserves, as a task that reclaims | yes | no | yes | no |
//! | part of the reserve, as a task that is being ended | yes | no | no | no |
//!
//! The flags are those of the task that runs on the CPU, also where an interrupt has come between: code that serves a
//! soft interrupt and reclaims for it (network storage under swap) borrows the flag from the task that it interrupted.
//!
//! linux: mm/page_alloc.c:__gfp_pfmemalloc_flags, gfp_to_alloc_flags; include/linux/preempt.h

/// What a calling task may do beyond its GFP flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Reclaims itself, so it may use all reserves and must not reclaim again. linux: PF_MEMALLOC
    pub memalloc: bool,
    /// Is being ended for lack of memory, so it may dip into the reserve. linux: tsk_is_oom_victim
    pub oom_victim: bool,
    /// Has real-time priority. linux: rt_or_dl_task
    pub realtime: bool,
    /// Where its code runs: in the task itself, or in an interrupt.
    pub context: Context,
}

/// Where the code that makes a request runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// In a task, with interrupts of both kinds on.
    #[default]
    Task,
    /// In a task that holds soft interrupts off. linux: local_bh_disable
    SoftirqsOff,
    /// In a soft interrupt. linux: in_serving_softirq
    Softirq,
    /// In a hard interrupt, or one that cannot be masked. linux: in_hardirq, in_nmi
    Hardirq,
}

impl Context {
    /// Every context, as the table above has them.
    pub const ALL: [Context; 4] = [Context::Task, Context::SoftirqsOff, Context::Softirq, Context::Hardirq];
}

impl Task {
    /// Whether its priority counts: that of a task which an interrupt came upon does not.
    pub(crate) fn is_urgent(self) -> bool {
        self.realtime && matches!(self.context, Context::Task | Context::SoftirqsOff)
    }

    /// Whether it may use all reserves.
    pub(crate) fn may_empty_reserves(self) -> bool {
        self.memalloc && matches!(self.context, Context::Task | Context::Softirq)
    }

    /// Whether it may use part of the reserve because it is being ended.
    pub(crate) fn may_dip_to_end(self) -> bool {
        self.oom_victim && self.context == Context::Task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table above, a row a right, in the order of [`Context::ALL`].
    const URGENT: [bool; 4] = [true, true, false, false];
    const ALL_RESERVES: [bool; 4] = [true, false, true, false];
    const DIP_TO_END: [bool; 4] = [true, false, false, false];

    fn rights(task: Task) -> [[bool; 4]; 3] {
        [Task::is_urgent, Task::may_empty_reserves, Task::may_dip_to_end]
            .map(|right| Context::ALL.map(|context| right(Task { context, ..task })))
    }

    #[test]
    fn each_flag_grants_its_right_in_its_contexts_only() {
        let (nobody, never) = (Task::default(), [false; 4]);
        assert_eq!(rights(nobody), [never; 3]);
        assert_eq!(rights(Task { realtime: true, ..nobody }), [URGENT, never, never]);
        assert_eq!(rights(Task { memalloc: true, ..nobody }), [never, ALL_RESERVES, never]);
        assert_eq!(rights(Task { oom_victim: true, ..nobody }), [never, never, DIP_TO_END]);
        let all = Task { realtime: true, memalloc: true, oom_victim: true, ..nobody };
        assert_eq!(rights(all), [URGENT, ALL_RESERVES, DIP_TO_END]);
    }
}
