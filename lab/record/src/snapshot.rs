//! Snapshot: a recording of one moment. It has the state of memory and no events, so nothing is traced, and the cost
//! for the machine is about a second of reading.
//!
//! Pages are allocated and freed while the flags are read. A recorder corrects this from its events
//! ([`Frames::apply`](freehold_trace::state::Frames::apply)); a snapshot has the flags as they were read. A block that
//! was half free at that time appears as two blocks.

use std::path::Path;
use std::sync::Arc;

use freehold_trace::Writer;
use freehold_trace::anonymize::Identity;
use freehold_trace::snapshot::Moment;
use freehold_trace::state::{StateRows, Votes};

use crate::caches;
use crate::error::CaptureError;
use crate::interrupt::Interrupts;
use crate::machine::{Machine, expect_root};
use crate::observe::Observer;
use crate::settings;
use crate::spool::Spool;
use crate::zones::{self, Zones};

/// The outcome of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotSummary {
    /// Rows in the file.
    pub rows: u64,
    /// Remarks on the snapshot.
    pub notes: Vec<String>,
}

/// Writes the state of this machine's memory to `out`, with or without names according to `identity`. Page flags are
/// stored in a file in the folder `spool` in the meantime.
///
/// # Errors
/// See [`CaptureError`]; nothing remains then.
pub fn snapshot(out: &Path, spool: &Path, identity: Identity) -> Result<SnapshotSummary, CaptureError> {
    expect_root()?;
    let machine = Machine::look()?;
    let mut writer = Writer::create(out)?;
    let interrupts = Interrupts::listen().map_err(CaptureError::system("register signal handlers"))?;
    let ram = zones::ram(&machine)?;
    let mut observer = Observer::open(ram.clone(), Arc::new(Spool::create(spool)?))?.counting()?;
    let state = observer.observe(&interrupts)?;
    let zones = Zones::of_one_moment(&state.texts)?;
    let frames = state.scan.frames(&observer.spool, zones.pageblock_order())?;
    interrupts.check()?;
    let milliseconds = (state.scan.end - state.scan.start()) / 1_000_000;
    let mut facts = machine.facts(ram);
    facts.notes.push(format!("a snapshot: page flags and counts read in {milliseconds} ms, no events"));
    if state.isolated > 0 {
        facts.notes.push(format!("pages that compaction isolated while the flags were read: {}", state.isolated));
    }
    let rows = StateRows::new(Moment::Start, 0, frames, Votes::new(zones.pageblock_order()).first(), &zones.start);
    facts.notes.push(format!("pageblock types: {}", rows.types()));
    rows.for_each(&[], &[], |row| writer.push(&row))?;
    facts.settings = settings::read();
    facts.caches_start = caches::with_sheaves(&state.texts.slabinfo);
    facts.caches_end = facts.caches_start.clone();
    zones.describe(&observer.sampler.readings, state.scan.end, &mut facts)?;
    let facts = identity.apply(facts);
    let summary = SnapshotSummary { rows: writer.rows(), notes: facts.notes.clone() };
    writer.finish(&facts)?;
    Ok(summary)
}
