//! Costs of all runs, with their ratios and medians.

use freehold_stats::intervals::median;
use freehold_workloads::malloc::Table;

use super::cost::Rounds;
use super::ratio::{Figure, Ratio, logs};
use super::request::Request;

/// Costs from which ratios and medians are computed.
pub(super) struct Costs<'a> {
    pub request: &'a Request,
    pub rounds: &'a Rounds,
    pub mallocs: usize,
}

impl Costs<'_> {
    /// Returns the indices of the loads of a table.
    pub(super) fn loads_of(&self, table: Table) -> Vec<usize> {
        (0..self.request.loads.len()).filter(|&load| self.request.loads[load].table == table).collect()
    }

    /// Returns the ratios of Freehold's figure to that of each other malloc.
    pub(super) fn against(&self, loads: &[usize], figure: Figure) -> Vec<Option<Ratio>> {
        let mut ratios = vec![None; self.mallocs];
        if !loads.is_empty() {
            for (other, ratio) in ratios.iter_mut().enumerate().skip(1) {
                *ratio = Ratio::from_logs(&logs(self.rounds, loads, other, figure), self.request.seed);
            }
        }
        ratios
    }

    /// Returns the medians over the rounds, by malloc.
    pub(super) fn medians(&self, load: usize, figure: Figure) -> Vec<Option<f64>> {
        let mut medians = Vec::new();
        for malloc in 0..self.mallocs {
            let costs = self.rounds.iter().filter_map(|round| round[load][malloc].as_ref());
            let mut values: Vec<f64> = costs.map(figure).collect();
            medians.push((!values.is_empty()).then(|| median(&mut values)));
        }
        medians
    }
}
