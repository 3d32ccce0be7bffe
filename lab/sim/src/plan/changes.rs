//! Changes that the command line makes to the text of a plan.

use super::error::OpenError;
use super::source::Source;

/// The key for memory of the machine.
pub(super) const MEMORY: &str = "machine.memory";
/// The key for how memory lies when a run begins.
pub(super) const START: &str = "machine.start";
/// The key for how old memory is then.
pub(super) const AGE: &str = "machine.age";
/// The key for memory of each CPU.
const MEMORY_PER_CPU: &str = "machine.memory_per_cpu";

/// Makes these changes, each `key=value`.
pub(super) fn set_all<'t>(source: &mut Source<'t>, changes: &'t [String]) -> Result<(), OpenError> {
    changes.iter().try_for_each(|change| {
        let (key, value) = change.split_once('=').ok_or_else(|| OpenError::NoValue(change.clone()))?;
        let (key, value) = (key.trim(), value.trim());
        set(source, format!("--set {key}"), key, value)
    })
}

/// Gives a key another value, which is swept no more, and takes out what it stands in the place of: of the two keys for
/// memory a machine has one; a start is as old and as large as it is, unless memory is given after it. Who gives both a
/// start and an age hears of it.
pub(super) fn set<'t>(source: &mut Source<'t>, option: String, key: &str, value: &'t str) -> Result<(), OpenError> {
    let (memories, other): (&[&str], &[&str]) = match key {
        MEMORY | MEMORY_PER_CPU => (&[MEMORY, MEMORY_PER_CPU], &[]),
        START => (&[MEMORY, MEMORY_PER_CPU], &[AGE]),
        AGE => (&[], &[START]),
        _ => (&[], &[]),
    };
    memories.iter().for_each(|memory| source.remove(memory));
    for other in other {
        if !source.is_given(other) {
            source.remove(other);
        }
    }
    memories.iter().chain(other).chain([&key]).for_each(|swept| source.end_sweep(swept));
    Ok(source.set(option, key, value)?)
}
