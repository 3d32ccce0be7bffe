//! The recipe of a simulation: everything that somebody would need to have the same numbers again.

use serde::Serialize;

use crate::bench::recipe;
use crate::registry::{self, NamedPolicy};
use crate::sim::costs::Costs;

/// How results came about. There is no machine in it, because it does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The command.
    pub command: String,
    /// Version of this program.
    pub freehold: &'static str,
    /// The commit it was built from, if that was in a repository.
    pub commit: Option<&'static str>,
    /// What steps cost, in full.
    pub costs: Costs,
    /// Policies that took part, by name and by what they chose.
    pub policies: Vec<(String, String)>,
}

impl Recipe {
    /// The recipe of what this process simulates with this table.
    pub fn new(costs: &Costs, policies: &[NamedPolicy]) -> Recipe {
        let choices = |policy: &NamedPolicy| (policy.name.clone(), registry::choices(&policy.policy));
        Recipe {
            command: recipe::command(std::env::args().skip(1)),
            freehold: env!("CARGO_PKG_VERSION"),
            commit: option_env!("FREEHOLD_COMMIT"),
            costs: costs.clone(),
            policies: policies.iter().map(choices).collect(),
        }
    }

    /// The cost table's entries in one line.
    pub fn costs_text(&self) -> String {
        let table = serde_json::to_value(&self.costs).expect("a table is plain data");
        let entries = table.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        entries.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// The recipe in one line.
    pub fn text(&self) -> String {
        let commit = self.commit.map_or(String::new(), |commit| format!(", commit {commit}"));
        format!("{} (freehold {}{commit}; cost table `{}`)\n", self.command, self.freehold, self.costs.name)
    }
}
