//! Tables and duels in which the contests of the slab result.

use freehold_report::report::{Table, Value};

use crate::contest::{Contest, Duel, DuelRecord};
use crate::values;

/// Tables and duels, in the order of the report.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) tables: Vec<Table>,
    pub(super) duels: Vec<DuelRecord>,
    /// Counts of verdicts and bars: one row for each pair of sides.
    summary: Vec<Vec<Value>>,
    /// Geometric means over several figures.
    means: Vec<Vec<Value>>,
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

    /// Adds the verdicts and bars of these duels to the summary; nothing if there are none.
    pub(super) fn summarize(&mut self, a: &str, b: &str, duels: &[Duel]) {
        if duels.is_empty() {
            return;
        }
        let mut row = vec![Value::text(a), Value::text(b), Value::text(duels.len())];
        row.extend(values::count_duels(duels).map(Value::text));
        self.summary.push(row);
    }

    /// Adds the duel over the geometric mean of the figures in `scope`.
    pub(super) fn add_mean(&mut self, scope: &str, a: &str, b: &str, duel: &Duel) {
        let words = [scope, a, b].map(Value::text);
        let ratio = Value::Judged(duel.ratio_text(), duel.verdict);
        self.means.push(words.into_iter().chain([ratio, values::bar(Some(duel))]).collect());
    }

    /// Returns the summary, the means and all other tables, and the duels.
    pub(super) fn finish(self) -> (Vec<Table>, Vec<DuelRecord>) {
        let counts =
            ["figures", "better", "worse", "no change", "within noise", "bars met", "bars missed", "bars open"];
        let summary = Table {
            title: "Summary".to_owned(),
            about: "Verdicts on B/A, and bars of B/A.".to_owned(),
            columns: values::columns(2, ["A", "B"].into_iter().chain(counts)),
            rows: self.summary,
            ..Table::default()
        };
        let means = Table {
            title: "Geometric means".to_owned(),
            columns: values::columns(3, ["loops", "A", "B", "B/A", "bar"]),
            rows: self.means,
            ..Table::default()
        };
        let first = [summary, means].into_iter().filter(|table| !table.rows.is_empty());
        (first.chain(self.tables).collect(), self.duels)
    }
}
