//! Changes that the command line makes to the text of a plan.

use super::error::OpenError;
use super::source::Source;

/// Key of the machine's memory.
pub(super) const MEMORY: &str = "machine.memory";
/// Key of the start state of memory.
pub(super) const START: &str = "machine.start";
/// Key of the age of memory in the start state.
pub(super) const AGE: &str = "machine.age";
/// Key of the memory for each CPU.
const MEMORY_PER_CPU: &str = "machine.memory_per_cpu";

/// Applies these changes, each `key=value`.
pub(super) fn set_all<'t>(source: &mut Source<'t>, changes: &'t [String]) -> Result<(), OpenError> {
    changes.iter().try_for_each(|change| {
        let (key, value) = change.split_once('=').ok_or_else(|| OpenError::NoValue(change.clone()))?;
        let (key, value) = (key.trim(), value.trim());
        set(source, format!("--set {key}"), key, value)
    })
}

/// Sets a key to another value, ends its sweep, and removes the keys that it replaces. The two keys for memory replace
/// each other. A start replaces both keys for memory, since it has a size, which a later change may override. A start
/// and an age replace each other, unless the command line gives both; that is reported as an error later.
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
