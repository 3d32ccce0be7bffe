//! The option `--events`, shared by the commands that record, here or in a guest.

use clap::Args;
use freehold_record::EventSet;

/// Events to record in addition to those that are always recorded.
#[derive(Clone, Debug, Args)]
pub(crate) struct EventsArgs {
    /// Also record these sets of events: reclaim, compaction, writeback, migration, sched (every task switch), or all
    #[arg(long, value_name = "SETS", value_delimiter = ',', value_parser = event_sets)]
    events: Vec<Sets>,
}

impl EventsArgs {
    /// Returns the requested sets.
    pub(crate) fn sets(&self) -> impl Iterator<Item = EventSet> {
        self.events.iter().flat_map(|sets| sets.0).copied()
    }
}

/// Sets of events that one word of the option selects.
#[derive(Clone, Debug, PartialEq)]
struct Sets(&'static [EventSet]);

/// Parses the name of a set of events, or `all`.
fn event_sets(name: &str) -> Result<Sets, String> {
    if name == "all" {
        return Ok(Sets(&EventSet::ALL));
    }
    let set = EventSet::ALL.iter().find(|set| set.name() == name);
    set.map(|set| Sets(std::slice::from_ref(set))).ok_or_else(|| {
        let names = EventSet::ALL.map(EventSet::name).join(", ");
        format!("unknown set of events `{name}`; the sets are {names}, and all")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_event_set_error_lists_the_known_sets() {
        assert!(event_sets("irq").unwrap_err().contains("reclaim, compaction, writeback, migration, sched, and all"));
    }
}
