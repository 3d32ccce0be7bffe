//! First table: damage that an assertion of the responsible module detects.

mod blocks;
mod cpus;
mod lists;
mod tasks;
mod words;
mod zones;

use std::panic::{self, AssertUnwindSafe};

use freehold::policy::PcpPolicy;

use crate::common::panic_hook;
use crate::damage::stage::{Play, Stage};

/// One kind of damage.
pub(super) struct Row {
    /// Name of the damaged state.
    name: &'static str,
    /// Policy of the machine.
    pcp: PcpPolicy,
    /// Text that the assertion's message must contain.
    says: &'static str,
    /// Damages the state, and continues with ordinary operations.
    play: fn(&'static Stage),
}

impl Row {
    /// Creates a row for a machine without per-CPU lists.
    const fn bare(name: &'static str, says: &'static str, play: fn(&'static Stage)) -> Row {
        Row { name, pcp: PcpPolicy::Off, says, play }
    }

    /// Creates a row for a machine with Linux's per-CPU lists.
    const fn listed(name: &'static str, says: &'static str, play: fn(&'static Stage)) -> Row {
        Row { name, pcp: PcpPolicy::Linux, says, play }
    }

    /// Creates a row for a machine whose CPUs own pageblocks and have stacks.
    const fn owned(name: &'static str, says: &'static str, play: fn(&'static Stage)) -> Row {
        Row { name, pcp: PcpPolicy::OwnedRemote, says, play }
    }

    /// Plays the row on a new machine. Returns the machine, and the message of a panic.
    fn run(&self, play: Play) -> (&'static Stage, Option<String>) {
        panic_hook::install();
        let stage = Stage::new(self.pcp, play);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| (self.play)(stage)));
        (stage, outcome.err().map(panic_message))
    }

    /// Returns a description of the failure of this row, or `None` if it passes.
    fn judge(&self) -> Option<String> {
        let (sound, message) = self.run(Play::Sound);
        if let Some(message) = message {
            return Some(format!("{}: without damage it ends in: {message}", self.name));
        }
        if let Err(violation) = sound.engine.check() {
            return Some(format!("{}: without damage, {violation}", self.name));
        }
        let (spoiled, message) = self.run(Play::Spoiled);
        match message {
            _ if !spoiled.is_spoiled() => Some(format!("{}: nothing was spoiled", self.name)),
            Some(message) if message.contains(self.says) => misplaced(self.name, &message),
            Some(message) => Some(format!("{}: it ends in: {message}", self.name)),
            None => Some(format!("{}: nobody notices; the walk says {:?}", self.name, spoiled.engine.check())),
        }
    }
}

/// Prefix of each module's assertion messages, and the place of the module.
const OWNERS: [(&str, &str); 17] = [
    ("CMA area", "src/page/contig/cma.rs"),
    ("background task", "src/page/background.rs"),
    ("block list", "src/base/blocklist.rs"),
    ("buddy", "src/page/zone/buddy.rs"),
    ("errand", "src/page/background.rs"),
    ("fragments", "src/page/zone/ownership.rs"),
    ("free areas", "src/page/zone/free_area.rs"),
    ("isolation", "src/page/isolation.rs"),
    ("list", "src/base/list.rs"),
    ("memory map", "src/base/memmap.rs"),
    ("offline", "src/page/offline.rs"),
    ("pageblock", "src/base/pageblock.rs"),
    ("per-CPU lists", "src/page/percpu/"),
    ("stack", "src/base/stack.rs"),
    ("word", "src/base/frame.rs"),
    ("zone", "src/page/zone"),
    ("zones", "src/page/allocator.rs"),
];

/// Returns the message of a panic, or an empty string.
fn panic_message(panic: Box<dyn core::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(other) => other.downcast_ref::<&str>().map_or_else(String::new, |message| (*message).to_owned()),
    }
}

/// Returns an error if a message was not raised by the module that its prefix names.
fn misplaced(name: &str, message: &str) -> Option<String> {
    let (owner, _) = message.split_once(':').unwrap_or_default();
    let owned = OWNERS.into_iter().find(|(begins, _)| *begins == owner);
    let file = panic_hook::last_panic_file();
    let is_own = owned.is_some_and(|(_, place)| file.replace('\\', "/").contains(place));
    (!is_own).then(|| format!("{name}: `{owner}` is asserted in {file}"))
}

/// Minimum number of rows in the table.
const CORRUPTIONS: usize = 40;

#[test]
fn planted_corruption_is_asserted_by_the_owning_module() {
    let tables = [lists::ROWS, words::ROWS, blocks::ROWS, zones::ROWS, cpus::ROWS, tasks::ROWS];
    let wrong: Vec<String> = tables.iter().copied().flatten().filter_map(Row::judge).collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tables.iter().map(|rows| rows.len()).sum::<usize>() >= CORRUPTIONS);
}
