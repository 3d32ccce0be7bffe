//! The recipe of a simulation: everything that is needed to reproduce its numbers.

use freehold_policies::NamedPolicy;
use freehold_report::origin::Program;
use serde::Serialize;

use crate::costs::Costs;

/// Origin of results. The machine is not part of it, since it has no influence on the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// Program that ran the simulation.
    #[serde(flatten)]
    pub program: Program,
    /// Costs of steps, in full.
    pub costs: Costs,
    /// Policies that took part: name, and choices.
    pub policies: Vec<(String, String)>,
}

impl Recipe {
    /// Returns the recipe of a simulation in this process with this table.
    pub fn new(costs: &Costs, policies: &[NamedPolicy]) -> Recipe {
        let choices = policies.iter().map(|policy| (policy.name.clone(), freehold_policies::choices(&policy.policy)));
        Recipe { program: Program::this(), costs: costs.clone(), policies: choices.collect() }
    }

    /// Returns the entries of the cost table in one line.
    pub fn costs_text(&self) -> String {
        let table = serde_json::to_value(&self.costs).expect("a cost table serializes to JSON");
        let entries = table.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        entries.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the recipe as rows of a word and its value.
    pub fn rows(&self) -> Vec<(String, String)> {
        let rows = [
            ("command", self.program.command.clone()),
            ("freehold", self.program.version()),
            ("cost table", self.costs.name.clone()),
        ];
        rows.map(|(word, meaning)| (word.to_owned(), meaning)).to_vec()
    }
}
