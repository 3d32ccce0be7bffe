//! Removal of names from the facts of a recording, so that it does not show the programs and drivers of its machine.
//!
//! Rows contain no names: a row names its task by an index into [`Facts::tasks`]. So only the facts change, and a
//! replay of the result plays the same events on the same machine. The module `known` has the names that every Linux
//! machine has and that are kept.

mod known;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::facts::{CacheFacts, Facts, HeapFacts, StackFacts, Task};
use crate::kernel::Release;

/// Note in recordings without names.
const NOTE: &str = "anonymized: names are replaced by numbers, and notes that may contain names are removed";
/// Text that replaces an assumption that may contain a name. Their number stays, because replays are less reliable with
/// each.
const GUESS: &str = "An assumption about the machine; its text was removed with the names.";
/// Replacement of the command's name.
const COMMAND: &str = "command";
/// Program that writes an anonymized recording.
const WRITER: &str = concat!("freehold ", env!("CARGO_PKG_VERSION"));

/// Treatment of names when a recording is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Names are written as they are.
    #[default]
    Kept,
    /// Names are replaced: see [`anonymize`].
    Removed,
}

impl Identity {
    /// Returns the facts to write.
    pub fn apply(self, facts: Facts) -> Facts {
        match self {
            Identity::Kept => facts,
            Identity::Removed => anonymize(facts),
        }
    }
}

/// Returns the facts without the names that identify a machine's work.
///
/// - Tasks and heaps get names such as `task-1`, the same one for equal names. Kernel threads of every machine, `other`
///   and `freehold` keep their names, without suffixes. Thread ids are numbered from 1 on; 0 stays.
/// - Slab caches become `cache-1`, functions `function-1`, the command `command`.
/// - The kernel's release loses its suffix: `6.12.117+deb12-cloud-amd64` becomes `6.12.117`.
/// - Notes and guesses are kept only if they begin like a fixed text of this program.
///
/// The writer is replaced, names of unknown GFP flags are removed, and a note is added. Other facts are unchanged, and
/// anonymized facts stay as they are.
pub fn anonymize(mut facts: Facts) -> Facts {
    // Each field is named, so that a new field does not compile before it is treated here.
    let Facts {
        writer,
        kernel_release,
        command,
        gfp_names,
        tasks,
        caches_start,
        caches_end,
        heaps,
        stacks,
        notes,
        guesses,
        format: _,
        machine: _,
        page_size: _,
        pageblock_order: _,
        cpus: _,
        duration: _,
        rows: _,
        lost: _,
        ram: _,
        settings: _,
        zones_start: _,
        zones_end: _,
        vmstat_names: _,
        pressure_names: _,
        zone_counter_names: _,
        samples: _,
        pagetypeinfo_start: _,
        pagetypeinfo_end: _,
        flight: _,
    } = &mut facts;
    WRITER.clone_into(writer);
    *kernel_release = version_of(kernel_release);
    *command = command.as_ref().map(|_| COMMAND.to_owned());
    gfp_names.retain(|name, _| known::is_gfp_flag(name));
    let mut numbers = Tasks::default();
    tasks.iter_mut().for_each(|task| numbers.rename(task));
    heaps.iter_mut().for_each(|heap| numbers.rename_heap(heap));
    rename_caches([caches_start, caches_end]);
    stacks.iter_mut().for_each(rename_functions);
    notes.retain(|note| known::is_plain_note(note));
    notes.push(NOTE.to_owned());
    guesses.iter_mut().filter(|guess| !known::is_plain_guess(guess)).for_each(|guess| GUESS.clone_into(guess));
    facts
}

/// New names and thread ids, in the order of their first use.
#[derive(Default)]
struct Tasks {
    names: Numbers<String>,
    pids: Numbers<u32>,
}

impl Tasks {
    fn rename(&mut self, task: &mut Task) {
        task.pid = self.pid(task.pid);
        task.name = self.name(&task.name);
    }

    fn rename_heap(&mut self, heap: &mut HeapFacts) {
        heap.pid = self.pid(heap.pid);
        heap.name = self.name(&heap.name);
        heap.threads.iter_mut().for_each(|thread| *thread = self.pid(*thread));
    }

    fn name(&mut self, name: &str) -> String {
        known::task(name).unwrap_or_else(|| format!("task-{}", self.names.number(name.to_owned())))
    }

    fn pid(&mut self, pid: u32) -> u32 {
        if pid == 0 { 0 } else { self.pids.number(pid) }
    }
}

/// Numbers from 1 on, equal for equal keys.
struct Numbers<K>(BTreeMap<K, u32>);

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Numbers(BTreeMap::new())
    }
}

impl<K: Ord> Numbers<K> {
    fn number(&mut self, key: K) -> u32 {
        let next = u32::try_from(self.0.len() + 1).expect("fewer than 2^32 names fit in memory");
        match self.0.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => *place.insert(next),
        }
    }
}

fn rename_caches(lists: [&mut Vec<CacheFacts>; 2]) {
    let mut numbers = Numbers::default();
    for cache in lists.into_iter().flatten().filter(|cache| !known::is_cache(&cache.name)) {
        cache.name = format!("cache-{}", numbers.number(cache.name.clone()));
    }
}

fn rename_functions(stacks: &mut StackFacts) {
    for (number, symbol) in (1..).zip(&mut stacks.symbols) {
        *symbol = format!("function-{number}");
    }
}

/// Returns the version at the start of a kernel's release, such as `6.12.117`.
fn version_of(release: &str) -> String {
    let end = release.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(release.len());
    let version = release[..end].trim_end_matches('.');
    match Release::parse(release) {
        Some(known) if Release::parse(version) != Some(known) => known.to_string(),
        _ => version.to_owned(),
    }
}

#[cfg(test)]
mod tests;
