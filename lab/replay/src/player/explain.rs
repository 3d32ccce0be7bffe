//! Log of the first decisions that differ: requests with another result in the engine than in the recorded kernel.

use freehold_trace::facts::Facts;
use rustc_hash::FxHashMap;

use super::super::survey::Stall;
use super::waiting::Claim;
use crate::report::course::{Decision, Fate};

/// Number of decisions that are kept. Later ones are mostly consequences of the first.
const KEPT: usize = 50;

/// Log of the first decisions that differ.
#[derive(Debug)]
pub(crate) struct DecisionLog {
    /// Stall times of recorded requests in nanoseconds, by the rows of their events.
    recorded: FxHashMap<u64, u64>,
    first: Vec<(u32, Decision)>,
}

impl DecisionLog {
    /// Creates an empty log.
    pub(crate) fn new(stalls: &[Stall]) -> DecisionLog {
        let recorded = stalls.iter().map(|stall| (stall.end, stall.ns())).collect();
        DecisionLog { recorded, first: Vec::new() }
    }

    /// Records the result of a request in the engine, if it differs from the recorded one and the log is not full. Two
    /// stalls are equal, however long they are.
    pub(crate) fn note(&mut self, claim: &Claim, replayed: Fate) {
        if self.first.len() == KEPT {
            return;
        }
        let recorded = match (claim.recorded, self.recorded.get(&claim.row)) {
            (None, _) => Fate::Refused,
            (Some(_), Some(&ns)) => Fate::Stalled { ns },
            (Some(_), None) => Fate::Served,
        };
        let is_same = matches!(
            (recorded, replayed),
            (Fate::Refused, Fate::Refused)
                | (Fate::Served, Fate::Served)
                | (Fate::Stalled { .. }, Fate::Stalled { .. })
        );
        if !is_same {
            let decision =
                Decision { time: claim.time, task: String::new(), order: claim.order.get(), recorded, replayed };
            self.first.push((claim.task, decision));
        }
    }

    /// Returns the decisions, with the tasks' names.
    pub(crate) fn finish(&self, facts: &Facts) -> Vec<Decision> {
        let decisions = self.first.iter();
        decisions
            .map(|(task, decision)| Decision { task: facts.task_name(*task).to_owned(), ..decision.clone() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{CpuId, Gfp, Order};

    use super::super::super::survey::Work;
    use super::*;

    fn claim_at(row: u64, recorded: Option<usize>) -> Claim {
        Claim {
            task: 1,
            gfp: Gfp::KERNEL,
            order: Order::new(9),
            cpu: CpuId(0),
            row,
            time: 30,
            recorded,
            second: None,
            work: Work::Own,
            is_queued: false,
        }
    }

    #[test]
    fn decision_log_keeps_the_first_differences() {
        let stall = Stall { row: 3, end: 7, time: (10, 30), task: 1, gfp: 0, order: 9, failed: false };
        let mut decision_log = DecisionLog::new(&[stall]);
        decision_log.note(&claim_at(7, Some(512)), Fate::Stalled { ns: 5 });
        decision_log.note(&claim_at(8, Some(512)), Fate::Served);
        decision_log.note(&claim_at(9, None), Fate::Refused);
        assert!(decision_log.finish(&Facts::default()).is_empty());
        decision_log.note(&claim_at(7, Some(512)), Fate::Served);
        (0..KEPT).for_each(|_| decision_log.note(&claim_at(9, None), Fate::Served));
        let found = decision_log.finish(&Facts::default());
        assert_eq!(
            (found.len(), found[0].recorded, found[1].recorded),
            (KEPT, Fate::Stalled { ns: 20 }, Fate::Refused)
        );
    }
}
