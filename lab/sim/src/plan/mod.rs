//! Plans: specifications of simulations, as data.
//!
//! A plan is a TOML file with a workload ([`Workload`](crate::workload::Workload)), a machine, numbers of CPUs,
//! policies, a duration and a number of seeds. Some plans are [built in](builtin); others are files. A plan is read in
//! three steps: [`source`] records the location of each key and value, the command line changes single values there,
//! and [`read`] turns the tables into a [`Plan`] that can be run, or into one sentence with file, line and key
//! ([`error`]). A plan that sweeps a parameter is read once for each value, so each value is checked in its place. The
//! bounds of the values that hosts of a fleet draw ([`draws`]) are checked in the same way.

pub mod builtin;
mod bytes;
mod changes;
pub mod draws;
pub mod error;
mod head;
mod machine;
mod model;
mod point;
mod read;
pub mod source;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use builtin::{BUILTINS, Builtin};
use toml::Spanned;
use toml::de::DeValue;

use super::costs::Costs;
use changes::{AGE, MEMORY, START, set, set_all};
use error::OpenError;
use source::Source;

pub use bytes::{Bytes, BytesError};
pub use machine::MachineSpec;
pub use model::{CPUS, Changes, Outline, Plan, Point, RIVALS, SEEDS};

impl Plan {
    /// Opens the plan with this built-in name or at this path, and applies changes.
    ///
    /// # Errors
    /// Returns an error if there is no such plan, or if it is invalid.
    pub fn open(name: &str, changes: &Changes) -> Result<Plan, OpenError> {
        if let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) {
            return Plan::parse(name, builtin.text, changes);
        }
        let path = Path::new(name);
        let looks_like_name = !name.contains(['/', '.']);
        if looks_like_name && !path.exists() {
            let hint = freehold_policies::hint(name, BUILTINS.iter().map(|builtin| builtin.name));
            return Err(OpenError::Unknown { name: name.to_owned(), hint });
        }
        let text =
            fs::read_to_string(path).map_err(|source| OpenError::Unreadable { path: path.to_path_buf(), source })?;
        Plan::parse(name, &text, changes)
    }

    /// Returns the outline of a built-in plan, without checking that it can be run: its recording may be missing here.
    ///
    /// # Errors
    /// Returns an error if the keys at the top of the plan are invalid.
    pub fn outline(builtin: &Builtin) -> Result<Outline, OpenError> {
        Ok(read::read_outline(&Source::parse(builtin.name, builtin.text)?)?)
    }

    /// Parses the plan in `text`, which errors refer to as `name`.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid: one sentence with the line and the key.
    pub fn parse(name: &str, text: &str, changes: &Changes) -> Result<Plan, OpenError> {
        changes.check_policies()?;
        let mut source = Source::parse(name, text)?;
        let age = changes.age.as_ref().map(u8::to_string);
        let options = [("--start", START, &changes.start), ("--age", AGE, &age), ("--memory", MEMORY, &changes.memory)];
        let given = options.into_iter().filter_map(|(option, key, value)| Some((option, key, value.as_ref()?)));
        for (option, key, value) in given.clone() {
            set(&mut source, format!("{option} {value}"), key, value)?;
        }
        set_all(&mut source, &changes.set)?;
        let plan = read::read_plan(&source, changes)?;
        let options = given.map(|(_, key, value)| format!("{key}={value}"));
        let applied = options.chain(changes.set.iter().cloned()).collect();
        Ok(Plan { name: name.to_owned(), text: text.to_owned(), changes: applied, ..plan })
    }
}

/// Reads a cost table, with error messages like those of plans.
///
/// # Errors
/// Returns an error if the table is invalid: one sentence with the line and the key.
pub fn read_costs(name: &str, text: &str) -> Result<Costs, OpenError> {
    let source = Source::parse(name, text)?;
    let table = source.table().clone();
    Ok(source.read("", Spanned::new(0..0, DeValue::Table(table)), &[])?)
}
