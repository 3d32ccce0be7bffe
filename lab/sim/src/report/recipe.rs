//! The recipe of a simulation: everything that somebody would need to have the same numbers again.

use freehold_policies::NamedPolicy;
use freehold_report::origin::Program;
use serde::Serialize;

use crate::costs::Costs;

/// How results came about. There is no machine in it, because it does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The program that simulated it.
    #[serde(flatten)]
    pub program: Program,
    /// What steps cost, in full.
    pub costs: Costs,
    /// Policies that took part, by name and by what they chose.
    pub policies: Vec<(String, String)>,
}

impl Recipe {
    /// The recipe of what this process simulates with this table.
    pub fn new(costs: &Costs, policies: &[NamedPolicy]) -> Recipe {
        let choices = policies.iter().map(|policy| (policy.name.clone(), freehold_policies::choices(&policy.policy)));
        Recipe { program: Program::this(), costs: costs.clone(), policies: choices.collect() }
    }

    /// The cost table's entries in one line.
    pub fn costs_text(&self) -> String {
        let table = serde_json::to_value(&self.costs).expect("a table is plain data");
        let entries = table.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        entries.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// The recipe in rows of a word and what it is.
    pub fn rows(&self) -> Vec<(String, String)> {
        let rows = [
            ("command", self.program.command.clone()),
            ("freehold", self.program.version()),
            ("cost table", self.costs.name.clone()),
        ];
        rows.map(|(word, meaning)| (word.to_owned(), meaning)).to_vec()
    }
}
