//! Reasons why a free or an allocation could not be paired in the ordinary way.
//!
//! The kernel moves pages without events (see [`super::pairing`]), so no recording can be paired completely. Each
//! reason has a fixed name for scripts and a description for people.

use serde::Serialize;

/// Reason why an event was not paired, or was paired in an unusual way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// Free of a block that was allocated before the recording started.
    OlderThanRecording,
    /// Free of a page that was offline or in a balloon at the start: the page was given to the allocator without having
    /// been allocated.
    FromBalloon,
    /// Free of a page whose flags at the start did not show if it was allocated.
    UnknownAtStart,
    /// Free of a block that left the zone or a per-CPU list without an allocation event.
    BulkAllocation,
    /// Free of a block that was in the zone's free lists and that no event took from there.
    TakenWithoutEvent,
    /// Free by a compacting task, because the contents moved to another page.
    MigrationSource,
    /// Free of a page to which compaction had moved the contents of an older page.
    MigrationTarget,
    /// Free by a compacting task of a page that was not allocated: a migration target that was not used.
    CompactionReturn,
    /// Free of a part of a larger allocation.
    SplitPart,
    /// Free of a block that is larger than the allocations in it.
    LargerThanAllocated,
    /// Allocation of a block that was live, because its free was not seen.
    AllocatedWhileLive,
}

impl Oddity {
    /// All reasons, in the order of reports.
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

    /// Returns the name in tables and JSON.
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

    /// Returns the reason in one line.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Oddity::OlderThanRecording => "allocated before the recording started",
            Oddity::FromBalloon => "offline or in a balloon at the start, and not allocated since",
            Oddity::UnknownAtStart => "on a per-CPU list or allocated without page flags at the start",
            Oddity::BulkAllocation => "the bulk allocator (kernel stacks, vmalloc) has no allocation event",
            Oddity::TakenWithoutEvent => "contiguous ranges, captures and page reporting take free pages without event",
            Oddity::MigrationSource => "compaction moved the contents away; not the end of their life",
            Oddity::MigrationTarget => "compaction moved contents here without event; paired with an older source",
            Oddity::CompactionReturn => "compaction took the block as a target and returned it unused",
            Oddity::SplitPart => "part of a larger allocation that was split; paired with that allocation",
            Oddity::LargerThanAllocated => "allocated in smaller blocks and freed as one block; paired with the first",
            Oddity::AllocatedWhileLive => "the free before it was lost or has no event",
        }
    }
}

/// Number of occurrences of one oddity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OddityRow {
    /// Name of the oddity.
    pub name: &'static str,
    /// Reason for the oddity.
    pub why: &'static str,
    /// Number of events.
    pub events: u64,
    /// Share of all frees or, for oddities of allocations, of all allocations.
    pub share: f64,
}
