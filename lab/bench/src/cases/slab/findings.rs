//! Tables and duels in which the contests of the slab result.

use freehold_report::report::Table;

use crate::contest::{Contest, Duel, DuelRecord};

/// Tables and duels, in the order of the report.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) tables: Vec<Table>,
    pub(super) duels: Vec<DuelRecord>,
}

impl Findings {
    /// Records a duel about one cell.
    pub(super) fn note(&mut self, contest: &Contest, a: usize, b: usize, cell: usize, duel: &Duel) {
        let what = contest.cells[cell];
        self.duels.push(DuelRecord {
            a: contest.names[a].clone(),
            b: contest.names[b].clone(),
            work: what.work.name(),
            figure: what.name(),
            bytes: Some(what.size.bytes()),
            duel: *duel,
        });
    }
}
