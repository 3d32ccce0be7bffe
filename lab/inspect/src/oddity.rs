//! Why an event did not find its partner, or found it in an unusual way.
//!
//! The kernel does more than it tells (see [`super::pairing`]), so no recording pairs up completely. Each reason
//! has a fixed name for scripts and a line for people.

use serde::Serialize;

/// Why an event did not find its partner, or found it in an unusual way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// Freed, allocated before the recording started.
    OlderThanRecording,
    /// Freed, offline or in a balloon when the recording started: given to the allocator, and by nobody that had it.
    FromBalloon,
    /// Freed; the page flags at the start did not say whether it was allocated.
    UnknownAtStart,
    /// Freed after leaving the zone or a per-CPU list without an allocation event.
    BulkAllocation,
    /// Freed after lying in the zone's free lists, and no event took it from there.
    TakenWithoutEvent,
    /// Freed by a task that was compacting: the contents moved to another page.
    MigrationSource,
    /// Freed where compaction had put the contents of an older page.
    MigrationTarget,
    /// Freed by a task that was compacting, and not allocated: a target that was not needed.
    CompactionReturn,
    /// A part of a larger allocation, freed by itself.
    SplitPart,
    /// Freed as a block larger than the allocations in it.
    LargerThanAllocated,
    /// Allocated while it was live: its free was not seen.
    AllocatedWhileLive,
}

impl Oddity {
    /// Every oddity, in the order of reports.
    pub(crate) const ALL: [Oddity; 11] = [
        Oddity::OlderThanRecording,
        Oddity::FromBalloon,
        Oddity::UnknownAtStart,
        Oddity::BulkAllocation,
        Oddity::TakenWithoutEvent,
        Oddity::MigrationSource,
        Oddity::MigrationTarget,
        Oddity::CompactionReturn,
        Oddity::SplitPart,
        Oddity::LargerThanAllocated,
        Oddity::AllocatedWhileLive,
    ];

    /// The name in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Oddity::OlderThanRecording => "free_older_than_recording",
            Oddity::FromBalloon => "free_from_balloon",
            Oddity::UnknownAtStart => "free_unknown_at_start",
            Oddity::BulkAllocation => "free_of_bulk_allocation",
            Oddity::TakenWithoutEvent => "free_after_silent_taking",
            Oddity::MigrationSource => "free_of_migration_source",
            Oddity::MigrationTarget => "free_of_migration_target",
            Oddity::CompactionReturn => "free_of_unused_target",
            Oddity::SplitPart => "free_of_split_part",
            Oddity::LargerThanAllocated => "free_larger_than_allocated",
            Oddity::AllocatedWhileLive => "allocation_while_live",
        }
    }

    /// The reason, in one line.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Oddity::OlderThanRecording => "allocated before the recording started",
            Oddity::FromBalloon => "offline or in a balloon at the start, and allocated by nobody",
            Oddity::UnknownAtStart => "on a per-CPU list or allocated without page flags at the start",
            Oddity::BulkAllocation => "the bulk allocator (kernel stacks, vmalloc) makes no allocation event",
            Oddity::TakenWithoutEvent => "contiguous ranges, captures and page reporting take free pages without event",
            Oddity::MigrationSource => "compaction moved the contents away; no death",
            Oddity::MigrationTarget => "compaction moved contents here without event; paired with an older source",
            Oddity::CompactionReturn => "compaction had taken it as a target and gave it back",
            Oddity::SplitPart => "a larger allocation was split; paired with it",
            Oddity::LargerThanAllocated => "allocated in smaller blocks and freed as one; paired with the first",
            Oddity::AllocatedWhileLive => "its free was lost or made no event",
        }
    }
}

/// How often one oddity occurred.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OddityRow {
    /// The oddity's name.
    pub name: &'static str,
    /// Its reason.
    pub why: &'static str,
    /// How often.
    pub events: u64,
    /// In relation to all frees (or, for allocations, to all allocations).
    pub share: f64,
}
