//! Properties of the task that calls the allocator, and the rights that follow from them beyond the GFP flags.
//!
//! Linux has three predicates for the context in which code runs, and they overlap: `in_task`, `in_serving_softirq`,
//! and `in_interrupt`, which is also true for a task that has soft interrupts disabled. This gives four contexts. Each
//! right depends on its own predicate:
//!
//! | right | task | task, soft interrupts off | soft interrupt | hard interrupt |
//! |---|---|---|---|---|
//! | half of the min reserve, as a real-time task | yes | yes | no | no |
//! | all reserves, as a task that reclaims | yes | no | yes | no |
//! | part of the reserve, as an OOM victim | yes | no | no | no |
//!
//! The flags are those of the task that runs on the CPU, even inside an interrupt. A soft interrupt that reclaims
//! (network storage under swap) borrows the flag of the task that it interrupted.
//!
//! linux: mm/page_alloc.c:__gfp_pfmemalloc_flags, gfp_to_alloc_flags; include/linux/preempt.h

/// Rights of a calling task beyond its GFP flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Whether the task reclaims, so that it may use all reserves and must not reclaim again. linux: PF_MEMALLOC
    pub memalloc: bool,
    /// Whether the task is being ended for lack of memory, so that it may use part of the reserve.
    /// linux: tsk_is_oom_victim
    pub oom_victim: bool,
    /// Whether the task has real-time priority. linux: rt_or_dl_task
    pub realtime: bool,
    /// Context in which the code runs: the task itself or an interrupt.
    pub context: Context,
}

/// Context of the code that makes a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// In a task, with all interrupts enabled.
    #[default]
    Task,
    /// In a task that has disabled soft interrupts, or all interrupts. linux: local_bh_disable
    SoftirqsOff,
    /// In a soft interrupt. linux: in_serving_softirq
    Softirq,
    /// In a hard interrupt or an NMI. linux: in_hardirq, in_nmi
    Hardirq,
}

impl Context {
    /// All contexts, in the order of the table above.
    pub const ALL: [Context; 4] = [Context::Task, Context::SoftirqsOff, Context::Softirq, Context::Hardirq];
}

impl Task {
    /// Returns whether the real-time priority of the task counts. In an interrupt it does not.
    pub(crate) fn is_urgent(self) -> bool {
        self.realtime && matches!(self.context, Context::Task | Context::SoftirqsOff)
    }

    /// Returns whether the task may use all reserves.
    pub(crate) fn may_empty_reserves(self) -> bool {
        self.memalloc && matches!(self.context, Context::Task | Context::Softirq)
    }

    /// Returns whether the task may use part of the reserve because it is being ended.
    pub(crate) fn may_dip_to_end(self) -> bool {
        self.oom_victim && self.context == Context::Task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table above, one array per right, in the order of [`Context::ALL`].
    const URGENT: [bool; 4] = [true, true, false, false];
    const ALL_RESERVES: [bool; 4] = [true, false, true, false];
    const DIP_TO_END: [bool; 4] = [true, false, false, false];

    fn rights(task: Task) -> [[bool; 4]; 3] {
        [Task::is_urgent, Task::may_empty_reserves, Task::may_dip_to_end]
            .map(|right| Context::ALL.map(|context| right(Task { context, ..task })))
    }

    #[test]
    fn task_flags_grant_rights_only_in_their_contexts() {
        let (nobody, never) = (Task::default(), [false; 4]);
        assert_eq!(rights(nobody), [never; 3]);
        assert_eq!(rights(Task { realtime: true, ..nobody }), [URGENT, never, never]);
        assert_eq!(rights(Task { memalloc: true, ..nobody }), [never, ALL_RESERVES, never]);
        assert_eq!(rights(Task { oom_victim: true, ..nobody }), [never, never, DIP_TO_END]);
        let all = Task { realtime: true, memalloc: true, oom_victim: true, ..nobody };
        assert_eq!(rights(all), [URGENT, ALL_RESERVES, DIP_TO_END]);
    }
}
